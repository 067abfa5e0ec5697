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
    extension::ClusterEvent,
    node::NodeId,
    select::Nominations,
};

use crate::{
    cache::Cache,
    event::TimeMs,
    machine::Machine,
    pods::{Pod, Stage},
    queue::{Subject, Uid},
};

/// A nominated pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Nominated {
    pub(crate) node: Arc<str>,
    pub(crate) priority: i32,
    class: (ClassId, Arc<Class>),
}

/// Who is nominated where. As large as the number of such pods, each of which is known anyway.
#[derive(Debug, Default)]
pub(crate) struct Nominator {
    pods: BTreeMap<Uid, Nominated>,
    /// By node, in the order of their UIDs.
    nodes: BTreeMap<Arc<str>, BTreeSet<Uid>>,
}

impl Nominated {
    /// What a pod is nominated to now: as long as it waits, also behind a gate.
    pub(crate) fn of(pod: &Pod) -> Option<Self> {
        let waits = matches!(pod.stage, Stage::Queued(_) | Stage::Gated(_));
        let node = pod.info.nominated_node_name.as_ref().filter(|_| waits)?;
        let class = (pod.class, Arc::clone(&pod.info.class));
        Some(Self { node: Arc::clone(node), priority: pod.info.priority, class })
    }
}

// === impl Nominator ===

impl Nominator {
    /// Whether nobody is nominated.
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

    /// Takes over what a pod is nominated to now. Gives what it was nominated to before.
    fn set(&mut self, uid: &Uid, now: Option<Nominated>) -> Option<Nominated> {
        if self.pods.get(uid) == now.as_ref() {
            return now;
        }
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

    /// The nominations that concern a pod of a priority.
    pub(crate) fn concerning(&self, uid: &Uid, priority: i32, cache: &Cache) -> Nominations {
        let id = |node: &Arc<str>| cache.nodes.get(node).map(|node| node.id);
        let mut nominations =
            Nominations { own: self.pods.get(uid).and_then(|nominated| id(&nominated.node)), ..Nominations::default() };
        for (node, pods) in &self.nodes {
            let others = pods.iter().filter(|other| *other != uid).filter_map(|other| self.pods.get(other));
            let classes: Vec<ClassId> =
                others.filter(|other| other.priority >= priority).map(|other| other.class.0).collect();
            if let Some(id) = id(node).filter(|_| !classes.is_empty()) {
                nominations.beside.push((id, classes));
            }
        }
        nominations
    }
}

impl Machine {
    /// Takes over what a pod is nominated to now.
    pub(crate) fn nominate(&mut self, uid: &Uid) -> Option<Nominated> {
        if self.nominator.is_empty() && self.pods.get(uid).is_none_or(|pod| pod.info.nominated_node_name.is_none()) {
            return None;
        }
        let before = self.nominator.set(uid, self.pods.get(uid).and_then(Nominated::of));
        self.queue.set_alone(uid, self.nominator.of(uid).is_some());
        before
    }

    /// What a pod was nominated to has come to an end, if so: the pods wake that gave way to it. Whoever takes the node
    /// that was kept free for it makes no room.
    pub(crate) fn end_nomination(&mut self, now_ms: TimeMs, uid: &Uid, before: Option<Nominated>) {
        let Some(before) = before else { return };
        let stays = self.nominator.of(uid).is_some_and(|now| now.node == before.node);
        let charge = self.pods.get(uid).and_then(|pod| pod.charge.as_ref());
        if !stays && charge.is_none_or(|charge| charge.node != before.node) {
            let event = ClusterEvent::PodRemoved(&before.class.1);
            self.wake_where(now_ms, event, |priority| priority <= before.priority);
        }
    }

    /// Makes the subject's offers what they are for a pod, as nominations have it. Gives the pod's own nominated node
    /// where that will do. Nothing to do, and nothing done, where nobody is nominated.
    pub(crate) fn lay_nominations_over(&mut self, uid: &Uid, subject: Subject) -> Option<NodeId> {
        let dossier = self.dossiers.get_mut(subject)?;
        let offers = dossier.offers.as_mut()?;
        if self.nominator.is_empty() && !offers.book.is_laid_over() {
            return None;
        }
        let priority = self.pods.get(uid)?.info.priority;
        let nominations = self.nominator.concerning(uid, priority, &self.cache);
        dossier.matches.refresh(&dossier.prepared, &self.cache.snapshot);
        offers.book.lay_over(&dossier.prepared, &mut self.cache.snapshot, &dossier.matches, &nominations)
    }
}
