//! How many devices of a class a node has, and how many of them are allocated: what scores by resources look at.
//!
//! Knows: the selectors of a class. Must not know: taints, counters and capacities, which this score leaves out of account.
//!
//! Source: `calculateDRAResourceTotals`, which counts slices of any generation and of incomplete pools as well, asks selectors
//! without `allowMultipleAllocations`, and keeps what they have said for ever.

#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use super::{
    language::Cel,
    model::class::DeviceClass,
    node::NodeDevices,
    selectors::{SelectorNumber, Verdicts},
    work::Work,
};

/// The work of counting the devices of one node, in units of some 10 ns. The selectors are those of a DeviceClass, which only an
/// administrator writes: a thousand devices that are all evaluated take 600,000.
const MAX_WORK: u64 = 1_000_000;

/// Counts the devices of a class.
pub struct Counter {
    /// Those of the class; a selector of another type than CEL is passed over.
    selectors: Vec<SelectorNumber>,
    verdicts: Mutex<Verdicts>,
}

impl Counter {
    /// Of this class.
    #[must_use]
    pub fn of(class: &DeviceClass) -> Self {
        let mut verdicts = Verdicts::new(Arc::new(Cel::default()));
        let expressions = class.selectors.iter().flatten();
        let selectors = expressions.map(|expression| verdicts.selector(expression)).collect();
        Self { selectors, verdicts: Mutex::new(verdicts) }
    }

    /// How many devices of the class a node can reach, and how many of these are allocated. None where it cannot be told.
    #[must_use]
    pub fn count(&self, devices: &NodeDevices) -> (i64, i64) {
        // What a panic has left is whole: verdicts are added one by one.
        let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        verdicts.replace_work(Work::of(MAX_WORK));
        let (mut all, mut allocated) = (0, 0);
        for candidate in devices.pools.devices.iter().filter(|candidate| candidate.is_here) {
            let (device, slice, _) = devices.pools.device(candidate);
            let mut is_of_class = true;
            for selector in &self.selectors {
                match verdicts.matches(*selector, candidate.subject, &slice.driver, device) {
                    Ok(is_matched) => is_of_class &= is_matched,
                    Err(_) => return (0, 0),
                }
                if !is_of_class {
                    break;
                }
            }
            all += i64::from(is_of_class);
            allocated += i64::from(is_of_class && devices.allocated.is_any(candidate.number));
        }
        (all, allocated)
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.debug_struct("Counter").field("selectors", &self.selectors).finish_non_exhaustive()
    }
}
