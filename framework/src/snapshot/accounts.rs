//! What each node has and what is charged to it.
//!
//! Knows: saturating sums, and how to count anew when one had saturated. Must not know: why a pod is charged.

use std::sync::Arc;

use indexmap::IndexMap;

use super::Slot;
use crate::{class::Class, resources::Resources};

/// The amounts of every node, as columns in the units of [`Resources`].
#[derive(Debug, Clone, Default)]
pub struct Accounts {
    /// Allocatable CPU.
    pub allocatable_milli_cpu: Vec<i64>,
    /// Allocatable memory.
    pub allocatable_memory: Vec<i64>,
    /// Allocatable ephemeral storage.
    pub allocatable_ephemeral_storage: Vec<i64>,
    /// How many pods the node takes.
    pub allowed_pods: Vec<i64>,
    /// CPU charged.
    pub milli_cpu: Vec<i64>,
    /// Memory charged.
    pub memory: Vec<i64>,
    /// Ephemeral storage charged.
    pub ephemeral_storage: Vec<i64>,
    /// CPU charged with a default for containers that ask for none.
    pub nonzero_milli_cpu: Vec<i64>,
    /// Memory charged with a default for containers that ask for none.
    pub nonzero_memory: Vec<i64>,
    /// Pods charged.
    pub pods: Vec<i64>,
    scalars: IndexMap<Arc<str>, ScalarColumn>,
}

/// One extended resource over all nodes; shorter than the other columns where the last nodes lack it.
#[derive(Debug, Clone, Default)]
pub struct ScalarColumn {
    allocatable: Vec<i64>,
    charged: Vec<i64>,
}

impl ScalarColumn {
    /// The allocatable amount, 0 where the node has none.
    #[must_use]
    pub fn allocatable(&self, slot: Slot) -> i64 {
        self.allocatable.get(slot as usize).copied().unwrap_or(0)
    }

    /// The allocatable and the charged amounts by position, as far as any node ever had some.
    pub(crate) fn columns(&self) -> (&[i64], &[i64]) {
        (&self.allocatable, &self.charged)
    }

    /// The amount charged.
    #[must_use]
    pub fn charged(&self, slot: Slot) -> i64 {
        self.charged.get(slot as usize).copied().unwrap_or(0)
    }
}

fn cell(column: &mut Vec<i64>, slot: Slot) -> &mut i64 {
    let at = slot as usize;
    if column.len() <= at {
        column.resize(at + 1, 0);
    }
    &mut column[at]
}

// === impl Accounts ===

impl Accounts {
    /// The column of an extended resource, if any node ever had or was charged some.
    #[must_use]
    pub fn scalar(&self, name: &str) -> Option<&ScalarColumn> {
        self.scalars.get(name)
    }

    /// Everything charged to one node.
    #[must_use]
    pub fn requested(&self, slot: Slot) -> Resources {
        let at = slot as usize;
        let mut scalars: Vec<(Arc<str>, i64)> =
            self.scalars.iter().map(|(name, column)| (Arc::clone(name), column.charged(slot))).collect();
        scalars.retain(|&(_, amount)| amount != 0);
        scalars.sort_unstable();
        Resources {
            milli_cpu: self.milli_cpu[at],
            memory: self.memory[at],
            ephemeral_storage: self.ephemeral_storage[at],
            scalars,
        }
    }

    fn columns(&mut self) -> [&mut Vec<i64>; 10] {
        [
            &mut self.allocatable_milli_cpu,
            &mut self.allocatable_memory,
            &mut self.allocatable_ephemeral_storage,
            &mut self.allowed_pods,
            &mut self.milli_cpu,
            &mut self.memory,
            &mut self.ephemeral_storage,
            &mut self.nonzero_milli_cpu,
            &mut self.nonzero_memory,
            &mut self.pods,
        ]
    }

    pub(super) fn grow(&mut self) {
        for column in self.columns() {
            column.push(0);
        }
    }

    pub(super) fn clear(&mut self, slot: Slot) {
        for column in self.columns() {
            column[slot as usize] = 0;
        }
        for column in self.scalars.values_mut() {
            *cell(&mut column.allocatable, slot) = 0;
            *cell(&mut column.charged, slot) = 0;
        }
    }

    pub(super) fn set_allocatable(&mut self, slot: Slot, allocatable: &Resources, allowed_pods: i64) {
        let at = slot as usize;
        self.allocatable_milli_cpu[at] = allocatable.milli_cpu;
        self.allocatable_memory[at] = allocatable.memory;
        self.allocatable_ephemeral_storage[at] = allocatable.ephemeral_storage;
        self.allowed_pods[at] = allowed_pods;
        for column in self.scalars.values_mut() {
            if let Some(amount) = column.allocatable.get_mut(at) {
                *amount = 0;
            }
        }
        for (name, amount) in &allocatable.scalars {
            *cell(&mut self.scalars.entry(Arc::clone(name)).or_default().allocatable, slot) = *amount;
        }
    }

    pub(super) fn charge(&mut self, slot: Slot, class: &Class) {
        self.charge_many(slot, class, 1);
    }

    fn charge_many(&mut self, slot: Slot, class: &Class, count: u32) {
        let at = slot as usize;
        let count = i64::from(count);
        let plus = |column: &mut i64, amount: i64| *column = column.saturating_add(amount.saturating_mul(count));
        plus(&mut self.milli_cpu[at], class.accounted.milli_cpu);
        plus(&mut self.memory[at], class.accounted.memory);
        plus(&mut self.ephemeral_storage[at], class.accounted.ephemeral_storage);
        plus(&mut self.nonzero_milli_cpu[at], class.nonzero_milli_cpu);
        plus(&mut self.nonzero_memory[at], class.nonzero_memory);
        plus(&mut self.pods[at], 1);
        for (name, amount) in &class.accounted.scalars {
            plus(cell(&mut self.scalars.entry(Arc::clone(name)).or_default().charged, slot), *amount);
        }
    }

    /// Takes a pod's charge back. `false`: some sum had saturated, so that it has to be counted anew.
    pub(super) fn discharge(&mut self, slot: Slot, class: &Class) -> bool {
        let at = slot as usize;
        let mut exact = true;
        let mut minus = |column: &mut i64, amount: i64| {
            exact &= *column != i64::MAX;
            *column = column.saturating_sub(amount);
        };
        minus(&mut self.milli_cpu[at], class.accounted.milli_cpu);
        minus(&mut self.memory[at], class.accounted.memory);
        minus(&mut self.ephemeral_storage[at], class.accounted.ephemeral_storage);
        minus(&mut self.nonzero_milli_cpu[at], class.nonzero_milli_cpu);
        minus(&mut self.nonzero_memory[at], class.nonzero_memory);
        minus(&mut self.pods[at], 1);
        for (name, amount) in &class.accounted.scalars {
            minus(cell(&mut self.scalars.entry(Arc::clone(name)).or_default().charged, slot), *amount);
        }
        exact
    }

    pub(super) fn recount<'a>(&mut self, slot: Slot, pods: impl Iterator<Item = (&'a Class, u32)>) {
        let at = slot as usize;
        for column in [
            &mut self.milli_cpu,
            &mut self.memory,
            &mut self.ephemeral_storage,
            &mut self.nonzero_milli_cpu,
            &mut self.nonzero_memory,
            &mut self.pods,
        ] {
            column[at] = 0;
        }
        for column in self.scalars.values_mut() {
            *cell(&mut column.charged, slot) = 0;
        }
        for (class, count) in pods {
            self.charge_many(slot, class, count);
        }
    }
}
