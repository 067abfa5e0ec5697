//! What nodes were before they changed: with the order of changes, enough to say how a recent state was.
//!
//! Knows: how a change is undone in a copy of the nodes. Must not know: who asks, or which decision was made in that state.

use std::{collections::VecDeque, sync::Arc};

use flotilla_framework::{
    class::ClassId,
    devices::node::NodeDevices,
    node::{NodeId, NodeInfo},
    shard::Revision,
    snapshot::{Snapshot, Tenants},
    volumes::node::Attachment,
};

use super::cache::{Cache, Happening, What};

/// What may be kept of nodes as they were: 2,048 of them, at some 8 KiB each 16 MiB, or 65,536 times the devices of one, at some
/// 200 bytes each 13 MiB. Pods that come and go are not in it: they are in the order of changes.
const MAX_WEIGHT: u32 = 65_536;

/// How much of that a node takes.
const WEIGHT_OF_NODE: u32 = 32;

/// What a node, or what is attached to nodes, was before a change.
#[derive(Debug, Clone)]
pub(crate) enum Before {
    /// The node was not there.
    Absent,
    /// The node looked like this.
    Node(Arc<NodeInfo>),
    /// The node was there with these pods.
    Gone(Arc<NodeInfo>, Tenants),
    /// The node had these devices.
    Devices(Option<Arc<NodeDevices>>),
    /// Each pod of a class attached this.
    Attachments(ClassId, Arc<[Attachment]>),
    /// Another change of the same event says it.
    Said,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Past {
    /// By the revision that the change made, which counts up.
    before: VecDeque<(Revision, Before)>,
    weight: u32,
}

/// A copy of the nodes, and what happened since a state that is asked about.
#[derive(Debug)]
pub(crate) struct Rewind {
    pub(crate) nodes: Snapshot,
    /// The newest first.
    changes: Vec<(Happening, Option<Before>)>,
}

/// Why it cannot be told how a state was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unknowable {
    /// Too much has happened since.
    #[error("more has changed since than is remembered")]
    TooLongAgo,
    /// A pod that has left since was of a class that nobody has any more.
    #[error("pods have left since of which it is not remembered what they asked for")]
    ClassForgotten,
    /// Pods were nominated to nodes, too many to be kept with each decision.
    #[error("more pods were nominated to nodes then than are remembered")]
    ManyNominated,
}

// === impl Past ===

impl Past {
    /// A change that makes this revision is about to come.
    pub(crate) fn note(&mut self, revision: Revision, before: Before) {
        self.weight += before.weight();
        self.before.push_back((revision, before));
        while self.weight > MAX_WEIGHT
            && let Some((_, oldest)) = self.before.pop_front()
        {
            self.weight -= oldest.weight();
        }
    }

    /// Nothing before now can be told.
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

// === impl Cache ===

impl Cache {
    /// What it takes to say how the nodes were at a revision. Copies the nodes: some 3 MB for 5,000 of them.
    ///
    /// # Errors
    /// It is too long ago.
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

// === impl Rewind ===

impl Rewind {
    /// How many changes there were since.
    pub(crate) fn len(&self) -> usize {
        self.changes.len()
    }

    /// The nodes as they were.
    ///
    /// # Errors
    /// What has left since is not remembered.
    pub(crate) fn into_nodes(self) -> Result<Snapshot, Unknowable> {
        let Self { mut nodes, changes } = self;
        for (Happening { node, what }, before) in changes {
            match what {
                What::Came(class) => {
                    // A pod that came and went with its node is undone with the node.
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
