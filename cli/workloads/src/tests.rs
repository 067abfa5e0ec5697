//! Pods of workloads.

use std::sync::Arc;

use flotilla_framework::node::NodeInfo;
use k8s_openapi::api::core::v1::Pod;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object of its kind")
}

fn template(labels: &Value) -> Value {
    json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web"}]}})
}

fn metadata(name: &str) -> Value {
    json!({"name": name, "namespace": "shop", "uid": format!("uid-of-{name}")})
}

fn deployment(replicas: i32) -> Workload {
    let labels = json!({"app": "web"});
    let spec = json!({"replicas": replicas, "selector": {"matchLabels": labels}, "template": template(&labels)});
    Workload::Deployment(object(json!({"metadata": metadata("web"), "spec": spec})))
}

fn replica_set(hash: &str, replicas: i32) -> Workload {
    let labels = json!({"app": "web", "pod-template-hash": hash});
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-of-web", "controller": true});
    let mut metadata = metadata(&format!("web-{hash}"));
    metadata["ownerReferences"] = json!([owner]);
    let spec = json!({"replicas": replicas, "selector": {"matchLabels": labels}, "template": template(&labels)});
    Workload::ReplicaSet(object(json!({"metadata": metadata, "spec": spec})))
}

fn stateful_set(replicas: i32) -> Workload {
    let labels = json!({"app": "db"});
    let claim = json!({"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}});
    let spec = json!({
        "replicas": replicas, "serviceName": "db", "selector": {"matchLabels": labels}, "template": template(&labels),
        "volumeClaimTemplates": [claim],
    });
    Workload::StatefulSet(object(json!({"metadata": metadata("db"), "spec": spec})))
}

fn job(spec: &Value, status: &Value) -> Workload {
    let mut spec = spec.clone();
    spec["template"] = template(&json!({}));
    Workload::Job(object(json!({"metadata": metadata("sum"), "spec": spec, "status": status})))
}

fn pod(name: &str, kind: &str, owner: &str, more: &Value) -> OwnedPod {
    let controller =
        json!({"apiVersion": "v1", "kind": kind, "name": owner, "uid": format!("uid-of-{owner}"), "controller": true});
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "shop", "ownerReferences": [controller]},
        "spec": {"containers": []}, "status": {},
    });
    for (pointer, value) in more.as_object().into_iter().flatten() {
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        pod.pointer_mut(parent).expect("its parent")[key] = value.clone();
    }
    OwnedPod::of(&object(pod)).expect("an owner")
}

fn node(name: &str, taint: Option<&str>) -> Arc<NodeInfo> {
    let taints = taint.map(|key| json!({"key": key, "effect": "NoSchedule"}));
    let node = json!({
        "metadata": {"name": name, "labels": {"disk": if name == "c" { "hdd" } else { "ssd" }}},
        "spec": {"taints": taints.into_iter().collect::<Vec<_>>()},
        "status": {"allocatable": {"cpu": "4"}},
    });
    Arc::new(flotilla_framework::ingest::node(&object(node)).expect("a node"))
}

fn make_of(workloads: &[Workload], pods: &[OwnedPod], nodes: &[Arc<NodeInfo>]) -> Vec<Made> {
    make(workloads, Surroundings { pods, nodes })
}

fn names(made: &Made) -> Vec<&str> {
    made.pods.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect()
}

fn label<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    pod.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

#[test]
fn a_deployment_makes_a_replica_set_and_its_pods_bear_the_hash_of_the_template() {
    let made = make_of(&[deployment(3)], &[], &[]).remove(0);
    let set = made.replica_set.as_ref().expect("a ReplicaSet");
    let hash = label(&made.pods[0], "pod-template-hash").expect("a hash");
    assert_eq!(set.metadata.name.as_deref(), Some(format!("web-{hash}").as_str()));
    assert_eq!(made.pods.len(), 3);
    for pod in &made.pods {
        let name = pod.metadata.name.as_deref().expect("a name");
        assert!(name.starts_with(&format!("web-{hash}-")) && name.len() == "web--".len() + hash.len() + 5, "{name}");
        let owner = &pod.metadata.owner_references.as_ref().expect("an owner")[0];
        assert_eq!((owner.kind.as_str(), Some(&owner.name)), ("ReplicaSet", set.metadata.name.as_ref()));
        assert_eq!(label(pod, "app"), Some("web"));
    }
    assert_eq!(names(&made), names(&make_of(&[deployment(3)], &[], &[])[0]), "names are the same each time");
}

