//! The rules for pod groups: those of GangScheduling, and those of Coscheduling for groups of `scheduling.x-k8s.io`. A composite pod group is
//! a group of groups, read as a pod group with another API.
//!
//! Source: `plugins/gangscheduling`, `validatePodGroup` in `schedule_one_podgroup.go`, and `pkg/coscheduling` of scheduler-plugins.

mod hierarchy;
mod membership;
mod topology;

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::{class::PodInfo, devices::claimed::PodClaim, profile::Plugins, resources::Resources};

pub use hierarchy::{AsVictim, Hierarchy, MAX_DEPTH};
pub use membership::{COSCHEDULING, GroupApi, GroupKey, LABEL, Membership, reads_coscheduling};
pub use topology::{Assigned, NoPlacements, Topology, placements, scores};

/// The plugin with these rules.
pub const PLUGIN: &str = "GangScheduling";

/// kube-scheduler's message for members that have a feasible node while their group is not scheduled.
pub const UNSCHEDULABLE: &str = "pod group is unschedulable";

/// kube-scheduler's message for a group with fewer members than required.
const TOO_FEW_MEMBERS: &str = "waiting for minCount pods from a gang to appear in scheduling queue";

/// A pod group with the fields that scheduling reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodGroup {
    /// `metadata.namespace`, also that of its pods.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.generation`, for the condition's `observedGeneration`.
    pub generation: i64,
    /// Its API.
    pub api: GroupApi,
    /// With the gate CompositePodGroup: `spec.parentCompositePodGroupName`.
    pub parent: Option<Arc<str>>,
    /// `metadata.creationTimestamp` in Unix seconds, 0 where absent; the order of groups with the same parent.
    pub created_s: i64,
    /// `spec.schedulingPolicy.gang.minCount`; `None` for the basic policy, which schedules each pod that fits. For `scheduling.x-k8s.io`:
    /// `spec.minMember`. For a composite group: `minGroupCount`, a number of groups.
    pub min_count: Option<u32>,
    /// `spec.priority`, 0 where absent; the pods must have the same. For `scheduling.x-k8s.io`: the lowest priority of its pods.
    pub priority: i32,
    /// Whether `spec.disruptionMode` is `all`: its pods, in all groups below it, are preempted together or not at all.
    pub disrupted_whole: bool,
    /// The current `PodGroupInitiallyScheduled` condition.
    pub condition: Option<GroupCondition>,
    /// `spec.minResources` of `scheduling.x-k8s.io`: the resources that the cluster needs before any pod is tried.
    pub min_resources: Option<Box<Resources>>,
    /// With the gate PodGroupPreemptionPolicy: whether `spec.preemptionPolicy` is `Never`. Otherwise its pods decide.
    pub never_preempts: Option<bool>,
    /// The placements in which it is tried.
    pub topology: Topology,
    /// With the gate DRAWorkloadResourceClaims: `spec.resourceClaims`, with the names of generated claims in the status.
    pub claims: Vec<PodClaim>,
}

/// The `PodGroupInitiallyScheduled` condition of a pod group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupCondition {
    /// Whether its status is `True`.
    pub status: bool,
    /// The reason.
    pub reason: Arc<str>,
    /// The message.
    pub message: Arc<str>,
    /// The observed generation.
    pub observed_generation: i64,
}

/// The feasibility of a group while its pods are tried one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Feasibility {
    /// Enough pods have a node.
    Met,
    /// The remaining pods may be enough.
    Wait,
    /// Even with all remaining pods there are too few; the reason.
    Never(String),
}

impl PodGroup {
    /// `namespace/name`.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The name with its namespace and API.
    #[must_use]
    pub fn group_key(&self) -> GroupKey {
        GroupKey { namespace: Arc::clone(&self.namespace), name: Arc::clone(&self.name), api: self.api }
    }

    /// The name of its parent.
    #[must_use]
    pub fn parent_key(&self) -> Option<GroupKey> {
        let name = Arc::clone(self.parent.as_ref()?);
        Some(GroupKey { namespace: Arc::clone(&self.namespace), name, api: GroupApi::Composite })
    }

    /// Whether a group with this number of members, all without a gate, is a complete gang.
    #[must_use]
    pub fn is_complete(&self, members: usize) -> bool {
        self.min_count.is_none_or(|min_count| members >= min_count as usize)
    }

