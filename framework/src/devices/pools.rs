//! The pools that a node can reach, ready to be searched.
//!
//! Knows: which slices are relevant for a node, generations, what makes a pool incomplete or invalid, and in which order
//! devices are tried. Must not know: what is allocated, or who asks.
//!
//! Source: `structured/internal/incubating/pools_incubating.go`.

mod build;
mod gather;

use std::sync::Arc;

use super::{
    inventory::{DeviceNumber, Subject},
    model::{
        DeviceName,
        slice::{Device, Slice},
    },
};

pub(super) use gather::may_reach;

/// What a node can reach.
#[derive(Debug, Clone, Default)]
pub struct NodePools {
    /// By driver and name; those with binding conditions after all others.
    pub(super) pools: Vec<Pool>,
    /// The devices of all pools, in the order in which they are tried.
    pub(super) devices: Vec<Candidate>,
    pub(super) slices: Vec<Arc<Slice>>,
    /// Why the pools of the node cannot be told; no claim can be allocated then.
    pub(super) error: Option<String>,
}

/// A pool as a node sees it.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    pub(super) driver: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) state: PoolState,
    /// Its first device in [`NodePools::devices`], and the one after its last.
    pub(super) first: u32,
    pub(super) end: u32,
    pub(super) counters: Counters,
}

/// Whether devices of a pool can be allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PoolState {
    Complete,
    Incomplete,
    Invalid,
}

/// The shared counters of a pool.
#[derive(Debug, Clone, Default)]
pub(super) struct Counters {
    /// What there is of each, in nano.
    pub(super) values: Vec<i128>,
    /// Every device of the pool that consumes some, also those that are not for the node.
    pub(super) consumers: Vec<Consumer>,
    /// Which counter, and how much of it in nano: those of a consumer side by side.
    pub(super) consumed: Vec<(u32, i128)>,
}

/// A device that consumes counters, and where its part of [`Counters::consumed`] is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Consumer {
    pub(super) device: DeviceNumber,
    pub(super) first: u32,
    pub(super) end: u32,
}

/// A device that the search may try.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) number: DeviceNumber,
    pub(super) subject: Subject,
    /// In [`NodePools::slices`].
    pub(super) slice: u32,
    /// In the slice.
    pub(super) index: u32,
    pub(super) pool: u32,
    /// In [`Counters::consumers`] of its pool; `u32::MAX` where it consumes no counters.
    pub(super) consumer: u32,
    /// Whether it is for this node; other devices of its slice may be for others.
    pub(super) is_here: bool,
    pub(super) is_shareable: bool,
    pub(super) is_tainted: bool,
    pub(super) has_capacity: bool,
}

impl NodePools {
    /// How many devices the search may try.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.devices.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// The numbers of the devices that the search may try, and of those whose allocation takes counters away from them.
    pub fn numbers(&self) -> impl Iterator<Item = DeviceNumber> {
        let consumers =
            self.pools.iter().flat_map(|pool| pool.counters.consumers.iter().map(|consumer| consumer.device));
        self.devices.iter().map(|device| device.number).chain(consumers)
    }

    /// Numbers the devices anew, from 0, and gives the numbers that they had.
    pub(super) fn renumber(&mut self) -> Vec<DeviceNumber> {
        let mut numbers: Vec<DeviceNumber> = self.numbers().collect();
        numbers.sort_unstable();
        numbers.dedup();
        let place = |number: &mut DeviceNumber| {
            let at = numbers.binary_search(number).unwrap_or_default();
            *number = DeviceNumber(u32::try_from(at).unwrap_or(u32::MAX));
        };
        self.devices.iter_mut().for_each(|device| place(&mut device.number));
        let consumers = self.pools.iter_mut().flat_map(|pool| &mut pool.counters.consumers);
        consumers.for_each(|consumer| place(&mut consumer.device));
        numbers
    }

    /// Whether a pool is at fault.
    pub(super) fn has_invalid(&self) -> bool {
        self.pools.iter().any(|pool| pool.state == PoolState::Invalid)
    }

    /// A device, its slice and its pool.
    pub(super) fn device(&self, candidate: &Candidate) -> (&Device, &Arc<Slice>, &Pool) {
        let slice = &self.slices[candidate.slice as usize];
        (&slice.devices[candidate.index as usize], slice, &self.pools[candidate.pool as usize])
    }

    pub(super) fn name(&self, candidate: &Candidate) -> DeviceName {
        let (device, _, pool) = self.device(candidate);
        DeviceName { driver: Arc::clone(&pool.driver), pool: Arc::clone(&pool.name), device: Arc::clone(&device.name) }
    }
}
