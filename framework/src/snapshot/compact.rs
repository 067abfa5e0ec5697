//! Removes strings, labels and taint sets that no node has any more.
//!
//! An autoscaler writes the time into a taint, and new nodes have new names, so most of them may become unused.

use indexmap::IndexSet;

use super::{Column, MAX_NUMBERED, Slot, Snapshot};
use crate::symbols::Symbol;

/// Allowed unused bytes of strings, in addition to those in use at the last compaction: 256 KiB are 4,000 names.
const SPARE_TEXT_BYTES: usize = 256 << 10;

/// Allowed unused taint sets. Each class is compared with each set: 256 of 5 taints and 5 tolerations take 30 us.
const SPARE_TAINT_SETS: usize = 256;

/// Allowed unused labels. Each takes some 100 bytes.
const SPARE_LABELS: usize = 256;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct InUse {
    text_bytes: usize,
    taint_sets: usize,
    labels: usize,
}

impl Snapshot {
    /// Whether enough is unused for [`Self::compact`].
    #[must_use]
    pub fn is_wasteful(&self) -> bool {
        let InUse { text_bytes, taint_sets, labels } = self.in_use;
        self.symbols.bytes() > 2 * text_bytes + SPARE_TEXT_BYTES
            || self.taint_sets.len() > 2 * taint_sets + SPARE_TAINT_SETS
            || self.labels.len() > 2 * labels + SPARE_LABELS
    }

    /// Drops unused strings, labels and taint sets. The others get new numbers: every class must be prepared again.
    pub fn compact(&mut self) {
        let old = std::mem::take(&mut self.symbols);
        let symbols = &mut self.symbols;
        let mut renumber = |symbol: Symbol| match symbol {
            Symbol::NONE => Symbol::NONE,
            symbol => symbols.intern(old.text(symbol)),
        };
        for (name, id) in self.names.iter_mut().zip(&self.ids) {
            *name = if id.is_some() { renumber(*name) } else { Symbol::NONE };
        }
        for images in &mut self.images {
            images.iter_mut().for_each(|image| *image = renumber(*image));
            images.sort_unstable();
        }
        let labels = std::mem::take(&mut self.labels);
        self.labels = labels
            .into_iter()
            .filter(|(_, column)| column.len() > 0)
            .map(|(key, mut column)| {
                column.map(&mut renumber);
                (renumber(key), column)
            })
            .collect();
        self.label_keys.iter_mut().for_each(|keys| keys.iter_mut().for_each(|key| *key = renumber(*key)));
        self.label_values = self.labels.iter().map(|(&key, column)| (key, values(column))).collect();
        self.label_keys_version += 1;
        self.compact_taints();
        self.in_use =
            InUse { text_bytes: self.symbols.bytes(), taint_sets: self.taint_sets.len(), labels: self.labels.len() };
    }

    fn compact_taints(&mut self) {
        let old = std::mem::take(&mut self.taint_sets);
        let live: Vec<Slot> = self.live().collect();
        for slot in live {
            let at = slot as usize;
            let taints = old.get_index(self.taints[at] as usize).cloned().unwrap_or_default();
            self.taints[at] = u32::try_from(self.taint_sets.insert_full(taints).0).unwrap_or(u32::MAX);
        }
    }
}

/// The values of a label, up to one more than [`MAX_NUMBERED`](super::MAX_NUMBERED).
fn values(column: &Column<Symbol>) -> Vec<Symbol> {
    let mut values: IndexSet<Symbol> = IndexSet::new();
    for (_, value) in column.iter() {
        values.insert(value);
        if values.len() > MAX_NUMBERED {
            break;
        }
    }
    values.into_iter().collect()
}