    /// Whether gated members keep the group out of the queue: any of them, or for `scheduling.x-k8s.io` so many that the others are no gang.
    #[must_use]
    pub fn is_gated_by(&self, gated: usize, members: usize) -> bool {
        match self.api {
            GroupApi::Kubernetes | GroupApi::Composite => gated > 0,
            GroupApi::Coscheduling => {
                gated > 0 && self.is_complete(members) && !self.is_complete(members.saturating_sub(gated))
            }
        }
    }

    /// PreEnqueue: the reason to gate a group with this number of members.
    #[must_use]
    pub fn gate(&self, plugins: &Plugins, members: usize) -> Option<String> {
        if self.is_complete(members) {
            return None;
        }
        match self.api {
            GroupApi::Kubernetes | GroupApi::Composite => {
                plugins.pre_enqueue.iter().any(|name| name == PLUGIN).then(|| TOO_FEW_MEMBERS.to_owned())
            }
            GroupApi::Coscheduling => {
                let min_member = self.min_count.unwrap_or(0);
                Some(format!(
                    "cannot find enough sibling pods, current pods number: {members}, minMember of group: {min_member}"
                ))
            }
        }
    }

    /// PlacementFeasible: the feasibility with these numbers of scheduled and remaining pods, or groups for a composite group.
    #[must_use]
    pub fn feasibility(&self, plugins: &Plugins, scheduled: usize, remaining: usize) -> Feasibility {
        // kube-scheduler runs the plugin here if the profile has it at any point.
        let has = |names: &[String]| names.iter().any(|name| name == PLUGIN);
        let (is_on, field) = match self.api {
            GroupApi::Kubernetes | GroupApi::Composite => {
                (has(&plugins.pre_enqueue) || has(&plugins.permit), "minCount")
            }
            GroupApi::Coscheduling => (true, "minMember"),
        };
        if !is_on {
            return Feasibility::Met;
        }
        let min_count = self.min_count.unwrap_or(1) as usize;
        if remaining + scheduled < min_count {
            return Feasibility::Never(format!(
                "{field} ({min_count}) cannot be satisfied: {scheduled} scheduled, {remaining} remaining"
            ));
        }
        if scheduled < min_count { Feasibility::Wait } else { Feasibility::Met }
    }

