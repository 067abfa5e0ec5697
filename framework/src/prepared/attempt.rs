//! What the plugins of a class may do in an attempt, and what they keep of it.
//!
//! Knows: that node-local filters count work. Must not know: what the work is.

use super::Prepared;
use crate::extension::{Filter, NodeFilter};

impl Prepared {
    /// Another attempt begins: what it may do is counted from nothing.
    pub fn begin(&self) {
        self.node_filters().for_each(NodeFilter::begin);
    }

    /// Whether the filters of a plugin did all that an attempt may do, and have not come to all nodes: nothing but other objects, or
    /// another pod, can change that.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.node_filters().any(NodeFilter::is_exhausted)
    }

    /// The work of its filters since they were made ready, beyond that of ordinary ones, in units of some 10 ns.
    #[must_use]
    pub fn work(&self) -> u64 {
        self.node_filters().map(NodeFilter::work).sum()
    }

    /// About how many bytes its filters have found out about nodes.
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
