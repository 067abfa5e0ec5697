//! Objects with generated names, hooks, and workloads that have no pods or are refused.

use serde_json::{Value, json};

use crate::{Gatherer, test_support::load};

/// The keys of all pods, and all messages.
fn pods(objects: &[Value]) -> (Vec<String>, Vec<String>) {
    let (cluster, lines) = load(objects, Gatherer::default(), &[]);
    (cluster.pending.iter().map(|pod| pod.key()).collect(), lines)
}

fn pod(metadata: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "c"}]}})
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c"}]}})
}

fn deployment(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let fields = spec.as_object_mut().expect("a mapping");
    fields.entry("selector").or_insert_with(|| json!({"matchLabels": {"app": "a"}}));
    fields.entry("template").or_insert_with(template);
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x", "namespace": "n"}, "spec": spec})
}

#[test]
fn a_generated_name_is_unique_and_always_the_same() {
    let drawn = |metadata: &Value| pods(&[pod(metadata), pod(metadata), pod(metadata)]);
    let metadata = json!({"generateName": "run-", "namespace": "ci"});
    let (names, lines) = drawn(&metadata);
    assert_eq!((names.len(), lines), (3, Vec::new()));
    assert_eq!(drawn(&metadata).0, names);
    let is_drawn = |name: &String| name.starts_with("ci/run-") && name.len() == "ci/run-abcde".len();
    assert!(names.iter().all(is_drawn), "{names:?}");
    assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2], "{names:?}");
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}},
    });
    let (names, lines) = pods(&[job.clone(), job]);
    assert_eq!((names.len(), lines), (2, Vec::new()));
    let (names, _) = pods(&[pod(&json!({"name": "given", "generateName": "run-"}))]);
    assert_eq!(names, ["default/given"]);
    let (_, lines) = pods(&[pod(&json!({"generateName": ""}))]);
    assert_eq!(lines, ["this Pod has no metadata.name or metadata.generateName; expected one of them"]);
}

#[test]
fn hooks_of_helm_are_counted_and_not_run() {
    let hook = json!({"name": "test", "annotations": {"helm.sh/hook": "test"}});
    let mut existing = hook.clone();
    existing["name"] = json!("existing");
    existing["uid"] = json!("1");
    let mut job = deployment(&json!({}));
    job["metadata"]["annotations"] = json!({"helm.sh/hook": "pre-install"});
    let (names, lines) = pods(&[pod(&hook), pod(&existing), job]);
    assert_eq!(names, ["default/existing"]);
    assert_eq!(lines, ["not run: 2 objects with the annotation helm.sh/hook: 1 Deployment, 1 Pod"]);
}

#[test]
fn a_paused_deployment_makes_no_pods_unless_it_has_a_replica_set() {
    let paused = deployment(&json!({"paused": true, "replicas": 2}));
    let (names, lines) = pods(std::slice::from_ref(&paused));
    assert_eq!(names.len(), 0);
    assert_eq!(lines, ["no pods of the paused Deployment n/x, which has no ReplicaSet"]);
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "x-1", "namespace": "n", "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x", "uid": "", "controller": true},
        ]},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "a"}}, "template": template()},
    });
    assert_eq!(pods(&[paused, set]).0.len(), 2);
}

#[test]
fn a_selector_that_an_api_server_refuses_is_an_error() {
    let mismatch = "Deployment \"n/x\": spec.selector does not match the labels of spec.template, so an API server refuses \
                    the object; expected equal labels";
    let empty = "Deployment \"n/x\": spec.selector is empty, so an API server refuses the object; expected the labels of \
                 spec.template";
    let cases = [
        (json!({"matchLabels": {"app": "b"}}), vec![mismatch]),
        (json!({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}), vec![mismatch]),
        (json!({}), vec![empty]),
        (json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]}), vec![]),
    ];
    for (selector, expected) in cases {
        assert_eq!(pods(&[deployment(&json!({"selector": selector}))]).1, expected, "{selector}");
    }
}

#[test]
fn pods_of_workloads_have_a_limit() {
    let many = |count: i64| deployment(&json!({"replicas": count}));
    let (names, lines) = pods(&[many(2_000_000_000)]);
    assert_eq!(names.len(), 0);
    assert_eq!(
        lines,
        [
            "Deployment \"n/x\" asks for 2000000000 pods, which are 2000000000 with those of the workloads before it; expected \
          1000000 at most"
        ]
    );
}

#[test]
fn defaults_of_kubelets_are_for_nodes_that_no_cluster_has_had() {
    let node = |metadata: Value, pods: bool| {
        let mut allocatable = json!({"cpu": "1"});
        if pods {
            allocatable["pods"] = json!("10");
        }
        json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": allocatable}})
    };
    let hostname = json!({"kubernetes.io/hostname": "b"});
    let cases = [
        (
            node(json!({"name": "b"}), false),
            vec!["added the label kubernetes.io/hostname to 1 node and `pods: 110` to 1 node, as kubelets do"],
        ),
        (node(json!({"name": "b"}), true), vec!["added the label kubernetes.io/hostname to 1 node, as kubelets do"]),
        (node(json!({"name": "b", "labels": hostname}), true), vec![]),
        (node(json!({"name": "b", "uid": "2"}), false), vec![]),
        (node(json!({"name": "b", "resourceVersion": "2"}), false), vec![]),
    ];
    for (node, expected) in cases {
        let (cluster, lines) = load(std::slice::from_ref(&node), Gatherer::default(), &[]);
        assert_eq!(lines, expected, "{node}");
        let has_label = cluster
            .nodes
            .iter()
            .any(|node| &*node.name == "b" && node.labels.iter().any(|(key, _)| &**key == "kubernetes.io/hostname"));
        assert_eq!(has_label, node["metadata"]["uid"].is_null() && node["metadata"]["resourceVersion"].is_null());
    }
}