#[test]
fn pods_that_are_there_count_by_their_replica_set_whichever_it_is() {
    let old = pod("web-old-1", "ReplicaSet", "web-old", &json!({"/metadata/labels": {"pod-template-hash": "old"}}));
    let new = pod("web-new-1", "ReplicaSet", "web-new", &json!({}));
    let lost = pod("web-new-2", "ReplicaSet", "web-new", &json!({"/status/phase": "Failed"}));
    let workloads = [deployment(4), replica_set("new", 4)];
    let made = make_of(&workloads, &[old, new, lost], &[]);
    assert_eq!(made[0].pods.len(), 2, "one of the old and one of the new template are there");
    assert!(made[0].pods.iter().all(|pod| label(pod, "pod-template-hash") == Some("new")));
    assert_eq!((made[0].replica_set.is_some(), made[1].pods.len()), (false, 0), "its ReplicaSet is there");
}

#[test]
fn the_pods_of_an_old_replica_set_are_replaced() {
    let on = |name: &str, set: &str| pod(name, "ReplicaSet", set, &json!({"/spec/nodeName": "n1"}));
    let mut old = replica_set("old", 3);
    if let Workload::ReplicaSet(set) = &mut old {
        set.spec.template = Some(object(json!({"spec": {"containers": []}})));
    }
    let pods = [on("a", "web-old"), on("b", "web-old"), on("c", "web-new")];
    let made = make_of(&[deployment(3), old, replica_set("new", 3)], &pods, &[]).remove(0);
    assert_eq!((made.pods.len(), made.surplus.len()), (0, 0));
    let rollout = made.rollout.expect("a rollout");
    assert_eq!(rollout.strategy, Strategy::Rolling { replicas: 3, max_surge: 1, max_unavailable: 0 });
    let current: Vec<_> = rollout.pods.iter().map(|pod| (pod.key.as_str(), pod.is_outdated)).collect();
    assert_eq!(current, [("shop/a", true), ("shop/b", true), ("shop/c", false)]);
    assert_eq!(rollout.new.len(), 2);
}

