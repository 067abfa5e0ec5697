//! Counts over topology domains, summed over all shards and kept up to date pod by pod.
//!
//! A label with few values, such as a zone, keeps its domains apart by number. One with many, such as a hostname, tells
//! them apart only by what is counted in them: nodes whose domains count the same are judged and scored alike, so there
//! are a handful of such groups where there are thousands of domains.
//!
//! Knows: how counts are held and looked up. Must not know: what they count, nodes, or who judges by them.

use std::{collections::BTreeMap, sync::Arc};

use indexmap::IndexSet;
use smallvec::SmallVec;

use crate::extension::Domain;

mod build;

pub(crate) use build::is_by_count;

/// The domains of a node by number, key by key; 0 where it lacks the label.
pub(crate) type Places = SmallVec<[u32; 4]>;

/// What tells strata apart besides raw scores: for each key either a domain's number, or whether there is one and what
/// each term counts in it.
pub(crate) type Codes = SmallVec<[i64; 8]>;

/// A domain: the place of its key, and its number there.
pub(crate) type DomainId = (usize, u32);

/// All counts of one class.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    keys: Vec<KeyTable>,
    terms: Vec<TermTable>,
}

#[derive(Debug, Default)]
struct KeyTable {
    names: IndexSet<Arc<str>>,
    /// Told apart by their counts.
    by_count: bool,
    /// Where this key's codes begin.
    at: usize,
    /// The terms over this key.
    terms: Vec<usize>,
}

#[derive(Debug, Default)]
struct TermTable {
    key: usize,
    /// The place among the terms of its key.
    nth: usize,
    /// By domain; `None` where the term knows of no such domain.
    counts: Vec<Option<i64>>,
    /// How many domains count how much.
    histogram: BTreeMap<i64, u32>,
    /// How many domains are known.
    known: usize,
    /// Domains are known also where nothing is counted.
    knows_empty: bool,
}

/// The counts of one plugin's terms as nodes of one stratum see them.
#[derive(Debug, Clone, Copy)]
pub struct Sums<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) codes: &'a [i64],
    pub(crate) locals: &'a [i64],
    /// The first of the plugin's terms.
    pub(crate) first: usize,
}

// === impl Sums ===

impl Sums<'_> {
    /// The count of a term in the nodes' domain; `None` where they lack the label.
    #[must_use]
    pub fn count(&self, term: u16) -> Option<i64> {
        let term = self.tables.terms.get(self.first + term as usize)?;
        let key = &self.tables.keys[term.key];
        match self.codes[key.at] {
            0 => None,
            _ if key.by_count => Some(self.codes[key.at + 1 + term.nth]),
            number => Some(term.count(number)),
        }
    }

    /// The number of the nodes' domain, only to be compared with others; `None` where they lack the label. Means
    /// something only for a term that distinguishes domains.
    #[must_use]
    pub fn domain(&self, term: u16) -> Option<i64> {
        let term = self.tables.terms.get(self.first + term as usize)?;
        Some(self.codes[self.tables.keys[term.key].at]).filter(|&number| number != 0)
    }

    /// Whether a domain has the empty name.
    #[must_use]
    pub fn is_unnamed(&self, term: u16, domain: i64) -> bool {
        let Some(term) = self.tables.terms.get(self.first + term as usize) else { return false };
        let at = usize::try_from(domain - 1).ok();
        at.and_then(|at| self.tables.keys[term.key].names.get_index(at)).is_some_and(|name| name.is_empty())
    }

    /// What is counted on each node itself, in the plugin's order; -1 where the label is lacking.
    #[must_use]
    pub const fn locals(&self) -> &[i64] {
        self.locals
    }

    /// The lowest count of a term over all domains that it knows of.
    #[must_use]
    pub fn lowest(&self, term: u16) -> Option<i64> {
        let term = self.tables.terms.get(self.first + term as usize)?;
        term.histogram.first_key_value().map(|(count, _)| *count)
    }

    /// How many domains a term knows of.
    #[must_use]
    pub fn domains(&self, term: u16) -> usize {
        let term = self.tables.terms.get(self.first + term as usize);
        term.map_or(0, |term| term.known)
    }

    /// Whether a term counts nothing anywhere.
    #[must_use]
    pub fn is_zero(&self, term: u16) -> bool {
        let term = self.tables.terms.get(self.first + term as usize);
        term.is_none_or(|term| term.histogram.keys().all(|&count| count == 0))
    }
}

