//! Objects before and after the defaults.

use serde_json::{Value, json};

use super::*;

fn filled_pod(value: Value) -> Value {
    let mut typed: api::Pod = serde_json::from_value(value).expect("a pod");
    pod(&mut typed);
    serde_json::to_value(typed).expect("JSON")
}

fn filled_node(value: Value) -> Value {
    let mut typed: api::Node = serde_json::from_value(value).expect("a node");
    node(&mut typed);
    serde_json::to_value(typed).expect("JSON")
}

/// The spec of a pod with one container, after defaulting.
fn filled_spec(mut spec: Value) -> Value {
    let fields = spec.as_object_mut().expect("a mapping");
    fields.entry("containers").or_insert_with(|| json!([{"name": "c"}]));
    filled_pod(json!({"metadata": {"name": "p"}, "spec": spec}))["spec"].take()
}

#[test]
fn a_pod_gets_a_namespace_a_uid_and_a_scheduler() {
    let pod = filled_pod(json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}));
    assert_eq!(pod["metadata"], json!({"name": "p", "namespace": "default", "uid": "default/p"}));
    assert_eq!(pod["spec"]["schedulerName"], "default-scheduler");

    let metadata = json!({"name": "p", "namespace": "shop", "uid": "1-2-3"});
    let spec = json!({"containers": [{"name": "c"}], "schedulerName": "other"});
    let pod = filled_pod(json!({"metadata": metadata, "spec": spec}));
    assert_eq!((&pod["metadata"], &pod["spec"]["schedulerName"]), (&metadata, &json!("other")));
}

#[test]
fn volumes_in_a_pod_say_what_their_disks_are() {
    let volumes = json!([
        {"name": "a", "rbd": {"image": "i", "monitors": ["m"]}},
        {"name": "b", "rbd": {"image": "i", "monitors": ["m"], "pool": "own"}},
        {"name": "c", "azureDisk": {"diskName": "d", "diskURI": "uri"}},
        {"name": "d", "azureDisk": {"diskName": "d", "diskURI": "uri", "kind": "Managed"}},
    ]);
    let volumes = filled_spec(json!({"volumes": volumes}))["volumes"].take();
    let told = [
        &volumes[0]["rbd"]["pool"],
        &volumes[1]["rbd"]["pool"],
        &volumes[2]["azureDisk"]["kind"],
        &volumes[3]["azureDisk"]["kind"],
    ];
    assert_eq!(told, ["rbd", "own", "Shared", "Managed"]);
}

#[test]
fn requests_follow_from_limits_where_there_are_none() {
    let cases = [
        (json!({}), json!({})),
        (json!({"requests": {"cpu": "1"}}), json!({"requests": {"cpu": "1"}})),
        (
            json!({"limits": {"cpu": "1", "memory": "1Gi"}}),
            json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}),
        ),
        (
            json!({"limits": {"cpu": "2", "example.com/gpu": "1"}, "requests": {"cpu": "1"}}),
            json!({
                "limits": {"cpu": "2", "example.com/gpu": "1"},
                "requests": {"cpu": "1", "example.com/gpu": "1"},
            }),
        ),
    ];
    for (resources, expected) in cases {
        let containers = json!([{"name": "c", "resources": resources}]);
        let spec = filled_spec(json!({"containers": containers, "initContainers": containers}));
        assert_eq!(spec["containers"][0]["resources"], expected, "{resources}");
        assert_eq!(spec["initContainers"][0]["resources"], expected, "{resources}");
    }
}

#[test]
fn requests_of_a_whole_pod_follow_from_its_containers_then_from_its_limits() {
    let containers = json!([
        {"name": "a", "resources": {"requests": {"cpu": "250m"}}},
        {"name": "b", "resources": {"requests": {"cpu": "1"}}},
    ]);
    let cases = [
        (json!({"requests": {"memory": "1Gi"}}), json!({"memory": "1Gi"})),
        (json!({"limits": {"cpu": "4", "memory": "2Gi"}}), json!({"cpu": "1250m", "memory": "2Gi"})),
        (json!({"limits": {"cpu": "4"}, "requests": {"cpu": "2"}}), json!({"cpu": "2"})),
        (json!({"limits": {"hugepages-2Mi": "4Mi"}}), json!({"cpu": "1250m", "hugepages-2Mi": "4Mi"})),
    ];
    for (resources, expected) in cases {
        let spec = json!({"containers": containers, "resources": resources, "overhead": {"cpu": "9"}});
        assert_eq!(filled_spec(spec)["resources"]["requests"], expected, "{resources}");
    }
}

