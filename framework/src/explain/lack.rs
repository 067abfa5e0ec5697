//! What a node lacks for a pod, in terms that a person can act on.
//!
//! Knows: that every filter is asked, not only the first that refuses, because curing one refusal is no use where
//! another follows. Must not know: the words, or which lack is the easiest to cure.

use std::sync::Arc;

use crate::{
    class::{Class, HostPort, Requirement, Taint},
    devices::allocate::lacking::DeviceLack,
    extension::{Facts, Filter, NodeFilter},
    node::NodeInfo,
    prepared::Prepared,
    profile::Profile,
    registry::Registry,
    snapshot::{Slot, Snapshot},
};

/// A node in its snapshot.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The node.
    pub node: &'a NodeInfo,
    /// The nodes.
    pub nodes: &'a Snapshot,
    /// The node's position among them.
    pub slot: Slot,
    /// What the whole cluster says about the class.
    pub facts: &'a Facts,
}

/// One thing that a node lacks, or a pod for a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lack {
    /// Free amounts of a resource.
    Resource {
        /// The resource, `pods` for the number of pods.
        name: Arc<str>,
        /// How much more would have to be free, in the unit of [`crate::resources::Resources`]; above 0.
        short: i64,
        /// How much the pod asks for.
        request: i64,
        /// How much the node has in all; where that is less than the request, no pod's leaving helps.
        allocatable: i64,
    },
    /// The pod does not tolerate a taint.
    Toleration(Taint),
    /// The node is cordoned.
    Cordoned,
    /// The node's kubelet does not declare a feature.
    Feature(&'static str),
    /// A label is not as the pod or its profile demands.
    Label {
        /// The demand.
        requirement: Requirement,
        /// The value that the node has.
        found: Option<Arc<str>>,
    },
    /// The node has not the name that the pod demands.
    Name(Requirement),
    /// A port of the node is taken.
    Port(HostPort),
    /// The node takes no more volumes of a driver.
    Volumes {
        /// The driver.
        driver: Arc<str>,
        /// How many volumes there would be above the limit; above 0.
        over: i64,
    },
    /// A driver is not on the node.
    Driver(Arc<str>),
    /// The node has no label of this key, so that it is in none of the domains that are counted over.
    Key(Arc<str>),
    /// The node's domain holds more of the pods that are spread than the constraint allows.
    Skew {
        /// The label that pods are spread over.
        key: Arc<str>,
        /// How many pods less would do; above 0.
        over: i64,
    },
    /// In the node's domain is no pod that the pod's required affinity asks for.
    Near(Arc<str>),
    /// In the node's domain is a pod that the pod's required anti-affinity avoids.
    Away(Arc<str>),
    /// In the node's domain is a pod whose required anti-affinity refuses this one.
    Welcome(Arc<str>),
    /// Devices that the pod's claims ask for.
    Devices(DeviceLack),
}

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
