//! Pods that are nominated to a node and wait: what is kept free for them, and who has to give way.
//!
//! Knows: who is nominated where, from when until when. Must not know: what a nomination means to a node (that is the
//! framework's), or who nominates.
//!
//! Source: upstream's nominator in `backend/queue/nominator.go`, and `eventhandlers.go` for who is woken.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_framework::{
    class::{Class, ClassId},
    select::Nominations,
};
use flotilla_planted::planted;

use super::cache::Cache;
use crate::subject::Uid;

/// A nominated pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Nominated {
    pub(crate) node: Arc<str>,
    pub(crate) priority: i32,
    pub(crate) class: (ClassId, Arc<Class>),
}

/// Who is nominated where. As large as the number of such pods, each of which is known anyway.
#[derive(Debug, Default)]
pub(crate) struct Nominator {
    pods: BTreeMap<Uid, Nominated>,
    /// By node, in the order of their UIDs.
    nodes: BTreeMap<Arc<str>, BTreeSet<Uid>>,
    /// The members of a group that is being tried: what they are nominated to keeps no node free for one another.
    tried: BTreeSet<Uid>,
    /// Counts changes.
    version: u64,
}

// === impl Nominator ===

impl Nominator {
    /// Whether no pod is nominated.
    pub(crate) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// How many nodes are kept free.
    pub(crate) fn nodes_len(&self) -> usize {
        self.nodes.len()
    }

    /// How many pods are nominated.
    pub(crate) fn len(&self) -> usize {
        self.pods.len()
    }

    /// What a pod is nominated to.
    pub(crate) fn of(&self, uid: &Uid) -> Option<&Nominated> {
        self.pods.get(uid)
    }

    /// Changes whenever a nomination does.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// The pods of a lower priority that are nominated to a node.
    pub(crate) fn below(&self, node: &str, priority: i32) -> Vec<Uid> {
        let pods = self.nodes.get(node).into_iter().flatten();
        let lower = |uid: &&Uid| self.pods.get(*uid).is_some_and(|known| known.priority < priority);
        pods.filter(lower).cloned().collect()
    }

    /// Takes over what a pod is nominated to now. Gives what it was nominated to before.
    pub(crate) fn set(&mut self, uid: &Uid, now: Option<Nominated>) -> Option<Nominated> {
        if self.pods.get(uid) == now.as_ref() || (now.is_none() && planted("keeps-nominations")) {
            return now;
        }
        self.version += 1;
        let before = self.pods.remove(uid);
        if let Some(before) = &before
            && let Some(pods) = self.nodes.get_mut(&before.node)
        {
            pods.remove(uid);
            if pods.is_empty() {
                self.nodes.remove(&before.node);
            }
        }
        if let Some(now) = now {
            self.nodes.entry(Arc::clone(&now.node)).or_default().insert(Arc::clone(uid));
            self.pods.insert(Arc::clone(uid), now);
        }
        before
    }

    /// Leaves out for a while what a pod is nominated to, as it has a place for that time.
    pub(crate) fn withhold(&mut self, uid: &Uid) -> Option<Nominated> {
        self.set(uid, None)
    }

    /// Ends that time.
    pub(crate) fn give_back(&mut self, uid: &Uid, nominated: Nominated) {
        self.set(uid, Some(nominated));
    }

    /// The classes of the pods that are nominated to a node and concern another pod of a priority.
    pub(crate) fn beside(&self, uid: &Uid, priority: i32, node: &str) -> Vec<ClassId> {
        let pods = self.nodes.get(node).into_iter().flatten().filter(|other| *other != uid);
        let known = pods.filter_map(|other| self.pods.get(other)).filter(|other| other.priority >= priority);
        known.map(|other| other.class.0).collect()
    }

    /// The members of a group are tried from now on, or of none any more.
    ///
    /// Source: `PriorityQueue.nominatedPodToInfo`, which finds a pod in the queue and gives one without a spec for the members of a
    /// group that was popped.
    pub(crate) fn try_together(&mut self, members: &[Uid]) {
        self.version += 1;
        self.tried = members.iter().cloned().collect();
    }

    /// The nominations that concern a pod of a priority.
    pub(crate) fn concerning(&self, uid: &Uid, priority: i32, cache: &Cache) -> Nominations {
        let id = |node: &Arc<str>| cache.nodes.get(node).map(|node| node.id);
        let mut nominations =
            Nominations { own: self.pods.get(uid).and_then(|nominated| id(&nominated.node)), ..Nominations::default() };
        for (node, pods) in &self.nodes {
            let counts = |other: &&Uid| *other != uid && !self.tried.contains(*other);
            let others = pods.iter().filter(counts).filter_map(|other| self.pods.get(other));
            let classes: Vec<ClassId> =
                others.filter(|other| other.priority >= priority).map(|other| other.class.0).collect();
            if let Some(id) = id(node).filter(|_| !classes.is_empty()) {
                nominations.beside.push((id, classes));
            }
        }
        nominations
    }
}
