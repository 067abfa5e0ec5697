//! Cases of upstream's nodedeclaredfeatures_test.go.

use crate::{
    extension::ClusterEvent,
    testing::{
        checks::{alone, unresolvable},
        node, pod,
    },
};

const RESTART: &str = "RestartAllContainersOnContainerExits";
const USERS: &str = "UserNamespacesHostNetworkSupport";

#[test]
fn a_node_declares_all_that_the_pod_needs() {
    let refused = || unresolvable(&["node(s) didn't match Pod's required features"]);
    let table = [
        ("a pod that needs nothing", pod("p"), node("n"), Ok(())),
        ("the feature is declared", pod("p").need(RESTART), node("n").declare(RESTART), Ok(())),
        ("it is not", pod("p").need(RESTART), node("n"), refused()),
        ("another is", pod("p").need(RESTART), node("n").declare(USERS), refused()),
        ("one of two is", pod("p").need(RESTART).need(USERS), node("n").declare(USERS), refused()),
        ("more than needed is", pod("p").need(USERS), node("n").declare(USERS).declare(RESTART), Ok(())),
    ];
    for (case, pod, node, expected) in table {
        assert_eq!(alone("NodeDeclaredFeatures").filter(&pod, &node, &[]), expected, "{case}");
    }
}

#[test]
fn a_node_wakes_the_pod_when_it_is_new_or_declares_something_else() {
    let (bare, declared) = (node("n").build(), node("n").declare(USERS).build());
    let relabeled = node("n").label("a", "b").build();
    let table = [
        ("a node appears", ClusterEvent::NodeAdded(&bare), true),
        ("a node declares more", ClusterEvent::NodeUpdated { old: &bare, new: &declared }, true),
        ("a node declares less", ClusterEvent::NodeUpdated { old: &declared, new: &bare }, true),
        ("another change", ClusterEvent::NodeUpdated { old: &bare, new: &relabeled }, false),
    ];
    for (case, event, expected) in table {
        assert_eq!(alone("NodeDeclaredFeatures").wakes(event, &pod("p").need(USERS)), expected, "{case}");
    }
    let gone = pod("gone").build();
    assert!(!alone("NodeDeclaredFeatures").wakes(ClusterEvent::PodRemoved(&gone.class), &pod("p").need(USERS)));
}
