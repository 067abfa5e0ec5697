//! Admission of single objects, and of those of an input.

use k8s_openapi::api::node::v1::RuntimeClass;
use serde_json::{Value, json};

use super::*;
use crate::{
    Cluster, Gatherer, Loader, Problems, Sources, Texts,
    admission::{amounts::Amount, unmodelled::NewPod},
    manifest,
};
use flotilla_objects::Written as _;

fn decoded<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object of its kind")
}

fn limits(items: Value) -> Rules {
    let mut rules = Rules::default();
    rules.add_limits("default", "limits", &decoded(json!({"metadata": {}, "spec": {"limits": items}})));
    rules
}

fn pod(spec: Value) -> api::Pod {
    let mut pod: api::Pod = decoded(json!({"metadata": {"name": "p"}, "spec": spec}));
    defaults::pod(&mut pod);
    pod
}

fn admitted(rules: &Rules, spec: Value) -> Result<api::PodSpec, String> {
    let mut pod = pod(spec.clone());
    let pod_level = decoded::<api::PodSpec>(spec).resources;
    rules.admit(&mut pod, pod_level).map(|()| pod.spec.expect("a spec"))
}

/// A quota with this spec and status, and the result of creating pods.
fn quota(spec: Value, status: Value) -> Vec<Quota> {
    let object = decoded(json!({"metadata": {"name": "q"}, "spec": spec, "status": status}));
    let mut quotas = BTreeMap::from([("default".to_owned(), vec![Quota::new("q", &object)])]);
    quota::count_existing(&mut quotas, std::iter::empty(), std::iter::empty(), |_| None);
    quotas.remove("default").expect("the quota")
}

fn charge_pod(quotas: &mut [Quota], pod: &api::Pod, default_class: Option<&str>) -> Result<(), String> {
    quota::charge_of(quotas, pod, default_class)?.make(quotas)
}

/// The cluster of an input, and all lines about it.
fn load(text: &str) -> (Cluster, Vec<String>) {
    let texts = Texts::new(|_| Err(String::new()), |pod| manifest::pod(pod.to_value()));
    let (mut sources, mut gatherer, mut problems) =
        (Sources::default(), Gatherer::with_texts(texts), Problems::default());
    Loader::new(&mut sources, &mut gatherer, &mut problems, &|| {}).text("in.yaml".to_owned(), text.to_owned());
    let cluster = gatherer.finish(&["default-scheduler"], &mut problems);
    let mut lines = problems.render(&sources);
    lines.extend(cluster.made.notes.clone());
    (cluster, lines)
}

#[test]
fn amounts_print_in_their_canonical_form() {
    for (text, expected) in [
        ("0", "0"),
        ("0Gi", "0"),
        ("1500m", "1500m"),
        ("2000m", "2"),
        ("1.5", "1500m"),
        ("1000", "1k"),
        ("64Mi", "64Mi"),
        ("2048Mi", "2Gi"),
        ("1.5Gi", "1536Mi"),
        ("1Ki", "1Ki"),
        ("1000Ki", "1000Ki"),
        ("0.5Ki", "512"),
        ("3000M", "3G"),
    ] {
        assert_eq!(Amount::parse(text).expect(text).to_string(), expected, "{text}");
    }
    let sum = |left: &str, right: &str| {
        let [left, right] = [left, right].map(|text| Amount::parse(text).expect("an amount"));
        left.plus(right).to_string()
    };
    assert_eq!((sum("0", "1Gi"), sum("1Gi", "1Gi"), sum("500m", "1")), ("1Gi".into(), "2Gi".into(), "1500m".into()));
}

