//! One side of a comparison: a cluster after its simulation.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_cluster::Cluster;
use flotilla_framework::class::PodInfo;
use flotilla_model::Report;
use flotilla_simulate::{
    ledger::{Evicted, SimulationResult},
    removal::{Removals, Search},
    run::{self, Settings},
};

use crate::{
    output::print_notes,
    simulate::usage::{self, Usage},
};

const ZONE: &str = "topology.kubernetes.io/zone";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    On(Arc<str>),
    /// The message of the pod.
    Pending(String),
}

pub(super) struct Side {
    /// The cluster with the placed pods.
    pub(super) cluster: Cluster,
    /// All pods by `namespace/name`.
    pub(super) pods: BTreeMap<String, State>,
    /// Pending pods, in decision order.
    pub(super) pending: Vec<Arc<PodInfo>>,
    pub(super) evicted: Vec<Evicted>,
    /// The pods that were bound before the simulation, as `namespace/name`.
    pub(super) standing: BTreeSet<String>,
    /// How rollouts and drains ended.
    pub(super) report: Report,
}

impl Side {
    /// Schedules the pending pods of a cluster.
    ///
    /// # Errors
    /// The simulation fails.
    pub(super) fn of(cluster: Cluster, settings: &Settings) -> anyhow::Result<Self> {
        Ok(Self::with_removals(cluster, settings, None)?.0)
    }

    /// Schedules the pending pods, and then removes the nodes that could go, if they are searched.
    ///
    /// # Errors
    /// The simulation fails.
    pub(super) fn with_removals(
        mut cluster: Cluster,
        settings: &Settings,
        search: Option<&Search>,
    ) -> anyhow::Result<(Self, Removals)> {
        let surplus: BTreeSet<String> = std::mem::take(&mut cluster.made.surplus).into_iter().collect();
        if !surplus.is_empty() {
            cluster.bound.retain(|pod| !surplus.contains(&pod.key()));
            cluster.pending.retain(|pod| !surplus.contains(&pod.key()));
        }
        let progress = crate::progress::progress("{bar:40} {pos}/{len} pods decided, {eta} left");
        let outcome = run::run_with_removals(&cluster, settings, search, &progress);
        progress.finish_and_clear();
        let (outcome, removals) = outcome?;
        print_notes(&outcome.notes());
        let removed: BTreeSet<&str> = removals.removed.iter().map(|removed| &*removed.node.name).collect();
        cluster.nodes.retain(|node| !removed.contains(&*node.name));
        Ok((Self::settled(cluster, outcome), removals))
    }

    fn settled(mut cluster: Cluster, mut outcome: SimulationResult) -> Self {
        outcome.settle(&mut cluster);
        let standing = cluster.bound.iter().map(|pod| pod.key()).collect();
        let evicted = outcome.evicted.iter().map(|evicted| &*evicted.pod.uid);
        let gone: BTreeSet<&str> = evicted.chain(outcome.removed.iter().map(|removed| &*removed.pod.uid)).collect();
        cluster.bound.retain(|pod| !gone.contains(&*pod.uid));
        let mut pods: BTreeMap<String, State> = BTreeMap::new();
        let (mut pending, mut placed) = (Vec::new(), Vec::new());
        for placement in &outcome.placements {
            match &placement.node {
                Some(node) => {
                    let node_name = Some(Arc::clone(node));
                    placed.push(Arc::new(PodInfo { node_name, ..PodInfo::clone(&placement.pod) }));
                }
                None => {
                    pods.insert(placement.pod.key(), State::Pending(placement.message.clone()));
                    pending.push(Arc::clone(&placement.pod));
                }
            }
        }
        cluster.bound.append(&mut placed);
        let on = |pod: &Arc<PodInfo>| Some((pod.key(), State::On(Arc::clone(pod.node_name.as_ref()?))));
        pods.extend(cluster.bound.iter().filter_map(on));
        cluster.pending.clone_from(&pending);
        let report = outcome.report;
        Self { cluster, pods, pending, evicted: outcome.evicted, standing, report }
    }

    /// The message of a pending pod.
    pub(super) fn message(&self, pod: &PodInfo) -> Option<&str> {
        match self.pods.get(&pod.key())? {
            State::Pending(message) => Some(message),
            State::On(_) => None,
        }
    }

    /// The UID and the message of each pending pod.
    pub(super) fn messages(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pending.iter().filter_map(|pod| Some((&*pod.uid, self.message(pod)?)))
    }

    pub(super) fn usage(&self) -> Vec<Usage> {
        usage::of(&self.cluster, std::iter::empty(), std::iter::empty())
    }

    /// Utilization and number of nodes by zone; empty if nodes have no zones.
    pub(super) fn zones(&self) -> BTreeMap<Arc<str>, (usize, Vec<Usage>)> {
        let mut zones: BTreeMap<Arc<str>, Cluster> = BTreeMap::new();
        let mut zone_of: BTreeMap<&str, Arc<str>> = BTreeMap::new();
        for node in &self.cluster.nodes {
            if let Some(zone) = node.label(ZONE) {
                let zone: Arc<str> = zone.into();
                zone_of.insert(&node.name, Arc::clone(&zone));
                zones.entry(zone).or_default().nodes.push(Arc::clone(node));
            }
        }
        for pod in &self.cluster.bound {
            let zone = pod.node_name.as_deref().and_then(|node| zone_of.get(node));
            if let Some(cluster) = zone.and_then(|zone| zones.get_mut(zone)) {
                cluster.bound.push(Arc::clone(pod));
            }
        }
        let usage = |(zone, cluster): (Arc<str>, Cluster)| {
            let usage = usage::of(&cluster, std::iter::empty(), std::iter::empty());
            (zone, (cluster.nodes.len(), usage))
        };
        zones.into_iter().map(usage).collect()
    }
}
