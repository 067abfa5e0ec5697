//! Counts over topology domains.

use std::sync::Arc;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::symbols::Symbol;

/// The topology domain of a node for one key; `None` where the node lacks the label.
pub type Domain = Option<Arc<str>>;

/// Sums over the domains of one plugin, term by term, which are added up over shards.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<((u16, Arc<str>), i64)>", into = "Vec<((u16, Arc<str>), i64)>")]
pub struct Tally(pub IndexMap<(u16, Arc<str>), i64>);

impl From<Vec<((u16, Arc<str>), i64)>> for Tally {
    fn from(counts: Vec<((u16, Arc<str>), i64)>) -> Self {
        Self(counts.into_iter().collect())
    }
}

impl From<Tally> for Vec<((u16, Arc<str>), i64)> {
    fn from(tally: Tally) -> Self {
        tally.0.into_iter().collect()
    }
}

impl Tally {
    /// Adds to the count of a domain under a term.
    pub fn add(&mut self, term: u16, domain: &Arc<str>, count: i64) {
        let sum = self.0.entry((term, Arc::clone(domain))).or_insert(0);
        *sum = sum.saturating_add(count);
    }
}

/// A count over the domains of one label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// The label's number in the snapshot.
    pub key: Symbol,
    /// Nodes without the label form one domain with nodes of an empty value. Otherwise they have no domain.
    pub lacking_is_empty: bool,
    /// A domain is known once a node of it counts, even if nothing is counted in it.
    pub knows_empty: bool,
    /// The score depends on the domain, not only on its count.
    pub distinguishes: bool,
}

impl Term {
    /// A term over a label that knows only domains in which something is counted.
    #[must_use]
    pub const fn over(key: Symbol) -> Self {
        Self { key, lacking_is_empty: false, knows_empty: false, distinguishes: false }
    }
}

/// The addition of one pod to each term, without the terms to which it adds nothing.
pub type Amounts = SmallVec<[(u16, i64); 4]>;