#[test]
fn a_container_gets_the_defaults_that_it_lacks() {
    let both = json!([{"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1", "memory": "1Gi"}}]);
    let cases = [
        (both.clone(), json!({}), json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}})),
        (
            both.clone(),
            json!({"requests": {"cpu": "500m"}}),
            json!({"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "2"}}),
        ),
        // A limit becomes the request before admission.
        (
            both,
            json!({"limits": {"cpu": "4"}}),
            json!({"requests": {"cpu": "4", "memory": "1Gi"}, "limits": {"cpu": "4"}}),
        ),
        (
            json!([{"type": "Container", "default": {"cpu": "2"}}]),
            json!({}),
            json!({"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}),
        ),
        (
            json!([{"type": "Container", "max": {"cpu": "2"}}]),
            json!({}),
            json!({"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}),
        ),
        (json!([{"type": "Container", "min": {"cpu": "100m"}}]), json!({}), json!({"requests": {"cpu": "100m"}})),
        (json!([{"type": "Pod", "max": {"cpu": "2"}}]), json!({"limits": {"cpu": "1"}}), Value::Null),
        (json!([]), json!({"requests": {"cpu": "1"}}), json!({"requests": {"cpu": "1"}})),
    ];
    for (items, resources, expected) in cases {
        let spec = json!({
            "containers": [{"name": "c", "resources": resources}],
            "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": resources}],
        });
        let spec = admitted(&limits(items.clone()), spec).expect("an admitted pod");
        for container in spec.containers.iter().chain(spec.init_containers.iter().flatten()) {
            let found = serde_json::to_value(&container.resources).expect("JSON");
            assert!(expected.is_null() || found == expected, "{items} {resources}: {found}");
        }
    }
}

#[test]
fn violations_are_refused_with_the_messages_of_the_api_server() {
    let of = |kind: &str, field: &str, amount: &str| json!([{"type": kind, field: {"cpu": amount}}]);
    let cases = [
        (
            of("Container", "max", "2"),
            json!({"limits": {"cpu": "3"}}),
            "maximum cpu usage per Container is 2, but limit is 3",
        ),
        (
            of("Container", "max", "2"),
            json!({"requests": {"cpu": "3"}}),
            "spec.containers[0].resources.requests: Invalid value: \"3\": must be less than or equal to cpu limit of 2",
        ),
        (
            of("Container", "min", "500m"),
            json!({"requests": {"cpu": "100m"}}),
            "minimum cpu usage per Container is 500m, but request is 100m",
        ),
        (of("Pod", "min", "1"), json!({}), "minimum cpu usage per Pod is 1.  No request is specified"),
        (of("Pod", "max", "1"), json!({}), "maximum cpu usage per Pod is 1.  No limit is specified"),
        (
            of("Container", "maxLimitRequestRatio", "2"),
            json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "250m"}}),
            "cpu max limit to request ratio per Container is 2, but provided ratio is 2.500000",
        ),
        (
            of("Container", "maxLimitRequestRatio", "2"),
            json!({}),
            "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
        (
            json!([{"type": "Container", "max": {"cpu": "1", "memory": "1Gi"}}]),
            json!({"limits": {"cpu": "2", "memory": "2Gi"}}),
            "[maximum cpu usage per Container is 1, but limit is 2, maximum memory usage per Container is 1Gi, but limit is 2Gi]",
        ),
    ];
    for (items, resources, expected) in cases {
        let spec = json!({"containers": [{"name": "c", "resources": resources}]});
        assert_eq!(admitted(&limits(items), spec), Err(expected.to_owned()), "{resources}");
    }
    let within =
        json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}]});
    for (field, amount) in [("max", "2"), ("min", "1"), ("maxLimitRequestRatio", "2")] {
        assert!(admitted(&limits(of("Container", field, amount)), within.clone()).is_ok(), "{field}");
    }
}

