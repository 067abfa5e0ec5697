//! Cases of upstream's deferred_pod_scheduling_test.go.

use crate::{
    extension::ClusterEvent,
    testing::{
        checks::{alone, unresolvable},
        node, pod,
    },
};

use super::NAME;

#[test]
fn a_pod_with_a_deferred_resize_fits_only_its_node_with_preemption() {
    let deferred = || pod("p").resize_deferred_on("n");
    let table = [
        ("its node", deferred(), node("n"), Ok(())),
        ("another node", deferred(), node("m"), unresolvable(&["pod assigned to different node"])),
        (
            "its node without preemption",
            deferred(),
            node("n").without_resize_preemption(),
            unresolvable(&["node had resize preemption disabled"]),
        ),
        ("a pod without a deferred resize", pod("p"), node("n").without_resize_preemption(), Ok(())),
        ("a pod that names a node", pod("p").wants("n"), node("n").without_resize_preemption(), Ok(())),
    ];
    for (case, pod, node, expected) in table {
        assert_eq!(alone(NAME).filter(&pod, &node, &[]), expected, "{case}");
    }
}

#[test]
fn pre_filter_skips_pods_without_a_deferred_resize() {
    assert_eq!(alone(NAME).pre_filter(&pod("p")), "skip");
    assert_eq!(alone(NAME).pre_filter(&pod("p").resize_deferred_on("n")), "continue");
}

#[test]
fn its_node_wakes_the_pod_if_preemption_is_newly_possible() {
    let (open, closed) = (node("n").build(), node("n").without_resize_preemption().build());
    let (other, other_closed) = (node("m").build(), node("m").without_resize_preemption().build());
    let table = [
        ("preemption is enabled", ClusterEvent::NodeUpdated { old: &closed, new: &open }, true),
        ("preemption is disabled", ClusterEvent::NodeUpdated { old: &open, new: &closed }, false),
        ("preemption stays enabled", ClusterEvent::NodeUpdated { old: &open, new: &open }, false),
        ("another node enables it", ClusterEvent::NodeUpdated { old: &other_closed, new: &other }, false),
        ("its node appears", ClusterEvent::NodeAdded(&open), true),
        ("its node appears without preemption", ClusterEvent::NodeAdded(&closed), false),
        ("another node appears", ClusterEvent::NodeAdded(&other), false),
    ];
    let deferred = pod("p").resize_deferred_on("n");
    for (case, event, expected) in table {
        assert_eq!(alone(NAME).wakes(event, &deferred), expected, "{case}");
        assert!(!alone(NAME).wakes(event, &pod("p")), "{case}");
    }
}
