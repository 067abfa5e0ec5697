//! Which kinds of events may change a plugin's mind, for people who wait for one.
//!
//! Knows: the events that each plugin's queueing hint listens to, by kube-scheduler's labels: the resource and what
//! happens to it. Must not know: what a hint makes of an event; that is [`Plugin::wakes`](crate::extension::Plugin).
//!
//! The lists are kube-scheduler's `EventsToRegister` at the default feature gates, plus the nodes that go and the
//! namespaces that hints listen to here and not there.

use crate::extension::ClusterEvent;

const NODE_ADD: &str = "NodeAdd";
const NODE_DELETE: &str = "NodeDelete";
const NODE_ALLOCATABLE: &str = "NodeUpdateNodeAllocatable";
const NODE_LABEL: &str = "NodeUpdateNodeLabel";
const NODE_TAINT: &str = "NodeUpdateNodeTaint";
const NODE_FEATURE: &str = "NodeUpdateNodeDeclaredFeature";
const POD_ADD: &str = "AssignedPodAdd";
const POD_DELETE: &str = "AssignedPodDelete";
const POD_LABEL: &str = "AssignedPodUpdatePodLabel";
const POD_SCALE_DOWN: &str = "AssignedPodUpdatePodScaleDown";
const CLAIM_ADD: &str = "PersistentVolumeClaimAdd";
const CLAIM_UPDATE: &str = "PersistentVolumeClaimUpdate";
const VOLUME_ADD: &str = "PersistentVolumeAdd";
const VOLUME_UPDATE: &str = "PersistentVolumeUpdate";
const CLASS_ADD: &str = "StorageClassAdd";
const CLASS_UPDATE: &str = "StorageClassUpdate";
const CSI_NODE_ADD: &str = "CSINodeAdd";
const CSI_NODE_UPDATE: &str = "CSINodeUpdate";
const TARGET_LABEL: &str = "TargetPodUpdatePodLabel";
const TARGET_SCALE_DOWN: &str = "TargetPodUpdatePodScaleDown";
const TARGET_TOLERATION: &str = "TargetPodUpdatePodToleration";
const TARGET_UNGATED: &str = "TargetPodUpdatePodSchedulingGatesEliminated";
const TARGET_UPDATE: &str = "TargetPodUpdate";

/// Each plugin that can refuse a pod or keep it out of the queue.
const EVENTS: &[(&str, &[&str])] = &[
    (
        "DynamicResources",
        &[
            NODE_ADD,
            NODE_LABEL,
            NODE_ALLOCATABLE,
            "ResourceClaimAdd",
            "ResourceClaimUpdate",
            "ResourceClaimDelete",
            "DeviceClassAdd",
            "DeviceClassUpdate",
            "ResourceSliceAdd",
            "ResourceSliceUpdate",
        ],
    ),
    (
        "InterPodAffinity",
        &[
            POD_ADD,
            POD_LABEL,
            POD_DELETE,
            NODE_ADD,
            NODE_DELETE,
            NODE_LABEL,
            TARGET_LABEL,
            "NamespaceAdd",
            "NamespaceUpdate",
            "NamespaceDelete",
        ],
    ),
    ("NodeAffinity", &[NODE_ADD, NODE_LABEL]),
    ("NodeDeclaredFeatures", &[NODE_ADD, NODE_FEATURE, TARGET_UPDATE]),
    ("NodeName", &[NODE_ADD]),
    ("NodePorts", &[POD_DELETE, NODE_ADD]),
    ("NodeResourcesFit", &[POD_DELETE, POD_SCALE_DOWN, NODE_ADD, NODE_ALLOCATABLE, TARGET_SCALE_DOWN]),
    ("NodeUnschedulable", &[NODE_ADD, NODE_TAINT, TARGET_TOLERATION]),
    ("NodeVolumeLimits", &[CSI_NODE_ADD, CSI_NODE_UPDATE, POD_DELETE, CLAIM_ADD, "VolumeAttachmentDelete"]),
    (
        "PodTopologySpread",
        &[
            POD_ADD,
            POD_LABEL,
            POD_DELETE,
            NODE_ADD,
            NODE_DELETE,
            NODE_LABEL,
            NODE_TAINT,
            TARGET_LABEL,
            TARGET_TOLERATION,
        ],
    ),
    ("SchedulingGates", &[TARGET_UNGATED]),
    ("TaintToleration", &[NODE_ADD, NODE_TAINT, TARGET_TOLERATION]),
    (
        "VolumeBinding",
        &[
            CLASS_ADD,
            CLASS_UPDATE,
            CLAIM_ADD,
            CLAIM_UPDATE,
            VOLUME_ADD,
            VOLUME_UPDATE,
            NODE_ADD,
            NODE_LABEL,
            CSI_NODE_ADD,
            CSI_NODE_UPDATE,
            "CSIDriverUpdate",
            "CSIStorageCapacityAdd",
            "CSIStorageCapacityUpdate",
        ],
    ),
    ("VolumeRestrictions", &[POD_DELETE, NODE_ADD, CLAIM_ADD]),
    ("VolumeZone", &[CLASS_ADD, NODE_ADD, NODE_LABEL, CLAIM_ADD, CLAIM_UPDATE, VOLUME_ADD, VOLUME_UPDATE]),
];

