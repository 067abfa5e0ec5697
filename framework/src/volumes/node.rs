//! CSI data of a node.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Data from a node's CSINode and VolumeAttachments.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeCsi {
    /// Drivers with their attach limits, in order; `None`: no limit.
    pub drivers: Vec<(Arc<str>, Option<i32>)>,
    /// Plugins with CSI migration on this node, sorted.
    pub migrated_plugins: Vec<Arc<str>>,
    /// Volumes in VolumeAttachments, sorted and unique.
    pub attached: Vec<Attachment>,
}

/// A volume on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Attachment {
    /// The driver.
    pub driver: Arc<str>,
    /// The driver's volume handle. Volumes before provisioning have a placeholder that no driver uses.
    pub handle: Arc<str>,
}

impl NodeCsi {
    /// Attach limit of a driver; `None`: no limit.
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