#[test]
fn strategies_are_read_with_kubernetes_defaults() {
    let of = |kind: &str, replicas: i32, spec: Value| {
        let mut all = json!({"replicas": replicas, "selector": {}, "template": template(&json!({}))});
        all.as_object_mut().expect("fields").extend(spec.as_object().expect("fields").clone());
        match kind {
            "Deployment" => Strategy::of_deployment(&object(all)),
            "StatefulSet" => Strategy::of_stateful_set(&object(all)).0,
            _ => Strategy::of_daemon_set(&object(all), usize::try_from(replicas).expect("a count")),
        }
    };
    let rolling = |replicas, max_surge, max_unavailable| Strategy::Rolling { replicas, max_surge, max_unavailable };
    let given = |surge: Value, unavailable: Value| json!({"strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}});
    let ordered = |is_parallel, max_unavailable| Strategy::Ordered { is_parallel, max_unavailable };
    let node = |max_surge, max_unavailable| Strategy::PerNode { max_surge, max_unavailable };
    let update = |fields: Value| json!({"updateStrategy": {"rollingUpdate": fields}});
    let cases = [
        ("Deployment", 10, json!({}), rolling(10, 3, 2)),
        ("Deployment", 1, json!({}), rolling(1, 1, 0)),
        ("Deployment", 10, given(json!(2), json!("30%")), rolling(10, 2, 3)),
        ("Deployment", 3, given(json!(0), json!("1%")), rolling(3, 0, 1)),
        ("Deployment", 4, given(json!("none"), json!(1)), rolling(4, 1, 1)),
        ("Deployment", 3, json!({"strategy": {"type": "Recreate"}}), Strategy::Recreate),
        ("Deployment", 3, json!({"paused": true}), Strategy::Paused),
        ("StatefulSet", 3, json!({}), ordered(false, 1)),
        ("StatefulSet", 5, update(json!({"maxUnavailable": "50%"})), ordered(false, 2)),
        ("StatefulSet", 3, update(json!({"maxUnavailable": "10%"})), ordered(false, 1)),
        ("StatefulSet", 3, json!({"podManagementPolicy": "Parallel"}), ordered(true, 1)),
        ("StatefulSet", 3, json!({"updateStrategy": {"type": "OnDelete"}}), Strategy::OnDelete),
        ("DaemonSet", 9, json!({}), node(0, 1)),
        ("DaemonSet", 9, update(json!({"maxUnavailable": "50%"})), node(0, 5)),
        ("DaemonSet", 9, update(json!({"maxSurge": "10%", "maxUnavailable": 0})), node(1, 0)),
        ("DaemonSet", 9, update(json!({"maxUnavailable": 0})), node(0, 1)),
        ("DaemonSet", 9, json!({"updateStrategy": {"type": "OnDelete"}}), Strategy::OnDelete),
    ];
    for (kind, replicas, spec, expected) in cases {
        assert_eq!(of(kind, replicas, spec.clone()), expected, "{kind} {spec}");
    }
}

#[test]
fn of_too_many_pods_those_without_a_node_go_first_and_then_those_that_cost_least() {
    let on = |name, node: &str, cost: &str| {
        let annotations = json!({"controller.kubernetes.io/pod-deletion-cost": cost});
        pod(name, "ReplicaSet", "web-new", &json!({"/spec/nodeName": node, "/metadata/annotations": annotations}))
    };
    let pods = [on("a", "n1", "5"), on("b", "n1", "0"), on("c", "n2", "0"), on("d", "n1", "0"), on("e", "", "9")];
    let made = make_of(&[deployment(2), replica_set("new", 2)], &pods, &[]);
    assert_eq!(made[0].surplus, ["shop/e", "shop/b", "shop/d"]);
}

#[test]
fn a_stateful_set_makes_the_pods_that_are_missing_with_their_claims() {
    let there = pod("db-1", "StatefulSet", "db", &json!({}));
    let over = pod("db-0", "StatefulSet", "db", &json!({"/status/phase": "Succeeded"}));
    let made = make_of(&[stateful_set(3)], &[there, over], &[]).remove(0);
    assert_eq!(names(&made), ["db-0", "db-2"]);
    let claims: Vec<_> = made.claims.iter().filter_map(|claim| claim.metadata.name.as_deref()).collect();
    assert_eq!(claims, ["data-db-0", "data-db-1", "data-db-2"]);
    let last = &made.pods[1];
    assert_eq!(label(last, "statefulset.kubernetes.io/pod-name"), Some("db-2"));
    assert_eq!(label(last, "apps.kubernetes.io/pod-index"), Some("2"));
    let spec = last.spec.as_ref().expect("a spec");
    assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some("db-2"), Some("db")));
    let volume = &spec.volumes.as_ref().expect("volumes")[0];
    let claim = volume.persistent_volume_claim.as_ref().map(|claim| claim.claim_name.as_str());
    assert_eq!((volume.name.as_str(), claim), ("data", Some("data-db-2")));
}

#[test]
fn a_stateful_set_has_an_order_unless_it_is_parallel() {
    let mut parallel = stateful_set(2);
    if let Workload::StatefulSet(set) = &mut parallel {
        set.spec.pod_management_policy = Some("Parallel".to_owned());
    }
    let order = |set: Workload| make_of(&[set], &[], &[]).remove(0).order;
    assert_eq!(order(stateful_set(2)), ["shop/db-0", "shop/db-1"]);
    assert_eq!(order(parallel), [""; 0]);
}

#[test]
fn a_stateful_set_deletes_ended_pods_before_it_creates_others_of_their_names() {
    let cases = [
        (json!({"/status/phase": "Failed"}), vec!["shop/db-0"], vec!["db-0"]),
        (json!({"/status/phase": "Succeeded"}), vec!["shop/db-0"], vec!["db-0"]),
        (json!({"/status/phase": "Running"}), vec![], vec![]),
    ];
    for (more, ended, created) in cases {
        let made = make_of(&[stateful_set(1)], &[pod("db-0", "StatefulSet", "db", &more)], &[]).remove(0);
        assert_eq!(
            (made.ended.clone(), names(&made)),
            (ended.iter().map(ToString::to_string).collect(), created),
            "{more}"
        );
    }
}

