//! Extended resources and what is charged of them.
//!
//! A resource that some node has is a column over all nodes: there are few, and operators make them. A pod may ask for any
//! name, and stand on a node nevertheless that something else bound it to; names that no node has are kept for the nodes
//! where they are charged.
//!
//! Knows: which names are columns, and when one becomes a column or ceases to be. Must not know: pods, or units.

use std::{collections::BTreeMap, sync::Arc};

use indexmap::IndexMap;

use super::Slot;

/// All of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Scalars {
    columns: IndexMap<Arc<str>, ScalarColumn>,
    /// What is charged of resources that no node has. As large as the pods that are charged.
    sparse: BTreeMap<Slot, BTreeMap<Arc<str>, i64>>,
    /// What a node names without having any, sorted: the kubelet says so of a resource whose device plugin has gone. Nodes
    /// without such names are absent.
    zeros: BTreeMap<Slot, Vec<Arc<str>>>,
}

/// One extended resource over all nodes; shorter than the other columns where the last nodes lack it.
#[derive(Debug, Clone, Default)]
pub struct ScalarColumn {
    allocatable: Vec<i64>,
    charged: Vec<i64>,
    /// How many nodes have some; never 0 for long.
    holders: u32,
}

/// What an entry of [`Scalars::sparse`] takes, and one of [`Scalars::zeros`] at most: key and value, and as much for what is free
/// in its block.
const SPARSE_BYTES: usize = 48;

// === impl ScalarColumn ===

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

    /// Sets the allocatable amount.
    fn allocate(&mut self, slot: Slot, amount: i64) {
        if amount == self.allocatable(slot) {
            return;
        }
        let old = std::mem::replace(cell(&mut self.allocatable, slot), amount);
        self.holders += u32::from(old == 0);
        self.holders -= u32::from(amount == 0);
    }
}

fn cell(column: &mut Vec<i64>, slot: Slot) -> &mut i64 {
    let at = slot as usize;
    if column.len() <= at {
        column.resize(at + 1, 0);
    }
    &mut column[at]
}

// === impl Scalars ===

impl Scalars {
    /// The column of a resource, if some node has it.
    pub(super) fn get(&self, name: &str) -> Option<&ScalarColumn> {
        self.columns.get(name)
    }

    /// All columns.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &ScalarColumn)> {
        self.columns.iter().map(|(name, column)| (&**name, column))
    }

    /// What a node has of a resource, and what is charged there.
    pub(super) fn amounts(&self, name: &str, slot: Slot) -> (i64, i64) {
        match self.columns.get(name) {
            Some(column) => (column.allocatable(slot), column.charged(slot)),
            None => (0, self.sparse.get(&slot).and_then(|charged| charged.get(name)).copied().unwrap_or(0)),
        }
    }

    /// Whether a node names a resource, be it with an amount of 0.
    pub(super) fn is_named(&self, name: &str, slot: Slot) -> bool {
        self.columns.get(name).is_some_and(|column| column.allocatable(slot) != 0)
            || self.zeros.get(&slot).is_some_and(|names| names.iter().any(|known| **known == *name))
    }

    /// All that is charged to a node and is not 0, sorted.
    pub(super) fn charged(&self, slot: Slot) -> Vec<(Arc<str>, i64)> {
        let of_columns = self.columns.iter().map(|(name, column)| (Arc::clone(name), column.charged(slot)));
        let sparse = self.sparse.get(&slot).into_iter().flatten().map(|(name, amount)| (Arc::clone(name), *amount));
        let mut charged: Vec<(Arc<str>, i64)> = of_columns.chain(sparse).filter(|&(_, amount)| amount != 0).collect();
        charged.sort_unstable();
        charged
    }

    /// Sets what a node has.
    pub(super) fn allocate(&mut self, slot: Slot, amounts: &[(Arc<str>, i64)]) {
        for (name, column) in &mut self.columns {
            if column.allocatable(slot) != 0 && !amounts.iter().any(|(other, _)| other == name) {
                column.allocate(slot, 0);
            }
        }
        for (name, amount) in amounts {
            match self.columns.get_mut(name) {
                Some(column) => column.allocate(slot, *amount),
                None if *amount != 0 => self.begin(name).allocate(slot, *amount),
                None => {}
            }
        }
        self.end_those_without_holders();
        let zeros = amounts.iter().filter(|(_, amount)| *amount == 0).map(|(name, _)| Arc::clone(name));
        match zeros.collect::<Vec<_>>() {
            zeros if zeros.is_empty() => self.zeros.remove(&slot),
            zeros => self.zeros.insert(slot, zeros),
        };
    }

    /// Changes what is charged to a node by a function of the amount.
    pub(super) fn charge(&mut self, slot: Slot, name: &Arc<str>, change: impl FnOnce(&mut i64)) {
        if let Some(column) = self.columns.get_mut(name) {
            return change(cell(&mut column.charged, slot));
        }
        let charged = self.sparse.entry(slot).or_default();
        let amount = charged.entry(Arc::clone(name)).or_insert(0);
        change(amount);
        if *amount == 0 {
            charged.remove(name);
        }
        if charged.is_empty() {
            self.sparse.remove(&slot);
        }
    }

    /// Nothing is charged to a node any more.
    pub(super) fn discharge_all(&mut self, slot: Slot) {
        self.sparse.remove(&slot);
        for column in self.columns.values_mut() {
            if let Some(charged) = column.charged.get_mut(slot as usize) {
                *charged = 0;
            }
        }
    }

    /// A node has nothing any more, and nothing is charged to it.
    pub(super) fn clear(&mut self, slot: Slot) {
        self.discharge_all(slot);
        self.allocate(slot, &[]);
    }

    /// How many bytes all of it takes.
    pub(super) fn bytes(&self) -> usize {
        let cells = |column: &ScalarColumn| column.allocatable.capacity() + column.charged.capacity();
        8 * self.columns.values().map(cells).sum::<usize>()
            + SPARSE_BYTES * self.sparse.values().map(BTreeMap::len).sum::<usize>()
            + SPARSE_BYTES * self.zeros.values().map(Vec::len).sum::<usize>()
    }

    /// A column for a name of which a node has some from now on.
    fn begin(&mut self, name: &Arc<str>) -> &mut ScalarColumn {
        let column = self.columns.entry(Arc::clone(name)).or_default();
        self.sparse.retain(|slot, charged| {
            if let Some(amount) = charged.remove(name) {
                *cell(&mut column.charged, *slot) = amount;
            }
            !charged.is_empty()
        });
        column
    }

    fn end_those_without_holders(&mut self) {
        if self.columns.values().all(|column| column.holders > 0) {
            return;
        }
        let sparse = &mut self.sparse;
        self.columns.retain(|name, column| {
            if column.holders > 0 {
                return true;
            }
            for (slot, amount) in (0..).zip(&column.charged).filter(|(_, amount)| **amount != 0) {
                sparse.entry(slot).or_default().insert(Arc::clone(name), *amount);
            }
            false
        });
    }
}
