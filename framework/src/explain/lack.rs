//! What each filter that refuses a node misses there, in terms that a person can act on.
//!
//! Knows: that every filter is asked, not only the first that refuses, because curing one refusal is no use where
//! another follows. Must not know: the words, or which lack is the easiest to cure.

pub use crate::extension::{Lack, Place};
use crate::{
    class::Class,
    extension::{Filter, NodeFilter},
    prepared::Prepared,
    profile::Profile,
    registry::Registry,
};

/// What one filter misses on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortfall {
    /// The filter's plugin.
    pub plugin: &'static str,
    /// What it misses; empty where the plugin has no measure of it.
    pub lacks: Vec<Lack>,
}

/// Whether a filter counts over domains, so that its verdict on a node may change with the node's labels.
#[must_use]
pub fn counts_domains(prepared: &Prepared) -> bool {
    prepared.filters().iter().any(|prepared| matches!(prepared.filter, Filter::Domain(_)))
}

/// What every node-local filter that refuses a node misses there, in the profile's order; empty where none refuses.
#[must_use]
pub fn shortfalls(
    registry: Registry,
    prepared: &Prepared,
    profile: &Profile,
    class: &Class,
    place: Place<'_>,
) -> Vec<Shortfall> {
    let refusing = prepared.filters().iter().filter_map(|prepared| match &prepared.filter {
        Filter::Node(filter) if filter.filter(place.nodes, place.slot).is_err() => Some((prepared.plugin, &**filter)),
        Filter::Node(_) | Filter::Domain(_) => None,
    });
    let shortfall = |(plugin, filter): (&'static str, &dyn NodeFilter)| {
        let by_plugin = || registry.find(plugin).map(|found| found.lacks(class, &profile.args, place));
        Shortfall { plugin, lacks: filter.lacks(place.nodes, place.slot).or_else(by_plugin).unwrap_or_default() }
    };
    refusing.map(shortfall).collect()
}
