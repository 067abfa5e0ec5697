//! Events that may wake pods a plugin rejected, in kube-scheduler's labels. Plugins [declare](crate::extension::Plugin::events) them. They
//! are shown to users, and preselect the events for queueing hints ([`Plugin::wakes`](crate::extension::Plugin::wakes)).

use crate::{
    extension::{ClusterEvent, Kind},
    profile::Profile,
    registry::Registry,
};

pub(super) const NODE_ADD: &str = "NodeAdd";
pub(super) const NODE_DELETE: &str = "NodeDelete";
pub(super) const NODE_ALLOCATABLE: &str = "NodeUpdateNodeAllocatable";
pub(super) const NODE_LABEL: &str = "NodeUpdateNodeLabel";
pub(super) const NODE_TAINT: &str = "NodeUpdateNodeTaint";
pub(super) const NODE_FEATURE: &str = "NodeUpdateNodeDeclaredFeature";
pub(super) const NODE_PREEMPTION_POLICY: &str = "NodeUpdateNodePreemptionPolicy";
pub(super) const POD_ADD: &str = "AssignedPodAdd";
pub(super) const POD_DELETE: &str = "AssignedPodDelete";
pub(super) const POD_LABEL: &str = "AssignedPodUpdatePodLabel";
pub(super) const POD_SCALE_DOWN: &str = "AssignedPodUpdatePodScaleDown";
pub(super) const CLAIM_ADD: &str = "PersistentVolumeClaimAdd";
pub(super) const CLAIM_UPDATE: &str = "PersistentVolumeClaimUpdate";
pub(super) const VOLUME_ADD: &str = "PersistentVolumeAdd";
pub(super) const VOLUME_UPDATE: &str = "PersistentVolumeUpdate";
pub(super) const CLASS_ADD: &str = "StorageClassAdd";
pub(super) const CLASS_UPDATE: &str = "StorageClassUpdate";
pub(super) const CSI_NODE_ADD: &str = "CSINodeAdd";
pub(super) const CSI_NODE_UPDATE: &str = "CSINodeUpdate";
pub(super) const TARGET_LABEL: &str = "TargetPodUpdatePodLabel";
pub(super) const TARGET_SCALE_DOWN: &str = "TargetPodUpdatePodScaleDown";
pub(super) const TARGET_TOLERATION: &str = "TargetPodUpdatePodToleration";
pub(super) const TARGET_UNGATED: &str = "TargetPodUpdatePodSchedulingGatesEliminated";
pub(super) const TARGET_UPDATE: &str = "TargetPodUpdate";

/// Labels such as `NodeAdd` of the events that may wake pods which this plugin rejected. Empty for an unknown plugin, whose pods wait for
/// any event.
#[must_use]
pub fn of(registry: Registry, plugin: &str) -> &'static [&'static str] {
    registry.find(plugin).map_or(&[], |plugin| plugin.events())
}

/// Whether the hint of a plugin of these profiles must run for an event. True for plugins that are unknown or declare no events. Source:
/// `isEventOfInterest` and `MatchAnyClusterEvent`.
#[must_use]
pub fn may_wake(registry: Registry, profiles: &[Profile], plugin: &str, event: ClusterEvent<'_>) -> bool {
    let known = of(registry, plugin);
    let listens = |prefix: &str| known.iter().any(|label| label.starts_with(prefix));
    known.is_empty()
        || match event {
            ClusterEvent::NodeAdded(_) => listens(NODE_ADD),
            // Nodes include the data of CSINodes here.
            ClusterEvent::NodeUpdated { .. } => listens("NodeUpdate") || listens("CSINode"),
            ClusterEvent::NodeRemoved(_) => listens(NODE_DELETE),
            ClusterEvent::PodAdded(_) => listens(POD_ADD),
            ClusterEvent::PodUpdated { .. } | ClusterEvent::PodRemoved(_) => {
                listens("AssignedPodUpdate") || listens(POD_DELETE)
            }
            ClusterEvent::TargetUpdated { .. } => listens("TargetPod"),
            ClusterEvent::NamespaceChanged(_) => listens("Namespace"),
            // kube-scheduler has no such event, and so no label.
            ClusterEvent::SelectorChanged(_) => reads_selectors(registry, profiles, plugin),
            ClusterEvent::StorageChanged { .. } => {
                ["PersistentVolume", "StorageClass", "CSI", "VolumeAttachment"].into_iter().any(listens)
            }
            ClusterEvent::DeviceChanged { .. } => {
                ["ResourceClaim", "DeviceClass", "ResourceSlice"].into_iter().any(listens)
            }
        }
}

