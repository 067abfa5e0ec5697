//! The nominator: waiting pods with a nominated node, and the capacity reserved for them.
//!
//! Source: `backend/queue/nominator.go`, and `eventhandlers.go` for wake-ups.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_framework::{
    class::{Class, ClassId},
    node::NodeId,
    select::Nominations,
};

use super::cache::Cache;
use crate::subject::Uid;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Nominated {
    pub(crate) node: Arc<str>,
    pub(crate) priority: i32,
    pub(crate) class: (ClassId, Arc<Class>),
}

/// The nominations of pods that wait: `Queued`, `Gated` or `Member` ([`PodStage`](crate::pods::PodStage)).
///
/// ```text
///      preemption, PreBind, the watch
///  no <---------------------------------------------> nominated
///      decided, deleted, finished: Machine::follow
///      failed, refused without victims: Machine::nominate_local
///      the watch shows a change: Pods::apply
/// ```
///
/// A nomination names its node, so it outlives the node. Meanwhile it reserves nothing, and its pod does not try the node first
/// ([`Self::concerning`]). It counts again if a node with this name is added. The deletion wakes the pod if a plugin that refused it has a
/// hint for it (`Machine::node_deleted`). A member of a pod group waits for the next attempt at its group, which comes by time. That attempt
/// decides the member as if it had no nomination. Its result (`groups/outcome.rs`) binds the member, or nominates it to another node. If
/// the member found a node but its group did not fit, the nomination ends. If the member was refused, or victims on the nominated node are
/// still terminating, it stays.
#[derive(Debug, Default)]
pub(crate) struct Nominator {
    pods: BTreeMap<Uid, Nominated>,
    nodes: BTreeMap<Arc<str>, OnNode>,
    /// Members of the group that is being tried: their nominations reserve nothing from each other.
    tried: BTreeSet<Uid>,
    version: u64,
}

/// The nominations to a node.
#[derive(Debug)]
struct OnNode {
    /// `None`: the node does not exist.
    id: Option<NodeId>,
    /// Priority and class of each pod.
    pods: BTreeMap<Uid, (i32, ClassId)>,
}

impl Nominator {
    pub(crate) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// The nodes with nominated pods, and their numbers if they exist.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&Arc<str>, Option<NodeId>)> {
        self.nodes.iter().map(|(name, on)| (name, on.id))
    }

    /// The number of nodes with nominated pods.
    pub(crate) fn nodes_len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.pods.len()
    }

    pub(crate) fn of(&self, uid: &Uid) -> Option<&Nominated> {
        self.pods.get(uid)
    }

    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn below(&self, node: &str, priority: i32) -> Vec<Uid> {
        let pods = self.nodes.get(node).into_iter().flat_map(|on| &on.pods);
        pods.filter(|(_, (known, _))| *known < priority).map(|(uid, _)| Arc::clone(uid)).collect()
    }

    /// Sets the nomination of a pod, and returns the previous one.
    pub(crate) fn set(&mut self, uid: &Uid, now: Option<Nominated>, cache: &Cache) -> Option<Nominated> {
        if self.pods.get(uid) == now.as_ref() {
            return now;
        }
        self.version += 1;
        let before = self.pods.remove(uid);
        if let Some(before) = &before
            && let Some(on) = self.nodes.get_mut(&before.node)
        {
            on.pods.remove(uid);
            if on.pods.is_empty() {
                self.nodes.remove(&before.node);
            }
        }
        if let Some(now) = now {
            let id = || cache.nodes().get(&now.node).map(|node| node.id);
            let on = self.nodes.entry(Arc::clone(&now.node));
            let on = on.or_insert_with(|| OnNode { id: id(), pods: BTreeMap::new() });
            on.pods.insert(Arc::clone(uid), (now.priority, now.class.0));
            self.pods.insert(Arc::clone(uid), now);
        }
        before
    }

    /// A node with this name was added, or deleted (`None`).
    pub(crate) fn note_node(&mut self, name: &str, id: Option<NodeId>) {
        if let Some(on) = self.nodes.get_mut(name) {
            on.id = id;
        }
    }

    /// The classes of the pods nominated to a node that concern a pod with this priority.
    pub(crate) fn beside(&self, uid: &Uid, priority: i32, node: &str) -> Vec<ClassId> {
        let pods = self.nodes.get(node).into_iter().flat_map(|on| &on.pods);
        let counts = |(other, (known, _)): &(&Uid, &(i32, ClassId))| *other != uid && *known >= priority;
        pods.filter(counts).map(|(_, (_, class))| *class).collect()
    }

    /// Sets the members of the group that is being tried.
    ///
    /// Source: `PriorityQueue.nominatedPodToInfo`, which looks a pod up in the queue and returns one without a spec for members of a group
    /// that was popped.
    pub(crate) fn try_together(&mut self, members: &[Uid]) {
        self.version += 1;
        self.tried = members.iter().cloned().collect();
    }

    pub(crate) fn concerning(&self, uid: &Uid, priority: i32) -> Nominations {
        let own = self.pods.get(uid).and_then(|nominated| self.nodes.get(&nominated.node)?.id);
        let counts = |(other, (known, _)): &(&Uid, &(i32, ClassId))| {
            *known >= priority && *other != uid && !self.tried.contains(*other)
        };
        let known = self.nodes.values().filter_map(|on| Some((on.id?, &on.pods)));
        let beside = known.flat_map(|(node, pods)| {
            let pods = pods.iter().filter(counts);
            pods.map(move |(_, (_, class))| (node, *class))
        });
        Nominations::new(own, beside)
    }
}
