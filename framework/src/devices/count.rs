//! Counts the devices of a class on a node and the allocated ones, for resource scoring.
//!
//! Source: `calculateDRAResourceTotals`. Upstream also counts slices of any generation and of incomplete pools. It evaluates selectors
//! without `allowMultipleAllocations`, and caches the results forever. Taints, counters and capacities do not affect this score.

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

/// Limit of work for counting on one node, in units of about 10 ns. Only administrators write the selectors of a DeviceClass. A thousand
/// devices that are all evaluated take 600,000 units.
const MAX_WORK: u64 = 1_000_000;

/// Counts devices of a class.
pub struct Counter {
    /// CEL selectors of the class; other types are skipped.
    selectors: Vec<SelectorNumber>,
    verdicts: Mutex<Verdicts>,
}

impl Counter {
    /// Creates a counter for a class.
    #[must_use]
    pub fn of(class: &DeviceClass) -> Self {
        let mut verdicts = Verdicts::new(Arc::new(Cel::default()));
        let expressions = class.selectors.iter().flatten();
        let selectors = expressions.map(|expression| verdicts.selector(expression)).collect();
        Self { selectors, verdicts: Mutex::new(verdicts) }
    }

    /// Devices of the class that a node can reach, and the allocated ones. (0, 0) if a selector fails.
    #[must_use]
    pub fn count(&self, devices: &NodeDevices) -> (i64, i64) {
        // Verdicts are added one by one, so a panic leaves the cache consistent.
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