#[test]
fn ports_are_tcp_and_on_the_host_where_the_pod_is() {
    let cases = [
        (false, json!({"containerPort": 80}), json!({"containerPort": 80, "protocol": "TCP"})),
        (false, json!({"containerPort": 80, "protocol": "UDP"}), json!({"containerPort": 80, "protocol": "UDP"})),
        (true, json!({"containerPort": 80}), json!({"containerPort": 80, "hostPort": 80, "protocol": "TCP"})),
        (
            true,
            json!({"containerPort": 80, "hostPort": 81}),
            json!({"containerPort": 80, "hostPort": 81, "protocol": "TCP"}),
        ),
    ];
    for (host_network, port, expected) in cases {
        let spec = json!({"hostNetwork": host_network, "containers": [{"name": "c", "ports": [port]}]});
        assert_eq!(filled_spec(spec)["containers"][0]["ports"][0], expected, "{port}");
    }
}

#[test]
fn lost_nodes_are_tolerated_for_five_minutes_unless_the_pod_says_otherwise() {
    let for_five_minutes = |key: &str| {
        json!({
            "key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": 300,
        })
    };
    let (not_ready, unreachable) = (for_five_minutes("not-ready"), for_five_minutes("unreachable"));
    let own = json!({"key": "a", "operator": "Exists"});
    let forever = json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists"});
    let all = json!({"operator": "Exists"});
    let other_effect = json!({"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoSchedule"});
    let cases = [
        (json!([]), json!([not_ready, unreachable])),
        (json!([own]), json!([own, not_ready, unreachable])),
        (json!([forever]), json!([forever, unreachable])),
        (json!([all]), json!([all])),
        (json!([other_effect]), json!([other_effect, not_ready, unreachable])),
    ];
    for (tolerations, expected) in cases {
        assert_eq!(filled_spec(json!({"tolerations": tolerations}))["tolerations"], expected);
    }
}

#[test]
fn a_node_gets_a_uid_and_its_hostname() {
    let node = filled_node(json!({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}}));
    assert_eq!(node["metadata"], json!({"name": "n", "uid": "n", "labels": {"kubernetes.io/hostname": "n"}}));
    let metadata = json!({"name": "n", "uid": "1", "labels": {"kubernetes.io/hostname": "host"}});
    assert_eq!(filled_node(json!({"metadata": metadata}))["metadata"], metadata);
}

#[test]
fn what_a_node_offers_is_its_capacity_and_110_pods_unless_it_says_so() {
    let cases = [
        (json!({"capacity": {"cpu": "4"}}), json!({"cpu": "4", "pods": "110"})),
        (json!({"capacity": {"cpu": "4", "pods": "20"}}), json!({"cpu": "4", "pods": "20"})),
        (
            json!({"allocatable": {"cpu": "3"}, "capacity": {"cpu": "4", "pods": "20"}}),
            json!({"cpu": "3", "pods": "20"}),
        ),
        (
            json!({"allocatable": {"cpu": "3", "pods": "9"}, "capacity": {"pods": "20"}}),
            json!({"cpu": "3", "pods": "9"}),
        ),
        (json!({"allocatable": {"cpu": "3"}}), json!({"cpu": "3", "pods": "110"})),
    ];
    for (status, expected) in cases {
        let node = filled_node(json!({"metadata": {"name": "n"}, "status": status}));
        assert_eq!(node["status"]["allocatable"], expected, "{status}");
    }
}

#[test]
fn an_unclaimed_volume_that_was_never_in_a_cluster_is_available() {
    for (metadata, spec, status, phase) in [
        (json!({}), json!({}), Value::Null, Some("Available")),
        (json!({}), json!({}), json!({ "phase": "Failed" }), Some("Failed")),
        (json!({}), json!({ "claimRef": { "name": "data" } }), Value::Null, None),
        (json!({ "resourceVersion": "7" }), json!({}), Value::Null, None),
    ] {
        let object = json!({ "metadata": metadata, "spec": spec, "status": status });
        let mut known: api::PersistentVolume = serde_json::from_value(object.clone()).expect("a volume");
        volume(&mut known);
        assert_eq!(known.status.and_then(|status| status.phase).as_deref(), phase, "{object}");
    }
}