#[test]
fn a_limit_of_pods_counts_sidecars_and_pod_level_resources() {
    let rules = limits(json!([{"type": "Pod", "max": {"cpu": "2"}}]));
    let one = json!({"limits": {"cpu": "1"}});
    let cases = [
        (json!({"containers": [{"name": "c", "resources": one}, {"name": "d", "resources": one}]}), None),
        (
            json!({
                "containers": [{"name": "c", "resources": one}, {"name": "d", "resources": one}],
                "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": one}],
            }),
            Some("3"),
        ),
        (
            json!({
                "containers": [{"name": "c", "resources": one}],
                "initContainers": [{"name": "i", "resources": {"limits": {"cpu": "4"}}}],
            }),
            Some("4"),
        ),
        (json!({"containers": [{"name": "c"}], "resources": {"limits": {"cpu": "3"}}}), Some("3")),
    ];
    for (spec, excess) in cases {
        let expected = excess.map(|found| format!("maximum cpu usage per Pod is 2, but limit is {found}"));
        assert_eq!(admitted(&rules, spec.clone()).err(), expected, "{spec}");
    }
}

#[test]
fn pod_level_requests_follow_the_defaults_of_containers() {
    let rules = limits(json!([{"type": "Container", "defaultRequest": {"cpu": "500m"}}]));
    let two = json!([{"name": "c"}, {"name": "d"}]);
    let spec = admitted(&rules, json!({"containers": two, "resources": {"limits": {"cpu": "4"}}}));
    let requests = spec.expect("an admitted pod").resources.and_then(|resources| resources.requests);
    assert_eq!(requests, Some([("cpu".to_owned(), ApiQuantity("1000m".to_owned()))].into()));
    let refused = admitted(&rules, json!({"containers": two, "resources": {"requests": {"cpu": "200m"}}}));
    let expected = "spec.resources.requests[cpu]: Invalid value: \"200m\": must be greater than or equal to aggregate container requests of 1";
    assert_eq!(refused, Err(expected.to_owned()));
}

#[test]
fn a_runtime_class_adds_overhead_selector_and_tolerations_or_refuses() {
    let mut rules = Rules::default();
    let class = json!({
        "metadata": {"name": "kata"}, "handler": "kata", "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {
            "nodeSelector": {"sandbox": "kata"},
            "tolerations": [{"key": "sandbox", "operator": "Exists"}, {"key": "gpu", "value": "a"}],
        },
    });
    let of = |fields: Value| {
        let mut spec = json!({"containers": [{"name": "c"}], "runtimeClassName": "kata"});
        spec.as_object_mut().expect("a mapping").extend(fields.as_object().expect("a mapping").clone());
        spec
    };
    // Without any class in the input nothing is known.
    assert!(admitted(&rules, of(json!({"overhead": {"cpu": "1"}}))).is_ok());
    rules.add_runtime("kata", &decoded::<RuntimeClass>(class));
    rules.add_runtime("plain", &decoded::<RuntimeClass>(json!({"metadata": {}, "handler": "runc"})));
    let found = admitted(
        &rules,
        of(json!({"tolerations": [{"key": "sandbox", "operator": "Exists", "effect": "NoSchedule"}]})),
    );
    let found = found.expect("an admitted pod");
    assert_eq!(found.overhead, Some([("cpu".to_owned(), ApiQuantity("250m".to_owned()))].into()));
    assert_eq!(found.node_selector, Some([("sandbox".to_owned(), "kata".to_owned())].into()));
    let keys: Vec<&str> =
        found.tolerations.iter().flatten().filter_map(|toleration| toleration.key.as_deref()).collect();
    let lost = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
    assert_eq!(keys, [lost[0], lost[1], "sandbox", "gpu"], "the toleration for all effects covers that for one");
    let cases = [
        (json!({"overhead": {"cpu": "0.25"}}), None),
        (json!({"nodeSelector": {"sandbox": "kata", "disk": "ssd"}}), None),
        (json!({"runtimeClassName": "plain"}), None),
        (json!({"runtimeClassName": "gvisor"}), Some("pod rejected: RuntimeClass \"gvisor\" not found")),
        (
            json!({"overhead": {"cpu": "1"}}),
            Some("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"),
        ),
        (
            json!({"runtimeClassName": "plain", "overhead": {"cpu": "1"}}),
            Some("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"),
        ),
        (
            json!({"nodeSelector": {"sandbox": "none"}}),
            Some(
                "conflict: runtimeClass.scheduling.nodeSelector[sandbox] = kata; pod.spec.nodeSelector[sandbox] = none",
            ),
        ),
    ];
    for (fields, expected) in cases {
        assert_eq!(admitted(&rules, of(fields.clone())).err().as_deref(), expected, "{fields}");
    }
}

