//! Histories with and without each violation.

use serde_json::{Value, from_value, json};

use super::*;

fn history(nodes: &[&str]) -> History {
    let node = |name: &&str| -> Node {
        let room = json!({ "cpu": "1", "memory": "1Gi", "pods": "10" });
        let metadata = json!({ "name": name, "labels": { "host": name } });
        from_value(json!({ "metadata": metadata, "status": { "allocatable": room } })).expect("a node")
    };
    History::new(&nodes.iter().map(node).collect::<Vec<_>>())
}

struct Made {
    uid: &'static str,
    cpu: &'static str,
    priority: i32,
}

const LOW: Made = Made { uid: "low", cpu: "600m", priority: 10 };
const OTHER: Made = Made { uid: "other", cpu: "600m", priority: 10 };
const HIGH: Made = Made { uid: "high", cpu: "600m", priority: 30 };

/// Applies the next commit: a pending pod, a bound one, or one marked for preemption.
fn commit(history: &mut History, made: &Made, node: Option<&str>, status: Value) {
    let container = json!({ "name": "main", "resources": { "requests": { "cpu": made.cpu } } });
    let spec = json!({ "nodeName": node, "priority": made.priority, "containers": [container] });
    let pod = json!({ "metadata": { "name": made.uid, "uid": made.uid }, "spec": spec, "status": status });
    feed(history, made.uid, Some(from_value(pod).expect("a pod")));
}

fn feed(history: &mut History, name: &str, pod: Option<Box<Pod>>) {
    history.apply(&Commit { revision: history.revision() + 1, name: name.to_owned(), pod });
}

fn chosen() -> Value {
    json!({ "conditions": [{ "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler" }] })
}

fn only_wrong(history: &History) -> &str {
    assert_eq!(history.wrong().len(), 1, "{:?}", history.wrong());
    &history.wrong()[0]
}

#[test]
fn pods_that_are_bound_where_there_is_room_and_go_again_are_fine() {
    let mut history = history(&["a", "b"]);
    for (made, node) in [(&LOW, "a"), (&OTHER, "b")] {
        commit(&mut history, made, None, Value::Null);
        commit(&mut history, made, Some(node), Value::Null);
    }
    feed(&mut history, "low", None);
    commit(&mut history, &HIGH, None, Value::Null);
    commit(&mut history, &HIGH, Some("a"), Value::Null);
    // An ended pod occupies nothing.
    commit(&mut history, &HIGH, Some("a"), json!({ "phase": "Succeeded" }));
    commit(&mut history, &Made { uid: "next", ..LOW }, Some("a"), Value::Null);
    assert_eq!(history.wrong(), Vec::<String>::new());
    assert_eq!((history.waiting(), history.asked_percent()), (0, 60));
}

#[test]
fn a_pod_that_is_bound_twice_is_found() {
    let mut history = history(&["a", "b"]);
    commit(&mut history, &LOW, Some("a"), Value::Null);
    commit(&mut history, &LOW, Some("b"), Value::Null);
    assert!(only_wrong(&history).starts_with("low was bound to a and then to Some(\"b\")"), "{:?}", history.wrong());
}

#[test]
fn a_pod_of_the_same_name_is_another_pod() {
    let mut history = history(&["a", "b"]);
    commit(&mut history, &LOW, Some("a"), Value::Null);
    feed(&mut history, "low", None);
    let pod = json!({ "metadata": { "name": "low", "uid": "anew" }, "spec": { "nodeName": "b", "containers": [] } });
    feed(&mut history, "low", Some(from_value(pod).expect("a pod")));
    assert_eq!(history.wrong(), Vec::<String>::new());
}

#[test]
fn a_node_that_is_over_its_capacity_for_one_commit_is_found() {
    let mut history = history(&["a", "b"]);
    commit(&mut history, &LOW, Some("a"), Value::Null);
    commit(&mut history, &OTHER, Some("a"), Value::Null);
    feed(&mut history, "low", None);
    assert!(only_wrong(&history).starts_with("a is over its capacity at 2 by other"), "{:?}", history.wrong());
}

