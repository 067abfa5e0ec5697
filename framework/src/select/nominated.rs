//! Nominations that affect a pod.

use crate::{class::ClassId, node::NodeId, prepared::Order, snapshot::Stamp, status::Refusal};

/// The nominations that affect one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nominations {
    /// Nodes, in ascending order, with the classes of other pods nominated to them, of the pod's priority or higher; a class once for each
    /// pod.
    pub beside: Vec<(NodeId, Vec<ClassId>)>,
    /// The pod's own nominated node.
    pub own: Option<NodeId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Changed {
    /// The result without them; `None` if feasible.
    pub(super) before: Option<(Order, Refusal)>,
    pub(super) after: (Order, Refusal),
}

/// The results of a nominated node, for the next pods of the class.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) node: NodeId,
    pub(super) classes: Vec<ClassId>,
    /// The stamp of the node at that time.
    pub(super) stamp: Stamp,
    pub(super) before: Option<(Order, Refusal)>,
    pub(super) after: Option<(Order, Refusal)>,
}

impl Nominations {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.beside.is_empty() && self.own.is_none()
    }

    /// The classes of the other pods nominated to a node.
    #[must_use]
    pub fn beside(&self, node: NodeId) -> &[ClassId] {
        let at = self.beside.binary_search_by_key(&node, |(known, _)| *known);
        at.map_or(&[], |at| &self.beside[at].1)
    }
}
