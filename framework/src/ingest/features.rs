//! The feature gates that change how pods are read.

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
    /// `PodGroupPreemptionPolicy`: the group decides whether its pods preempt. Recordings of earlier versions lack it.
    #[serde(default)]
    pub group_preemption_policy: bool,
    /// `TopologyAwareWorkloadScheduling`: pod groups are tried in each of their placements. Recordings of earlier versions lack it.
    #[serde(default)]
    pub topology_aware: bool,
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
        }
    }
}
