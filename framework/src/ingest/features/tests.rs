//! Each gate on and off, and upstream's cases of comparison operators.

use k8s_openapi::api::core::v1 as api;
use serde_json::{Value, json};

use super::*;
use crate::{
    class::{Class, Taint},
    ingest,
};

fn class(spec: Value, status: Value, features: Features) -> Class {
    let metadata = json!({"name": "p", "namespace": "ns", "uid": "u", "labels": {"app": "web", "hash": "1"}});
    let pod: api::Pod =
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).expect("a pod");
    (*ingest::pod(&pod, features).expect("a pod that can be read").class).clone()
}

fn tolerates(operator: &str, own: &str, taint: &str, features: Features) -> bool {
    let toleration = json!({"key": "level", "operator": operator, "value": own, "effect": "NoSchedule"});
    let class = class(json!({"containers": [], "tolerations": [toleration]}), json!({}), features);
    let taint = Taint { key: "level".into(), value: taint.into(), effect: "NoSchedule".into() };
    class.tolerations.iter().any(|toleration| toleration.tolerates(&taint))
}

#[test]
fn comparison_operators_compare_the_taint_with_the_toleration() {
    let on = Features { comparison_operators: true, ..Features::default() };
    for (operator, own, taint, expected) in [
        ("Gt", "5", "6", true),
        ("Gt", "5", "5", false),
        ("Gt", "-5", "0", true),
        ("Lt", "5", "4", true),
        ("Lt", "5", "5", false),
        ("Lt", "9223372036854775807", "9223372036854775806", true),
        ("Lt", "9223372036854775808", "1", false),
        ("Gt", "1", "9223372036854775808", false),
        ("Gt", "1", "07", false),
        ("Gt", "1", "+7", false),
        ("Gt", "-0", "7", false),
        ("Lt", "7", "", false),
        ("Lt", "a", "1", false),
    ] {
        assert_eq!(tolerates(operator, own, taint, on), expected, "{operator} {own} of {taint}");
        assert!(!tolerates(operator, own, taint, Features::default()), "{operator} {own} of {taint} without the gate");
    }
}

#[test]
fn match_label_keys_extend_selectors_unless_the_gate_is_off() {
    let spec = json!({"containers": [], "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["hash"],
         "labelSelector": {"matchLabels": {"app": "web"}}}]});
    let requirements = |features| {
        let class = class(spec.clone(), json!({}), features);
        match class.spread[0].selector.clone() {
            Ok(crate::labels::LabelSelector::Matching(requirements)) => requirements.len(),
            _ => 0,
        }
    };
    assert_eq!(requirements(Features::default()), 2);
    assert_eq!(requirements(Features { match_label_keys: false, ..Features::default() }), 1);
}

#[test]
fn pod_level_resources_and_their_resizes_count_unless_the_gates_are_off() {
    let spec = json!({
        "resources": {"requests": {"cpu": "2"}},
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}],
    });
    let amounts = json!({"cpu": "3"});
    let status = json!({"resources": {"requests": amounts}, "allocatedResources": amounts});
    let charged = |features| {
        let class = class(spec.clone(), status.clone(), features);
        (class.requests.milli_cpu, class.accounted.milli_cpu)
    };
    assert_eq!(charged(Features::default()), (2_000, 3_000));
    assert_eq!(charged(Features { pod_level_resizes: false, ..Features::default() }), (2_000, 2_000));
    let neither = Features { pod_level_resources: false, pod_level_resizes: false, ..Features::default() };
    assert_eq!(charged(neither), (500, 500));
}

mod devices;

#[test]
fn a_resize_is_deferred_only_with_the_gate_on_a_node_and_by_the_first_condition() {
    let on = Features { deferred_resizes: true, ..Features::default() };
    let condition = |reason: &str| json!({"type": "PodResizePending", "status": "True", "reason": reason});
    let deferred = || json!({"conditions": [{"type": "Ready"}, condition("Deferred"), condition("Infeasible")]});
    let bound = || json!({"containers": [], "nodeName": "n"});
    for (case, spec, status, features, expected) in [
        ("deferred", bound(), deferred(), on, Some("n")),
        ("without the gate", bound(), deferred(), Features::default(), None),
        ("without a node", json!({"containers": []}), deferred(), on, None),
        ("infeasible", bound(), json!({"conditions": [condition("Infeasible"), condition("Deferred")]}), on, None),
        ("no condition", bound(), json!({}), on, None),
    ] {
        let class = class(spec, status, features);
        assert_eq!((class.node_name.as_deref(), class.resize_deferred), (expected, expected.is_some()), "{case}");
    }
}

#[test]
fn a_node_disables_preemption_for_resizes_if_any_client_requests_it() {
    for (policy, expected) in [
        (Value::Null, false),
        (json!({}), false),
        (json!({"disableResizePreemption": []}), false),
        (json!({"disableResizePreemption": ["example.com/operator"]}), true),
    ] {
        let node = json!({"metadata": {"name": "n"}, "spec": {"podPreemptionPolicy": policy}});
        let node: api::Node = serde_json::from_value(node).expect("a node");
        assert_eq!(ingest::node(&node).expect("a node that can be read").resize_preemption_disabled, expected);
    }
}
