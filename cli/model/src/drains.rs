//! Drains of nodes, as `kubectl drain --force --delete-emptydir-data --ignore-daemonsets` does.
//!
//! Source: `k8s.io/kubectl/pkg/drain` and `pkg/registry/core/pod/storage/eviction.go`.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_cluster::{Cluster, lifecycle::Key};
use flotilla_framework::class::PodInfo;

use crate::{
    change::{Change, Deletion},
    report::{Blocked, DrainReport, Obstacle, PodRef},
    world::{World, key},
};

#[derive(Clone)]
pub(crate) struct Drain {
    node: Arc<str>,
    /// The pods that are still on the node, with their UIDs, in the order of the API server's list.
    rest: Vec<(Key, Arc<str>)>,
    of: usize,
    /// The obstacle of each pod at the last attempt.
    blocked: BTreeMap<Key, Obstacle>,
    unmanaged: Vec<String>,
    with_empty_dir: Vec<String>,
    of_daemon_sets: Vec<String>,
}

impl Drain {
    /// The drains of nodes, in order. Pods that arrive later are not evicted.
    pub(crate) fn all(cluster: &Cluster, nodes: &[Arc<str>], world: &World) -> Vec<Self> {
        let mut drains: Vec<Self> = nodes.iter().map(Self::new).collect();
        if drains.is_empty() {
            return drains;
        }
        let of: BTreeMap<&str, usize> = nodes.iter().enumerate().rev().map(|(at, node)| (&**node, at)).collect();
        let mut pods: Vec<_> = cluster.bound.iter().collect();
        pods.sort_by_cached_key(|pod| key(pod));
        for pod in pods {
            let at = pod.node_name.as_deref().and_then(|node| of.get(node));
            if let Some(drain) = at.and_then(|at| drains.get_mut(*at)) {
                drain.add(pod, world);
            }
        }
        drains
    }

    pub(crate) fn new(node: &Arc<str>) -> Self {
        Self {
            node: Arc::clone(node),
            rest: Vec::new(),
            of: 0,
            blocked: BTreeMap::new(),
            unmanaged: Vec::new(),
            with_empty_dir: Vec::new(),
            of_daemon_sets: Vec::new(),
        }
    }

    /// Adds the next pod of the node, by namespace and name.
    pub(crate) fn add(&mut self, pod: &PodInfo, world: &World) {
        let facts = world.facts(&pod.uid).cloned().unwrap_or_default();
        if facts.is_of_daemon_set() {
            self.of_daemon_sets.push(pod.key());
            return;
        }
        if facts.is_mirror {
            return;
        }
        if facts.has_empty_dir {
            self.with_empty_dir.push(pod.key());
        }
        if !world.is_controlled(&pod.uid) {
            self.unmanaged.push(pod.key());
        }
        self.rest.push((key(pod), Arc::clone(&pod.uid)));
        self.of = self.rest.len();
    }

    /// Tries to evict each pod that is still there.
    pub(crate) fn step(&mut self, world: &mut World, changes: &mut Vec<Change>) {
        self.rest.retain(|(key, uid)| world.get(key).is_some_and(|pod| pod.uid == *uid));
        let Self { rest, blocked, .. } = self;
        blocked.clear();
        rest.retain(|(key, _)| match evict(key, world, changes) {
            Ok(()) => false,
            Err(obstacle) => {
                blocked.insert(key.clone(), obstacle);
                true
            }
        });
    }

    pub(crate) fn report(&self, world: &World) -> DrainReport {
        let blocked = self.rest.iter().filter_map(|(key, uid)| {
            let pod = world.get(key).filter(|pod| pod.uid == *uid)?;
            Some(Blocked { pod: PodRef::of(pod), by: self.blocked.get(key)?.clone() })
        });
        let rest = self.rest.iter().filter(|(key, uid)| world.get(key).is_some_and(|pod| pod.uid == *uid));
        DrainReport {
            node: Arc::clone(&self.node),
            done: self.of - rest.count(),
            of: self.of,
            blocked: blocked.collect(),
            unmanaged: self.unmanaged.clone(),
            with_empty_dir: self.with_empty_dir.clone(),
            of_daemon_sets: self.of_daemon_sets.clone(),
        }
    }
}

/// Source: `EvictionREST.Create`.
fn evict(key: &Key, world: &mut World, changes: &mut Vec<Change>) -> Result<(), Obstacle> {
    let Some(pod) = world.get(key).cloned() else { return Ok(()) };
    let ignores_budgets = pod.deleting || world.facts(&pod.uid).is_some_and(|facts| facts.is_pending);
    if !ignores_budgets {
        let is_ready = world.is_ready(key);
        world.budgets.use_for(&pod, is_ready)?;
    }
    world.replace(key, Deletion::Evicted, changes);
    Ok(())
}
