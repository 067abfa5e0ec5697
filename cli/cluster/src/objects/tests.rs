//! References between objects.

use serde_json::{Value, json};

use super::*;
use crate::source::Sources;

/// A cluster with nodes `a` and `b`, these pods and priority classes, and all messages.
fn gather(pods: Value, classes: Value) -> (Cluster, Vec<String>) {
    let (mut gatherer, mut problems) = (Gatherer::default(), Problems::default());
    for name in ["a", "b"] {
        let node = json!({"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4"}}});
        gatherer.add_node(serde_json::from_value(node).expect("a node"), InputPosition::nowhere(), &mut problems);
    }
    for pod in serde_json::from_value::<Vec<api::Pod>>(pods).expect("pods") {
        gatherer.add_pod(pod, InputPosition::nowhere(), &mut problems);
    }
    for class in
        serde_json::from_value::<Vec<k8s_openapi::api::scheduling::v1::PriorityClass>>(classes).expect("classes")
    {
        gatherer.add_priority_class(&class, InputPosition::nowhere(), &mut problems);
    }
    let cluster = gatherer.finish(&["default-scheduler"], &mut problems);
    (cluster, problems.render(&Sources::default()))
}

fn pod(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    spec["containers"] = json!([{"name": "c"}]);
    json!({"metadata": {"name": name}, "spec": spec})
}

fn names(pods: &[Arc<PodInfo>]) -> Vec<&str> {
    pods.iter().map(|pod| &*pod.name).collect()
}

#[test]
fn a_priority_is_given_or_that_of_its_class_or_the_default() {
    let classes = json!([
        {"metadata": {"name": "high"}, "value": 100},
        {"metadata": {"name": "usual"}, "value": 7, "globalDefault": true},
    ]);
    let cases = [
        (json!({}), 7),
        (json!({"priority": 3}), 3),
        (json!({"priorityClassName": ""}), 7),
        (json!({"priorityClassName": "high"}), 100),
        (json!({"priorityClassName": "high", "priority": 5}), 5),
        (json!({"priorityClassName": "deleted", "priority": 5}), 5),
        (json!({"priorityClassName": "system-cluster-critical"}), 2_000_000_000),
        (json!({"priorityClassName": "system-node-critical"}), 2_000_001_000),
    ];
    for (spec, expected) in cases {
        let (cluster, lines) = gather(json!([pod("p", spec.clone())]), classes.clone());
        assert_eq!((cluster.pending[0].priority, lines), (expected, Vec::new()), "{spec}");
    }
    assert_eq!(gather(json!([pod("p", json!({}))]), json!([])).0.pending[0].priority, 0);
}

#[test]
fn pods_are_bound_pending_or_left_out() {
    let mut finished = pod("finished", json!({"nodeName": "a"}));
    finished["status"] = json!({"phase": "Succeeded"});
    let mut deleted = pod("deleted", json!({}));
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let pods = json!([
        pod("pending", json!({})),
        pod("bound", json!({"nodeName": "b"})),
        pod("lost", json!({"nodeName": "c"})),
        pod("foreign", json!({"schedulerName": "other"})),
        pod("foreign-bound", json!({"schedulerName": "other", "nodeName": "a"})),
        finished,
        deleted,
    ]);
    let (cluster, lines) = gather(pods, json!([]));
    assert_eq!(names(&cluster.pending), ["pending"]);
    assert_eq!(names(&cluster.bound), ["bound", "foreign-bound"]);
    assert_eq!(
        lines,
        [
            "warning: pod \"default/deleted\" is being deleted; it is left out",
            "warning: pod \"default/foreign\" asks for scheduler \"other\", and profiles are default-scheduler; it is left out",
            "warning: pod \"default/lost\" is on node \"c\", which is not in the input; it is left out",
        ]
    );
}

#[test]
fn what_a_pod_was_told_before_is_forgotten() {
    let mut told = pod("p", json!({}));
    told["status"] = json!({"conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"},
    ]});
    assert_eq!(gather(json!([told]), json!([])).0.pending[0].condition, None);
}

#[test]
fn equal_pods_share_their_class() {
    let (cluster, _) = gather(json!([pod("p", json!({})), pod("q", json!({}))]), json!([]));
    assert!(Arc::ptr_eq(&cluster.pending[0].class, &cluster.pending[1].class));
}

#[test]
fn names_and_uids_are_not_used_twice() {
    let mut one = pod("one", json!({}));
    one["metadata"]["uid"] = json!("1");
    let mut two = pod("two", json!({}));
    two["metadata"]["uid"] = json!("1");
    let elsewhere = {
        let mut pod = pod("one", json!({}));
        pod["metadata"]["namespace"] = json!("other");
        pod
    };
    let classes = json!([
        {"metadata": {"name": "x"}, "value": 1, "globalDefault": true},
        {"metadata": {"name": "x"}, "value": 1},
        {"metadata": {"name": "y"}, "value": 2, "globalDefault": true},
    ]);
    let (_, lines) = gather(json!([one, two, elsewhere]), classes);
    assert_eq!(
        lines,
        [
            "a second PriorityClass has the name \"x\"; expected a unique name, or the changed object in \
             `flotilla whatif --apply FILE`; the first is at --generate",
            "pod \"default/two\" has the metadata.uid of another pod; expected a unique one, or none; the other is at \
             --generate",
            "priority class \"y\" is a second globalDefault; expected one at most; the other is at --generate",
        ]
    );
}

#[test]
fn an_object_that_selects_is_known_by_kind_namespace_and_name() {
    use flotilla_framework::class::OwnerKind;
    use flotilla_machine::event::SelectingKind;
    use k8s_openapi::api::apps::v1::StatefulSet;
    let (mut gatherer, mut problems) = (Gatherer::default(), Problems::default());
    for metadata in [json!({"name": "web", "namespace": "shop"}), json!({"name": "web"}), json!({})] {
        let object = json!({"metadata": metadata, "spec": {"selector": {}, "serviceName": "web", "template": {}}});
        let object: StatefulSet = serde_json::from_value(object).expect("a stateful set");
        _ = gatherer.add_selecting(object, &InputPosition::nowhere(), &mut problems);
    }
    let cluster = gatherer.finish(&[], &mut problems);
    let known: Vec<_> =
        cluster.selectors.iter().map(|(object, _)| (object.kind, &*object.namespace, &*object.name)).collect();
    let kind = SelectingKind::Controller(OwnerKind::StatefulSet);
    assert_eq!(known, [(kind, "shop", "web"), (kind, "default", "web")]);
    let said = problems.render(&Sources::default());
    assert_eq!(said, ["this StatefulSet has no metadata.name or metadata.generateName; expected one of them"]);
}
