//! Rollouts of StatefulSets.
//!
//! Source: `updateStatefulSet` and `updateStatefulSetAfterInvariantEstablished` in
//! `pkg/controller/statefulset/stateful_set_control.go`, with the feature gate MaxUnavailableStatefulSet.

use flotilla_cluster::lifecycle::Key;

use super::{Change, Rolling, World};
use crate::sequences::is_passed;

impl Rolling {
    /// One synchronization; returns whether anything was done.
    pub(super) fn roll_stateful_set(
        &mut self,
        is_parallel: bool,
        max_unavailable: usize,
        world: &mut World,
        changes: &mut Vec<Change>,
    ) -> bool {
        let mut is_changed = false;
        for pod in &self.pods {
            if !is_parallel && !is_passed(&pod.key, world, changes) {
                return false;
            }
            if world.get(&pod.key).is_none() {
                let Some(new) = world.take_successor(&pod.key) else { continue };
                world.create(new, changes);
                is_changed = true;
            }
        }
        let unavailable = self.pods.iter().filter(|pod| !world.is_ready(&pod.key)).count();
        let old: Vec<&Key> =
            self.pods.iter().rev().filter(|pod| self.is_replaceable(pod, world)).map(|pod| &pod.key).collect();
        let (ready, unready): (Vec<&Key>, Vec<&Key>) = old.into_iter().partition(|key| world.is_ready(key));
        let free = max_unavailable.saturating_sub(unavailable);
        let unready = unready.into_iter().filter(|_| is_parallel);
        let gone: Vec<Key> = unready.chain(ready.into_iter().take(free)).cloned().collect();
        gone.iter().for_each(|key| Self::roll_out(key, world, changes));
        is_changed || !gone.is_empty()
    }

    /// Whether the pod has the old template and is not below the partition.
    fn is_replaceable(&self, pod: &super::Current, world: &World) -> bool {
        pod.successor.is_some() && self.is_old(pod, world)
    }
}