    /// Whether these pods may be scheduled together: pending pods first, then bound ones. Pods of `scheduling.x-k8s.io` may differ.
    ///
    /// # Errors
    /// The first difference, in kube-scheduler's format.
    pub fn validate<'a>(&self, pods: impl IntoIterator<Item = &'a PodInfo>) -> Result<(), String> {
        if self.api == GroupApi::Coscheduling {
            return Ok(());
        }
        let (mut scheduler_name, mut never_preempts) = (None, self.never_preempts);
        let compared = if self.never_preempts.is_some() { " as the pod group's preemption policy" } else { "" };
        for pod in pods {
            let first: &str = scheduler_name.get_or_insert(&pod.scheduler_name);
            if *pod.scheduler_name != *first {
                return Err(format!(
                    "all pods in a single pod group should have the same .spec.schedulerName set, got: {:?} and {first:?}",
                    pod.scheduler_name
                ));
            }
            if pod.priority != self.priority {
                return Err(format!(
                    "all pods in a single pod group should have the same priority as the pod group's priority, got {} \
                     and {}",
                    pod.priority, self.priority
                ));
            }
            let first = *never_preempts.get_or_insert(pod.never_preempts);
            if pod.never_preempts != first {
                let policy = |never: bool| if never { "Never" } else { "PreemptLowerPriority" };
                return Err(format!(
                    "all pods in a single pod group should have the same preemption policy{compared}, got {} and {}",
                    policy(pod.never_preempts),
                    policy(first)
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{pod, pod_group};

    fn plugins(pre_enqueue: &[&str], permit: &[&str]) -> Plugins {
        let names = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect();
        Plugins { pre_enqueue: names(pre_enqueue), permit: names(permit), ..Plugins::default() }
    }

    #[test]
    fn a_gang_needs_its_pods_and_a_basic_group_only_one() {
        let with = plugins(&[PLUGIN], &[PLUGIN]);
        let never = |text: &str| Feasibility::Never(text.to_owned());
        for (min_count, scheduled, remaining, expected) in [
            (Some(3), 0, 3, Feasibility::Wait),
            (Some(3), 2, 1, Feasibility::Wait),
            (Some(3), 3, 2, Feasibility::Met),
            (Some(3), 1, 1, never("minCount (3) cannot be satisfied: 1 scheduled, 1 remaining")),
            (None, 0, 1, Feasibility::Wait),
            (None, 1, 0, Feasibility::Met),
            (None, 0, 0, never("minCount (1) cannot be satisfied: 0 scheduled, 0 remaining")),
        ] {
            let group = pod_group("g", min_count);
            assert_eq!(
                group.feasibility(&with, scheduled, remaining),
                expected,
                "{min_count:?} {scheduled} {remaining}"
            );
        }
    }

    #[test]
    fn the_plugin_takes_part_where_the_profile_has_it() {
        let group = pod_group("g", Some(3));
        for (pre_enqueue, permit, gates, counts) in [
            (&[PLUGIN][..], &[PLUGIN][..], true, true),
            (&[], &[PLUGIN], false, true),
            (&[PLUGIN], &[], true, true),
            (&[], &[], false, false),
        ] {
            let plugins = plugins(pre_enqueue, permit);
            assert_eq!(group.gate(&plugins, 2).is_some(), gates);
            assert_eq!(group.feasibility(&plugins, 1, 0) != Feasibility::Met, counts);
        }
        assert_eq!(group.gate(&plugins(&[PLUGIN], &[]), 3), None);
        assert_eq!(pod_group("g", None).gate(&plugins(&[PLUGIN], &[]), 0), None);
    }

    #[test]
    fn pods_of_one_group_have_one_scheduler_one_preemption_policy_and_the_priority_of_the_group() {
        let group = PodGroup { priority: 5, ..pod_group("g", None) };
        let alike = [pod("a").priority(5).build(), pod("b").priority(5).build()];
        assert_eq!(group.validate(&alike), Ok(()));
        let other = [pod("a").priority(5).build(), pod("b").priority(5).scheduler("other").build()];
        assert_eq!(
            group.validate(&other).unwrap_err(),
            "all pods in a single pod group should have the same .spec.schedulerName set, got: \"other\" and \
             \"default-scheduler\""
        );
        assert_eq!(
            group.validate(&[pod("a").build()]).unwrap_err(),
            "all pods in a single pod group should have the same priority as the pod group's priority, got 0 and 5"
        );
        let some = [pod("a").priority(5).build(), pod("b").priority(5).never_preempts().build()];
        assert_eq!(
            group.validate(&some).unwrap_err(),
            "all pods in a single pod group should have the same preemption policy, got Never and PreemptLowerPriority"
        );
    }

    #[test]
    fn a_group_of_scheduler_plugins_needs_no_plugin_lists_and_tolerates_gated_pods_beyond_the_gang() {
        let group = PodGroup { api: GroupApi::Coscheduling, ..pod_group("g", Some(3)) };
        let none = plugins(&[], &[]);
        let text = "cannot find enough sibling pods, current pods number: 2, minMember of group: 3";
        assert_eq!(group.gate(&none, 2).as_deref(), Some(text));
        assert_eq!(group.gate(&none, 3), None);
        let never = Feasibility::Never("minMember (3) cannot be satisfied: 1 scheduled, 1 remaining".to_owned());
        assert_eq!(group.feasibility(&none, 1, 1), never);
        assert_eq!(group.feasibility(&none, 1, 2), Feasibility::Wait);
        assert_eq!(group.feasibility(&none, 3, 0), Feasibility::Met);
        for (gated, members, expected) in [(0, 3, false), (1, 3, true), (1, 4, false), (2, 4, true), (1, 2, false)] {
            assert_eq!(group.is_gated_by(gated, members), expected, "{gated} of {members}");
            assert_eq!(pod_group("g", Some(3)).is_gated_by(gated, members), gated > 0);
        }
        let differing = [pod("a").priority(5).build(), pod("b").scheduler("other").build()];
        assert_eq!(group.validate(&differing), Ok(()));
        assert!(PodGroup { min_count: Some(0), ..group }.is_complete(0));
    }
}
