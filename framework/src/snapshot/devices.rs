//! The devices of nodes.
//!
//! Knows: where they are kept. Must not know: what a device is.

use std::sync::Arc;

use super::{Slot, Snapshot};
use crate::{devices::node::NodeDevices, node::NodeId};

impl Snapshot {
    /// What the node can reach of devices, and what of it is allocated.
    #[must_use]
    pub fn devices(&self, slot: Slot) -> Option<&NodeDevices> {
        self.devices[slot as usize].as_deref()
    }

    /// What a known node can reach of devices is another thing now, or other devices of it are allocated.
    pub fn set_devices(&mut self, id: NodeId, devices: Option<Arc<NodeDevices>>) {
        if let Some(&slot) = self.slots.get(&id) {
            self.devices[slot as usize] = devices;
            self.touch(slot);
        }
    }
}