#[test]
fn a_namespace_adds_its_node_selector_or_refuses() {
    let rules = |text: &str| {
        let mut rules = Rules::default();
        rules.see_namespace(&decoded(json!({"metadata": {"name": "default", "annotations": {ANNOTATION: text}}})));
        rules
    };
    let spec = |own: Value| json!({"containers": [{"name": "c"}], "nodeSelector": own});
    let conflict = "pod node label selector conflicts with its namespace node label selector";
    let cases = [
        ("a=b", json!({}), Ok(json!({"a": "b"}))),
        (" a = b , c = ", json!({"d": "e"}), Ok(json!({"a": "b", "c": "", "d": "e"}))),
        ("", json!({"d": "e"}), Ok(json!({"d": "e"}))),
        ("a=b", json!({"a": "b"}), Ok(json!({"a": "b"}))),
        ("a=b", json!({"a": "c"}), Err(conflict.to_owned())),
        ("a", json!({}), Err("invalid selector: \"a\"".to_owned())),
        ("a=b=c", json!({}), Err("invalid selector: \"a=b=c\"".to_owned())),
    ];
    for (text, own, expected) in cases {
        let found = admitted(&rules(text), spec(own)).map(|spec| json!(spec.node_selector));
        assert_eq!(found, expected, "{text}");
    }
    let mut deleted = Rules::default();
    deleted.see_namespace(&decoded(json!({"metadata": {"name": "default"}, "status": {"phase": "Terminating"}})));
    let expected = "unable to create new content in namespace default because it is being terminated";
    assert_eq!(admitted(&deleted, spec(json!({}))), Err(expected.to_owned()));
}

#[test]
fn quotas_count_and_refuse_pods() {
    let spec = json!({"containers": [{
        "name": "c",
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi", "nvidia.com/gpu": "1"}},
    }]});
    let over = |name: &str, requested: &str, used: &str, limited: &str| {
        Some(format!(
            "exceeded quota: q, requested: {name}={requested}, used: {name}={used}, limited: {name}={limited}"
        ))
    };
    let cases = [
        (json!({"pods": "1"}), json!({}), None),
        (json!({"pods": "0"}), json!({}), over("pods", "1", "0", "0")),
        (json!({"count/pods": "3"}), json!({"count/pods": "3"}), over("count/pods", "1", "3", "3")),
        (json!({"cpu": "900m"}), json!({}), over("cpu", "1", "0", "900m")),
        (json!({"requests.memory": "4Gi"}), json!({"requests.memory": "3Gi"}), None),
        (
            json!({"requests.memory": "4Gi"}),
            json!({"requests.memory": "3500Mi"}),
            over("requests.memory", "1Gi", "3500Mi", "4Gi"),
        ),
        (json!({"limits.memory": "1Gi"}), json!({}), over("limits.memory", "2Gi", "0", "1Gi")),
        (
            json!({"requests.nvidia.com/gpu": "4"}),
            json!({"requests.nvidia.com/gpu": "4"}),
            over("requests.nvidia.com/gpu", "1", "4", "4"),
        ),
        (json!({"limits.cpu": "9"}), json!({}), Some("failed quota: q: must specify limits.cpu for: c".to_owned())),
        (json!({"services": "0", "count/deployments.apps": "0", "nvidia.com/gpu": "0"}), json!({}), None),
    ];
    for (hard, used, expected) in cases {
        let mut quotas = quota(json!({"hard": hard}), json!({"hard": hard, "used": used}));
        assert_eq!(charge_pod(&mut quotas, &pod(spec.clone()), None).err(), expected, "{hard} {used}");
    }
    let mut quotas =
        quota(json!({"hard": {"requests.cpu": "10", "pods": "100"}}), json!({"used": {"requests.cpu": "3"}}));
    let pod = pod(spec);
    let (more, error) = quota::copies(&quotas, &pod, None).expect("a limit");
    let expected = "exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=10, limited: requests.cpu=10";
    assert_eq!((more, &*error), (7, expected));
    for _ in 0..more {
        charge_pod(&mut quotas, &pod, None).expect("an admitted pod");
    }
    assert_eq!(charge_pod(&mut quotas, &pod, None), Err(error));
}

