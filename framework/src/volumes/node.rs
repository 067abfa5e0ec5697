//! What a node's drivers say of it.
//!
//! Knows: limits, plugins that drivers stand for, and what is attached. Must not know: pods.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What the CSINode of a node says, and the VolumeAttachments that name the node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeCsi {
    /// The drivers on the node, and how many volumes each can attach; `None` where it names no limit. In its order.
    pub drivers: Vec<(Arc<str>, Option<i32>)>,
    /// The plugins that drivers stand for on this node, sorted.
    pub migrated_plugins: Vec<Arc<str>>,
    /// What VolumeAttachments have attached, sorted, each once.
    pub attached: Vec<Attachment>,
}

/// A volume that is attached to a node, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Attachment {
    /// The driver.
    pub driver: Arc<str>,
    /// The driver's handle for the volume. A volume that is yet to be made has one that no driver gives.
    pub handle: Arc<str>,
}

// === impl NodeCsi ===

impl NodeCsi {
    /// How many volumes of a driver the node takes; `None` where there is no limit.
    #[must_use]
    pub fn limit(&self, driver: &str) -> Option<i32> {
        self.drivers.iter().rev().find_map(|(name, limit)| limit.filter(|_| **name == *driver))
    }

    /// Whether a driver is on the node.
    #[must_use]
    pub fn has(&self, driver: &str) -> bool {
        self.drivers.iter().any(|(name, _)| **name == *driver)
    }
}
