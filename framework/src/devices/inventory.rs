//! All slices of the cluster by name, node and pool, with numbers for their devices.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use indexmap::IndexSet;

use super::model::{DeviceName, slice::Slice};

/// Number of a device's name, the index in columns of allocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber(pub u32);

/// A device of one version of its slice. Places are reused; the serial number distinguishes their users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Subject {
    /// Index in columns.
    pub place: u32,
    /// Generation of the place, from 1 to 2^30 - 1.
    pub serial: u32,
}

/// Numbers of device names, from slices and claims. Names are never removed.
///
/// Bound: a new name takes about 100 bytes; drivers name devices by slot or index. Above [`Self::MAX`] names, further devices count as
/// always in use.
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

type PoolName = (Arc<str>, Arc<str>);

/// All slices of the cluster, including the taints of rules.
#[derive(Debug, Default)]
pub struct Inventory {
    names: DeviceNames,
    slices: BTreeMap<Arc<str>, Published>,
    /// Slice names by node name; the empty key holds slices without a node.
    by_node: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    by_pool: BTreeMap<PoolName, BTreeSet<Arc<str>>>,
    /// By place: the last serial number.
    serials: Vec<u32>,
    free: Vec<u32>,
}

impl DeviceNames {
    /// Maximum number of names: 1.6 GiB at 100 bytes each.
    pub const MAX: u32 = 1 << 24;

    /// Number of a name; new names get the next one.
    pub fn number(&mut self, name: &DeviceName) -> DeviceNumber {
        let at = match self.0.get_index_of(name) {
            Some(at) => at,
            None if self.0.len() >= Self::MAX as usize => return DeviceNumber(Self::MAX),
            None => self.0.insert_full(name.clone()).0,
        };
        DeviceNumber(u32::try_from(at).unwrap_or(Self::MAX))
    }

    /// Number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Inventory {
    /// Adds or replaces a slice.
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

    /// Removes a slice.
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

    /// The slice with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Published> {
        self.slices.get(name)
    }

    /// All slices, by name.
    pub fn all(&self) -> impl Iterator<Item = &Published> {
        self.slices.values()
    }

    /// Slices for this node, by name.
    pub fn of_node(&self, node: &str) -> impl Iterator<Item = &Published> {
        let named = if node.is_empty() { None } else { self.by_node.get(node) };
        named.into_iter().flatten().filter_map(|name| self.slices.get(name))
    }

    /// Slices without a node name, by name.
    pub fn of_no_node(&self) -> impl Iterator<Item = &Published> {
        self.by_node.get("").into_iter().flatten().filter_map(|name| self.slices.get(name))
    }

    /// Slices of a pool, of all generations, by name.
    pub fn of_pool(&self, driver: &Arc<str>, pool: &Arc<str>) -> impl Iterator<Item = &Published> {
        let named = self.by_pool.get(&(Arc::clone(driver), Arc::clone(pool)));
        named.into_iter().flatten().filter_map(|name| self.slices.get(name))
    }

    /// Names of devices.
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

fn place(serials: &mut Vec<u32>, free: &mut Vec<u32>) -> Subject {
    let place = free.pop().unwrap_or_else(|| {
        serials.push(0);
        u32::try_from(serials.len() - 1).unwrap_or(u32::MAX)
    });
    let serial = &mut serials[place as usize];
    // Serial numbers restart after 2^30 uses. By then no verdict on the first device of this place remains.
    *serial = if *serial >= (1 << 30) - 1 { 1 } else { *serial + 1 };
    Subject { place, serial: *serial }
}
