//! Nominations that affect a pod.

use smallvec::SmallVec;

use crate::{class::ClassId, node::NodeId, prepared::Order, snapshot::Stamp, status::Refusal};

/// The classes of the pods nominated to a node, a class once for each pod; rarely more than one.
pub type NominatedClasses = SmallVec<[ClassId; 2]>;

/// The nominations that affect one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nominations {
    /// Nodes in ascending order, each once.
    beside: Vec<(NodeId, NominatedClasses)>,
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
    pub(super) classes: NominatedClasses,
    /// The stamp of the node at that time.
    pub(super) stamp: Stamp,
    pub(super) before: Option<(Order, Refusal)>,
    pub(super) after: Option<(Order, Refusal)>,
}

impl Nominations {
    /// `beside` are the other nominated pods of the pod's priority or higher, in any order: node and class.
    #[must_use]
    pub fn new(own: Option<NodeId>, beside: impl IntoIterator<Item = (NodeId, ClassId)>) -> Self {
        let mut pods: Vec<(NodeId, ClassId)> = beside.into_iter().collect();
        pods.sort_by_key(|(node, _)| *node);
        let nodes = pods.chunk_by(|(one, _), (other, _)| one == other);
        Self { beside: nodes.map(|pods| (pods[0].0, pods.iter().map(|(_, class)| *class).collect())).collect(), own }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.beside.is_empty() && self.own.is_none()
    }

    /// Nodes in ascending order, with the classes of the other pods nominated to them; a class once for each pod.
    #[must_use]
    pub fn nodes(&self) -> &[(NodeId, NominatedClasses)] {
        &self.beside
    }

    /// The classes of the other pods nominated to a node.
    #[must_use]
    pub fn beside(&self, node: NodeId) -> &[ClassId] {
        let at = self.beside.binary_search_by_key(&node, |(known, _)| *known);
        at.map_or(&[], |at| &self.beside[at].1)
    }
}
