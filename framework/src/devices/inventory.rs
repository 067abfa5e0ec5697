//! All slices of the cluster, and which of them can matter for a node.
//!
//! Knows: slices by name, by node and by pool, and numbers for devices. Must not know: what is allocated.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use indexmap::IndexSet;

use super::model::{DeviceName, slice::Slice};

/// The number of a device's name, in columns of what is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber(pub u32);

/// A device as one version of its slice has it. A place is given away again; the serial number tells whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Subject {
    /// The place in columns.
    pub place: u32,
    /// Which of those that had the place; less than 2^30, and not 0.
    pub serial: u32,
}

/// The names of devices, each with a number. Names of slices and of claims are in it, and stay.
///
/// Bound: a device of a name that was never seen before costs about 100 bytes; drivers name devices by their slot or index.
/// After [`Self::MAX`] names further devices are as if they were always in use.
#[derive(Debug, Clone, Default)]
pub struct DeviceNames(IndexSet<DeviceName>);

/// A slice with the numbers of its devices.
#[derive(Debug, Clone)]
pub struct Published {
    /// The slice.
    pub slice: Arc<Slice>,
    /// Its devices, in its order.
    pub devices: Vec<(DeviceNumber, Subject)>,
}

/// The driver, and the name of its pool.
type PoolName = (Arc<str>, Arc<str>);

/// Every slice of the cluster, with the taints of rules.
#[derive(Debug, Default)]
pub struct Inventory {
    names: DeviceNames,
    slices: BTreeMap<Arc<str>, Published>,
    /// The names of slices for one node, by the name of the node; empty: those for several.
    by_node: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    by_pool: BTreeMap<PoolName, BTreeSet<Arc<str>>>,
    /// By place: the serial number that was given last.
    serials: Vec<u32>,
    free: Vec<u32>,
}

// === impl DeviceNames ===

impl DeviceNames {
    /// How many names there may be: at 100 bytes each they are 1.6 GiB.
    pub const MAX: u32 = 1 << 24;

    /// The number of a name, given now if it is new.
    pub fn number(&mut self, name: &DeviceName) -> DeviceNumber {
        let at = match self.0.get_index_of(name) {
            Some(at) => at,
            None if self.0.len() >= Self::MAX as usize => return DeviceNumber(Self::MAX),
            None => self.0.insert_full(name.clone()).0,
        };
        DeviceNumber(u32::try_from(at).unwrap_or(Self::MAX))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

// === impl Inventory ===

impl Inventory {
    /// Takes a slice in the place of the one of its name.
    pub fn apply(&mut self, slice: Arc<Slice>) {
        self.remove(&slice.name);
        let name = Arc::clone(&slice.name);
        self.by_node.entry(node_of(&slice)).or_default().insert(Arc::clone(&name));
        self.by_pool.entry(pool_of(&slice)).or_default().insert(Arc::clone(&name));
        let numbers = slice.devices.iter().map(|device| {
            let (driver, pool) = pool_of(&slice);
            let number = self.names.number(&DeviceName { driver, pool, device: Arc::clone(&device.name) });
            (number, place(&mut self.serials, &mut self.free))
        });
        let devices = numbers.collect();
        self.slices.insert(name, Published { slice, devices });
    }

    /// Drops a slice.
    pub fn remove(&mut self, name: &str) {
        let Some(Published { slice, devices }) = self.slices.remove(name) else { return };
        let (node, pool) = (node_of(&slice), pool_of(&slice));
        if let Some(names) = self.by_node.get_mut(&node) {
            names.remove(name);
            if names.is_empty() {
                self.by_node.remove(&node);
            }
        }
        if let Some(names) = self.by_pool.get_mut(&pool) {
            names.remove(name);
            if names.is_empty() {
                self.by_pool.remove(&pool);
            }
        }
        self.free.extend(devices.iter().map(|(_, subject)| subject.place));
    }

    /// The slice of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Published> {
        self.slices.get(name)
    }

    /// All slices, by name.
    pub fn all(&self) -> impl Iterator<Item = &Published> {
        self.slices.values()
    }

    /// The slices that name a node, by name.
    pub fn of_node(&self, node: &str) -> impl Iterator<Item = &Published> {
        let named = if node.is_empty() { None } else { self.by_node.get(node) };
        named.into_iter().flatten().filter_map(|name| self.slices.get(name))
    }

    /// The slices that name no node, by name.
    pub fn of_no_node(&self) -> impl Iterator<Item = &Published> {
        self.by_node.get("").into_iter().flatten().filter_map(|name| self.slices.get(name))
    }

    /// The slices of a pool, of all generations, by name.
    pub fn of_pool(&self, driver: &Arc<str>, pool: &Arc<str>) -> impl Iterator<Item = &Published> {
        let named = self.by_pool.get(&(Arc::clone(driver), Arc::clone(pool)));
        named.into_iter().flatten().filter_map(|name| self.slices.get(name))
    }

    /// The names of devices.
    pub const fn names(&mut self) -> &mut DeviceNames {
        &mut self.names
    }
}

fn node_of(slice: &Slice) -> Arc<str> {
    slice.nodes.name.clone().unwrap_or_default()
}

fn pool_of(slice: &Slice) -> PoolName {
    (Arc::clone(&slice.driver), Arc::clone(&slice.pool))
}

/// A place that no device has.
fn place(serials: &mut Vec<u32>, free: &mut Vec<u32>) -> Subject {
    let place = free.pop().unwrap_or_else(|| {
        serials.push(0);
        u32::try_from(serials.len() - 1).unwrap_or(u32::MAX)
    });
    let serial = &mut serials[place as usize];
    // A place that was given away 2^30 times starts anew; by then no verdict on its first devices is left to be mistaken.
    *serial = if *serial >= (1 << 30) - 1 { 1 } else { *serial + 1 };
    Subject { place, serial: *serial }
}
