//! Builds the counts of one class from the tallies of all shards.

use smallvec::SmallVec;

use super::{KeyTable, Tables, TermTable};
use crate::{
    extension::{Domain, Tally},
    prepared::Prepared,
    snapshot::MAX_NUMBERED,
};

impl Tables {
    /// Sums `tallies`, the shards' counts plugin by plugin, one shard after another.
    pub(crate) fn new<'a>(
        prepared: &Prepared,
        tallies: impl Iterator<Item = &'a [Tally]>,
        domains: impl Iterator<Item = &'a [Domain]>,
    ) -> Self {
        let mut tables = Self::empty(prepared);
        for shard in tallies {
            for (plugin, tally) in shard.iter().enumerate() {
                let Some(first) = prepared.first_term(plugin) else { continue };
                for ((term, domain), count) in &tally.0 {
                    // A term outside the plugin's range belongs to another plugin; no correct shard counts it.
                    if prepared.terms().get(first + *term as usize).is_some_and(|term| term.plugin == plugin) {
                        tables.add(first + *term as usize, domain, *count);
                    }
                }
            }
        }
        for domains in domains {
            tables.places(domains);
        }
        let by_count: SmallVec<[bool; 4]> = tables
            .keys
            .iter()
            .enumerate()
            .map(|(key, known)| is_by_count(prepared, key, known.names.len() > MAX_NUMBERED))
            .collect();
        tables.lay_out(&by_count);
        tables
    }

    pub(crate) fn uncounted(prepared: &Prepared, by_count: &[bool]) -> Self {
        let mut tables = Self::empty(prepared);
        tables.lay_out(by_count);
        tables
    }

    fn empty(prepared: &Prepared) -> Self {
        let mut tables = Self::default();
        tables.keys.resize_with(prepared.keys().len(), KeyTable::default);
        for (index, term) in prepared.terms().iter().enumerate() {
            let key = &mut tables.keys[term.key];
            let (nth, knows_empty) = (key.terms.len(), term.spec.knows_empty);
            key.terms.push(index);
            tables.terms.push(TermTable { key: term.key, nth, knows_empty, ..TermTable::default() });
        }
        tables
    }

    fn lay_out(&mut self, by_count: &[bool]) {
        let mut at = 0;
        for (key, &by_count) in self.keys.iter_mut().zip(by_count) {
            key.by_count = by_count;
            key.at = at;
            at += if by_count { 1 + key.terms.len() } else { 1 };
        }
    }
}

/// Whether domains of a key with equal counts are one group. `many`: the key has more than [`MAX_NUMBERED`] domains.
pub(crate) fn is_by_count(prepared: &Prepared, key: usize, many: bool) -> bool {
    let mut terms = prepared.terms().iter().filter(|term| term.key == key);
    many && !terms.any(|term| term.spec.distinguishes)
}