/// Whether a plugin reads the selectors of services or controllers, with the arguments of any of these profiles.
fn reads_selectors(registry: Registry, profiles: &[Profile], plugin: &str) -> bool {
    registry.find(plugin).is_some_and(|plugin| {
        let mut kinds = profiles.iter().flat_map(|profile| plugin.reads(&profile.args));
        kinds.any(|kind| Kind::SELECTING.contains(kind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        extension::Plugin,
        profile::PodTopologySpreadDefaulting,
        testing::{self, node, pod},
    };

    /// Prefixes of the built-in plugins' labels; nothing reads the labels further.
    const RESOURCES: [&str; 14] = [
        "AssignedPod",
        "CSIDriver",
        "CSINode",
        "CSIStorageCapacity",
        "DeviceClass",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "ResourceClaim",
        "ResourceSlice",
        "StorageClass",
        "TargetPod",
        "VolumeAttachment",
    ];

    fn of(plugin: &str) -> &'static [&'static str] {
        super::of(Registry::built_in(), plugin)
    }

    fn may_wake(plugin: &str, event: ClusterEvent<'_>) -> bool {
        super::may_wake(Registry::built_in(), &[testing::profile()], plugin, event)
    }

    /// A plugin that rejects no pod declares no events.
    fn refuses(plugin: &&dyn Plugin) -> bool {
        !plugin.events().is_empty()
    }

    fn woken_by(plugin: &dyn Plugin, profile: &Profile) -> Vec<&'static str> {
        let wants = pod("wants").request("cpu", "1").build().class;
        let (small, large) = (node("n").capacity("cpu", "1").build(), node("n").capacity("cpu", "64").build());
        let cordoned = node("n").cordon().build();
        let events = [
            (NODE_ADD, ClusterEvent::NodeAdded(&large)),
            (NODE_ALLOCATABLE, ClusterEvent::NodeUpdated { old: &small, new: &large }),
            (NODE_TAINT, ClusterEvent::NodeUpdated { old: &cordoned, new: &large }),
            (NODE_DELETE, ClusterEvent::NodeRemoved(&large)),
            (POD_ADD, ClusterEvent::PodAdded(&wants)),
            (POD_DELETE, ClusterEvent::PodRemoved(&wants)),
        ];
        let wakes = events.into_iter().filter(|(_, event)| plugin.wakes(*event, &wants, &profile.args));
        let wakes = wakes.inspect(|(label, event)| assert!(may_wake(plugin.name(), *event), "{label}"));
        wakes.map(|(label, _)| label).collect()
    }

    #[test]
    fn every_event_that_wakes_a_pod_is_in_the_list_of_the_plugin() {
        let profile = testing::profile();
        for plugin in Registry::built_in().iter().filter(refuses) {
            for label in woken_by(plugin, &profile) {
                // A cordon is also a taint, and this update also increases the allocatable resources.
                let is_listed = of(plugin.name()).contains(&label);
                let is_twofold = label == NODE_TAINT && !of(plugin.name()).is_empty();
                assert!(is_listed || is_twofold, "{} is woken by {label}", plugin.name());
            }
        }
    }

    #[test]
    fn what_changes_of_the_pod_itself_means_something_to_those_who_read_it() {
        let profile = testing::profile();
        let old = || pod("web").request("cpu", "2");
        let updates = [
            (old().label("a", "b"), "TargetPodUpdatePodLabel", vec!["InterPodAffinity"]),
            (pod("web").request("cpu", "1"), "TargetPodUpdatePodScaleDown", vec!["NodeResourcesFit"]),
            (pod("web").request("cpu", "3"), "TargetPodUpdatePodScaleUp", vec![]),
            (old().tolerate("gpu", "Exists", "", ""), "TargetPodUpdatePodToleration", vec!["TaintToleration"]),
            (
                old().tolerate("node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule"),
                "TargetPodUpdatePodToleration",
                vec!["NodeUnschedulable", "TaintToleration"],
            ),
        ];
        let old = old().build().class;
        for (new, label, expected) in updates {
            let new = new.build().class;
            let event = ClusterEvent::TargetUpdated { old: &old, new: &new };
            let registry = Registry::built_in();
            let woken = registry.iter().filter(refuses).filter(|plugin| plugin.wakes(event, &new, &profile.args));
            let woken: Vec<&str> = woken.map(|plugin| plugin.name()).collect();
            assert_eq!((event.label(), &woken), (label, &expected));
            assert!(woken.iter().all(|name| of(name).contains(&label) && may_wake(name, event)));
        }
    }

    #[test]
    fn kinds_of_events_that_a_plugin_does_not_listen_to_are_not_worth_asking_about() {
        let wants = pod("wants").build().class;
        assert!(!may_wake("NodeResourcesFit", ClusterEvent::PodAdded(&wants)));
        assert!(may_wake("NodeResourcesFit", ClusterEvent::PodRemoved(&wants)));
        assert!(!may_wake("SchedulingGates", ClusterEvent::PodRemoved(&wants)));
        assert!(may_wake("Unheard", ClusterEvent::PodAdded(&wants)), "it is not known what it waits for");
    }

    #[test]
    fn every_plugin_that_filters_by_default_waits_for_something_and_nothing_is_listed_twice() {
        for name in &testing::profile().plugins.filter {
            assert!(!of(name).is_empty(), "{name}");
        }
        for plugin in Registry::built_in().iter() {
            let distinct: std::collections::BTreeSet<_> = plugin.events().iter().collect();
            assert_eq!(distinct.len(), plugin.events().len(), "{}", plugin.name());
        }
        assert!(of("Unheard").is_empty());
    }

    #[test]
    fn every_label_is_a_resource_and_what_happens_to_it() {
        for label in Registry::built_in().iter().flat_map(Plugin::events) {
            let mut verbs = RESOURCES.into_iter().filter_map(|resource| label.strip_prefix(resource));
            assert!(verbs.any(|verb| verb == "Add" || verb == "Delete" || verb.starts_with("Update")), "{label}");
        }
    }

    #[test]
    fn what_selects_pods_concerns_the_plugin_that_reads_it_where_constraints_are_given_by_default() {
        let event = ClusterEvent::SelectorChanged("default");
        for name in Registry::built_in().iter().map(Plugin::name).filter(|name| !of(name).is_empty()) {
            assert_eq!(may_wake(name, event), name == "PodTopologySpread", "{name}");
        }
        let mut bare = testing::profile();
        bare.args.pod_topology_spread.defaulting_type = PodTopologySpreadDefaulting::List;
        let may_wake =
            |profiles: &[Profile]| super::may_wake(Registry::built_in(), profiles, "PodTopologySpread", event);
        assert!(!may_wake(std::slice::from_ref(&bare)) && may_wake(&[bare, testing::profile()]));
    }
}
