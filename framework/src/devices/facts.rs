//! What the claims of a class come to, the same for every node.
//!
//! Knows: which claims are allocated, and what the others ask for. Must not know: nodes, or whose claims they are.

use std::sync::Arc;

use super::{
    model::{claim::DeviceClaim, class::DeviceClass, request::ClaimSpec},
    special::{Extended, Served, UNNAMED},
};
use crate::class::NodeTerm;

/// What PreFilter makes of the claims.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DeviceFacts {
    /// No node will do; the reason.
    Refuse(Arc<str>),
    /// The claims cannot be judged; the error.
    Fail(Arc<str>),
    /// Each node is asked.
    Claims(Arc<Claims>),
}

/// The claims.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Claims {
    /// In the pod's order.
    pub claims: Vec<ClaimFact>,
    /// The classes that the claims which are not allocated name, each once, by name.
    pub classes: Vec<Arc<DeviceClass>>,
    /// The extended resources that may come from devices, where there are any.
    pub extended: Option<Arc<Extended>>,
    /// The pods' namespace, where there are such resources.
    pub namespace: Arc<str>,
}

/// What is known of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClaimFact {
    /// It is allocated.
    Allocated {
        /// The nodes that reach its devices; `None`: all.
        nodes: Option<Vec<NodeTerm>>,
        /// Whether its devices will not get ready.
        has_failed: bool,
        /// What the alternatives that were taken add to a node's score.
        score: i64,
    },
    /// Devices have to be found.
    Unallocated {
        /// What errors name it by.
        label: Arc<str>,
        /// What it asks for.
        spec: Arc<ClaimSpec>,
    },
}

/// Around the place of a claim whose class does not know its name: who speaks of a pod puts the name in.
pub const NAMELESS: char = '\u{1}';

/// What a nameless claim is called, by its place among the pod's.
#[must_use]
pub fn nameless(place: usize) -> String {
    format!("{NAMELESS}{place}{NAMELESS}")
}

// === impl Claims ===

impl Claims {
    /// The class of a name.
    #[must_use]
    pub fn class(&self, name: &str) -> Option<Arc<DeviceClass>> {
        let known = self.classes.iter().find(|class| &*class.name == name);
        known.or_else(|| self.behind().find(|class| &*class.name == name)).cloned()
    }

    /// The classes behind extended resources.
    fn behind(&self) -> impl Iterator<Item = &Arc<DeviceClass>> {
        self.extended.iter().flat_map(|extended| &extended.resources).filter_map(|(_, class)| class.as_ref())
    }

    /// The claims that devices have to be found for, as the search takes them, with their places: last that for the extended
    /// resources which come from devices.
    #[must_use]
    pub fn unallocated(&self, served: Served) -> Vec<DeviceClaim> {
        let unallocated = self.claims.iter().filter_map(|claim| match claim {
            // A name without a namespace is told as it is.
            ClaimFact::Unallocated { label, spec } => {
                Some(DeviceClaim { name: Arc::clone(label), spec: Arc::clone(spec), ..DeviceClaim::default() })
            }
            ClaimFact::Allocated { .. } => None,
        });
        let special = self.extended.as_ref().and_then(|extended| extended.claimed(served));
        let special = special.map(|(spec, _)| DeviceClaim {
            namespace: Arc::clone(&self.namespace),
            name: UNNAMED.into(),
            spec,
            ..DeviceClaim::default()
        });
        unallocated.chain(special).collect()
    }
}

// === impl DeviceFacts ===

impl DeviceFacts {
    /// About how many bytes it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Refuse(text) | Self::Fail(text) => text.len(),
            // What claims ask for is shared with the claims.
            Self::Claims(claims) => size_of::<Claims>() + claims.claims.len() * size_of::<ClaimFact>(),
        }
    }
}
