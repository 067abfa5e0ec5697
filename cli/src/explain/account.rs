//! What there is to say of one pod, whichever way it is printed.
//!
//! Knows: what comes before any node is asked, and that names take the place of numbers. Must not know: formats.

use std::sync::Arc;

use flotilla_framework::{
    admission,
    class::PodInfo,
    explain::{
        Explanation, Outcome,
        lack::{self, Place, Shortfall, shortfalls},
        shard::Page,
    },
    node::NodeId,
    plugins::REGISTRY,
    prepared::Prepared,
    profile::Profile,
};

use super::world::{Subject, World};

/// The account of one pod.
#[derive(Debug)]
pub(super) struct Account {
    /// The pod.
    pub(super) pod: Arc<PodInfo>,
    /// What keeps it out of the queue, so that no node is asked.
    pub(super) gate: Option<(&'static str, String)>,
    /// What the nodes make of it.
    pub(super) explanation: Explanation,
    /// For each node that refuses it what the node lacks, by number; empty where nobody wants to know.
    pub(super) missing: Vec<(NodeId, Vec<Shortfall>)>,
    /// A filter counts over domains, so that another label of a node may change its verdict.
    pub(super) counts_domains: bool,
    /// A filter leaves out nodes whose taints the pod does not tolerate, so that another toleration may change its
    /// verdict.
    pub(super) counts_tainted: bool,
}

/// The account of a pod that no node is asked about.
pub(super) fn held_back(pod: &Arc<PodInfo>, profile: &Profile) -> Option<Account> {
    let gate = admission::gate(REGISTRY, profile, pod);
    let unbuilt = admission::unbuilt(profile, &pod.class);
    if gate.is_none() && unbuilt.is_none() {
        return None;
    }
    let message = if gate.is_some() { String::new() } else { unbuilt.unwrap_or_default() };
    let explanation = Explanation { message, ..Explanation::default() };
    let pod = Arc::clone(pod);
    Some(Account { pod, gate, explanation, missing: Vec::new(), counts_domains: false, counts_tainted: false })
}

/// The account that the workers' pages make.
pub(super) fn make(
    pod: &Arc<PodInfo>,
    profile: &Profile,
    subject: &Subject,
    pages: &[Page],
    world: &mut World,
    wants_missing: bool,
) -> Account {
    let prepared = Prepared::new(REGISTRY, profile, &subject.class, &subject.facts, world.snapshot_mut());
    let explanation = Explanation::new(&prepared, profile, pages);
    let missing = |(&node, outcome): (&NodeId, &Outcome)| {
        let Outcome::Refused { .. } = outcome else { return None };
        let (info, nodes, slot) = world.place(node)?;
        let place = Place { node: info, nodes, slot, facts: &subject.facts };
        Some((node, shortfalls(REGISTRY, &prepared, profile, &subject.class, place)))
    };
    let missing = explanation.nodes.iter().filter(|_| wants_missing).filter_map(missing).collect();
    let counts_domains = lack::counts_domains(&prepared);
    let own = &pod.class.spread;
    let counts_tainted = own.is_empty() || own.iter().any(|constraint| constraint.required && constraint.honors_taints);
    Account {
        pod: Arc::clone(pod),
        gate: None,
        explanation,
        missing,
        counts_domains,
        counts_tainted: counts_domains && counts_tainted,
    }
}
