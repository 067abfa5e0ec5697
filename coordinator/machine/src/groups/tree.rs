//! A group as the input of an attempt, with the groups below it.

use std::sync::Arc;

use flotilla_framework::{
    node::NodeId,
    pod_group::{GroupApi, Hierarchy as _, MAX_DEPTH, PodGroup, Topology},
};

use crate::{
    site::Site,
    subject::{GroupKey, Uid},
};

/// A group with its waiting members in the order of the attempt; a composite group with the groups below it instead.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) key: GroupKey,
    pub(super) object: Arc<PodGroup>,
    pub(super) members: Vec<Uid>,
    /// The members with a node, as `namespace/name`, and their nodes.
    pub(super) scheduled: Vec<(String, Option<NodeId>)>,
    pub(super) children: Vec<Self>,
}

impl Branch {
    /// The number of pods that are still to be tried, or of groups.
    pub(super) fn remaining(&self) -> usize {
        if self.is_composite() { self.children.len() } else { self.members.len() }
    }

    /// The number of pods that count as scheduled before the attempt; a composite group counts the groups that the attempt places.
    pub(super) fn met(&self) -> usize {
        if self.is_composite() { 0 } else { self.scheduled.len() }
    }

    pub(super) fn is_composite(&self) -> bool {
        self.key.api == GroupApi::Composite
    }

    /// The group and the groups below it, each before those below it.
    pub(super) fn all(&self) -> Vec<&Self> {
        std::iter::once(self).chain(self.children.iter().flat_map(Self::all)).collect()
    }

    /// All waiting members, in the order of the attempt.
    pub(super) fn all_members(&self) -> Vec<Uid> {
        self.all().into_iter().flat_map(|branch| &branch.members).cloned().collect()
    }

    /// All members with a node, as in [`Self::scheduled`].
    pub(super) fn all_scheduled(&self) -> Vec<(String, Option<NodeId>)> {
        self.all().into_iter().flat_map(|branch| &branch.scheduled).cloned().collect()
    }

    /// Whether a group of the tree has a topology constraint.
    pub(super) fn has_constraint(&self) -> bool {
        self.all().into_iter().any(|branch| matches!(branch.object.topology, Topology::Key(_)))
    }
}

impl Site<'_> {
    /// The group with the groups below it; `None` without an object.
    pub(super) fn branch(&self, key: &GroupKey) -> Option<Branch> {
        self.branch_at(key, MAX_DEPTH)
    }

    fn branch_at(&self, key: &GroupKey, depth: usize) -> Option<Branch> {
        let group = self.groups.known.get(key).filter(|_| depth > 0)?;
        let children = self.groups.ordered(key).into_iter().filter_map(|child| self.branch_at(child, depth - 1));
        Some(Branch {
            key: key.clone(),
            object: Arc::clone(group.object.as_ref()?),
            members: group.in_order(self.pods),
            scheduled: group.members.iter().filter_map(|uid| self.scheduled(uid)).collect(),
            children: children.collect(),
        })
    }

    fn scheduled(&self, uid: &Uid) -> Option<(String, Option<NodeId>)> {
        let pod = self.pods.get(uid)?;
        let charge = pod.charge.as_ref()?;
        Some((pod.info.key(), self.shards.judge.cache().nodes().get(&charge.node).map(|node| node.id)))
    }
}
