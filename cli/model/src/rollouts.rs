//! The replacement of the pods of an old template.
//!
//! Each rollout acts until it has to wait for a pod, as the controllers do before the scheduler and the kubelets react.

use flotilla_cluster::lifecycle::{Key, Rollout};
use flotilla_workloads::Strategy;

use crate::{
    change::{Change, Deletion},
    report::{PodRef, RolloutEnd, RolloutReport},
    world::World,
};

mod daemon_set;
mod deployment;
mod stateful_set;

#[derive(Clone)]
pub(crate) struct Rolling {
    title: String,
    strategy: Strategy,
    /// The current pods.
    pods: Vec<Current>,
    /// The pods of the new template. Those of a StatefulSet have the names of current pods.
    new: Vec<New>,
}

#[derive(Clone)]
struct Current {
    key: Key,
    deletion_cost: i32,
    created: i64,
    is_outdated: bool,
    /// The index of the pod that replaces it.
    successor: Option<usize>,
}

#[derive(Clone)]
struct New {
    key: Key,
    /// The pod of a Deployment until it is created. The world has the successors of other pods.
    pod: Option<std::sync::Arc<flotilla_framework::class::PodInfo>>,
    is_created: bool,
}

fn parsed(key: &str) -> Key {
    let (namespace, name) = key.split_once('/').unwrap_or_default();
    (namespace.into(), name.into())
}

impl Rolling {
    /// Hands the successors of single pods to the world.
    pub(crate) fn new(rollout: &Rollout, world: &mut World) -> Self {
        let pods = rollout.pods.iter().map(|pod| Current {
            key: parsed(&pod.key),
            deletion_cost: pod.deletion_cost,
            created: pod.created,
            is_outdated: pod.is_outdated,
            successor: pod.successor.filter(|at| rollout.new.get(*at).is_some_and(Option::is_some)),
        });
        let pods: Vec<Current> = pods.collect();
        for pod in &pods {
            if let Some(new) = pod.successor.and_then(|at| rollout.new.get(at)).and_then(Option::as_ref) {
                world.set_successor(pod.key.clone(), std::sync::Arc::clone(new));
            }
        }
        let new = rollout.new.iter().map(|pod| New {
            key: pod.as_ref().map(|pod| crate::world::key(pod)).unwrap_or_default(),
            pod: pod.clone(),
            is_created: false,
        });
        Self { title: rollout.title.clone(), strategy: rollout.strategy, pods, new: new.collect() }
    }

    /// Acts until the rollout has to wait.
    pub(crate) fn step(&mut self, world: &mut World, changes: &mut Vec<Change>) {
        match self.strategy {
            Strategy::Rolling { replicas, max_surge, max_unavailable } => {
                while self.roll_deployment((replicas, max_surge, max_unavailable), world, changes) {}
            }
            Strategy::Recreate => self.recreate_deployment(world, changes),
            Strategy::Ordered { is_parallel, max_unavailable } => {
                while self.roll_stateful_set(is_parallel, max_unavailable, world, changes) {}
            }
            Strategy::PerNode { max_surge: 0, max_unavailable } => {
                self.roll_daemon_set(max_unavailable, world, changes);
            }
            Strategy::PerNode { max_surge, .. } => while self.surge_daemon_set(max_surge, world, changes) {},
            Strategy::OnDelete | Strategy::Paused => {}
        }
    }

    /// Whether the pod of the old template is still there.
    fn is_old(&self, pod: &Current, world: &World) -> bool {
        let is_replaced = || pod.successor.is_some() && world.successor(&pod.key).is_none();
        pod.is_outdated && world.get(&pod.key).is_some() && !is_replaced()
    }

    /// Deletes a pod of the old template.
    fn roll_out(key: &Key, world: &mut World, changes: &mut Vec<Change>) {
        world.delete(key, Deletion::RolledOut, changes);
    }

    /// Whether a key is that of a pod of the new template.
    pub(crate) fn creates(&self, key: &Key) -> bool {
        self.new.iter().any(|new| new.key == *key)
    }

    pub(crate) fn report(&self, world: &World) -> RolloutReport {
        let is_there = |new: &&New| match self.strategy {
            Strategy::Rolling { .. } | Strategy::Recreate => new.is_created,
            _ => self.replaced(new, world),
        };
        let created: Vec<&New> = self.new.iter().filter(is_there).collect();
        let done = created.iter().filter(|new| world.is_ready(&new.key)).count();
        let of = self.new.iter().filter(|new| new.pod.is_some() || new.is_created).count();
        let old = self.pods.iter().filter(|pod| self.is_old(pod, world));
        let surges = matches!(
            self.strategy,
            Strategy::Rolling { max_surge: 1.., .. } | Strategy::PerNode { max_surge: 1.., .. }
        );
        let end = match self.strategy {
            Strategy::Paused => RolloutEnd::Paused,
            Strategy::OnDelete => RolloutEnd::OnDelete(old.count()),
            _ if done == of && old.filter(|pod| pod.successor.is_some() || self.new.is_empty()).count() == 0 => {
                RolloutEnd::Complete
            }
            _ => RolloutEnd::Stuck(self.waits_for(world)),
        };
        RolloutReport { title: self.title.clone(), done, of, surges, end }
    }

    /// Whether the new pod of a StatefulSet or DaemonSet has been created.
    fn replaced(&self, new: &New, world: &World) -> bool {
        let mut pods = self.pods.iter().filter(|pod| pod.successor.is_some());
        let old = pods.find(|pod| pod.successor.and_then(|at| self.new.get(at)).is_some_and(|one| one.key == new.key));
        old.is_some_and(|old| world.successor(&old.key).is_none()) && world.get(&new.key).is_some()
    }

    /// The pods that are not ready: new ones, else others of the workload.
    fn waits_for(&self, world: &World) -> Vec<PodRef> {
        let unready = |key: &Key| match world.get(key) {
            Some(pod) => (!world.is_ready(key)).then(|| PodRef::of(pod)),
            None => world.refused.get(key),
        };
        let new: Vec<PodRef> = self.new.iter().filter_map(|new| unready(&new.key)).collect();
        if new.is_empty() { self.pods.iter().filter_map(|pod| unready(&pod.key)).collect() } else { new }
    }
}
