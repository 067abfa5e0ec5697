//! Cases of upstream's node_unschedulable_test.go.

use crate::{
    extension::ClusterEvent,
    testing::{
        checks::{alone, unresolvable},
        node, pod,
    },
};

const KEY: &str = "node.kubernetes.io/unschedulable";

#[test]
fn a_cordoned_node_takes_only_pods_that_tolerate_it() {
    let refused = || unresolvable(&["node(s) were unschedulable"]);
    let table = [
        ("an open node takes any pod", pod("p"), node("n"), Ok(())),
        ("a cordoned node refuses", pod("p"), node("n").cordon(), refused()),
        ("a toleration of the key", pod("p").tolerate(KEY, "Exists", "", "NoSchedule"), node("n").cordon(), Ok(())),
        ("an equal toleration without value", pod("p").tolerate(KEY, "", "", ""), node("n").cordon(), Ok(())),
        ("a toleration of everything", pod("p").tolerate("", "Exists", "", ""), node("n").cordon(), Ok(())),
        ("a value that the taint lacks", pod("p").tolerate(KEY, "Equal", "x", ""), node("n").cordon(), refused()),
        ("another effect", pod("p").tolerate(KEY, "Exists", "", "NoExecute"), node("n").cordon(), refused()),
        ("another key", pod("p").tolerate("other", "Exists", "", ""), node("n").cordon(), refused()),
        ("a taint alone does not cordon", pod("p"), node("n").taint(KEY, "", "NoSchedule"), Ok(())),
    ];
    for (case, pod, node, expected) in table {
        assert_eq!(alone("NodeUnschedulable").filter(&pod, &node, &[]), expected, "{case}");
    }
}

#[test]
fn an_open_node_wakes_the_pod_when_it_is_news() {
    let (open, cordoned) = (node("n").build(), node("n").cordon().build());
    let relabeled = node("n").cordon().label("a", "b").build();
    let table = [
        ("an open node appears", ClusterEvent::NodeAdded(&open), true),
        ("a cordoned node appears", ClusterEvent::NodeAdded(&cordoned), false),
        ("a node is uncordoned", ClusterEvent::NodeUpdated { old: &cordoned, new: &open }, true),
        ("a node is cordoned", ClusterEvent::NodeUpdated { old: &open, new: &cordoned }, false),
        ("a cordoned node changes", ClusterEvent::NodeUpdated { old: &cordoned, new: &relabeled }, false),
        ("an open node stays open", ClusterEvent::NodeUpdated { old: &open, new: &open }, false),
    ];
    for (case, event, expected) in table {
        assert_eq!(alone("NodeUnschedulable").wakes(event, &pod("p")), expected, "{case}");
    }
    let gone = pod("gone").build();
    assert!(!alone("NodeUnschedulable").wakes(ClusterEvent::PodRemoved(&gone.class), &pod("p")));
}