/// What may have a pod tried again that this plugin refused: labels such as `NodeAdd`. Empty for a plugin that is not
/// known, whose pods wait for any event.
#[must_use]
pub fn of(plugin: &str) -> &'static [&'static str] {
    EVENTS.iter().find(|(name, _)| *name == plugin).map_or(&[], |(_, events)| events)
}

/// Whether a plugin listens to events of this kind, so that its hint is worth asking. One that is not known may listen to
/// anything.
///
/// Source: `isEventOfInterest` and `MatchAnyClusterEvent`.
#[must_use]
pub fn may_wake(plugin: &str, event: ClusterEvent<'_>) -> bool {
    let known = of(plugin);
    let listens = |prefix: &str| known.iter().any(|label| label.starts_with(prefix));
    known.is_empty()
        || match event {
            ClusterEvent::NodeAdded(_) => listens(NODE_ADD),
            // What a driver says of a node is part of the node here.
            ClusterEvent::NodeUpdated { .. } => listens("NodeUpdate") || listens("CSINode"),
            ClusterEvent::NodeRemoved(_) => listens(NODE_DELETE),
            ClusterEvent::PodAdded(_) => listens(POD_ADD),
            ClusterEvent::PodUpdated { .. } | ClusterEvent::PodRemoved(_) => {
                listens("AssignedPodUpdate") || listens(POD_DELETE)
            }
            ClusterEvent::TargetUpdated { .. } => listens("TargetPod"),
            ClusterEvent::NamespaceChanged(_) => listens("Namespace"),
            ClusterEvent::SelectorChanged(_) => plugin == "PodTopologySpread",
            ClusterEvent::StorageChanged { .. } => {
                ["PersistentVolume", "StorageClass", "CSI", "VolumeAttachment"].into_iter().any(listens)
            }
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        extension::ClusterEvent,
        plugins::REGISTRY,
        profile::Profile,
        testing::{self, node, pod},
    };

    /// Events that wake somebody, each with its label.
    fn woken_by(plugin: &dyn crate::extension::Plugin, profile: &Profile) -> Vec<&'static str> {
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
    fn whatever_wakes_a_pod_is_in_the_list_of_the_plugin() {
        let profile = testing::profile();
        for &plugin in REGISTRY {
            for label in woken_by(plugin, &profile) {
                // A cordon is a taint too, and uncordoning here leaves the node with more than it had there.
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
            let woken = REGISTRY.iter().filter(|plugin| plugin.wakes(event, &new, &profile.args));
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
        assert!(may_wake("Unheard", ClusterEvent::PodAdded(&wants)), "nobody knows what it waits for");
    }

    #[test]
    fn every_plugin_that_filters_by_default_waits_for_something_and_nothing_is_listed_twice() {
        assert!(EVENTS.is_sorted_by(|one, next| one.0 < next.0));
        for name in &testing::profile().plugins.filter {
            assert!(!of(name).is_empty(), "{name}");
        }
        for (name, events) in EVENTS {
            let distinct: std::collections::BTreeSet<_> = events.iter().collect();
            assert_eq!(distinct.len(), events.len(), "{name}");
        }
        assert!(of("Unheard").is_empty());
    }
}
