//! Pools that a node can reach, prepared for the search. Source: `structured/internal/incubating/pools_incubating.go`.

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

/// Pools of a node.
#[derive(Debug, Clone, Default)]
pub struct NodePools {
    /// Sorted by driver and name; pools with binding conditions are last.
    pub(super) pools: Vec<Pool>,
    /// Devices of all pools, in search order.
    pub(super) devices: Vec<Candidate>,
    pub(super) slices: Vec<Arc<Slice>>,
    /// Slices of pools that cannot be used now, with the devices for this node if each device selects its nodes. Claims may have devices of
    /// them.
    pub(super) unused: Vec<(Arc<Slice>, Option<Vec<bool>>)>,
    /// Why the pools cannot be computed. No claim can be allocated then.
    pub(super) error: Option<String>,
}

#[derive(Debug, Clone)]
pub(super) struct Pool {
    pub(super) driver: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) state: PoolState,
    /// Range of its devices in [`NodePools::devices`].
    pub(super) first: u32,
    pub(super) end: u32,
    pub(super) counters: Counters,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PoolState {
    Complete,
    Incomplete,
    Invalid,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Counters {
    /// Totals in nano.
    pub(super) values: Vec<i128>,
    /// All devices of the pool that consume counters, including devices for other nodes.
    pub(super) consumers: Vec<Consumer>,
    /// Counter and consumption in nano; the entries of a consumer are adjacent.
    pub(super) consumed: Vec<(u32, i128)>,
    /// Compatibility groups, if a consumer has any: its index in `consumers`, a counter set that it uses, and its groups there. Sorted by
    /// index.
    pub(super) groups: Vec<(u32, Arc<str>, Vec<Arc<str>>)>,
}

/// A device that consumes counters, and its range in [`Counters::consumed`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Consumer {
    pub(super) device: DeviceNumber,
    pub(super) first: u32,
    pub(super) end: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) number: DeviceNumber,
    pub(super) subject: Subject,
    /// Index in [`NodePools::slices`].
    pub(super) slice: u32,
    pub(super) index: u32,
    pub(super) pool: u32,
    /// Index in [`Counters::consumers`] of its pool; `u32::MAX` if it consumes no counters.
    pub(super) consumer: u32,
    /// Whether it is for this node. Other devices of its slice may be for other nodes.
    pub(super) is_here: bool,
    pub(super) is_shareable: bool,
    /// Whether feature gates and the node allow its allocation.
    pub(super) is_allocatable: bool,
    pub(super) is_tainted: bool,
    pub(super) has_capacity: bool,
}

impl NodePools {
    /// Number of devices that the search may try.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.devices.len()
    }

    /// Whether there are no devices.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// Numbers of the devices that the search may try, and of all devices that consume their counters.
    pub fn numbers(&self) -> impl Iterator<Item = DeviceNumber> {
        let consumers =
            self.pools.iter().flat_map(|pool| pool.counters.consumers.iter().map(|consumer| consumer.device));
        self.devices.iter().map(|device| device.number).chain(consumers)
    }

    /// Renumbers the devices from 0, and returns their previous numbers.
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

    pub(super) fn has_invalid(&self) -> bool {
        self.pools.iter().any(|pool| pool.state == PoolState::Invalid)
    }

    pub(super) fn device(&self, candidate: &Candidate) -> (&Device, &Arc<Slice>, &Pool) {
        let slice = &self.slices[candidate.slice as usize];
        (&slice.devices[candidate.index as usize], slice, &self.pools[candidate.pool as usize])
    }

    /// The device of this name that the node can use. Source: `getDeviceFromSlices`.
    pub(super) fn find(&self, name: &DeviceName) -> Option<&Device> {
        let is_of_pool = |slice: &Slice| slice.driver == name.driver && slice.pool == name.pool;
        let index = |slice: &Slice| slice.devices.iter().position(|device| device.name == name.device);
        for (at, slice) in self.slices.iter().enumerate().filter(|(_, slice)| is_of_pool(slice)) {
            let Some(index) = index(slice) else { continue };
            let is_it = |it: &&Candidate| (it.slice as usize, it.index as usize) == (at, index);
            return self.devices.iter().find(is_it).filter(|it| it.is_here).map(|_| &slice.devices[index]);
        }
        for (slice, here) in self.unused.iter().filter(|(slice, _)| is_of_pool(slice)) {
            let Some(index) = index(slice) else { continue };
            let is_here = here.as_ref().is_none_or(|here| here.get(index) == Some(&true));
            return is_here.then(|| &slice.devices[index]);
        }
        None
    }

    pub(super) fn name(&self, candidate: &Candidate) -> DeviceName {
        let (device, _, pool) = self.device(candidate);
        DeviceName { driver: Arc::clone(&pool.driver), pool: Arc::clone(&pool.name), device: Arc::clone(&device.name) }
    }
}