#[test]
fn a_pod_on_a_node_that_there_is_not_is_found() {
    let mut history = history(&["a"]);
    commit(&mut history, &LOW, Some("c"), Value::Null);
    assert!(only_wrong(&history).contains("which there is not"), "{:?}", history.wrong());
}

/// A full node, and a pending pod of higher priority.
fn with_a_preemptor(nodes: &[&str]) -> History {
    let mut history = history(nodes);
    commit(&mut history, &LOW, Some("a"), Value::Null);
    commit(&mut history, &HIGH, None, Value::Null);
    history
}

#[test]
fn an_eviction_for_a_pod_that_then_lands_is_fine() {
    let mut history = with_a_preemptor(&["a"]);
    commit(&mut history, &LOW, Some("a"), chosen());
    commit(&mut history, &HIGH, None, json!({ "nominatedNodeName": "a" }));
    feed(&mut history, "low", None);
    assert_eq!(history.evictions(), Evictions { lost: 1, ..Evictions::default() }, "it has not landed yet");
    commit(&mut history, &HIGH, Some("a"), Value::Null);
    assert_eq!(history.wrong(), Vec::<String>::new());
    assert_eq!(history.evictions(), Evictions { landed: 1, ..Evictions::default() });
}

#[test]
fn an_eviction_while_no_pod_of_higher_priority_waits_is_found() {
    let mut history = history(&["a"]);
    commit(&mut history, &LOW, Some("a"), Value::Null);
    commit(&mut history, &OTHER, None, Value::Null);
    commit(&mut history, &LOW, Some("a"), chosen());
    assert!(only_wrong(&history).ends_with("needless: no pod of higher priority waits"), "{:?}", history.wrong());
}

#[test]
fn an_eviction_for_a_pod_that_has_always_fitted_elsewhere_is_found() {
    let mut history = with_a_preemptor(&["a", "b"]);
    commit(&mut history, &LOW, Some("a"), chosen());
    assert!(only_wrong(&history).contains("high has fitted on {\"b\"}"), "{:?}", history.wrong());
}

#[test]
fn an_eviction_for_a_pod_that_did_not_fit_for_a_while_is_fine() {
    let mut history = history(&["a", "b"]);
    for (made, node) in [(&LOW, "a"), (&OTHER, "b")] {
        commit(&mut history, made, Some(node), Value::Null);
    }
    commit(&mut history, &HIGH, None, Value::Null);
    feed(&mut history, "other", None);
    // Its scheduler may not know yet that b has room.
    commit(&mut history, &LOW, Some("a"), chosen());
    assert_eq!(history.wrong(), Vec::<String>::new());
}

#[test]
fn an_eviction_for_a_pod_beside_others_that_may_be_assumed_is_fine() {
    let mut history = history(&["a", "b"]);
    commit(&mut history, &LOW, Some("a"), Value::Null);
    // It may be assumed on b, with its binding lost.
    commit(&mut history, &OTHER, None, Value::Null);
    commit(&mut history, &HIGH, None, Value::Null);
    commit(&mut history, &LOW, Some("a"), chosen());
    assert_eq!(history.wrong(), Vec::<String>::new());
}

#[test]
fn evictions_are_counted_by_what_became_of_them() {
    let mut history = history(&["a", "b"]);
    for (made, node) in [(&LOW, "a"), (&OTHER, "b")] {
        commit(&mut history, made, Some(node), Value::Null);
    }
    commit(&mut history, &HIGH, None, Value::Null);
    commit(&mut history, &LOW, Some("a"), chosen());
    feed(&mut history, "low", None);
    feed(&mut history, "other", None);
    commit(&mut history, &HIGH, Some("b"), Value::Null);
    assert_eq!(history.evictions(), Evictions { untold: 1, ..Evictions::default() });
    let seen = history.pods.get_mut("high").expect("it was seen");
    seen.nominated.insert("a".to_owned());
    assert_eq!(history.evictions(), Evictions { elsewhere: 1, ..Evictions::default() });
}

#[test]
fn commits_out_of_order_are_found() {
    let mut history = history(&["a"]);
    commit(&mut history, &LOW, None, Value::Null);
    history.apply(&Commit { revision: 1, name: "low".to_owned(), pod: None });
    assert!(only_wrong(&history).contains("came after"), "{:?}", history.wrong());
}
