//! Another scheduler.

use super::{has_ended, milli, requested, those};
use crate::{
    api::{Actor, Kind, Object},
    seed::Seed,
};

/// The other scheduler.
pub struct Scheduler {
    actor: Actor,
    seed: Seed,
    /// `schedulerName` of its pods.
    name: &'static str,
}

impl Scheduler {
    /// A scheduler of this name.
    #[must_use]
    pub const fn new(actor: Actor, seed: Seed, name: &'static str) -> Self {
        Self { actor, seed, name }
    }

    /// Binds its pods to nodes with enough CPU. Returns the number of bindings.
    pub fn step(&mut self) -> usize {
        let name = self.name;
        let is_ours = |pod: &Object| pod.text("/spec/schedulerName") == name && pod.node_name().is_empty();
        let mut bound = 0;
        for pod in those(self.actor.api(), Kind::Pod, is_ours) {
            let nodes = those(self.actor.api(), Kind::Node, |node| node.at("/spec/unschedulable") != true);
            let fitting: Vec<_> = nodes.into_iter().filter(|node| requested(&pod) <= self.left(node)).collect();
            if let Some(node) = self.seed.pick(&fitting) {
                bound += usize::from(self.actor.bind(&pod, node.name()).is_ok());
            }
        }
        bound
    }

    fn left(&self, node: &Object) -> u64 {
        let pods = those(self.actor.api(), Kind::Pod, |pod| pod.node_name() == node.name() && !has_ended(pod));
        let used: u64 = pods.iter().map(|pod| requested(pod)).sum();
        milli(node.at("/status/allocatable/cpu")).saturating_sub(used)
    }
}
