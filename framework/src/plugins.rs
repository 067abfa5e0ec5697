//! Registry of the built-in plugins.

use crate::{extension::Plugin, registry::Registry};

pub mod coscheduling;
pub mod default_binder;
pub mod default_preemption;
pub mod deferred_pod_scheduling;
pub mod dynamic_resources;
pub mod image_locality;
pub mod inter_pod_affinity;
pub mod node_affinity;
pub mod node_declared_features;
pub mod node_name;
pub mod node_ports;
pub mod node_resources_balanced_allocation;
pub mod node_resources_fit;
pub mod node_unschedulable;
pub mod node_volume_limits;
pub mod normalize;
pub mod pod_topology_spread;
pub mod priority_sort;
pub mod scheduling_gates;
pub mod scorer;
pub mod taint_toleration;
pub mod volume_binding;
pub mod volume_restrictions;
pub mod volume_zone;
pub mod wakers;

/// All built-in plugins: those of kube-scheduler, in the order of its default configuration, then Coscheduling.
const BUILT_IN: &[&dyn Plugin] = &[
    &scheduling_gates::SchedulingGates,
    &priority_sort::PrioritySort,
    &node_name::NodeName,
    &node_unschedulable::NodeUnschedulable,
    &taint_toleration::TaintToleration,
    &node_affinity::NodeAffinity,
    &node_ports::NodePorts,
    &deferred_pod_scheduling::DeferredPodScheduling,
    &node_resources_fit::NodeResourcesFit,
    &volume_restrictions::VolumeRestrictions,
    &node_volume_limits::NodeVolumeLimits,
    &volume_binding::VolumeBinding,
    &volume_zone::VolumeZone,
    &pod_topology_spread::PodTopologySpread,
    &inter_pod_affinity::InterPodAffinity,
    &dynamic_resources::DynamicResources,
    &node_resources_balanced_allocation::NodeResourcesBalancedAllocation,
    &image_locality::ImageLocality,
    &default_preemption::DefaultPreemption,
    &default_binder::DefaultBinder,
    &node_declared_features::NodeDeclaredFeatures,
    &coscheduling::Coscheduling,
];

impl Registry {
    /// The built-in plugins.
    #[must_use]
    pub const fn built_in() -> Self {
        Self::of(BUILT_IN)
    }
}
