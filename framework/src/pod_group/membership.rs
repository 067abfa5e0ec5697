//! The pods of a group, by `spec.schedulingGroup` or by the label of scheduler-plugins.

use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, sync::Arc};

use super::PLUGIN;
use crate::{class::PodInfo, profile::Profile};

/// The label that names a pod's group of `scheduling.x-k8s.io`, in the pod's namespace.
pub const LABEL: &str = "scheduling.x-k8s.io/pod-group";

/// The plugin that reads groups of `scheduling.x-k8s.io`.
pub const COSCHEDULING: &str = "Coscheduling";

/// The API of a pod group. Groups of different APIs may have the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum GroupApi {
    /// `scheduling.k8s.io`, behind the feature gate GenericWorkload.
    Kubernetes,
    /// `scheduling.x-k8s.io` of scheduler-plugins, read by the plugin Coscheduling.
    Coscheduling,
    /// CompositePodGroups of `scheduling.k8s.io`, behind the feature gate CompositePodGroup. No pod names one.
    Composite,
}

impl GroupApi {
    /// The plugin with the rules of its groups.
    #[must_use]
    pub const fn plugin(self) -> &'static str {
        match self {
            Self::Kubernetes | Self::Composite => PLUGIN,
            Self::Coscheduling => COSCHEDULING,
        }
    }
}

/// The name of a pod group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupKey {
    /// Its namespace, also that of its pods.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its API.
    pub api: GroupApi,
}

impl GroupKey {
    /// The name of the group's entity in the queue and in messages. Source: `EntityKey.String`.
    #[must_use]
    pub fn entity(&self) -> String {
        let kind = match self.api {
            GroupApi::Kubernetes => "podgroup",
            GroupApi::Coscheduling => "podgroup.scheduling.x-k8s.io",
            GroupApi::Composite => "compositepodgroup",
        };
        format!("{kind}/{}/{}", self.namespace, self.name)
    }

    /// The message for pods of a group that does not exist.
    #[must_use]
    pub fn absent(&self) -> String {
        let name = &self.name;
        match self.api {
            GroupApi::Kubernetes => format!("waiting for pods's pod group {name:?} to appear in scheduling queue"),
            GroupApi::Coscheduling => {
                format!("PodGroup not found: the label {LABEL} names {name:?}; create it, or remove the label")
            }
            GroupApi::Composite => format!(
                "failed to build hierarchy snapshot: composite pod group object not found in state for {}",
                self.entity()
            ),
        }
    }
}

/// Whether a profile names the plugin Coscheduling at any extension point.
#[must_use]
pub fn reads_coscheduling(profile: &Profile) -> bool {
    profile.plugins.names().any(|name| name == COSCHEDULING)
}

/// Which pods are members of groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Membership {
    generic_workload: bool,
    /// The `schedulerName` of each profile without the plugin Coscheduling; `None`: no profile has it.
    without: Option<BTreeSet<Arc<str>>>,
}

impl Membership {
    /// The membership with these profiles. `generic_workload`: the feature gate.
    #[must_use]
    pub fn new(generic_workload: bool, profiles: &[Profile]) -> Self {
        let (with, without): (Vec<_>, Vec<_>) = profiles.iter().partition(|profile| reads_coscheduling(profile));
        let without = without.into_iter().map(|profile| Arc::clone(&profile.scheduler_name)).collect();
        Self { generic_workload, without: (!with.is_empty()).then_some(without) }
    }

    /// Whether any pod can be a member.
    #[must_use]
    pub const fn is_any(&self) -> bool {
        self.generic_workload || self.without.is_some()
    }

    /// The group of a pod. Pods of other schedulers count as members, as in scheduler-plugins.
    #[must_use]
    pub fn group_of(&self, pod: &PodInfo) -> Option<GroupKey> {
        let namespace = || Arc::clone(&pod.class.namespace);
        if let Some(name) = pod.scheduling_group.as_ref().filter(|_| self.generic_workload) {
            return Some(GroupKey { namespace: namespace(), name: Arc::clone(name), api: GroupApi::Kubernetes });
        }
        let without = self.without.as_ref()?;
        let labels = &pod.class.labels;
        let place = labels.binary_search_by(|(key, _)| (**key).cmp(LABEL)).ok()?;
        let (_, name) = labels.get(place)?;
        let is_member = !name.is_empty() && !without.contains(&pod.scheduler_name);
        is_member.then(|| GroupKey { namespace: namespace(), name: Arc::clone(name), api: GroupApi::Coscheduling })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, pod};

    fn profile(scheduler: &str, coscheduling: bool) -> Profile {
        let mut profile = testing::profile();
        profile.scheduler_name = scheduler.into();
        profile.plugins.permit.extend(coscheduling.then(|| COSCHEDULING.to_owned()));
        profile
    }

    #[test]
    fn a_pod_is_a_member_by_its_label_if_its_profile_has_the_plugin_and_by_its_field_behind_the_gate() {
        let labelled = || pod("p").label(LABEL, "crd");
        let (of_crd, native) = (Some(("crd", GroupApi::Coscheduling)), Some(("native", GroupApi::Kubernetes)));
        let profiles = [profile("default-scheduler", false), profile("gangs", true)];
        let without = [profile("default-scheduler", false)];
        for (pod, gate, profiles, expected) in [
            (labelled(), false, &without[..], None),
            (labelled(), false, &profiles[..], None),
            (labelled().scheduler("gangs"), false, &profiles[..], of_crd),
            (labelled().scheduler("another"), false, &profiles[..], of_crd),
            (pod("p").label(LABEL, "").scheduler("gangs"), false, &profiles[..], None),
            (labelled().group("native").scheduler("gangs"), false, &profiles[..], of_crd),
            (labelled().group("native").scheduler("gangs"), true, &profiles[..], native),
            (pod("p").group("native"), true, &without[..], native),
            (pod("p").group("native"), false, &profiles[..], None),
        ] {
            let key = Membership::new(gate, profiles).group_of(&pod.build());
            assert_eq!(key.as_ref().map(|key| (&*key.name, key.api)), expected);
        }
    }

    #[test]
    fn the_message_about_an_absent_group_names_it() {
        let key = |api| GroupKey { namespace: "n".into(), name: "g".into(), api };
        let native = "waiting for pods's pod group \"g\" to appear in scheduling queue";
        assert_eq!(key(GroupApi::Kubernetes).absent(), native);
        let crd =
            "PodGroup not found: the label scheduling.x-k8s.io/pod-group names \"g\"; create it, or remove the label";
        assert_eq!(key(GroupApi::Coscheduling).absent(), crd);
        let composite = "failed to build hierarchy snapshot: composite pod group object not found in state for compositepodgroup/n/g";
        assert_eq!(key(GroupApi::Composite).absent(), composite);
    }
}
