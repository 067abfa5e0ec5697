//! Trees of pod groups and composite pod groups, with the gate CompositePodGroup.
//!
//! Source: `backend/queue/workload_forest.go`, `BuildHierarchySnapshotFromPod` in `backend/cache/cache.go`, and `isCPGTreeReady` of
//! `plugins/gangscheduling`.

use super::{GroupApi, GroupKey, PLUGIN, PodGroup};
use crate::{preemption::UnitKind, profile::Plugins};

/// Maximum number of groups from a pod group to the root of its tree. Source: `WorkloadMaxTreeDepth`.
pub const MAX_DEPTH: usize = 4;

/// How pods of a group are preempted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AsVictim {
    /// The priority of the root.
    pub priority: i32,
    /// The highest group above them with disruption mode All: its pods are evicted together or not at all.
    pub whole: Option<GroupKey>,
}

impl AsVictim {
    /// The kind of the unit that the pods are part of.
    #[must_use]
    pub fn kind(&self) -> UnitKind {
        match &self.whole {
            Some(whole) if whole.api == GroupApi::Composite => UnitKind::CompositePodGroup,
            _ => UnitKind::PodGroup,
        }
    }
}

/// The known groups, and which of them name another as their parent.
pub trait Hierarchy {
    /// The object of a group.
    fn object(&self, key: &GroupKey) -> Option<&PodGroup>;

    /// The groups that name this one as their parent, whether or not it exists.
    fn children(&self, key: &GroupKey) -> impl Iterator<Item = &GroupKey>;

    /// The number of pods that name the group.
    fn pods(&self, key: &GroupKey) -> usize;

    /// The group and the groups above it, the root last. Ends at a group without an object, and after [`MAX_DEPTH`] groups.
    fn lineage(&self, key: &GroupKey) -> impl Iterator<Item = (GroupKey, &PodGroup)> {
        let first = self.object(key).map(|object| (key.clone(), object));
        let above = |(_, object): &(GroupKey, &PodGroup)| {
            let parent = object.parent_key()?;
            self.object(&parent).map(|object| (parent, object))
        };
        std::iter::successors(first, above).take(MAX_DEPTH)
    }

    /// The root of the group's tree; the group itself if it has no parent.
    ///
    /// # Errors
    /// Why the tree has no root, in kube-scheduler's words.
    fn root(&self, key: &GroupKey) -> Result<GroupKey, String> {
        let Some((last, object)) = self.lineage(key).last() else { return Err(key.absent()) };
        match object.parent_key() {
            None => Ok(last),
            Some(parent) if self.object(&parent).is_none() => Err(parent.absent()),
            Some(_) => Err(format!(
                "failed to build hierarchy snapshot: more than {MAX_DEPTH} groups, or a cycle, above {}; expected at most {MAX_DEPTH}",
                key.entity()
            )),
        }
    }

    /// How pods of a group are preempted; `None`: like pods without a group, because it does not exist.
    ///
    /// Source: `GetPodPriority` and `getHighestAllAncestor`.
    fn as_victim(&self, key: &GroupKey) -> Option<AsVictim> {
        let mut known: Option<AsVictim> = None;
        for (key, object) in self.lineage(key) {
            let lower = known.and_then(|known| known.whole);
            let whole = if object.disrupted_whole { Some(key) } else { lower };
            known = Some(AsVictim { priority: object.priority, whole });
        }
        known
    }

    /// Whether enough pods exist in the tree below a group.
    fn is_ready(&self, key: &GroupKey) -> bool {
        self.is_ready_at(key, MAX_DEPTH)
    }

    /// The same for at most this number of groups, one above the other.
    fn is_ready_at(&self, key: &GroupKey, depth: usize) -> bool {
        let Some(object) = self.object(key).filter(|_| depth > 0) else { return false };
        let count = match key.api {
            GroupApi::Composite => self.children(key).filter(|child| self.is_ready_at(child, depth - 1)).count(),
            GroupApi::Kubernetes | GroupApi::Coscheduling => self.pods(key),
        };
        count >= object.min_count.unwrap_or(1) as usize
    }

    /// PreEnqueue: the reason to gate the tree of this root. Source: `checkCPGHierarchyReadiness`.
    fn tree_gate(&self, root: &GroupKey, plugins: &Plugins) -> Option<String> {
        if root.api != GroupApi::Composite {
            return self.object(root)?.gate(plugins, self.pods(root));
        }
        let is_on = plugins.pre_enqueue.iter().any(|name| name == PLUGIN);
        let is_gated = is_on && !self.is_ready(root);
        is_gated.then(|| format!("waiting for composite pod group {:?} tree to meet quorum", root.name))
    }

    /// The children of a group that exist, in the order in which kube-scheduler tries them: by creation, then by name.
    fn ordered(&self, key: &GroupKey) -> Vec<&GroupKey> {
        let known = self.children(key).filter_map(|child| Some((self.object(child)?.created_s, &child.name, child)));
        let mut known: Vec<_> = known.collect();
        known.sort();
        known.into_iter().map(|(_, _, child)| child).collect()
    }

    /// The pod groups of the tree below a group, in no order of use; the group itself if it is none of groups.
    fn leaves(&self, key: &GroupKey) -> Vec<GroupKey> {
        let mut leaves = Vec::new();
        self.collect_leaves(key, MAX_DEPTH, &mut leaves);
        leaves
    }

    /// Adds the pod groups below a group, down to this depth.
    fn collect_leaves(&self, key: &GroupKey, depth: usize, leaves: &mut Vec<GroupKey>) {
        match key.api {
            GroupApi::Composite if depth == 0 => {}
            GroupApi::Composite => {
                let known = self.children(key).filter(|child| self.object(child).is_some());
                known.for_each(|child| self.collect_leaves(child, depth - 1, leaves));
            }
            GroupApi::Kubernetes | GroupApi::Coscheduling => leaves.push(key.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
