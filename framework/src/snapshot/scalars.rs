//! The extended resources of nodes: a column for each that some node has.
//!
//! A pod may request any name and still be bound by another scheduler: charges of names that no node has are stored per node.

use std::{collections::BTreeMap, sync::Arc};

use indexmap::IndexMap;

use super::{Column, Slot, Values};

#[derive(Debug, Clone, Default)]
pub(super) struct Scalars {
    columns: IndexMap<Arc<str>, ScalarColumn>,
    /// Charges of resources that no node has. Its size depends on the charged pods.
    sparse: BTreeMap<Slot, BTreeMap<Arc<str>, i64>>,
    /// The names of each node's resources, sorted. After a device plugin is gone, the kubelet still reports its resource with an amount of
    /// 0.
    named: BTreeMap<Slot, Vec<Arc<str>>>,
}

/// One extended resource over all nodes. A column ends when no amount is allocatable.
#[derive(Debug, Clone, Default)]
pub struct ScalarColumn {
    allocatable: Column<i64>,
    charged: Column<i64>,
}

/// The size of an entry of [`Scalars::sparse`]: key and value, and as much unused space in its block.
const SPARSE_BYTES: usize = 48;

/// The size of a column without amounts: its name, and its entry in the table.
const COLUMN_BYTES: usize = size_of::<ScalarColumn>() + 48;

impl ScalarColumn {
    /// The allocatable amount, 0 if the node has none.
    #[must_use]
    pub fn allocatable(&self, slot: Slot) -> i64 {
        self.allocatable.get(slot)
    }

    pub(crate) fn columns(&self) -> (Values<'_, i64>, Values<'_, i64>) {
        (self.allocatable.values(), self.charged.values())
    }

    /// The amount charged.
    #[must_use]
    pub fn charged(&self, slot: Slot) -> i64 {
        self.charged.get(slot)
    }
}

impl Scalars {
    pub(super) fn get(&self, name: &str) -> Option<&ScalarColumn> {
        self.columns.get(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &ScalarColumn)> {
        self.columns.iter().map(|(name, column)| (&**name, column))
    }

    pub(super) fn amounts(&self, name: &str, slot: Slot) -> (i64, i64) {
        match self.columns.get(name) {
            Some(column) => (column.allocatable(slot), column.charged(slot)),
            None => (0, self.sparse.get(&slot).and_then(|charged| charged.get(name)).copied().unwrap_or(0)),
        }
    }

    /// Whether a node names a resource, even with an amount of 0.
    pub(super) fn is_named(&self, name: &str, slot: Slot) -> bool {
        self.columns.get(name).is_some_and(|column| column.allocatable(slot) != 0)
            || self.named.get(&slot).is_some_and(|names| has(names, name))
    }

    pub(super) fn charged(&self, slot: Slot) -> Vec<(Arc<str>, i64)> {
        let of_columns = self.columns.iter().map(|(name, column)| (Arc::clone(name), column.charged(slot)));
        let sparse = self.sparse.get(&slot).into_iter().flatten().map(|(name, amount)| (Arc::clone(name), *amount));
        let mut charged: Vec<(Arc<str>, i64)> = of_columns.chain(sparse).filter(|&(_, amount)| amount != 0).collect();
        charged.sort_unstable();
        charged
    }

    /// Sets a node's allocatable amounts, sorted by name as in [`crate::resources::Resources`].
    pub(super) fn allocate(&mut self, slot: Slot, amounts: &[(Arc<str>, i64)]) {
        let mut names: Vec<Arc<str>> = amounts.iter().map(|(name, _)| Arc::clone(name)).collect();
        // A worker does not rely on the coordinator's order.
        names.sort_unstable();
        for gone in self.named.remove(&slot).into_iter().flatten().filter(|name| !has(&names, name)) {
            self.set(slot, &gone, 0);
        }
        for (name, amount) in amounts {
            self.set(slot, name, *amount);
        }
        if !names.is_empty() {
            self.named.insert(slot, names);
        }
    }

    fn set(&mut self, slot: Slot, name: &Arc<str>, amount: i64) {
        let column = match self.columns.get_mut(name) {
            Some(column) => column,
            None if amount == 0 => return,
            None => self.begin(name),
        };
        column.allocatable.set(slot, amount);
        if column.allocatable.len() == 0 {
            self.end(name);
        }
    }

    pub(super) fn charge(&mut self, slot: Slot, name: &Arc<str>, change: impl FnOnce(&mut i64)) {
        if let Some(column) = self.columns.get_mut(name) {
            let mut amount = column.charged(slot);
            change(&mut amount);
            return column.charged.set(slot, amount);
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

    pub(super) fn discharge_all(&mut self, slot: Slot) {
        self.sparse.remove(&slot);
        self.columns.values_mut().for_each(|column| column.charged.set(slot, 0));
    }

    pub(super) fn clear(&mut self, slot: Slot) {
        self.discharge_all(slot);
        self.allocate(slot, &[]);
    }

    pub(super) fn bytes(&self) -> usize {
        let column = |column: &ScalarColumn| COLUMN_BYTES + column.allocatable.bytes() + column.charged.bytes();
        self.columns.values().map(column).sum::<usize>()
            + SPARSE_BYTES * self.sparse.values().map(BTreeMap::len).sum::<usize>()
            + size_of::<Arc<str>>() * self.named.values().map(Vec::len).sum::<usize>()
    }

    fn begin(&mut self, name: &Arc<str>) -> &mut ScalarColumn {
        let column = self.columns.entry(Arc::clone(name)).or_default();
        self.sparse.retain(|slot, charged| {
            if let Some(amount) = charged.remove(name) {
                column.charged.set(*slot, amount);
            }
            !charged.is_empty()
        });
        column
    }

    fn end(&mut self, name: &Arc<str>) {
        let Some(column) = self.columns.swap_remove(name) else { return };
        for (slot, amount) in column.charged.iter() {
            self.sparse.entry(slot).or_default().insert(Arc::clone(name), amount);
        }
    }
}

fn has(names: &[Arc<str>], name: &str) -> bool {
    names.binary_search_by(|known| known.as_ref().cmp(name)).is_ok()
}
