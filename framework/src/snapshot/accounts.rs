//! The allocatable and charged resources of each node, with saturating sums that are recounted after saturation.

use super::{
    Slot,
    scalars::{ScalarColumn, Scalars},
};
use crate::{class::Class, resources::Resources};

/// The resources of every node, as columns in the units of [`Resources`].
#[derive(Debug, Clone, Default)]
pub struct Accounts {
    /// Allocatable CPU.
    pub allocatable_milli_cpu: Vec<i64>,
    /// Allocatable memory.
    pub allocatable_memory: Vec<i64>,
    /// Allocatable ephemeral storage.
    pub allocatable_ephemeral_storage: Vec<i64>,
    /// The allowed number of pods.
    pub allowed_pods: Vec<i64>,
    /// CPU charged.
    pub milli_cpu: Vec<i64>,
    /// Memory charged.
    pub memory: Vec<i64>,
    /// Ephemeral storage charged.
    pub ephemeral_storage: Vec<i64>,
    /// CPU charged, with a default for containers without a request.
    pub nonzero_milli_cpu: Vec<i64>,
    /// Memory charged, with a default for containers without a request.
    pub nonzero_memory: Vec<i64>,
    /// Pods charged.
    pub pods: Vec<i64>,
    scalars: Scalars,
}

impl Accounts {
    /// The column of an extended resource that some node has.
    #[must_use]
    pub fn scalar(&self, name: &str) -> Option<&ScalarColumn> {
        self.scalars.get(name)
    }

    /// The columns of all extended resources that nodes have, unordered.
    pub fn scalars(&self) -> impl Iterator<Item = (&str, &ScalarColumn)> {
        self.scalars.iter()
    }

    /// The allocatable and charged amount of an extended resource.
    #[must_use]
    pub fn scalar_amounts(&self, name: &str, slot: Slot) -> (i64, i64) {
        self.scalars.amounts(name, slot)
    }

    /// The allocatable amount of an extended resource. `None` where the node does not name it, which differs from 0.
    #[must_use]
    pub fn named_scalar(&self, name: &str, slot: Slot) -> Option<i64> {
        self.scalars.is_named(name, slot).then(|| self.scalars.amounts(name, slot).0)
    }

    /// The size of the extended resources in bytes.
    #[must_use]
    pub fn scalar_bytes(&self) -> usize {
        self.scalars.bytes()
    }

    /// All charges of one node.
    #[must_use]
    pub fn requested(&self, slot: Slot) -> Resources {
        let at = slot as usize;
        Resources {
            milli_cpu: self.milli_cpu[at],
            memory: self.memory[at],
            ephemeral_storage: self.ephemeral_storage[at],
            scalars: self.scalars.charged(slot),
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
        self.scalars.clear(slot);
    }

    pub(super) fn set_allocatable(&mut self, slot: Slot, allocatable: &Resources, allowed_pods: i64) {
        let at = slot as usize;
        self.allocatable_milli_cpu[at] = allocatable.milli_cpu;
        self.allocatable_memory[at] = allocatable.memory;
        self.allocatable_ephemeral_storage[at] = allocatable.ephemeral_storage;
        self.allowed_pods[at] = allowed_pods;
        self.scalars.allocate(slot, &allocatable.scalars);
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
            self.scalars.charge(slot, name, |charged| plus(charged, *amount));
        }
    }

    /// Subtracts a pod's charge. `false`: some sum was saturated, so the caller must recount.
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
            self.scalars.charge(slot, name, |charged| minus(charged, *amount));
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
        self.scalars.discharge_all(slot);
        for (class, count) in pods {
            self.charge_many(slot, class, count);
        }
    }
}