#[test]
fn a_daemon_set_makes_a_pod_for_each_node_that_it_may_run_on_and_ties_it_there() {
    let mut spec = json!({"selector": {}, "template": template(&json!({"app": "log"}))});
    spec["template"]["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    let set = Workload::DaemonSet(object(json!({"metadata": metadata("log"), "spec": spec})));
    let nodes = [
        node("a", None),
        node("b", Some("node.kubernetes.io/unschedulable")),
        node("c", None),
        node("d", Some("dedicated")),
        node("e", None),
    ];
    let there = pod("log-1", "DaemonSet", "log", &json!({"/spec/nodeName": "e"}));
    let made = make_of(&[set], &[there], &nodes).remove(0);
    let tied: Vec<OwnedPod> = made.pods.iter().filter_map(OwnedPod::of).collect();
    let on: Vec<_> = tied.iter().filter_map(|pod| pod.node.as_deref()).collect();
    assert_eq!(on, ["a", "b"], "c has another disk, d a taint, e a pod");
    let tolerations = made.pods[0].spec.as_ref().and_then(|spec| spec.tolerations.as_ref()).expect("tolerations");
    assert_eq!(tolerations.len(), 6);
}

#[test]
fn a_job_has_as_many_pods_as_may_run_beside_each_other_and_are_still_needed() {
    let over = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    let cases = [
        ("one by default", json!({}), json!({}), 1),
        ("as many as are parallel", json!({"completions": 5, "parallelism": 3}), json!({}), 3),
        ("no more than are needed", json!({"completions": 5, "parallelism": 3}), json!({"succeeded": 4}), 1),
        ("a work queue", json!({"parallelism": 3}), json!({}), 3),
        ("a work queue that is done", json!({"parallelism": 3}), json!({"succeeded": 1}), 0),
        ("a suspended one", json!({"suspend": true}), json!({}), 0),
        ("one that is over", json!({"completions": 5}), over, 0),
        ("another controller's", json!({"managedBy": "kueue.x-k8s.io/multikueue"}), json!({}), 0),
    ];
    for (what, spec, status, expected) in cases {
        let made = make_of(&[job(&spec, &status)], &[], &[]).remove(0);
        assert_eq!(made.pods.len(), expected, "{what}");
        for pod in &made.pods {
            assert_eq!(label(pod, "batch.kubernetes.io/job-name"), Some("sum"), "{what}");
            assert_eq!(label(pod, "controller-uid"), Some("uid-of-sum"), "{what}");
        }
    }
}

#[test]
fn an_indexed_job_makes_pods_of_the_first_open_indexes() {
    let spec = json!({"completionMode": "Indexed", "completions": 8, "parallelism": 4});
    let runs = pod(
        "sum-1-x",
        "Job",
        "sum",
        &json!({"/metadata/annotations": {"batch.kubernetes.io/job-completion-index": "1"}}),
    );
    let status = json!({"completedIndexes": "0,3-4", "succeeded": 3});
    let made = make_of(&[job(&spec, &status)], &[runs], &[]).remove(0);
    let index = |pod: &Pod| label(pod, "batch.kubernetes.io/job-completion-index").map(str::to_owned);
    assert_eq!(made.pods.iter().filter_map(index).collect::<Vec<_>>(), ["2", "5", "6"]);
    let first = &made.pods[0];
    assert!(names(&made)[0].starts_with("sum-2-"), "{:?}", names(&made));
    assert_eq!(first.spec.as_ref().and_then(|spec| spec.hostname.as_deref()), Some("sum-2"));
}

#[test]
fn a_cron_job_runs_once_unless_a_run_is_under_way() {
    let spec =
        json!({"schedule": "@daily", "jobTemplate": {"spec": {"parallelism": 2, "template": template(&json!({}))}}});
    let cron_job = || Workload::CronJob(object(json!({"metadata": metadata("nightly"), "spec": spec})));
    let made = make_of(&[cron_job()], &[], &[]).remove(0);
    assert_eq!(made.pods.len(), 2);
    assert!(names(&made)[0].starts_with("nightly-"), "{:?}", names(&made));
    let mut run =
        json!({"metadata": metadata("nightly-1"), "spec": {"parallelism": 1, "template": template(&json!({}))}});
    let owner = json!({"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "uid-of-nightly", "controller": true});
    run["metadata"]["ownerReferences"] = json!([owner]);
    let made = make_of(&[cron_job(), Workload::Job(object(run))], &[], &[]);
    assert_eq!((made[0].pods.len(), made[1].pods.len()), (0, 1));
}
