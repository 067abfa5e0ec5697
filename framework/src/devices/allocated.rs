//! Allocated devices, in columns by device number.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::{
    amount::Amount,
    inventory::{DeviceNames, DeviceNumber},
    model::allocation::DeviceResult,
};
use crate::map::Map;

/// Devices allocated by claims, including assumed allocations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allocated {
    /// Number of claims with exclusive use of the device. It exceeds one only briefly, or if another scheduler allocated the device.
    whole: Vec<u32>,
    shared: Map<DeviceNumber, Shared>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Shared {
    shares: u32,
    /// By name, in nano.
    consumed: Vec<(Arc<str>, i128)>,
}

const NONE: &[(Arc<str>, i128)] = &[];

impl Allocated {
    /// Adds the devices of an allocation.
    pub fn add(&mut self, results: &[DeviceResult], names: &mut DeviceNames) {
        for result in results {
            self.count(result, names, true);
        }
    }

    /// Removes the devices of an allocation.
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

    /// The state of these devices only, renumbered by their position.
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

    /// Whether a claim has exclusive use of the device.
    #[must_use]
    pub fn is_whole(&self, number: DeviceNumber) -> bool {
        number.0 >= DeviceNames::MAX || self.whole.get(number.0 as usize).is_some_and(|count| *count > 0)
    }

    /// Whether claims share the device.
    #[must_use]
    pub fn is_shared(&self, number: DeviceNumber) -> bool {
        !self.shared.is_empty() && self.shared.contains_key(&number)
    }

    /// Whether the device is allocated exclusively or shared.
    #[must_use]
    pub fn is_any(&self, number: DeviceNumber) -> bool {
        self.is_whole(number) || self.is_shared(number)
    }

    /// Consumed capacities in nano.
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
