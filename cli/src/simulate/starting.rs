//! Notes about pods that a simulation places and that do not start.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_cluster::{Cluster, not_starting};
use flotilla_framework::class::PodInfo;
use flotilla_simulate::ledger::SimulationResult;

const MOST_NOTES: usize = 10;

/// One line for each pod that does not start on its node.
pub(super) fn notes(cluster: &Cluster, outcome: &SimulationResult) -> Vec<String> {
    let placed: BTreeMap<&str, &Arc<str>> =
        outcome.placements.iter().filter_map(|one| Some((&*one.pod.uid, one.node.as_ref()?))).collect();
    let evicted: BTreeSet<&str> = outcome.evicted.iter().map(|one| &*one.pod.uid).collect();
    let pods = outcome.placements.iter().map(|one| &one.pod);
    let on_node = |pod: &Arc<PodInfo>| {
        let node_name = placed.get(&*pod.uid).map(|node| Arc::clone(node));
        Arc::new(PodInfo { node_name, ..PodInfo::clone(pod) })
    };
    let old = cluster.bound.iter().filter(|pod| !evicted.contains(&*pod.uid)).cloned();
    let bound: Vec<Arc<PodInfo>> = old.chain(pods.map(on_node).filter(|pod| pod.node_name.is_some())).collect();
    // Only these fields decide.
    let after = Cluster {
        nodes: cluster.nodes.clone(),
        bound,
        storage: cluster.storage.clone(),
        systems: cluster.systems.clone(),
        ..Cluster::default()
    };
    let found = not_starting(&after, |pod| placed.contains_key(&*pod.uid));
    let more = found.len().saturating_sub(MOST_NOTES);
    let lines = found.into_iter().take(MOST_NOTES);
    let lines = lines.map(|one| format!("note: {} is on {}, but does not start: {}", one.pod, one.node, one.reason));
    lines.chain((more > 0).then(|| format!("note: {more} more pods do not start on their nodes"))).collect()
}
