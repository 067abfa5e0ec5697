//! Rollouts of Deployments.
//!
//! Source: `pkg/controller/deployment/rolling.go` and `recreate.go`, and `ActivePodsWithRanks` in `pkg/controller/controller_utils.go`.

use std::cmp::Reverse;

use flotilla_cluster::lifecycle::Key;

use super::{Change, Rolling, World};

impl Rolling {
    /// One synchronization of `RollingUpdate`, with replicas, `maxSurge` and `maxUnavailable`. Returns whether anything was done.
    pub(super) fn roll_deployment(
        &mut self,
        (replicas, max_surge, max_unavailable): (usize, usize, usize),
        world: &mut World,
        changes: &mut Vec<Change>,
    ) -> bool {
        let old: Vec<Key> = self.old(world);
        let new: Vec<Key> = self.current(world);
        let total = old.len() + new.len();
        let is_below = new.len() < replicas;
        let count = (replicas + max_surge).saturating_sub(total).min(replicas.saturating_sub(new.len()));
        if is_below && count > 0 && self.create_new(count, world, changes) {
            return true;
        }
        let is_ready = |key: &&Key| world.is_ready(key);
        let (ready_old, ready_new) = (old.iter().filter(is_ready).count(), new.iter().filter(is_ready).count());
        let min_available = replicas.saturating_sub(max_unavailable);
        let most = (total + ready_new).saturating_sub(min_available + new.len());
        if old.is_empty() || most == 0 {
            return false;
        }
        let unhealthy = (old.len() - ready_old).min(most);
        let healthy = (ready_old + ready_new).saturating_sub(min_available).min(old.len() - unhealthy);
        let order = self.first_to_go(&old, world);
        let gone = order.iter().take(unhealthy + healthy);
        gone.for_each(|key| Self::roll_out(key, world, changes));
        unhealthy + healthy > 0
    }

    /// `Recreate`: all old pods go, then all new ones come.
    pub(super) fn recreate_deployment(&mut self, world: &mut World, changes: &mut Vec<Change>) {
        let old = self.old(world);
        old.iter().for_each(|key| Self::roll_out(key, world, changes));
        self.create_new(usize::MAX, world, changes);
    }

    fn old(&self, world: &World) -> Vec<Key> {
        self.pods.iter().filter(|pod| self.is_old(pod, world)).map(|pod| pod.key.clone()).collect()
    }

    /// The pods of the new template.
    fn current(&self, world: &World) -> Vec<Key> {
        let known = self.pods.iter().filter(|pod| !pod.is_outdated).map(|pod| &pod.key);
        let created = self.new.iter().filter(|new| new.is_created).map(|new| &new.key);
        // Pods that a quota refuses count in `spec.replicas` of the new ReplicaSet.
        let is_wanted = |key: &&Key| world.get(key).is_some() || world.refused.get(key).is_some();
        known.chain(created).filter(is_wanted).cloned().collect()
    }

    /// Creates the next new pods; returns whether there was one.
    fn create_new(&mut self, count: usize, world: &mut World, changes: &mut Vec<Change>) -> bool {
        let mut is_any = false;
        for new in self.new.iter_mut().filter(|new| new.pod.is_some()).take(count) {
            if let Some(pod) = new.pod.take() {
                new.is_created = true;
                is_any = true;
                world.create(pod, changes);
            }
        }
        is_any
    }

    /// Old pods as a ReplicaSet deletes them: those without a node, those that are not ready, the lowest deletion cost, those that share a
    /// node with the most others, the youngest.
    fn first_to_go(&self, old: &[Key], world: &World) -> Vec<Key> {
        let others = self.current(world);
        let on_nodes = world.on_nodes(old.iter().chain(&others));
        let mut pods: Vec<_> = self.pods.iter().filter(|pod| self.is_old(pod, world)).collect();
        pods.sort_by_cached_key(|pod| {
            let node = world.get(&pod.key).and_then(|pod| pod.node_name.clone());
            let mates = node.as_ref().and_then(|node| on_nodes.get(node)).copied().unwrap_or(0);
            (
                node.is_some(),
                world.is_ready(&pod.key),
                pod.deletion_cost,
                Reverse(mates),
                Reverse(pod.created),
                pod.key.clone(),
            )
        });
        pods.into_iter().map(|pod| pod.key.clone()).collect()
    }
}
