//! Cases of upstream's node_name_test.go, and events that wake a rejected pod.

use crate::{
    extension::ClusterEvent,
    testing::{
        checks::{alone, unresolvable},
        node, pod,
    },
};

const REASON: &str = "node(s) didn't match the requested node name";

#[test]
fn only_the_node_that_the_pod_names_will_do() {
    let table = [
        ("a pod that names no node", pod("p"), "n", Ok(())),
        ("a pod that names this node", pod("p").wants("n"), "n", Ok(())),
        ("a pod that names another node", pod("p").wants("other"), "n", unresolvable(&[REASON])),
    ];
    for (case, pod, name, expected) in table {
        // Without PreFilter, which would reject the node before the filter.
        let plugin = alone("NodeName").without_pre_filter();
        assert_eq!(plugin.filter(&pod, &node(name), &[]), expected, "{case}");
    }
}

#[test]
fn pre_filter_leaves_only_the_named_node() {
    assert_eq!(alone("NodeName").pre_filter(&pod("p")), "continue");
    assert_eq!(alone("NodeName").pre_filter(&pod("p").wants("n7")), "only n7");
    let refused = unresolvable(&["node(s) didn't satisfy plugin(s) [NodeName]"]);
    assert_eq!(alone("NodeName").filter(&pod("p").wants("other"), &node("n"), &[]), refused);
}

#[test]
fn a_new_node_wakes_the_pod_and_nothing_else_does() {
    let (plugin, pod) = (alone("NodeName"), pod("p").wants("n"));
    let (old, new) = (node("n").build(), node("n").label("a", "b").build());
    assert!(plugin.wakes(ClusterEvent::NodeAdded(&new), &pod));
    assert!(!plugin.wakes(ClusterEvent::NodeUpdated { old: &old, new: &new }, &pod));
    assert!(!plugin.wakes(ClusterEvent::PodRemoved(&pod.clone().build().class), &pod));
}
