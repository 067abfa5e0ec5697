//! Topology domains.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The nodes with this value of a label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TopologyDomain {
    /// The label key.
    pub key: Arc<str>,
    /// The label value.
    pub value: Arc<str>,
    /// The domain of the composite group above, to which the nodes belong too.
    pub outer: Option<Arc<Self>>,
}

impl TopologyDomain {
    /// The domain and the domains around it.
    pub(crate) fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |domain| domain.outer.as_deref())
    }
}
