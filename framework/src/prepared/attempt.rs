//! The work limits of one attempt, and the memory of its filters.

use super::Prepared;
use crate::extension::{Filter, NodeFilter};

impl Prepared {
    /// Starts an attempt: resets the work counted against its limit.
    pub fn begin(&self) {
        self.node_filters().for_each(NodeFilter::begin);
    }

    /// Whether a filter reached the work limit of an attempt before all nodes were filtered. Only other objects or another pod help.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.node_filters().any(NodeFilter::is_exhausted)
    }

    /// The work of the filters since preparation, beyond that of ordinary ones, in units of some 10 ns.
    #[must_use]
    pub fn work(&self) -> u64 {
        self.node_filters().map(NodeFilter::work).sum()
    }

    /// The approximate size of the filters' cached results about nodes, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.node_filters().map(NodeFilter::bytes).sum()
    }

    fn node_filters(&self) -> impl Iterator<Item = &dyn NodeFilter> {
        self.filters.iter().filter_map(|filter| match &filter.filter {
            Filter::Node(filter) => Some(&**filter),
            Filter::Domain(_) => None,
        })
    }
}
