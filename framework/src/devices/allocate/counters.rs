//! Shared counters of a pool during a search. Source: `checkAvailableCounters`.

use crate::devices::{allocated::Allocated, pools::Counters};

/// Remaining counters of a pool, computed when first needed.
#[derive(Debug, Default)]
pub(super) struct PoolCounters {
    is_known: bool,
    /// By counter, in nano: the total minus allocations and picks of this attempt. It can be negative.
    left: Vec<i128>,
}

impl PoolCounters {
    pub(super) fn forget(&mut self) {
        self.is_known = false;
    }

    /// Subtracts the consumption of a device. Fails if any counter of the pool is then negative, even one that the device does not consume.
    pub(super) fn take(&mut self, counters: &Counters, consumer: u32, allocated: &Allocated) -> bool {
        if !self.is_known {
            self.find(counters, allocated);
        }
        self.count(counters, consumer, -1);
        let suits = self.left.iter().all(|left| *left >= 0);
        if !suits {
            self.count(counters, consumer, 1);
        }
        suits
    }

    pub(super) fn give_back(&mut self, counters: &Counters, consumer: u32) {
        self.count(counters, consumer, 1);
    }

    fn find(&mut self, counters: &Counters, allocated: &Allocated) {
        self.is_known = true;
        self.left.clone_from(&counters.values);
        for (at, consumer) in counters.consumers.iter().enumerate() {
            if allocated.is_any(consumer.device) {
                self.count(counters, u32::try_from(at).unwrap_or(u32::MAX), -1);
            }
        }
    }

    fn count(&mut self, counters: &Counters, consumer: u32, sign: i128) {
        let Some(consumer) = counters.consumers.get(consumer as usize) else { return };
        for &(counter, amount) in &counters.consumed[consumer.first as usize..consumer.end as usize] {
            let left = &mut self.left[counter as usize];
            *left = left.saturating_add(sign * amount);
        }
    }
}
