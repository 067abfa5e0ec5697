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
}