#[test]
fn quotas_count_and_refuse_claims() {
    let claim: api::PersistentVolumeClaim = decoded(json!({
        "metadata": {"name": "data"},
        "spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "10Gi"}}},
    }));
    let cases = [
        ("persistentvolumeclaims", "0", Some("1")),
        ("count/persistentvolumeclaims", "0", Some("1")),
        ("requests.storage", "9Gi", Some("10Gi")),
        ("requests.storage", "10Gi", None),
        ("fast.storageclass.storage.k8s.io/requests.storage", "9Gi", Some("10Gi")),
        ("fast.storageclass.storage.k8s.io/persistentvolumeclaims", "0", Some("1")),
        ("slow.storageclass.storage.k8s.io/persistentvolumeclaims", "0", None),
        ("pods", "0", None),
    ];
    for (name, hard, excess) in cases {
        let mut quotas = quota(json!({"hard": {name: hard}}), json!({}));
        let expected = excess.map(|requested| {
            format!("exceeded quota: q, requested: {name}={requested}, used: {name}=0, limited: {name}={hard}")
        });
        assert_eq!(quota::charge_claim(&mut quotas, &claim).err(), expected, "{name}");
    }
}

#[test]
fn scopes_decide_which_pods_a_quota_concerns() {
    let term = json!({"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {}});
    let pods = [
        json!({}),
        json!({"resources": {"requests": {"cpu": "1"}}}),
        json!({"activeDeadlineSeconds": 5}),
        json!({"priorityClassName": "high"}),
        json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}),
    ];
    let selector = |name: &str, operator: &str, values: &[&str]| json!({"scopeSelector": {"matchExpressions": [{"scopeName": name, "operator": operator, "values": values}]}});
    let cases = [
        (json!({"scopes": ["BestEffort"]}), [true, false, true, true, true]),
        (json!({"scopes": ["NotBestEffort"]}), [false, true, false, false, false]),
        (json!({"scopes": ["Terminating"]}), [false, false, true, false, false]),
        (json!({"scopes": ["NotTerminating", "BestEffort"]}), [true, false, false, true, true]),
        (json!({"scopes": ["PriorityClass"]}), [false, false, false, true, false]),
        (selector("PriorityClass", "In", &["high"]), [false, false, false, true, false]),
        (selector("PriorityClass", "NotIn", &["high"]), [true, true, true, false, true]),
        (selector("PriorityClass", "DoesNotExist", &[]), [true, true, true, false, true]),
        (json!({"scopes": ["CrossNamespacePodAffinity"]}), [false, false, false, false, true]),
        (json!({"scopes": ["VolumeAttributesClass"]}), [false; 5]),
    ];
    for (scopes, expected) in cases {
        let found = pods.clone().map(|mut fields| {
            let mut spec = scopes.clone();
            spec["hard"] = json!({"count/pods": "0"});
            fields["containers"] = json!([{"name": "c"}]);
            charge_pod(&mut quota(spec, json!({})), &pod(fields), None).is_err()
        });
        assert_eq!(found, expected, "{scopes}");
    }
    let mut quotas = quota(json!({"hard": {"pods": "0"}, "scopes": ["PriorityClass"]}), json!({}));
    let plain = pod(json!({"containers": [{"name": "c"}]}));
    assert!(charge_pod(&mut quotas, &plain, Some("usual")).is_err(), "the default class counts as the pod's");
}

