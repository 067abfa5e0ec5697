//! The rounds of controllers and kubelets.

use std::sync::Arc;

use flotilla_cluster::Cluster;
use flotilla_framework::{class::PodInfo, preemption::Budget};
use flotilla_machine::action::Preemption;

use crate::{drains::Drain, report::Report, rollouts::Rolling, world::World};

/// A change of the cluster that the scheduler observes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A pod without a node is created.
    Create(Arc<PodInfo>),
    /// A pod is deleted.
    Delete {
        /// The pod.
        pod: Arc<PodInfo>,
        /// Why.
        by: Deletion,
    },
    /// A budget allows another number of disruptions.
    Budget(Budget),
}

/// Why a pod is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deletion {
    /// A scheduler preempted it.
    Preempted,
    /// A drain evicted it.
    Evicted,
    /// Its controller has a new template.
    RolledOut,
}

/// The controllers and kubelets of a cluster.
#[derive(Clone)]
pub struct Controllers {
    pub(crate) world: World,
    rollouts: Vec<Rolling>,
    drains: Vec<Drain>,
    /// The drain of a node that may be removed.
    pub(crate) vacated: Option<Drain>,
}

impl Controllers {
    /// The controllers of a cluster. `drained`: nodes whose pods are evicted, as `kubectl drain` does; they are cordoned already.
    #[must_use]
    pub fn new(cluster: &Cluster, drained: &[Arc<str>]) -> Self {
        let is_watched = !cluster.budgets.is_empty() || !cluster.lifecycle.rollouts.is_empty() || !drained.is_empty();
        let mut world = World::new(cluster, is_watched);
        let rollouts = cluster.lifecycle.rollouts.iter().map(|rollout| Rolling::new(rollout, &mut world)).collect();
        let drains = Drain::all(cluster, drained, &world);
        Self { world, rollouts, drains, vacated: None }
    }

    /// The changes before the first decision: the status of budgets that have none in the input.
    pub fn initial(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        self.sync_budgets(&mut changes);
        changes
    }

    /// The scheduler has bound the pod.
    pub fn bind(&mut self, pod: &Arc<PodInfo>) {
        self.world.bind(pod);
    }

    /// Deletes the victims of a preemption, and recreates those with a controller.
    pub fn preempt(&mut self, preemption: &Preemption) -> Vec<Change> {
        let mut changes = Vec::new();
        for victim in &preemption.victims {
            let key = (Arc::clone(&victim.pod.namespace), Arc::clone(&victim.pod.name));
            // A deletion names the UID.
            if self.world.get(&key).is_some_and(|pod| pod.uid == victim.pod.uid) {
                self.world.replace(&key, Deletion::Preempted, &mut changes);
            }
        }
        self.sync_budgets(&mut changes);
        changes
    }

    /// One round. The scheduler is idle, and every bind is answered. Without changes, nothing happens any more.
    pub fn step(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        self.world.start();
        self.sync_budgets(&mut changes);
        self.rollouts.iter_mut().for_each(|rollout| rollout.step(&mut self.world, &mut changes));
        self.sync_budgets(&mut changes);
        self.drains.iter_mut().chain(&mut self.vacated).for_each(|drain| drain.step(&mut self.world, &mut changes));
        self.sync_budgets(&mut changes);
        changes
    }

    /// How rollouts and drains ended, or where they are.
    #[must_use]
    pub fn report(&self) -> Report {
        Report {
            rollouts: self.rollouts.iter().map(|rollout| rollout.report(&self.world)).collect(),
            drains: self.drains.iter().map(|drain| drain.report(&self.world)).collect(),
            budgets: self.world.budgets.all().cloned().collect(),
        }
    }

    pub(crate) fn sync_budgets(&mut self, changes: &mut Vec<Change>) {
        changes.extend(self.world.budgets.sync().into_iter().map(Change::Budget));
    }
}
