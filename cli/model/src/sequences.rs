//! StatefulSets that create their pods in order.
//!
//! Source: `updateStatefulSet` and `processReplica` in `pkg/controller/statefulset/stateful_set_control.go`, without
//! `podManagementPolicy: Parallel`.

use flotilla_cluster::lifecycle::{Key, Sequence};

use crate::{
    change::Change,
    report::{NotCreated, PodRef},
    world::World,
};

#[derive(Clone)]
pub(crate) struct Ordered {
    title: String,
    pods: Vec<Key>,
    /// The number of first pods that are ready.
    ready: usize,
    /// The number of deleted pods of the cluster when `ready` was counted.
    deleted: u64,
}

impl Ordered {
    pub(crate) fn new(sequence: &Sequence) -> Self {
        Self { title: sequence.title.clone(), pods: sequence.pods.clone(), ready: 0, deleted: 0 }
    }

    /// Creates the next pod if all pods before it are ready.
    pub(crate) fn step(&mut self, world: &mut World, changes: &mut Vec<Change>) {
        if self.deleted != world.deleted() {
            (self.ready, self.deleted) = (0, world.deleted());
        }
        while self.pods.get(self.ready).is_some_and(|key| is_passed(key, world, changes)) {
            self.ready += 1;
        }
    }

    pub(crate) fn has(&self, key: &Key) -> bool {
        self.pods.contains(key)
    }

    /// The pods that wait for the one before them.
    pub(crate) fn report(&self, world: &World) -> Option<NotCreated> {
        let is_later = |key: &Key| world.successor(key).is_some() || world.refused.get(key).is_some();
        let is_missing = |key: &&Key| world.get(key).is_none() && is_later(key);
        let pods = self.pods.iter().filter(is_missing).count();
        let stops = |key: &Key| world.get(key).filter(|pod| !pod.deleting && !world.is_ready(key));
        let waits_for = self.pods.iter().find_map(stops).map(|pod| PodRef::of(pod));
        let refused = self.pods.iter().find_map(|key| world.refused.get(key));
        let refusal = refused.and_then(|pod| pod.refusal);
        (pods > 0).then(|| NotCreated { of: self.title.clone(), pods, waits_for, refusal })
    }
}

/// Whether the controller continues with the next pod. Creates the pod if it is missing.
pub(crate) fn is_passed(key: &Key, world: &mut World, changes: &mut Vec<Change>) -> bool {
    match world.get(key) {
        // A pod that is left out of the cluster does not stop the next one.
        None => match world.take_successor(key) {
            Some(pod) => {
                world.create(pod, changes);
                false
            }
            None => world.refused.get(key).is_none(),
        },
        Some(pod) => pod.deleting || world.is_ready(key),
    }
}
