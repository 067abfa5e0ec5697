//! The rounds of controllers and kubelets.

use std::sync::Arc;

use flotilla_cluster::lifecycle::Key;
use flotilla_framework::class::PodInfo;
use flotilla_machine::action::Preemption;

use crate::{
    change::{Change, Deletion},
    drains::Drain,
    report::Report,
    rollouts::Rolling,
    sequences::Ordered,
    start::{Later, Start},
    world::World,
};

/// The controllers and kubelets of a cluster.
#[derive(Clone)]
pub struct Controllers {
    pub(crate) world: World,
    rollouts: Vec<Rolling>,
    drains: Vec<Drain>,
    sequences: Vec<Ordered>,
    /// The pods that are created after everything else has happened.
    last: Vec<Arc<PodInfo>>,
    /// All pods are followed, to the last bind.
    follows: bool,
    /// The drain of a node that may be removed.
    pub(crate) vacated: Option<Drain>,
}

impl Controllers {
    /// The controllers of a cluster. `drained`: nodes whose pods are evicted, as `kubectl drain` does; they are cordoned already. `follows`:
    /// all pods are followed, as removals of nodes need.
    #[must_use]
    pub fn new(start: Start<'_>, drained: &[Arc<str>], follows: bool) -> Self {
        let Start { cluster, later: Later { ordered, last } } = start;
        let lifecycle = &cluster.lifecycle;
        let is_watched = follows
            || !cluster.budgets.is_empty()
            || !lifecycle.rollouts.is_empty()
            || !lifecycle.sequences.is_empty()
            || !drained.is_empty();
        let mut world = World::new(&cluster, is_watched);
        world.hold(lifecycle.sequences.iter().flat_map(|sequence| &sequence.pods), ordered);
        let rollouts = lifecycle.rollouts.iter().map(|rollout| Rolling::new(rollout, &mut world)).collect();
        let drains = Drain::all(&cluster, drained, &world);
        let sequences = lifecycle.sequences.iter().map(Ordered::new).collect();
        Self { world, rollouts, drains, sequences, last, vacated: None, follows }
    }

    /// Whether controllers act even if every pod is decided.
    #[must_use]
    pub const fn have_plans(&self) -> bool {
        !self.rollouts.is_empty()
            || !self.drains.is_empty()
            || !self.sequences.is_empty()
            || !self.last.is_empty()
            || self.follows
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
        self.create_in_order(&mut changes);
        self.world.retry(&mut changes);
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
        self.create_in_order(&mut changes);
        self.world.retry(&mut changes);
        self.sync_budgets(&mut changes);
        if changes.is_empty() {
            std::mem::take(&mut self.last).into_iter().for_each(|pod| self.world.create(pod, &mut changes));
        }
        changes
    }

    /// How rollouts and drains ended, or where they are.
    #[must_use]
    pub fn report(&self) -> Report {
        let waiting = self.sequences.iter().filter_map(|set| set.report(&self.world));
        let is_reported = |key: &Key| {
            self.rollouts.iter().any(|rollout| rollout.creates(key)) || self.sequences.iter().any(|set| set.has(key))
        };
        Report {
            rollouts: self.rollouts.iter().map(|rollout| rollout.report(&self.world)).collect(),
            drains: self.drains.iter().map(|drain| drain.report(&self.world)).collect(),
            not_created: waiting.chain(self.world.not_created(is_reported)).collect(),
            budgets: self.world.budgets.all().cloned().collect(),
        }
    }

    fn create_in_order(&mut self, changes: &mut Vec<Change>) {
        self.sequences.iter_mut().for_each(|set| set.step(&mut self.world, changes));
    }

    pub(crate) fn sync_budgets(&mut self, changes: &mut Vec<Change>) {
        changes.extend(self.world.budgets.sync().into_iter().map(Change::Budget));
    }
}
