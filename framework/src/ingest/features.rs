//! The feature gates that change how objects are read.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

/// Feature gates of kube-scheduler. The default is that of 1.37.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Features {
    /// `TaintTolerationComparisonOperators`: tolerations may compare integers by `Gt` and `Lt`. Otherwise these tolerate nothing.
    pub comparison_operators: bool,
    /// `MatchLabelKeysInPodTopologySpread`: spread constraints add the pod's labels in `matchLabelKeys` to their selectors. An API server
    /// with `MatchLabelKeysInPodTopologySpreadSelectorMerge` has already added them.
    pub match_label_keys: bool,
    /// `PodLevelResources`: requests in the pod's `spec.resources` replace the sums of its containers.
    pub pod_level_resources: bool,
    /// `InPlacePodLevelResourcesVerticalScaling`: the pod's `status.resources` and `status.allocatedResources` count.
    pub pod_level_resizes: bool,
    /// `PodGroupPreemptionPolicy`: the group decides whether its pods preempt.
    pub group_preemption_policy: bool,
    /// `TopologyAwareWorkloadScheduling`: pod groups are tried in each of their placements.
    pub topology_aware: bool,
    /// `CompositePodGroup`: pod groups may be part of composite pod groups.
    pub composite_groups: bool,
    /// `DRAWorkloadResourceClaims`: pods may share the claims of their pod group, which are reserved for the group.
    pub workload_claims: bool,
    /// `InPlacePodVerticalScalingSchedulerPreemption`: a bound pod with a deferred resize is tried on its node.
    pub deferred_resizes: bool,
    /// Gates of Dynamic Resource Allocation.
    pub devices: DeviceFeatures,
}

/// Feature gates of Dynamic Resource Allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceFeatures {
    /// `DRADeviceCompatibilityGroups`: only devices with a common group use a counter set together. Otherwise slices with groups are
    /// ignored, and their pools are incomplete.
    pub compatibility_groups: bool,
    /// `DRAConsumableCapacity`: claims share devices and their capacity. Otherwise requests for capacity fail.
    pub consumable_capacity: bool,
    /// `DRADerivedAttributes`: constraints may use attributes that requests compute. Otherwise such requests fail.
    pub derived_attributes: bool,
    /// `DRADeviceBindingConditions`: devices may have binding conditions. Otherwise such devices are not allocated.
    pub binding_conditions: bool,
    /// `DRADeviceTaints`: taints of devices count.
    pub taints: bool,
    /// `DRADeviceTaintRules`: DeviceTaintRules count.
    pub taint_rules: bool,
    /// `DRAFractionalCapacityRange`: requested capacity is rounded in milli-units, otherwise in whole units.
    pub fractional_ranges: bool,
    /// `DRAListTypeAttributes`: constraints compare lists as sets.
    pub list_attributes: bool,
    /// `DRANodeAllocatableResources`: a pod's devices take amounts of the node's resources, which its requests do not contain.
    pub node_allocatable: bool,
    /// `DRAOptionalNodeOperations`: a slice with `skipNodeOperations` needs a node that declares this feature.
    pub optional_node_operations: bool,
    /// `DRAPartitionableDevices`: devices may consume shared counters. Otherwise such devices are not allocated.
    pub partitionable_devices: bool,
}

/// Implementation of the allocator that kube-scheduler chooses: the first that supports all enabled features. Source: `NewAllocator`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Allocator {
    Stable,
    Incubating,
    Experimental,
}

impl DeviceFeatures {
    pub(super) const fn allocator(self) -> Allocator {
        if self.compatibility_groups || self.derived_attributes || self.list_attributes || self.optional_node_operations
        {
            Allocator::Experimental
        } else if self.consumable_capacity || self.fractional_ranges || self.binding_conditions {
            Allocator::Incubating
        } else {
            Allocator::Stable
        }
    }
}

impl Default for Features {
    fn default() -> Self {
        Self {
            comparison_operators: false,
            match_label_keys: true,
            pod_level_resources: true,
            pod_level_resizes: true,
            group_preemption_policy: false,
            topology_aware: false,
            composite_groups: false,
            workload_claims: false,
            deferred_resizes: false,
            devices: DeviceFeatures::default(),
        }
    }
}

impl Default for DeviceFeatures {
    fn default() -> Self {
        Self {
            compatibility_groups: false,
            consumable_capacity: true,
            derived_attributes: false,
            binding_conditions: true,
            taints: true,
            taint_rules: true,
            fractional_ranges: false,
            list_attributes: false,
            node_allocatable: false,
            optional_node_operations: false,
            partitionable_devices: true,
        }
    }
}
