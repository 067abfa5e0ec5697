//! The evaluation of one pod on all nodes, before it is printed.

use std::sync::Arc;

use flotilla_framework::{
    admission,
    class::PodInfo,
    explain::{
        Explanation, NodeExplanation,
        lack::{self, NodeContext, Shortfall, shortfalls},
        shard::Page,
    },
    extender::Extended,
    node::NodeId,
    prepared::Prepared,
    profile::Profile,
};

use super::{
    advice::{self, Way},
    in_the_way,
    preemption::Preempted,
    world::Holders,
    world::{Subject, World},
};

/// How the nodes of a cluster evaluate one pod.
#[derive(Debug)]
pub struct Account {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// The PreEnqueue plugin that gates the pod, and its reason. No node is evaluated then.
    pub gate: Option<(&'static str, String)>,
    /// The outcome of each node.
    pub explanation: Explanation,
    /// Shortfalls of each infeasible node; empty unless requested.
    pub missing: Vec<(NodeId, Vec<Shortfall>)>,
    /// The claims that hold each device, for pods with device claims.
    pub holders: Holders,
    /// The answers of the extenders, if they were called.
    pub extended: Option<Extended>,
    /// The result of preemption, if the pod fits no node and its profile has the plugin.
    pub preempted: Option<Preempted>,
    /// The nearest ways to make the pod fit; empty unless requested.
    pub ways: Vec<Way>,
    /// Sentences about the pods because of which nodes are infeasible; empty unless shortfalls are requested.
    pub in_the_way: Vec<String>,
    /// A filter counts pods per topology domain, so another node label may change its result.
    pub counts_domains: bool,
    /// A filter skips nodes with untolerated taints, so another toleration may change its result.
    pub counts_tainted: bool,
}

/// The parts of an account beyond the outcome of each node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Details {
    /// Nothing else.
    Outcomes,
    /// Also the shortfalls, and the pods in the way.
    Shortfalls,
    /// Also the ways to make the pod fit, which costs further evaluations.
    Ways,
}

/// The account of a pod that is gated or cannot be scheduled, without any node; `None` for all others.
pub fn held_back(pod: &Arc<PodInfo>, profile: &Profile, world: &World) -> Option<Account> {
    let groups = world.groups();
    let gate = groups
        .gate(pod, profile)
        .or_else(|| admission::gate(world.registry(), profile, pod))
        .or_else(|| world.claims_gate(pod, profile));
    let untried = admission::excess(pod, world.directory().namespaces());
    let error = groups.error(pod).filter(|_| gate.is_none() && untried.is_none());
    if gate.is_none() && untried.is_none() && error.is_none() {
        return None;
    }
    let message = if gate.is_some() { String::new() } else { untried.unwrap_or_default() };
    let explanation = Explanation { message, error, ..Explanation::default() };
    let pod = Arc::clone(pod);
    Some(Account {
        pod,
        gate,
        explanation,
        missing: Vec::new(),
        holders: Holders::new(),
        extended: None,
        preempted: None,
        ways: Vec::new(),
        in_the_way: Vec::new(),
        counts_domains: false,
        counts_tainted: false,
    })
}

/// Evaluates a pod on the nodes of the workers' pages, or of `world` where there are none.
pub fn make(
    pod: &Arc<PodInfo>,
    profile: &Profile,
    subject: &Subject,
    pages: &[Page],
    world: &mut World,
    details: Details,
) -> Account {
    let prepared = Prepared::new(world.registry(), profile, &subject.class, &subject.facts, world.snapshot_mut());
    let nominations = world.nominations(pod);
    // Workers do not know devices.
    let own = if pages.is_empty() { world.pages(&prepared) } else { Vec::new() };
    let pages = if own.is_empty() { pages } else { &own };
    let explanation = Explanation::beside(&prepared, profile, pages, world.snapshot_mut(), &nominations);
    let mut missing = |(&node, outcome): (&NodeId, &NodeExplanation)| {
        let NodeExplanation::Refused { .. } = outcome else { return None };
        // Filters run with the nominated pods added, so the shortfalls are computed with them too.
        let beside = nominations.beside(node);
        for &class in beside {
            world.snapshot_mut().add_pod(node, class);
        }
        let found = world.place(node).map(|(info, nodes, slot)| {
            let place = NodeContext { node: info, nodes, slot, facts: &subject.facts };
            shortfalls(world.registry(), &prepared, profile, &subject.class, place)
        });
        for &class in beside {
            world.snapshot_mut().remove_pod(node, class);
        }
        Some((node, found?))
    };
    let missing =
        explanation.nodes.iter().filter(|_| details >= Details::Shortfalls).filter_map(&mut missing).collect();
    let holders = if subject.facts.devices.is_some() { world.holders() } else { Holders::new() };
    let counts_domains = lack::counts_domains(&prepared);
    let own = &pod.class.spread;
    let counts_tainted = own.is_empty() || own.iter().any(|constraint| constraint.required && constraint.honors_taints);
    let mut account = Account {
        pod: Arc::clone(pod),
        gate: None,
        explanation,
        missing,
        holders,
        extended: None,
        preempted: None,
        ways: Vec::new(),
        in_the_way: Vec::new(),
        counts_domains,
        counts_tainted: counts_domains && counts_tainted,
    };
    if details >= Details::Shortfalls {
        account.in_the_way = in_the_way::sentences(&account, subject, world);
    }
    if details >= Details::Ways {
        account.ways = advice::ways(&account, profile, subject, world);
    }
    account
}

impl Account {
    /// The sorted names of the feasible nodes.
    pub fn feasible(&self, world: &World) -> Vec<Arc<str>> {
        let feasible = self.explanation.nodes.iter().filter(|(_, outcome)| outcome.is_feasible());
        let mut names: Vec<Arc<str>> =
            feasible.filter_map(|(&id, _)| Some(Arc::clone(&world.node(id)?.name))).collect();
        names.sort_unstable();
        names
    }

    /// Adds the extenders' results for the feasible nodes, or the error of the call.
    pub fn extend(
        &mut self,
        answer: Result<Extended, String>,
        profile: &Profile,
        subject: &Subject,
        pages: &[Page],
        world: &mut World,
    ) {
        let explanation = std::mem::take(&mut self.explanation);
        let prepared = Prepared::new(world.registry(), profile, &subject.class, &subject.facts, world.snapshot_mut());
        match answer {
            Ok(extended) => {
                let name = |id| super::world::name(world, id);
                self.explanation = explanation.extended(&prepared, profile, pages, name, &extended);
                self.extended = Some(extended);
            }
            Err(reason) => self.explanation = explanation.failed(reason),
        }
    }

    /// The scores that extenders gave a node: name, raw score and weighted score.
    pub fn priorities<'a>(&'a self, node: &'a str) -> impl Iterator<Item = (&'a str, Option<(i64, i64)>)> {
        let priorities = self.extended.iter().flat_map(|extended| &extended.priorities);
        priorities.map(move |priorities| {
            let score = priorities.scores.get(node).map(|&score| (score, priorities.weighted(score)));
            (&*priorities.extender, score)
        })
    }
}
