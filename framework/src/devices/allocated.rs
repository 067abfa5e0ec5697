//! Which devices are allocated, in columns by the number of the device.
//!
//! Knows: devices that one claim has, devices that several have a share of, and how much of their capacity is consumed. Must
//! not know: which claim has a device, or where the device is.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::{
    amount::Amount,
    inventory::{DeviceNames, DeviceNumber},
    model::allocation::DeviceResult,
};
use crate::map::Map;

/// The devices that are allocated, by claims and by pods on their way to a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allocated {
    /// How many claims have the device for themselves: one, but for a short time or where somebody else has allocated.
    whole: Vec<u32>,
    shared: Map<DeviceNumber, Shared>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Shared {
    shares: u32,
    /// By name, in nano.
    consumed: Vec<(Arc<str>, i128)>,
}

/// Nothing of it is consumed.
const NONE: &[(Arc<str>, i128)] = &[];

// === impl Allocated ===

impl Allocated {
    /// Counts the devices of an allocation.
    pub fn add(&mut self, results: &[DeviceResult], names: &mut DeviceNames) {
        for result in results {
            self.count(result, names, true);
        }
    }

    /// Takes the devices of an allocation back.
    pub fn remove(&mut self, results: &[DeviceResult], names: &mut DeviceNames) {
        for result in results {
            self.count(result, names, false);
        }
    }

    /// Source: `foreachAllocatedDevice` of the plugin.
    fn count(&mut self, result: &DeviceResult, names: &mut DeviceNames, is_added: bool) {
        if result.admin_access == Some(true) {
            return;
        }
        let number = names.number(&result.device);
        if result.share.is_some() {
            self.count_share(number, result.consumed.as_deref(), is_added);
        } else {
            self.count_whole(number, is_added);
        }
    }

    fn count_whole(&mut self, number: DeviceNumber, is_added: bool) {
        let at = number.0 as usize;
        if self.whole.len() <= at {
            self.whole.resize(at + 1, 0);
        }
        step(&mut self.whole[at], is_added);
    }

    fn count_share(&mut self, number: DeviceNumber, consumed: Option<&[(Arc<str>, Amount)]>, is_added: bool) {
        let shared = self.shared.entry(number).or_default();
        step(&mut shared.shares, is_added);
        if let Some(consumed) = consumed {
            for (name, amount) in consumed {
                let signed = if is_added { amount.nano() } else { -amount.nano() };
                match shared.consumed.iter_mut().find(|(known, _)| known == name) {
                    Some((_, sum)) => *sum = sum.saturating_add(signed),
                    None => shared.consumed.push((Arc::clone(name), signed)),
                }
            }
        }
        if shared.shares == 0 {
            self.shared.swap_remove(&number);
        }
    }

    /// The same of some devices, each by its place among them.
    #[must_use]
    pub fn of(&self, numbers: &[DeviceNumber]) -> Self {
        let whole = numbers.iter().map(|&number| u32::from(self.is_whole(number))).collect();
        let mut shared = Map::default();
        if !self.shared.is_empty() {
            let known = (0..).zip(numbers).filter_map(|(place, number)| Some((place, self.shared.get(number)?)));
            shared.extend(known.map(|(place, known)| (DeviceNumber(place), known.clone())));
        }
        Self { whole, shared }
    }

    /// Whether a claim has the device for itself.
    #[must_use]
    pub fn is_whole(&self, number: DeviceNumber) -> bool {
        number.0 >= DeviceNames::MAX || self.whole.get(number.0 as usize).is_some_and(|count| *count > 0)
    }

    /// Whether claims have shares of the device.
    #[must_use]
    pub fn is_shared(&self, number: DeviceNumber) -> bool {
        !self.shared.is_empty() && self.shared.contains_key(&number)
    }

    /// Whether the device is allocated in any way.
    #[must_use]
    pub fn is_any(&self, number: DeviceNumber) -> bool {
        self.is_whole(number) || self.is_shared(number)
    }

    /// How much of its capacity is consumed, in nano.
    #[must_use]
    pub fn consumed(&self, number: DeviceNumber) -> &[(Arc<str>, i128)] {
        if self.shared.is_empty() {
            return NONE;
        }
        self.shared.get(&number).map_or(NONE, |shared| &shared.consumed)
    }
}

const fn step(count: &mut u32, is_added: bool) {
    *count = if is_added { count.saturating_add(1) } else { count.saturating_sub(1) };
}
