//! Past states of nodes: with the log of changes they reconstruct a recent revision.

use std::{collections::VecDeque, sync::Arc};

use flotilla_framework::{
    class::ClassId,
    devices::node::NodeDevices,
    node::{NodeId, NodeInfo},
    shard::Revision,
    snapshot::{Snapshot, Tenants},
    volumes::node::Attachment,
};

use super::{Cache, Happening, What};

/// Limit of past states: 2,048 nodes of some 8 KiB, together 16 MiB, or 65,536 device states of some 200 bytes, 13 MiB. Added and removed
/// pods are only in the log of changes.
const MAX_WEIGHT: u32 = 65_536;

const WEIGHT_OF_NODE: u32 = 32;

/// A node, or the attachments of a class, before a change.
#[derive(Debug, Clone)]
pub(crate) enum Before {
    Absent,
    Node(Arc<NodeInfo>),
    /// The node existed with these pods.
    Gone(Arc<NodeInfo>, Tenants),
    Devices(Option<Arc<NodeDevices>>),
    Attachments(ClassId, Arc<[Attachment]>),
    /// Another change of the same event has the state.
    Said,
}

#[derive(Debug, Default)]
pub(crate) struct Past {
    /// By the revision of the change, ascending.
    before: VecDeque<(Revision, Before)>,
    weight: u32,
}

#[derive(Debug)]
pub(crate) struct Rewind {
    pub(crate) nodes: Snapshot,
    changes: Vec<(Happening, Option<Before>)>,
}

/// Why a past state cannot be reconstructed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unknowable {
    /// Too many changes since.
    #[error("too many changes since the decision")]
    TooLongAgo,
    /// A pod that has left since was of a class that is no longer known.
    #[error("the requests of pods that have left since are no longer known")]
    ClassForgotten,
    /// Too many nominations to keep with each decision.
    #[error("too many pods were nominated to nodes to record them")]
    ManyNominated,
}

impl Past {
    /// Records the state before the change that makes this revision.
    pub(crate) fn note(&mut self, revision: Revision, before: Before) {
        self.weight += before.weight();
        self.before.push_back((revision, before));
        while self.weight > MAX_WEIGHT
            && let Some((_, oldest)) = self.before.pop_front()
        {
            self.weight -= oldest.weight();
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn before(&self, revision: Revision) -> Option<&Before> {
        let at = self.before.binary_search_by_key(&revision, |(known, _)| *known).ok()?;
        self.before.get(at).map(|(_, before)| before)
    }
}

impl Before {
    const fn weight(&self) -> u32 {
        match self {
            Self::Node(_) | Self::Gone(..) => WEIGHT_OF_NODE,
            Self::Absent | Self::Devices(_) | Self::Attachments(..) | Self::Said => 1,
        }
    }
}

impl Cache {
    /// Prepares the reconstruction of a revision. Copies the nodes: some 3 MB for 5,000.
    ///
    /// # Errors
    /// The revision is too old.
    pub(crate) fn rewind_to(&self, revision: Revision) -> Result<Rewind, Unknowable> {
        let happened = self.changes_since(revision).ok_or(Unknowable::TooLongAgo)?;
        let mut changes = Vec::with_capacity(happened.len());
        for (made, happening) in (revision + 1..).zip(happened) {
            let before = match happening.what {
                What::Came(_) | What::Left(_) => None,
                What::Changed | What::Reshaped => Some(self.past.before(made).ok_or(Unknowable::TooLongAgo)?.clone()),
            };
            changes.push((happening, before));
        }
        changes.reverse();
        Ok(Rewind { nodes: self.snapshot.clone(), changes })
    }
}

impl Rewind {
    pub(crate) fn len(&self) -> usize {
        self.changes.len()
    }

    /// The nodes at the revision.
    ///
    /// # Errors
    /// A class that has left since is no longer known.
    pub(crate) fn into_nodes(self) -> Result<Snapshot, Unknowable> {
        let Self { mut nodes, changes } = self;
        for (Happening { node, what }, before) in changes {
            match what {
                What::Came(class) => {
                    // A pod that came and left with its node is undone with the node.
                    nodes.remove_pod(node, class);
                }
                What::Left(class) => {
                    if nodes.slot(node).is_some() && !nodes.add_pod(node, class) {
                        return Err(Unknowable::ClassForgotten);
                    }
                }
                What::Changed | What::Reshaped => undo(&mut nodes, node, before)?,
            }
        }
        Ok(nodes)
    }
}

fn undo(nodes: &mut Snapshot, node: NodeId, before: Option<Before>) -> Result<(), Unknowable> {
    match before {
        Some(Before::Absent) => nodes.remove_node(node),
        Some(Before::Node(info)) => _ = nodes.upsert_node(node, &info),
        Some(Before::Gone(info, pods)) => {
            nodes.upsert_node(node, &info);
            for (class, count) in pods {
                for _ in 0..count {
                    if !nodes.add_pod(node, class) {
                        return Err(Unknowable::ClassForgotten);
                    }
                }
            }
        }
        Some(Before::Devices(devices)) => nodes.set_devices(node, devices),
        Some(Before::Attachments(class, attachments)) => nodes.set_attachments(class, &attachments),
        Some(Before::Said) | None => {}
    }
    Ok(())
}
