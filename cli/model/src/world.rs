//! The pods of the cluster, with their readiness, and their deletion and creation.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_cluster::{
    Cluster,
    lifecycle::{Key, Owner, PodFacts},
};
use flotilla_framework::{
    class::PodInfo,
    map::{Map, Set},
    volumes::objects::Claim,
};

use crate::{
    budgets::Budgets,
    change::{Change, Deletion},
    refused::Refused,
    report::NotCreated,
};

pub(crate) fn key(pod: &PodInfo) -> Key {
    (Arc::clone(&pod.class.namespace), Arc::clone(&pod.name))
}

#[derive(Clone)]
pub(crate) struct World {
    pods: Map<Key, Arc<PodInfo>>,
    /// The UIDs of pods that a controller recreates.
    controlled: BTreeSet<Arc<str>>,
    facts: Map<Arc<str>, PodFacts>,
    /// The UIDs of bound pods that are not ready.
    unready: Set<Arc<str>>,
    /// Pods that were bound since the last round.
    starting: Vec<Key>,
    pub(crate) budgets: Budgets,
    /// The pod of the new template that replaces a pod of a StatefulSet or DaemonSet.
    successors: BTreeMap<Key, Arc<PodInfo>>,
    /// The pods of ordered StatefulSets.
    ordered: BTreeSet<Key>,
    /// The claims that are created with pods.
    claims: BTreeMap<Key, Vec<Claim>>,
    pub(crate) refused: Refused,
    /// The number of recreated pods.
    made: u64,
    /// The number of deleted pods.
    deleted: u64,
    /// A budget, a rollout or a drain reads the state of pods.
    is_watched: bool,
}

impl World {
    pub(crate) fn new(cluster: &Cluster, is_watched: bool) -> Self {
        let all = cluster.bound.iter().chain(cluster.pending.iter().filter(|_| is_watched));
        let mut world = Self {
            pods: all.map(|pod| (key(pod), Arc::clone(pod))).collect(),
            controlled: cluster.controlled.clone(),
            facts: Map::default(),
            unready: Set::default(),
            starting: Vec::new(),
            budgets: Budgets::default(),
            successors: BTreeMap::new(),
            ordered: BTreeSet::new(),
            claims: BTreeMap::new(),
            refused: Refused::new(cluster),
            made: 0,
            deleted: 0,
            is_watched,
        };
        if is_watched {
            world.facts.clone_from(&cluster.lifecycle.pods);
            let unready = cluster.bound.iter().map(|pod| &pod.uid);
            let unready = unready.filter(|uid| world.facts.get(*uid).is_some_and(|facts| facts.is_unready));
            world.unready = unready.cloned().collect();
            world.budgets = Budgets::new(cluster);
            if !world.budgets.is_empty() {
                for pod in cluster.bound.iter().chain(&cluster.pending) {
                    let is_healthy = world.is_healthy(pod);
                    let owner = world.facts.get(&pod.uid).and_then(|facts| facts.owner.as_ref());
                    world.budgets.count(pod, owner, is_healthy, 1);
                }
            }
            world.budgets.begin();
        }
        world
    }

