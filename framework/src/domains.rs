//! Counts over topology domains, summed over all shards and updated pod by pod.
//!
//! A label with few values, such as a zone, has numbered domains. With many values, such as hostnames, domains with equal counts form one
//! group: their nodes get equal results, so thousands of domains become a few groups.

use std::{collections::BTreeMap, sync::Arc};

use indexmap::IndexSet;
use smallvec::SmallVec;

use crate::extension::Domain;

mod build;

pub(crate) use build::is_by_count;

/// The domain number of a node for each key; 0 if the node lacks the label.
pub(crate) type Places = SmallVec<[u32; 4]>;

/// The domain part of a stratum's key: per key the domain's number, or whether the label exists and the count of each term.
pub(crate) type Codes = SmallVec<[i64; 8]>;

pub(crate) type DomainId = (usize, u32);

#[derive(Debug, Default)]
pub(crate) struct Tables {
    keys: Vec<KeyTable>,
    terms: Vec<TermTable>,
}

#[derive(Debug, Default)]
struct KeyTable {
    names: IndexSet<Arc<str>>,
    /// Domains with equal counts are one group.
    by_count: bool,
    at: usize,
    terms: Vec<usize>,
}

#[derive(Debug, Default)]
struct TermTable {
    key: usize,
    nth: usize,
    /// By domain; `None` if the term does not know the domain.
    counts: Vec<Option<i64>>,
    /// Count -> number of domains with this count.
    histogram: BTreeMap<i64, u32>,
    known: usize,
    /// Domains are known even if nothing is counted in them.
    knows_empty: bool,
}

/// The counts of one plugin's terms for the nodes of one stratum.
#[derive(Debug, Clone, Copy)]
pub struct Sums<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) codes: &'a [i64],
    pub(crate) locals: &'a [i64],
    pub(crate) first: usize,
}

impl Sums<'_> {
    /// The count of a term in the nodes' domain; `None` if the nodes lack the label.
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

    /// The domain's number, only for comparison, and for terms that distinguish domains; `None` if the nodes lack the label.
    #[must_use]
    pub fn domain(&self, term: u16) -> Option<i64> {
        let term = self.tables.terms.get(self.first + term as usize)?;
        Some(self.codes[self.tables.keys[term.key].at]).filter(|&number| number != 0)
    }

    /// Whether a domain's value is empty.
    #[must_use]
    pub fn is_unnamed(&self, term: u16, domain: i64) -> bool {
        let Some(term) = self.tables.terms.get(self.first + term as usize) else { return false };
        let at = usize::try_from(domain - 1).ok();
        at.and_then(|at| self.tables.keys[term.key].names.get_index(at)).is_some_and(|name| name.is_empty())
    }

    /// The node-local counts, in the plugin's order; -1 if the node lacks the label.
    #[must_use]
    pub const fn locals(&self) -> &[i64] {
        self.locals
    }

    /// The lowest count of a term over all domains that it knows.
    #[must_use]
    pub fn lowest(&self, term: u16) -> Option<i64> {
        let term = self.tables.terms.get(self.first + term as usize)?;
        term.histogram.first_key_value().map(|(count, _)| *count)
    }

    /// The number of domains that a term knows.
    #[must_use]
    pub fn domains(&self, term: u16) -> usize {
        let term = self.tables.terms.get(self.first + term as usize);
        term.map_or(0, |term| term.known)
    }

    /// Whether all counts of a term are 0.
    #[must_use]
    pub fn is_zero(&self, term: u16) -> bool {
        let term = self.tables.terms.get(self.first + term as usize);
        term.is_none_or(|term| term.histogram.keys().all(|&count| count == 0))
    }
}

impl Tables {
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

    pub(crate) fn is_by_count(&self, key: usize) -> bool {
        self.keys[key].by_count
    }

    /// The numbers of these domains; new domains get a number.
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

    /// The codes of nodes if nothing is counted in domains of labels with many values: for those, only whether the label exists matters.
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
    fn count(&self, number: i64) -> i64 {
        let at = usize::try_from(number - 1).ok();
        at.and_then(|at| self.counts.get(at).copied().flatten()).unwrap_or(0)
    }
}

fn number(at: usize) -> u32 {
    u32::try_from(at + 1).unwrap_or(u32::MAX)
}
