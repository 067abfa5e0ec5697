//! A dry run of preemption for a pod that fits no node. No pod is evicted.

use std::sync::Arc;

use flotilla_framework::{
    class::PodInfo,
    explain::{Explanation, NodeExplanation},
    matches::Matches,
    node::NodeId,
    plugins::default_preemption,
    preemption::{
        Candidate, Evaluated, Layout, NominatedNode, Shortlist, evaluate, lay_out, lay_out_units, pick_one, tied,
        why_ineligible, words,
    },
    prepared::Prepared,
    profile::Profile,
    status::Code,
};

use super::{
    world::name,
    world::{Subject, World},
};

/// The start time of pods that have not started: later than all others.
const NOW_NS: i64 = i64::MAX;

/// The result of the dry run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preempted {
    /// The status code in kube-scheduler's spelling: `Success`, `Unschedulable` or `Error`.
    pub code: &'static str,
    /// The message of the status.
    pub message: String,
    /// The node that the pod would be nominated to.
    pub node: Option<NodeId>,
    /// The pod's current nomination would be cleared.
    pub clears: bool,
    /// All nodes that kube-scheduler might choose.
    pub tied: Vec<NodeId>,
    /// All nodes on which preemption would help.
    pub candidates: Vec<Candidate>,
}

/// Dry-runs preemption. `None` if the pod fits a node, if an evaluation failed, for pods in a group, or if the profile lacks the plugin.
pub fn make(
    pod: &Arc<PodInfo>,
    profile: &Profile,
    subject: &Subject,
    explanation: &Explanation,
    world: &mut World,
) -> Option<Preempted> {
    let fits_none = explanation.error.is_none() && explanation.feasible() == 0 && !explanation.nodes.is_empty();
    // Preemption for a group considers all its pods together.
    if !fits_none || !default_preemption::is_on(profile) || world.groups().is_member(pod) {
        return None;
    }
    let nominations = world.nominations(pod);
    let code = |outcome: &NodeExplanation| match outcome {
        NodeExplanation::Refused { code, .. } => Some(*code),
        NodeExplanation::Feasible { .. } => None,
    };
    let pods = nominations.own.map(|node| world.ranked(node)).unwrap_or_default();
    let own = nominations.own.and_then(|node| explanation.nodes.get(&node)).and_then(code);
    let nominated = own.map(|code| NominatedNode { code, pods: &pods });
    if let Some(reason) = why_ineligible(pod, nominated) {
        return Some(Preempted { code: "Unschedulable", message: words::because(reason), ..Preempted::default() });
    }
    let potential = explanation.nodes.iter().filter(|(_, outcome)| code(outcome) == Some(Code::Unschedulable));
    let potential: Vec<NodeId> = potential.map(|(&node, _)| node).collect();
    let prepared = Prepared::new(world.registry(), profile, &subject.class, &subject.facts, world.snapshot_mut());
    let budgets = world.budgets();
    let layout = |&node: &NodeId| {
        let beside = nominations.beside(node).to_vec();
        let class = |id| world.class(id);
        match world.units(node) {
            Some(units) => lay_out_units(node, units, beside, pod.priority, NOW_NS, &budgets, class),
            None => lay_out(node, world.pods(node), beside, pod.priority, NOW_NS, &budgets, class),
        }
    };
    let layouts: Vec<Layout> = potential.iter().map(layout).collect();
    let mut matches = Matches::default();
    let nodes = world.snapshot_mut();
    matches.refresh(&prepared, nodes);
    let shortlist = Shortlist::new(potential.len(), &profile.args.default_preemption);
    Some(told(&prepared, evaluate(&prepared, nodes, &matches, layouts, shortlist), world))
}

fn told(prepared: &Prepared, evaluated: Evaluated, world: &World) -> Preempted {
    let Evaluated { candidates, outcomes } = evaluated;
    if let Some(chosen) = pick_one(&candidates, NOW_NS).and_then(|at| candidates.get(at)) {
        let message = words::found(name(world, chosen.node), chosen.victims.len());
        let tied = tied(&candidates, NOW_NS).into_iter().map(|at| candidates[at].node).collect();
        return Preempted { code: "Success", message, node: Some(chosen.node), clears: false, tied, candidates };
    }
    let outcomes = outcomes.iter().map(|(node, outcome)| (name(world, *node), outcome));
    match words::fruitless(prepared, outcomes, world.node_count()) {
        Ok(message) => Preempted { code: "Unschedulable", message, clears: true, ..Preempted::default() },
        Err(message) => Preempted { code: "Error", message, ..Preempted::default() },
    }
}
