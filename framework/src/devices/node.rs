//! What a node can reach of devices, and what of it is allocated.
//!
//! Knows: devices by numbers of the node's own, so that nodes with few devices take little. Must not know: claims, or which
//! other nodes reach the same devices.

use std::sync::Arc;

use super::{allocated::Allocated, inventory::DeviceNumber, pools::NodePools};

/// The devices of a node. Two are equal where they are of one making and the same is allocated.
#[derive(Debug, Clone, Default)]
pub struct NodeDevices {
    /// What the node can reach, devices by their numbers in `allocated`.
    pub pools: Arc<NodePools>,
    /// What of it is allocated.
    pub allocated: Allocated,
}

/// What a node can reach, with the numbers that its devices have elsewhere.
#[derive(Debug, Clone)]
pub struct LocalPools {
    pools: Arc<NodePools>,
    /// By the number of a device here.
    numbers: Vec<DeviceNumber>,
}

// === impl LocalPools ===

impl LocalPools {
    /// Gives the devices numbers of the node's own.
    #[must_use]
    pub fn of(mut pools: NodePools) -> Self {
        let numbers = pools.renumber();
        Self { pools: Arc::new(pools), numbers }
    }

    /// Whether there is nothing to reach, and nothing wrong either.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pools.pools.is_empty() && self.pools.error.is_none()
    }

    /// The pools by driver and name.
    pub fn pools(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.pools.pools.iter().map(|pool| (&pool.driver, &pool.name))
    }

    /// The devices with what is allocated of them.
    #[must_use]
    pub fn with(&self, allocated: &Allocated) -> NodeDevices {
        NodeDevices { pools: Arc::clone(&self.pools), allocated: allocated.of(&self.numbers) }
    }
}

// === impl NodeDevices ===

impl PartialEq for NodeDevices {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.pools, &other.pools) && self.allocated == other.allocated
    }
}

impl Eq for NodeDevices {}
