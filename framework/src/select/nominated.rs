//! Nominations that concern a pod, and what they change on a node.
//!
//! Must not know: priorities, or who nominates.

use crate::{class::ClassId, node::NodeId, prepared::Order, status::Refusal};

/// The nominations that concern one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nominations {
    /// Nodes with the classes of the pods nominated to them that the pod has to give way to: other pods, of its priority
    /// or a higher one. A node at most once; a class as often as there are pods of it.
    pub beside: Vec<(NodeId, Vec<ClassId>)>,
    /// The node that the pod itself is nominated to.
    pub own: Option<NodeId>,
}

/// A node whose verdict is another one because of nominations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Changed {
    /// The verdict without them; `None`: it would do.
    pub(super) before: Option<(Order, Refusal)>,
    pub(super) after: (Order, Refusal),
}

// === impl Nominations ===

impl Nominations {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.beside.is_empty() && self.own.is_none()
    }

    /// The classes of the pods that it has to give way to on a node.
    #[must_use]
    pub fn beside(&self, node: NodeId) -> &[ClassId] {
        self.beside.iter().find(|(known, _)| *known == node).map_or(&[], |(_, classes)| classes)
    }
}
