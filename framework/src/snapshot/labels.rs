//! The labels of nodes: one column per label, and the labels of each node.

use std::sync::Arc;

use super::{Column, Slot, Snapshot, Values};
use crate::symbols::Symbol;

/// Domains of a label with more values are grouped by their counts, unless a score depends on the domain. A decision reads every group of
/// nodes, so this bounds the cost of one label: 64 groups of some 20 ns each take about a microsecond.
pub(crate) const MAX_NUMBERED: usize = 64;

impl Snapshot {
    /// The value of a label; [`Symbol::NONE`] if the node lacks it.
    #[must_use]
    pub fn label(&self, key: Symbol, slot: Slot) -> Symbol {
        self.label_column(key).get(slot)
    }

    /// The values of a label by position; [`Symbol::NONE`] if the node lacks it.
    #[must_use]
    pub fn label_column(&self, key: Symbol) -> Values<'_, Symbol> {
        self.labels.get(&key).map_or_else(Values::default, Column::values)
    }

    /// The columns of all labels, unordered.
    pub fn label_columns(&self) -> impl Iterator<Item = (Symbol, Values<'_, Symbol>)> {
        self.labels.iter().map(|(&key, column)| (key, column.values()))
    }

    /// The labels of a node with their values, unordered.
    pub fn labels(&self, slot: Slot) -> impl Iterator<Item = (Symbol, Symbol)> {
        self.label_keys[slot as usize].iter().map(move |&key| (key, self.label(key, slot)))
    }

    /// The size of the labels in bytes, without their texts.
    #[must_use]
    pub fn label_bytes(&self) -> usize {
        let columns: usize = self.labels.values().map(|column| size_of::<Column<Symbol>>() + column.bytes()).sum();
        let values: usize =
            self.label_values.values().map(|values| size_of::<Vec<Symbol>>() + 4 * values.capacity()).sum();
        columns + values + 4 * self.label_keys.iter().map(|keys| keys.len()).sum::<usize>()
    }

    /// Whether some node may have a label with this key.
    #[must_use]
    pub fn has_label(&self, key: &str) -> bool {
        self.symbols.get(key).is_some_and(|key| self.labels.contains_key(&key))
    }

    /// Changes whenever the result of [`Self::has_label`] may change for some key.
    #[must_use]
    pub const fn label_keys_version(&self) -> u64 {
        self.label_keys_version
    }

    /// The number of values that a label had; `None` above [`MAX_NUMBERED`].
    pub(crate) fn label_values(&self, key: Symbol) -> Option<usize> {
        Some(self.label_values.get(&key).map_or(0, Vec::len)).filter(|&values| values <= MAX_NUMBERED)
    }

    pub(super) fn set_labels(&mut self, slot: Slot, labels: &[(Arc<str>, Arc<str>)]) {
        let keys: Vec<(Symbol, Symbol)> =
            labels.iter().map(|(key, value)| (self.symbols.intern(key), self.symbols.intern(value))).collect();
        self.clear_labels(slot);
        self.label_keys[slot as usize] = keys.iter().map(|(key, _)| *key).collect();
        for (key, value) in keys {
            let column = self.labels.entry(key).or_insert_with(|| {
                self.label_keys_version += 1;
                Column::default()
            });
            column.set(slot, value);
            let values = self.label_values.entry(key).or_default();
            if values.len() <= MAX_NUMBERED && !values.contains(&value) {
                values.reserve_exact(usize::from(values.is_empty()));
                values.push(value);
            }
        }
    }

    pub(super) fn clear_labels(&mut self, slot: Slot) {
        for key in std::mem::take(&mut self.label_keys[slot as usize]) {
            if let Some(column) = self.labels.get_mut(&key) {
                column.set(slot, Symbol::NONE);
            }
        }
    }
}