    /// Sets the pods of ordered StatefulSets, and those that do not exist yet with their claims.
    pub(crate) fn hold<'a>(
        &mut self,
        ordered: impl Iterator<Item = &'a Key>,
        later: BTreeMap<Key, (Arc<PodInfo>, Vec<Claim>)>,
    ) {
        self.ordered = ordered.cloned().collect();
        for (key, (pod, claims)) in later {
            self.refused.release(&pod);
            if !claims.is_empty() {
                self.claims.insert(key.clone(), claims);
            }
            self.successors.insert(key, pod);
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.pods.values()
    }

    /// Continues the names of another state, so that no name of a deleted pod is used again.
    pub(crate) fn continue_names(&mut self, other: &Self) {
        self.made = self.made.max(other.made);
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<PodInfo>> {
        self.pods.get(key)
    }

    pub(crate) fn facts(&self, uid: &str) -> Option<&PodFacts> {
        self.facts.get(uid)
    }

    pub(crate) fn is_controlled(&self, uid: &str) -> bool {
        self.controlled.contains(uid)
    }

    /// The number of pods that were deleted so far.
    pub(crate) const fn deleted(&self) -> u64 {
        self.deleted
    }

    /// Whether the pod exists and is ready.
    pub(crate) fn is_ready(&self, key: &Key) -> bool {
        self.pods.get(key).is_some_and(|pod| self.is_healthy(pod))
    }

    /// Source: `countHealthyPods`.
    fn is_healthy(&self, pod: &PodInfo) -> bool {
        pod.node_name.is_some() && !pod.deleting && !self.unready.contains(&pod.uid)
    }

    pub(crate) fn bind(&mut self, pod: &Arc<PodInfo>) {
        if self.is_watched {
            self.unready.insert(Arc::clone(&pod.uid));
            self.starting.push(key(pod));
        }
        self.pods.insert(key(pod), Arc::clone(pod));
    }

    /// The kubelets start the pods that were bound.
    pub(crate) fn start(&mut self) {
        for key in std::mem::take(&mut self.starting) {
            let Some(pod) = self.pods.get(&key).cloned() else { continue };
            if pod.node_name.is_some() && self.unready.swap_remove(&pod.uid) && !pod.deleting {
                self.budgets.heal(&pod);
            }
        }
    }

    /// Deletes a pod.
    pub(crate) fn delete(&mut self, key: &Key, by: Deletion, changes: &mut Vec<Change>) -> Option<Arc<PodInfo>> {
        let pod = self.pods.swap_remove(key)?;
        self.deleted += 1;
        self.refused.release(&pod);
        if !self.budgets.is_empty() {
            let is_healthy = self.is_healthy(&pod);
            let owner = self.owner(&pod.uid);
            self.budgets.count(&pod, owner.as_ref(), is_healthy, -1);
        }
        changes.push(Change::Delete { pod: Arc::clone(&pod), by });
        Some(pod)
    }

    /// Deletes a pod, and its controller recreates it. Returns the pod, and whether it was recreated.
    pub(crate) fn replace(&mut self, key: &Key, by: Deletion, changes: &mut Vec<Change>) -> Option<Arc<PodInfo>> {
        let pod = self.delete(key, by, changes)?;
        let new = match self.successors.remove(key) {
            Some(new) => Some(new),
            None => self.is_recreated(&pod).then(|| self.again(&pod)),
        };
        match new {
            // The controller creates it when all pods before it are ready.
            Some(new) if self.ordered.contains(key) => _ = self.successors.insert(key.clone(), new),
            Some(new) => self.create(new, changes),
            None => {}
        }
        Some(pod)
    }

    /// A new pod like a deleted one.
    fn again(&mut self, old: &PodInfo) -> Arc<PodInfo> {
        self.made += 1;
        let uid: Arc<str> = format!("{}#{}", old.uid, self.made).into();
        self.refused.copy(&old.uid, &uid);
        if let Some(facts) = self.facts.get(&old.uid).cloned() {
            self.facts.insert(Arc::clone(&uid), PodFacts { is_unready: false, is_pending: false, ..facts });
        }
        Arc::new(PodInfo {
            uid,
            node_name: None,
            nominated_node_name: None,
            started_ns: None,
            condition: None,
            deleting: false,
            is_preempted: false,
            ..PodInfo::clone(old)
        })
    }

    /// Whether a controller recreates the pod. It has done so already if the pod was being deleted, unless the new pod needs the name.
    fn is_recreated(&self, pod: &PodInfo) -> bool {
        let needs_name = || self.owner(&pod.uid).is_some_and(|owner| &*owner.kind == "StatefulSet");
        self.controlled.contains(&pod.uid) && (!pod.deleting || needs_name())
    }

    /// Tries again to create the pods that quotas refused.
    pub(crate) fn retry(&mut self, changes: &mut Vec<Change>) {
        self.refused.take().into_iter().for_each(|pod| self.create(pod, changes));
    }

    /// Creates a pod, after its claims. A pod that a quota refuses is created later.
    pub(crate) fn create(&mut self, pod: Arc<PodInfo>, changes: &mut Vec<Change>) {
        if self.refused.is_refused(&pod) {
            return;
        }
        let claims = self.claims.remove(&key(&pod)).into_iter().flatten();
        changes.extend(claims.map(|claim| Change::Claim(Box::new(claim))));
        self.controlled.insert(Arc::clone(&pod.uid));
        if !self.budgets.is_empty() {
            let owner = self.owner(&pod.uid);
            self.budgets.count(&pod, owner.as_ref(), false, 1);
        }
        self.pods.insert(key(&pod), Arc::clone(&pod));
        changes.push(Change::Create(pod));
    }

    /// The pods that quotas refuse, by controller, without those that are reported elsewhere.
    pub(crate) fn not_created(&self, is_reported: impl Fn(&Key) -> bool) -> Vec<NotCreated> {
        self.refused.report(is_reported, |pod| match self.owner(&pod.uid) {
            Some(owner) => format!("{} {}", owner.kind, owner.key),
            None => pod.key(),
        })
    }

    fn owner(&self, uid: &str) -> Option<Arc<Owner>> {
        self.facts.get(uid).and_then(|facts| facts.owner.clone())
    }

    /// Sets the pod that replaces a pod of a StatefulSet or DaemonSet.
    pub(crate) fn set_successor(&mut self, key: Key, pod: Arc<PodInfo>) {
        self.successors.insert(key, pod);
    }

    pub(crate) fn successor(&self, key: &Key) -> Option<&Arc<PodInfo>> {
        self.successors.get(key)
    }

    pub(crate) fn take_successor(&mut self, key: &Key) -> Option<Arc<PodInfo>> {
        self.successors.remove(key)
    }

    /// The controller does not recreate this pod.
    pub(crate) fn release(&mut self, key: &Key) {
        if let Some(pod) = self.pods.get(key) {
            self.controlled.remove(&pod.uid);
        }
    }

    /// The number of pods of these keys on each node.
    pub(crate) fn on_nodes<'a>(&self, keys: impl Iterator<Item = &'a Key>) -> BTreeMap<Arc<str>, usize> {
        let mut counts = BTreeMap::new();
        for node in keys.filter_map(|key| self.pods.get(key)?.node_name.clone()) {
            *counts.entry(node).or_default() += 1;
        }
        counts
    }
}
