//! The devices of nodes.

use std::sync::Arc;

use super::{Slot, Snapshot};
use crate::{devices::node::NodeDevices, node::NodeId};

impl Snapshot {
    /// The devices that the node can reach, and their allocation.
    #[must_use]
    pub fn devices(&self, slot: Slot) -> Option<&NodeDevices> {
        self.devices[slot as usize].as_deref()
    }

    /// Sets the devices of a known node, or their allocation.
    pub fn set_devices(&mut self, id: NodeId, devices: Option<Arc<NodeDevices>>) {
        if let Some(&slot) = self.slots.get(&id) {
            self.devices[slot as usize] = devices;
            self.touch(slot);
        }
    }
}
