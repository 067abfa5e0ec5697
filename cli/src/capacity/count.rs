//! Counts the copies of a pod that fit.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_cluster::Cluster;
use flotilla_framework::{class::PodInfo, node::NodeInfo, resources::Resources};
use flotilla_simulate::run::{self, Settings};

use super::counted::{Counted, is_copy};

pub(super) struct Count {
    pub(super) fits: usize,
    pub(super) nodes: BTreeMap<Arc<str>, usize>,
    /// The first copy that fits nowhere, and its message; `None` if all copies fit.
    pub(super) stopped: Option<(Arc<PodInfo>, String)>,
    /// The cluster with the placed copies.
    pub(super) cluster: Cluster,
}

/// Places at most `limit` copies of a pod.
///
/// # Errors
/// The simulation fails.
pub(super) fn count(cluster: &Cluster, counted: &Counted, limit: usize, settings: &Settings) -> anyhow::Result<Count> {
    let tried = limit.min(bound(cluster, &counted.pod).saturating_add(1));
    let mut full = cluster.clone();
    for copy in (1..=tried).map(|number| counted.copy(number)) {
        full.pending.push(copy.pod);
        full.storage.extend(copy.storage);
        full.devices.extend(copy.devices);
    }
    if full.lifecycle.sequences.iter().any(|sequence| !sequence.new.is_empty()) {
        // The cluster's own pods come first, also those of StatefulSets that are created later.
        let copies = full.pending.iter().filter(|pod| is_copy(pod));
        full.lifecycle.last = copies.map(|pod| (Arc::clone(&pod.class.namespace), Arc::clone(&pod.name))).collect();
    }
    let progress = crate::progress::progress("{bar:40} {pos}/{len} pods decided, {eta} left");
    let outcome = run::run(&full, settings, &progress);
    progress.finish_and_clear();
    let mut outcome = outcome?;
    let (mut nodes, mut stopped, mut fits) = (BTreeMap::new(), None, 0);
    outcome.settle(&mut full);
    full.pending.clear();
    for placement in outcome.placements {
        let is_copy = is_copy(&placement.pod);
        match placement.node {
            Some(node) => {
                if is_copy {
                    fits += 1;
                    *nodes.entry(Arc::clone(&node)).or_default() += 1;
                }
                full.bound.push(Arc::new(PodInfo { node_name: Some(node), ..PodInfo::clone(&placement.pod) }));
            }
            None if is_copy && stopped.is_none() => stopped = Some((placement.pod, placement.message)),
            None => {}
        }
    }
    Ok(Count { fits, nodes, stopped, cluster: full })
}

/// The upper limit of copies by resource amounts alone.
fn bound(cluster: &Cluster, model: &PodInfo) -> usize {
    let mut standing: BTreeMap<&str, (i64, Resources)> = BTreeMap::new();
    for pod in &cluster.bound {
        let taken = standing.entry(pod.node_name.as_deref().unwrap_or_default()).or_default();
        taken.0 += 1;
        taken.1.milli_cpu = taken.1.milli_cpu.saturating_add(pod.class.accounted.milli_cpu);
        taken.1.memory = taken.1.memory.saturating_add(pod.class.accounted.memory);
    }
    let room = |node: &NodeInfo| {
        let (pods, taken) = standing.get(&*node.name).cloned().unwrap_or_default();
        let wanted = &model.class.requests;
        let times = |free: i64, wanted: i64| if wanted > 0 { free.max(0) / wanted } else { i64::MAX };
        let of_cpu = times(node.allocatable.milli_cpu - taken.milli_cpu, wanted.milli_cpu);
        let of_memory = times(node.allocatable.memory - taken.memory, wanted.memory);
        of_cpu.min(of_memory).min((node.allowed_pods - pods).max(0))
    };
    let sum = cluster.nodes.iter().map(|node| i128::from(room(node))).sum::<i128>();
    usize::try_from(sum).unwrap_or(usize::MAX)
}