#[test]
fn webhooks_and_policies_concern_the_pods_that_their_rules_match() {
    let shop = vec![("team".into(), "shop".into())];
    let none = Vec::new();
    let new = |namespace, namespace_labels, workload| NewPod { namespace, namespace_labels, labels: &none, workload };
    let pods = [new("shop", &shop, Some("Deployment shop/web")), new("ops", &none, None)];
    let rule = json!([{"operations": ["CREATE"], "apiGroups": [""], "resources": ["pods"]}]);
    let webhook = |rules: &Value, selector: Value| {
        json!({
            "kind": "MutatingWebhookConfiguration", "metadata": {"name": "w"},
            "webhooks": [{"rules": rules, "namespaceSelector": selector}],
        })
    };
    let other = |field: &str, value: &str| {
        let mut rules = rule.clone();
        rules[0][field] = json!([value]);
        webhook(&rules, Value::Null)
    };
    let note = "MutatingWebhookConfiguration w is not called; it may change or refuse";
    let scaler = |kind: &str, field: &str, mode: &str| {
        json!({
            "kind": kind, "metadata": {"name": "s", "namespace": "shop"},
            "spec": {field: {"kind": "Deployment", "name": "web"}, "updatePolicy": {"updateMode": mode}},
        })
    };
    let secured = json!({
        "kind": "Namespace",
        "metadata": {"name": "ops", "annotations": {"scheduler.alpha.kubernetes.io/defaultTolerations": "[]"}},
    });
    let cases = [
        (webhook(&rule, Value::Null), Some(format!("{note} 2 created pods"))),
        (webhook(&rule, json!({"matchLabels": {"team": "shop"}})), Some(format!("{note} 1 created pod"))),
        (webhook(&rule, json!({"matchLabels": {"team": "none"}})), None),
        (other("operations", "*"), Some(format!("{note} 2 created pods"))),
        (other("resources", "*/*"), Some(format!("{note} 2 created pods"))),
        (other("operations", "DELETE"), None),
        (other("resources", "pods/exec"), None),
        (other("apiGroups", "apps"), None),
        (
            scaler("HorizontalPodAutoscaler", "scaleTargetRef", ""),
            Some("HorizontalPodAutoscaler shop/s is not run; it may change the number of 1 created pod".to_owned()),
        ),
        (
            scaler("VerticalPodAutoscaler", "targetRef", "Auto"),
            Some("VerticalPodAutoscaler shop/s is not run; it may change the requests of 1 created pod".to_owned()),
        ),
        (scaler("VerticalPodAutoscaler", "targetRef", "Off"), None),
        (
            secured,
            Some(
                "The annotation for node selectors or tolerations of namespace ops is not applied; it may change 1 created pod"
                    .to_owned(),
            ),
        ),
    ];
    for (object, expected) in cases {
        let mut unmodelled = Unmodelled::default();
        unmodelled.see(object.as_object().expect("a mapping"), None);
        assert_eq!(unmodelled.notes(&pods), expected.into_iter().collect::<Vec<_>>(), "{object}");
        assert_eq!(unmodelled.notes(&[]), Vec::<String>::new());
    }
}

const NODE: &str = "kind: Node\nmetadata: {name: a}\nstatus: {allocatable: {cpu: 64}}\n";

