//! Rollouts of DaemonSets.
//!
//! Source: `rollingUpdate` in `pkg/controller/daemon/update.go`, and `podsShouldBeOnNode` in `daemon_controller.go`.

use flotilla_cluster::lifecycle::Key;

use super::{Change, Current, Deletion, Rolling, World};

impl Rolling {
    /// Without surge: old pods are deleted as far as `maxUnavailable` allows, and their successors created.
    pub(super) fn roll_daemon_set(&mut self, max_unavailable: usize, world: &mut World, changes: &mut Vec<Change>) {
        let old: Vec<&Current> = self.pods.iter().filter(|pod| self.is_old(pod, world)).collect();
        let is_available = |pod: &&Current| world.is_ready(self.newest(pod, world));
        let unavailable = self.pods.iter().filter(|pod| !is_available(pod)).count();
        let (ready, unready): (Vec<&Current>, Vec<&Current>) =
            old.into_iter().partition(|pod| world.is_ready(&pod.key));
        let free = max_unavailable.saturating_sub(unavailable);
        let gone: Vec<Key> =
            unready.into_iter().chain(ready.into_iter().take(free)).map(|pod| pod.key.clone()).collect();
        for key in gone {
            world.replace(&key, Deletion::RolledOut, changes);
        }
    }

    /// With surge: at most `max_surge` nodes have a new pod that is not ready next to a ready old one. One synchronization; returns whether
    /// anything was done.
    pub(super) fn surge_daemon_set(&mut self, max_surge: usize, world: &mut World, changes: &mut Vec<Change>) -> bool {
        let (mut gone, mut unready, mut ready, mut surging) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for pod in self.pods.iter().filter(|pod| pod.is_outdated && pod.successor.is_some()) {
            if world.get(&pod.key).is_none() {
                continue;
            }
            match (world.successor(&pod.key).is_some(), world.is_ready(&pod.key)) {
                (true, true) => ready.push(pod.key.clone()),
                (true, false) => unready.push(pod.key.clone()),
                (false, false) => gone.push(pod.key.clone()),
                (false, true) if world.is_ready(self.newest(pod, world)) => gone.push(pod.key.clone()),
                (false, true) => surging += 1,
            }
        }
        gone.iter().for_each(|key| Self::roll_out(key, world, changes));
        let new: Vec<Key> =
            unready.into_iter().chain(ready.into_iter().take(max_surge.saturating_sub(surging))).collect();
        for key in &new {
            if let Some(pod) = world.take_successor(key) {
                world.create(pod, changes);
                world.release(key);
            }
        }
        !gone.is_empty() || !new.is_empty()
    }

    /// The pod of the new template if it was created, else the current one.
    fn newest<'a>(&'a self, pod: &'a Current, world: &World) -> &'a Key {
        let new = pod.successor.filter(|_| world.successor(&pod.key).is_none()).and_then(|at| self.new.get(at));
        new.map_or(&pod.key, |new| &new.key)
    }
}
