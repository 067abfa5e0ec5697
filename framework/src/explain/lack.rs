//! The unmet requirements of all filters on a node: resolving the first refusal does not help if another follows.

pub use crate::extension::{Lack, NodeContext};
use crate::{
    class::Class,
    extension::{Filter, NodeFilter},
    prepared::Prepared,
    profile::Profile,
    registry::Registry,
};

/// The unmet requirements of one filter on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortfall {
    /// The filter's plugin.
    pub plugin: &'static str,
    /// The requirements; empty if the plugin cannot quantify them.
    pub lacks: Vec<Lack>,
}

/// Whether a filter counts over domains, so that a change of the node's labels may change the result.
#[must_use]
pub fn counts_domains(prepared: &Prepared) -> bool {
    prepared.filters().iter().any(|prepared| matches!(prepared.filter, Filter::Domain(_)))
}

/// The unmet requirements of every node-local filter that refuses a node, in the profile's order; empty if none refuses.
#[must_use]
pub fn shortfalls(
    registry: Registry,
    prepared: &Prepared,
    profile: &Profile,
    class: &Class,
    place: NodeContext<'_>,
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