#[test]
fn only_pods_that_were_never_in_a_cluster_are_admitted_and_in_any_order() {
    let range =
        "kind: LimitRange\nmetadata: {name: l}\nspec: {limits: [{type: Container, defaultRequest: {cpu: 1}}]}\n";
    let pod =
        |metadata: &str| format!("kind: Pod\nmetadata: {{name: p{metadata}}}\nspec: {{containers: [{{name: c}}]}}\n");
    for (metadata, expected) in [("", 1000), (", uid: u", 0), (", resourceVersion: \"1\"", 0)] {
        for documents in [[NODE, range, &pod(metadata)], [NODE, &pod(metadata), range]] {
            let (cluster, lines) = load(&documents.join("---\n"));
            assert_eq!((cluster.pending[0].class.requests.milli_cpu, lines), (expected, Vec::new()), "{metadata}");
            let text = cluster.texts.pod(&cluster.pending[0].uid).expect("a manifest").get();
            assert_eq!(text.contains(r#""requests":{"cpu":"1"}"#), expected > 0, "{text}");
        }
    }
}

#[test]
fn the_rules_apply_to_pods_that_are_added_to_a_report() {
    let range =
        "kind: LimitRange\nmetadata: {name: l}\nspec: {limits: [{type: Container, defaultRequest: {cpu: 1}}]}\n";
    let (cluster, _) = load(&[NODE, range].join("---\n"));
    let (mut sources, mut problems, mut gatherer) =
        (Sources::default(), Problems::default(), Gatherer::beside(&cluster));
    let text = "kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c}]}\n";
    Loader::new(&mut sources, &mut gatherer, &mut problems, &|| {}).text("text".to_owned(), text.to_owned());
    let new = gatherer.finish(&["default-scheduler"], &mut problems);
    assert_eq!(new.pending[0].class.requests.milli_cpu, 1000);
    assert_eq!(cluster.joined(new).references.rules, load(&[NODE, range].join("---\n")).0.references.rules);
}

#[test]
fn pods_that_run_already_use_a_quota_first() {
    let quota = "kind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {pods: 2}}\n";
    let pod = |name: &str, node: &str| {
        format!("kind: Pod\nmetadata: {{name: {name}}}\nspec: {{{node}containers: [{{name: c}}]}}\n")
    };
    let (new, runs) = (pod("new", ""), pod("runs", "nodeName: a, "));
    let dumped = "kind: Pod\nmetadata: {name: dumped, uid: u}\nspec: {nodeName: a, containers: [{name: c}]}\n";
    let (cluster, lines) = load(&[NODE, quota, &new, dumped, &runs].join("---\n"));
    assert_eq!((cluster.bound.len(), cluster.pending.len()), (2, 0));
    let expected = "in.yaml:9:1: warning: pod \"default/new\" is not created: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2";
    assert_eq!(lines, [expected]);
}

#[test]
fn a_complete_dump_lacks_nothing() {
    let dump = "\
kind: ReplicaSet
metadata: {name: web, namespace: shop, uid: r}
spec: {replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c}]}}}
---
kind: Pod
metadata:
  {name: web-x, namespace: shop, uid: u, labels: {a: b}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: r, controller: true}]}
spec: {nodeName: a, containers: [{name: c}], volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}
---
kind: Pod
metadata:
  {name: a, namespace: kube-system, uid: v, ownerReferences: [{apiVersion: v1, kind: Node, name: a, uid: a, controller: true}]}
spec: {nodeName: a, containers: [{name: c}]}
---
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop, uid: c}
spec: {storageClassName: manual, volumeName: pv}
---
kind: PersistentVolumeClaim
metadata: {name: next, namespace: shop, uid: d}
spec: {storageClassName: manual}
---
kind: PersistentVolume
metadata: {name: pv, uid: w}
spec: {storageClassName: manual, capacity: {storage: 1Gi}}
---
kind: Namespace
metadata: {name: shop, uid: node}
";
    let (_, lines) = load(&[NODE, dump].join("---\n"));
    assert_eq!(lines, Vec::<String>::new());
}

#[test]
fn many_missing_objects_are_counted() {
    let pods: Vec<String> = (0..5)
        .map(|index| {
            format!(
                "kind: Pod\nmetadata: {{name: p{index}}}\nspec: {{containers: [{{name: c}}], volumes: [{{name: v, \
                 persistentVolumeClaim: {{claimName: c{index}}}}}]}}\n"
            )
        })
        .collect();
    let (_, lines) = load(&format!("{NODE}---\n{}", pods.join("---\n")));
    let expected =
        "not in the input: PersistentVolumeClaim default/c0, default/c1, default/c2 and 2 more (5 pods stay pending)";
    assert_eq!(lines, [expected]);
}
