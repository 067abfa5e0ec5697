//! Devices that a node can reach, and their allocations. Numbers are local to the node, so that nodes with few devices take little memory.

use std::sync::Arc;

use super::{allocated::Allocated, inventory::DeviceNumber, pools::NodePools};

/// Devices of a node. Two are equal if they share the same pools and have equal allocations.
#[derive(Debug, Clone, Default)]
pub struct NodeDevices {
    /// Pools that the node can reach, with local device numbers.
    pub pools: Arc<NodePools>,
    /// Allocations of these devices.
    pub allocated: Allocated,
}

/// Pools that a node can reach, with the cluster-wide numbers of their devices.
#[derive(Debug, Clone)]
pub struct LocalPools {
    pools: Arc<NodePools>,
    /// By local number.
    numbers: Vec<DeviceNumber>,
}

impl LocalPools {
    /// Assigns local numbers to the devices.
    #[must_use]
    pub fn of(mut pools: NodePools) -> Self {
        let numbers = pools.renumber();
        Self { pools: Arc::new(pools), numbers }
    }

    /// Whether there are no pools, and no errors.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pools.pools.is_empty() && self.pools.error.is_none()
    }

    /// Driver and name of each pool.
    pub fn pools(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.pools.pools.iter().map(|pool| (&pool.driver, &pool.name))
    }

    /// Adds the allocations of these devices.
    #[must_use]
    pub fn with(&self, allocated: &Allocated) -> NodeDevices {
        NodeDevices { pools: Arc::clone(&self.pools), allocated: allocated.of(&self.numbers) }
    }
}

impl PartialEq for NodeDevices {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.pools, &other.pools) && self.allocated == other.allocated
    }
}

impl Eq for NodeDevices {}