// === impl Tables ===

impl Tables {
    /// Adds to the count of a domain; gives the domain.
    pub(crate) fn add(&mut self, term: usize, domain: &str, amount: i64) -> DomainId {
        let key = self.terms[term].key;
        let names = &mut self.keys[key].names;
        let at = names.get_index_of(domain).unwrap_or_else(|| names.insert_full(domain.into()).0);
        let table = &mut self.terms[term];
        if table.counts.len() <= at {
            table.counts.resize(at + 1, None);
        }
        let old = table.counts[at];
        table.known += usize::from(old.is_none());
        let new = old.unwrap_or(0).saturating_add(amount);
        table.counts[at] = Some(new);
        if old != Some(new) {
            if let Some(old) = old
                && let Some(domains) = table.histogram.get_mut(&old)
            {
                *domains -= 1;
                if *domains == 0 {
                    table.histogram.remove(&old);
                }
            }
            *table.histogram.entry(new).or_insert(0) += 1;
        }
        (key, number(at))
    }

    /// Whether nodes of a key's domains are told apart by counts.
    pub(crate) fn is_by_count(&self, key: usize) -> bool {
        self.keys[key].by_count
    }

    /// The numbers of domains, given out now where they are new.
    pub(crate) fn places(&mut self, domains: &[Domain]) -> Places {
        let mut numbered = |(key, domain): (&mut KeyTable, &Domain)| {
            let Some(domain) = domain else { return 0 };
            let known = key.names.get_index_of(domain);
            number(known.unwrap_or_else(|| key.names.insert_full(Arc::clone(domain)).0))
        };
        let mut places: Places = self.keys.iter_mut().zip(domains).map(&mut numbered).collect();
        places.resize(self.keys.len(), 0);
        places
    }

    /// What tells nodes in these domains apart from others.
    pub(crate) fn codes(&self, places: &[u32]) -> Codes {
        let mut codes = Codes::new();
        for (key, &place) in self.keys.iter().zip(places) {
            if !key.by_count {
                codes.push(i64::from(place));
                continue;
            }
            codes.push(i64::from(place != 0));
            codes.extend(key.terms.iter().map(|&term| self.terms[term].count(i64::from(place))));
        }
        codes
    }

    /// What tells nodes in these domains apart from others where nothing is counted in the domains of labels with many
    /// values, of which then only matters whether there are any.
    pub(crate) fn uncounted_codes(&mut self, domains: &[Domain]) -> Codes {
        let mut codes = Codes::new();
        for (key, domain) in self.keys.iter_mut().zip(domains) {
            let number = match domain {
                None => 0,
                Some(_) if key.by_count => 1,
                Some(domain) => {
                    let known = key.names.get_index_of(domain);
                    number(known.unwrap_or_else(|| key.names.insert_full(Arc::clone(domain)).0))
                }
            };
            codes.push(i64::from(number));
            if key.by_count {
                codes.extend(key.terms.iter().map(|_| 0));
            }
        }
        codes
    }

    /// Every count that is not zero or that a term knows of all the same: by term and domain, for comparing.
    pub(crate) fn counts(&self) -> BTreeMap<(usize, &str), i64> {
        let mut all = BTreeMap::new();
        for (index, term) in self.terms.iter().enumerate() {
            for (name, count) in self.keys[term.key].names.iter().zip(&term.counts) {
                if let Some(count) = count.filter(|&count| count != 0 || term.knows_empty) {
                    all.insert((index, name.as_ref()), count);
                }
            }
        }
        all
    }
}

impl TermTable {
    /// The count in a domain by its number.
    fn count(&self, number: i64) -> i64 {
        let at = usize::try_from(number - 1).ok();
        at.and_then(|at| self.counts.get(at).copied().flatten()).unwrap_or(0)
    }
}

/// The number of the domain at a place; 0 stands for none.
fn number(at: usize) -> u32 {
    u32::try_from(at + 1).unwrap_or(u32::MAX)
}
