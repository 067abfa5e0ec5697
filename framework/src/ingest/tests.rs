//! The cases of component-helpers' helpers_test.go and of kube-scheduler's PodInfo and Resource tests.

use serde_json::{Value, json};

use super::*;
use crate::{
    class::{AffinityTerm, Class, Owner, OwnerKind, PodAffinity, SpreadConstraint},
    labels::{LabelOperator, LabelRequirement, LabelSelector},
};

fn read(object: &Value) -> PodInfo {
    let pod: api::Pod = serde_json::from_value(object.clone()).expect("a pod");
    super::pod(&pod, Features::default()).expect("a pod that can be read")
}

fn class(spec: Value, status: Value) -> Class {
    let metadata = json!({"name": "p", "namespace": "default", "uid": "u"});
    (*read(&json!({"metadata": metadata, "spec": spec, "status": status})).class).clone()
}

fn container(name: &str, requests: Value) -> Value {
    json!({"name": name, "image": name, "resources": {"requests": requests}})
}

fn sidecar(name: &str, requests: Value) -> Value {
    let mut sidecar = container(name, requests);
    sidecar["restartPolicy"] = json!("Always");
    sidecar
}

/// The request in millicores and bytes, from the spec alone.
fn requests(spec: Value) -> (i64, i64) {
    let class = class(spec, json!({}));
    (class.requests.milli_cpu, class.requests.memory)
}

#[test]
fn containers_add_up_and_init_containers_run_one_by_one() {
    let a = || container("a", json!({"cpu": "100m", "memory": "10"}));
    let b = || container("b", json!({"cpu": "200m", "memory": "20"}));
    let init = |cpu: &str| container("i", json!({"cpu": cpu}));
    let table = [
        ("two containers", json!({"containers": [a(), b()]}), (300, 30)),
        ("a smaller init container", json!({"containers": [a(), b()], "initContainers": [init("250m")]}), (300, 30)),
        ("a larger init container", json!({"containers": [a(), b()], "initContainers": [init("1")]}), (1000, 30)),
        (
            "the largest of several",
            json!({"containers": [a()], "initContainers": [init("1"), init("2"), init("300m")]}),
            (2000, 10),
        ),
        ("nothing asked", json!({"containers": [container("c", json!({}))]}), (0, 0)),
        (
            "fractions are added before they are rounded",
            json!({"containers":
            [container("c", json!({"cpu": "1500u"})), container("d", json!({"cpu": "1500u"}))]}),
            (3, 0),
        ),
        ("overhead", json!({"containers": [a()], "overhead": {"cpu": "50m", "memory": "5"}}), (150, 15)),
        (
            "overhead on top of the init containers",
            json!({"containers": [a()], "initContainers": [init("1")],
            "overhead": {"cpu": "50m"}}),
            (1050, 10),
        ),
    ];
    for (case, spec, expected) in table {
        assert_eq!(requests(spec), expected, "{case}");
    }
}

#[test]
fn sidecars_run_beside_everything_that_starts_after_them() {
    let main = || container("a", json!({"cpu": "1"}));
    let init = |cpu: &str| container("i", json!({"cpu": cpu}));
    let side = |cpu: &str| sidecar("s", json!({"cpu": cpu}));
    let table = [
        ("beside the containers", json!([side("2")]), 3000),
        ("several of them", json!([side("1"), side("2"), side("3")]), 7000),
        ("beside a later init container", json!([side("2"), init("5")]), 7000),
        ("not beside an earlier init container", json!([init("5"), side("2")]), 5000),
        ("two before, one after", json!([side("1"), side("1"), init("4"), side("1")]), 6000),
        ("a small init container between them", json!([side("1"), init("1"), side("1")]), 3000),
    ];
    for (case, init, expected) in table {
        assert_eq!(requests(json!({"containers": [main()], "initContainers": init})), (expected, 0), "{case}");
    }
}

#[test]
fn pod_level_requests_stand_in_for_the_sum() {
    let spec = |resources: Value| {
        json!({"containers": [container("a", json!({"cpu": "1", "memory": "100", "example.com/gpu": "1"}))],
            "overhead": {"memory": "7"}, "resources": resources})
    };
    let table = [
        ("memory alone", json!({"requests": {"memory": "50"}}), (1000, 57)),
        ("both", json!({"requests": {"cpu": "3", "memory": "50"}}), (3000, 57)),
        ("limits alone change nothing", json!({"limits": {"cpu": "3", "memory": "50"}}), (1000, 107)),
        ("a kind that does not count at this level", json!({"requests": {"ephemeral-storage": "3"}}), (1000, 107)),
        ("nothing", json!({}), (1000, 107)),
    ];
    for (case, resources, expected) in table {
        assert_eq!(requests(spec(resources)), expected, "{case}");
    }
    let class = class(spec(json!({"requests": {"hugepages-2Mi": "4Mi", "example.com/gpu": "9"}})), json!({}));
    assert_eq!(class.requests.get("hugepages-2Mi"), 4 << 20);
    assert_eq!(class.requests.get("example.com/gpu"), 1, "extended resources are asked for by containers only");
}

#[test]
fn the_score_counts_a_default_for_each_silent_container_and_no_pod_level_resources() {
    let silent = || container("s", json!({}));
    let spec = json!({"containers": [silent(), container("a", json!({"cpu": "1"}))], "initContainers": [silent()],
        "resources": {"requests": {"cpu": "8", "memory": "8Gi"}}, "overhead": {"cpu": "10m"}});
    let class = class(spec, json!({}));
    assert_eq!((class.score_requests.milli_cpu, class.score_requests.memory), (1110, 400 << 20));
    assert_eq!((class.requests.milli_cpu, class.requests.memory), (8010, 8 << 30));
}

#[test]
fn a_zero_that_is_asked_for_is_no_silence() {
    let spec = json!({"containers": [container("z", json!({"cpu": "0", "memory": "0"}))]});
    let class = class(spec, json!({}));
    assert_eq!((class.score_requests.milli_cpu, class.score_requests.memory), (0, 0));
    assert_eq!((class.nonzero_milli_cpu, class.nonzero_memory), (0, 0));
}

#[test]
fn the_non_zero_account_knows_whether_the_pod_speaks_for_its_containers() {
    let silent = || [container("a", json!({})), container("b", json!({}))];
    let spec = |resources: Value| json!({"containers": silent(), "resources": resources});
    let table = [
        ("no pod-level resources", json!({}), (200, 400 << 20)),
        ("pod-level limits alone", json!({"limits": {"cpu": "1", "memory": "1Gi"}}), (200, 400 << 20)),
        ("pod-level cpu", json!({"requests": {"cpu": "1"}}), (1000, 400 << 20)),
        ("pod-level memory", json!({"requests": {"memory": "1Gi"}}), (200, 1 << 30)),
        ("both", json!({"requests": {"cpu": "1", "memory": "1Gi"}}), (1000, 1 << 30)),
    ];
    for (case, resources, expected) in table {
        let class = class(spec(resources), json!({}));
        assert_eq!((class.nonzero_milli_cpu, class.nonzero_memory), expected, "{case}");
    }
}

#[test]
fn a_resize_in_place_is_charged_at_the_highest_of_three_words() {
    let resized = |allocated: &str, actual: &str| {
        let resources = json!({"requests": {"cpu": actual}});
        json!([{"name": "a", "allocatedResources": {"cpu": allocated}, "resources": resources}])
    };
    let pending = |reason: &str| json!([{"type": "PodResizePending", "status": "True", "reason": reason}]);
    let table = [
        ("not said yet", json!({}), 2000),
        ("growing", json!({"containerStatuses": resized("1", "1")}), 2000),
        ("shrinking, allocated still high", json!({"containerStatuses": resized("5", "2")}), 5000),
        ("shrinking, actually still high", json!({"containerStatuses": resized("2", "6")}), 6000),
        ("deferred", json!({"containerStatuses": resized("1", "1"), "conditions": pending("Deferred")}), 2000),
        ("infeasible", json!({"containerStatuses": resized("1", "1"), "conditions": pending("Infeasible")}), 1000),
        ("infeasible and nothing said", json!({"conditions": pending("Infeasible")}), 0),
        (
            "infeasible, the first condition decides",
            json!({"containerStatuses": resized("1", "1"),
            "conditions": [pending("Deferred")[0], pending("Infeasible")[0]]}),
            2000,
        ),
        (
            "only allocated is said",
            json!({"containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "3"}}]}),
            3000,
        ),
        (
            "another container's status",
            json!({"containerStatuses": [{"name": "b", "allocatedResources": {"cpu": "9"}}]}),
            2000,
        ),
        (
            "said for the whole pod",
            json!({"allocatedResources": {"cpu": "4"}, "resources": {"requests": {"cpu": "3"}},
            "containerStatuses": resized("9", "9")}),
            4000,
        ),
        (
            "only half said for the whole pod",
            json!({"allocatedResources": {"cpu": "4"},
            "containerStatuses": resized("7", "6")}),
            7000,
        ),
    ];
    for (case, status, expected) in table {
        let spec = json!({"containers": [container("a", json!({"cpu": "2"}))]});
        let class = class(spec, status);
        assert_eq!(class.accounted.milli_cpu, expected, "{case}");
        assert_eq!(class.requests.milli_cpu, 2000, "{case}: the filter reads the spec");
    }
}

#[test]
fn the_highest_is_taken_of_sums_and_not_of_containers() {
    let spec = json!({"containers": [container("a", json!({"cpu": "1"})), container("b", json!({"cpu": "3"}))]});
    let status = json!({"containerStatuses": [
        {"name": "a", "allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "3"}}},
        {"name": "b", "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1"}}}]});
    assert_eq!(class(spec, status).accounted.milli_cpu, 4000);
}

#[test]
fn sidecars_are_resized_in_place_too() {
    let spec = json!({"containers": [container("a", json!({"cpu": "1"}))],
        "initContainers": [sidecar("s", json!({"cpu": "1"}))]});
    let status = json!({"initContainerStatuses": [{"name": "s", "allocatedResources": {"cpu": "4"}}]});
    assert_eq!(class(spec, status).accounted.milli_cpu, 5000);
}

#[test]
fn pod_level_requests_are_resized_in_place_too() {
    let spec = || json!({"containers": [container("a", json!({}))], "resources": {"requests": {"cpu": "2"}}});
    let table = [
        ("not said yet", json!({}), 2000),
        ("said by the pod", json!({"resources": {"requests": {"cpu": "3"}}}), 3000),
        (
            "allocated is higher",
            json!({"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "5"}}),
            5000,
        ),
        (
            "infeasible",
            json!({"resources": {"requests": {"cpu": "1"}},
            "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}),
            1000,
        ),
    ];
    for (case, status, expected) in table {
        assert_eq!(class(spec(), status).accounted.milli_cpu, expected, "{case}");
    }
}

#[test]
fn host_ports_are_those_of_containers_that_run_as_long_as_the_pod() {
    let port = |number: i32, ip: &str, protocol: &str| {
        let mut port = json!({"containerPort": 1, "hostPort": number});
        (port["hostIP"], port["protocol"]) = (json!(ip), json!(protocol));
        port
    };
    let with = |mut container: Value, ports: Value| {
        container["ports"] = ports;
        container
    };
    let spec = json!({
    "containers": [with(container("a", json!({})),
        json!([port(80, "", ""), port(0, "", ""), {"containerPort": 5}, port(80, "", "TCP")]))],
    "initContainers": [
        with(container("i", json!({})), json!([port(81, "", "")])),
        with(sidecar("s", json!({})), json!([port(82, "10.0.0.1", "UDP")])),
    ]});
    let ports = class(spec, json!({})).host_ports.clone();
    let ports: Vec<(&str, &str, i32)> = ports.iter().map(|port| (&*port.ip, &*port.protocol, port.port)).collect();
    assert_eq!(ports, [("0.0.0.0", "TCP", 80), ("10.0.0.1", "UDP", 82)]);
}

#[test]
fn images_get_a_tag_where_they_have_none() {
    let spec = json!({
        "initContainers": [container("init", json!({}))],
        "containers": [container("root:tag", json!({})), container("reg.io:5000/name", json!({})),
            container("reg.io:5000/name:tag", json!({})),
            container("name@sha256:abc", json!({}))],
        "volumes": [{"name": "v", "image": {"reference": "volume"}}, {"name": "w", "emptyDir": {}}]});
    let images = class(spec, json!({})).images.clone();
    let images: Vec<&str> = images.iter().map(AsRef::as_ref).collect();
    assert_eq!(
        images,
        [
            "init:latest",
            "root:tag",
            "reg.io:5000/name:latest",
            "reg.io:5000/name:tag",
            "name@sha256:abc",
            "volume:latest"
        ]
    );
}

#[test]
fn claims_of_devices_are_found_by_what_the_status_names() {
    use crate::devices::claimed::ClaimSource;
    let pod = read(&json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "u"},
        "spec": {"containers": [], "resourceClaims": [
            {"name": "a", "resourceClaimName": "mine"},
            {"name": "b", "resourceClaimTemplateName": "t"},
            {"name": "c", "resourceClaimTemplateName": "t"},
            {"name": "d", "resourceClaimTemplateName": "t"},
            {"name": "e"},
        ]},
        "status": {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "p-b-x"}, {"name": "c"}]},
    }));
    let devices = pod.class.devices.clone().expect("claims");
    let sources: Vec<ClaimSource> = devices.claims.iter().map(|claim| claim.source.clone()).collect();
    let expected = [
        ClaimSource::Named("mine".into()),
        ClaimSource::Generated("p-b-x".into()),
        ClaimSource::NotNeeded,
        ClaimSource::NotCreated,
        ClaimSource::Unknown,
    ];
    assert_eq!(sources, expected);
    assert_eq!((&*devices.owner.name, &*devices.owner.uid), ("p", "u"));
}

#[test]
fn of_volumes_only_those_that_a_plugin_reads_are_noted() {
    use crate::volumes::mounts::{Disk, Inline, Mount, Owner, PodVolumes};
    let of = |volume: Value| {
        let volumes = class(json!({"containers": [], "volumes": [volume]}), json!({})).volumes;
        volumes.map(|volumes| PodVolumes::clone(&volumes))
    };
    let one = |mount: Mount| Some(PodVolumes { mounts: vec![mount], owner: None });
    assert_eq!(of(json!({"name": "v", "emptyDir": {}})), None);
    let claim = json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}});
    assert_eq!(of(claim), one(Mount::Claim("c".into())));
    let Some(PodVolumes { mounts, owner: Some(Owner { name, .. }) }) = of(json!({"name": "v", "ephemeral": {}})) else {
        panic!("a pod with an ephemeral volume is known by its name")
    };
    assert_eq!(mounts, [Mount::Ephemeral(format!("{name}-v").into())]);
    assert_eq!(of(json!({"name": "v", "csi": {"driver": "d"}})), one(Mount::Csi("d".into())));
    let disk = Disk::Iscsi { iqn: "i".into(), read_only: false };
    let iscsi = json!({"name": "v", "iscsi": {"iqn": "i", "lun": 0, "targetPortal": "p"}});
    assert_eq!(of(iscsi), one(Mount::Inline(Inline { disk: Some(disk), in_tree: None })));
    let blob = json!({"name": "v", "azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Shared"}});
    let Some(PodVolumes { mounts, .. }) = of(blob) else { panic!("a disk that a driver stands for") };
    let [Mount::Inline(Inline { disk: None, in_tree: Some(source) })] = mounts.as_slice() else {
        panic!("a disk that pods may share, not {mounts:?}")
    };
    let error = source.handle.as_ref().expect_err("a kind without a driver");
    assert!(error.starts_with("converting volume(v) from inline to csi: "), "{error}");
}

#[test]
fn what_a_pod_needs_of_its_kubelet_is_inferred_from_its_spec() {
    let needed = |spec: Value| class(spec, json!({})).declared_features.names().collect::<Vec<_>>();
    let mount = json!([{"name": "v", "mountPath": "/v", "bindMountOptions": ["noexec"]}]);
    let rule = json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}]);
    for (field, value, name) in [
        ("volumeMounts", mount, "VolumeBindMountOptions"),
        ("restartPolicyRules", rule, "RestartAllContainersOnContainerExits"),
    ] {
        for list in ["containers", "initContainers"] {
            let mut container = json!({"name": "a"});
            container[field] = value.clone();
            let mut spec = json!({"containers": []});
            spec[list] = json!([container]);
            assert_eq!(needed(spec), [name], "{list}");
        }
    }
    let users = |network, users| needed(json!({"containers": [], "hostNetwork": network, "hostUsers": users}));
    assert_eq!(users(true, false), ["UserNamespacesHostNetworkSupport"]);
    assert!(users(true, true).is_empty() && users(false, false).is_empty());
}

#[test]
fn a_pod_is_read_with_who_it_is_and_where_it_stands() {
    let info = read(&json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "generation": 4, "labels": {"b": "2", "a": "1"},
            "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"containers": [], "schedulerName": "other", "priority": -7, "nodeName": "n",
            "schedulingGates": [{"name": "g"}]},
        "status": {"phase": "Failed", "nominatedNodeName": "m", "conditions":
            [{"type": "PodScheduled", "status": "False", "reason": "R", "message": "M"}]}}));
    assert_eq!((info.key().as_str(), &*info.uid, info.priority, info.generation), ("ns/p", "u", -7, 4));
    assert_eq!((info.node_name.as_deref(), &*info.scheduler_name), (Some("n"), "other"));
    assert_eq!((info.nominated_node_name.as_deref(), info.gates), (Some("m"), vec!["g".into()]));
    assert!(info.deleting && info.finished);
    assert_eq!(info.condition, Some(Scheduled { status: false, reason: "R".into(), message: "M".into() }));
    assert_eq!(info.class.labels, [("a".into(), "1".into()), ("b".into(), "2".into())]);
    let plain = read(
        &json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"containers": [], "nodeName": ""},
            "status": {"nominatedNodeName": ""}}),
    );
    assert_eq!(plain.nominated_node_name, None);
    assert_eq!((plain.node_name, &*plain.scheduler_name, plain.priority), (None, "default-scheduler", 0));
    assert!(!plain.deleting && !plain.finished && plain.condition.is_none());
}

#[test]
fn equal_pods_have_equal_classes_under_any_name() {
    let named = |name: &str| {
        let spec = json!({"containers": [container("a", json!({"cpu": "1"}))]});
        read(&json!({"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": spec})).class
    };
    assert_eq!(named("a"), named("b"));
}

#[test]
fn a_node_is_read_with_what_it_has() {
    let node: api::Node = serde_json::from_value(json!({
        "metadata": {"name": "n", "uid": "u", "labels": {"z": "1", "a": "2"}},
        "spec": {"unschedulable": true, "taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": {"cpu": "3500m", "memory": "1Ki", "pods": "110", "ephemeral-storage": "5",
                "example.com/gpu": "2", "storage": "9"},
            "images": [{"names": ["a:1", "a@sha256:x"], "sizeBytes": 5}, {"names": ["b:1"]}]}}))
    .expect("a node");
    let info = super::node(&node).expect("a node that can be read");
    assert_eq!((&*info.name, &*info.uid, info.unschedulable, info.allowed_pods), ("n", "u", true, 110));
    assert_eq!(
        (info.allocatable.milli_cpu, info.allocatable.memory, info.allocatable.ephemeral_storage),
        (3500, 1024, 5)
    );
    assert_eq!(info.allocatable.scalars, [("example.com/gpu".into(), 2)]);
    assert_eq!((info.label("a"), info.label("b")), (Some("2"), None));
    assert_eq!(info.taints, [Taint { key: "k".into(), value: "".into(), effect: "NoSchedule".into() }]);
    assert_eq!(info.images, [(vec!["a:1".into(), "a@sha256:x".into()], 5), (vec!["b:1".into()], 0)]);
    let bare: api::Node = serde_json::from_value(json!({"metadata": {"name": "n"}})).expect("a node");
    let info = super::node(&bare).expect("a node that can be read");
    assert_eq!((&*info.uid, info.allowed_pods), ("n", 0));
}

#[test]
fn what_cannot_be_read_is_named_with_its_path() {
    let error = |object: Value| {
        let pod: api::Pod = serde_json::from_value(object).expect("a pod");
        super::pod(&pod, Features::default()).expect_err("a pod that cannot be read").to_string()
    };
    let meta = || json!({"name": "p", "namespace": "ns", "uid": "u"});
    let spec = |cpu: &str| json!({"containers": [container("a", json!({})), container("b", json!({"cpu": cpu}))]});
    let bad = error(json!({"metadata": meta(), "spec": spec("1Q")}));
    assert!(bad.starts_with("spec.containers[1].resources.requests[cpu]: \"1Q\" is not a quantity"), "{bad}");
    let negative = error(json!({"metadata": meta(), "spec": spec("-1")}));
    assert!(negative.starts_with("spec.containers[1].resources.requests[cpu]: \"-1\" is negative"), "{negative}");
    assert_eq!(error(json!({"metadata": meta()})), "spec is missing");
    assert_eq!(
        error(json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec("1")})),
        "metadata.uid is missing"
    );
    assert_eq!(
        error(json!({"metadata": {"name": "p", "uid": "u"}, "spec": spec("1")})),
        "metadata.namespace is missing"
    );
    let node: api::Node =
        serde_json::from_value(json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": ""}}}))
            .expect("a node");
    let bad = super::node(&node).expect_err("a node that cannot be read").to_string();
    assert!(bad.starts_with("status.allocatable[cpu]: \"\" is not a quantity: it is empty"), "{bad}");
}

fn equal(key: &str, value: &str) -> LabelRequirement {
    LabelRequirement::equal(&text(key), &text(value))
}

fn labelled(spec: Value) -> Class {
    let metadata = json!({"name": "p", "namespace": "ns", "uid": "u", "labels": {"app": "web", "hash": "1"}});
    (*read(&json!({"metadata": metadata, "spec": spec})).class).clone()
}

#[test]
fn a_spread_constraint_is_read_with_its_defaults() {
    let spec = json!({"containers": [], "topologySpreadConstraints": [
        {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
        {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 3,
         "labelSelector": {"matchLabels": {"app": "web"}},
         "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor", "matchLabelKeys": ["hash", "none"]}]});
    let first = SpreadConstraint {
        max_skew: 2,
        topology_key: "zone".into(),
        required: true,
        selector: Ok(LabelSelector::Nothing),
        min_domains: 1,
        honors_affinity: true,
        honors_taints: false,
    };
    let second = SpreadConstraint {
        max_skew: 1,
        topology_key: "rack".into(),
        required: false,
        selector: Ok(LabelSelector::Matching(vec![equal("app", "web"), equal("hash", "1")])),
        min_domains: 3,
        honors_affinity: false,
        honors_taints: true,
    };
    assert_eq!(labelled(spec).spread, [first, second]);
}

#[test]
fn labels_named_by_a_constraint_are_worked_into_its_selector() {
    let selector = |selector: Value| {
        let spec = json!({"containers": [], "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector,
             "matchLabelKeys": ["hash"]}]});
        labelled(spec).spread[0].selector.clone()
    };
    assert_eq!(selector(json!({})), Ok(LabelSelector::Matching(vec![equal("hash", "1")])));
    assert_eq!(selector(Value::Null), Ok(LabelSelector::Nothing), "what selects nothing goes on selecting nothing");
    let already = json!({"matchExpressions": [{"key": "hash", "operator": "In", "values": ["1"]}]});
    assert_eq!(selector(already), Ok(LabelSelector::Matching(vec![equal("hash", "1")])), "the API server was first");
}

#[test]
fn a_term_means_the_own_namespace_unless_it_names_or_selects_others() {
    let term = |extra: Value| {
        let mut term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}});
        term.as_object_mut().expect("an object").extend(extra.as_object().expect("an object").clone());
        let terms = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        let affinity = labelled(json!({"containers": [], "affinity": {"podAntiAffinity": terms}})).pod_affinity.clone();
        affinity.required_anti[0].clone()
    };
    let own = AffinityTerm {
        selector: LabelSelector::Matching(vec![equal("app", "web")]),
        namespaces: vec!["ns".into()],
        namespace_selector: LabelSelector::Nothing,
        topology_key: "zone".into(),
    };
    assert_eq!(term(json!({})), own);
    assert_eq!(term(json!({"namespaces": []})), own);
    let named = AffinityTerm { namespaces: vec!["a".into(), "b".into()], ..own.clone() };
    assert_eq!(term(json!({"namespaces": ["b", "a", "b"]})), named);
    let all = AffinityTerm { namespaces: Vec::new(), namespace_selector: LabelSelector::EVERYTHING, ..own.clone() };
    assert_eq!(term(json!({"namespaceSelector": {}})), all);
    let selected = LabelSelector::Matching(vec![equal("team", "x")]);
    let some = AffinityTerm { namespaces: vec!["a".into()], namespace_selector: selected, ..own };
    assert_eq!(term(json!({"namespaces": ["a"], "namespaceSelector": {"matchLabels": {"team": "x"}}})), some);
}

#[test]
fn lists_of_terms_that_cannot_be_read_are_dropped_and_the_others_kept() {
    let good = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}});
    let bad = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "{{bad}}"}}});
    let weighted = |term: &Value| json!({"weight": 5, "podAffinityTerm": term});
    let spec = json!({"containers": [], "affinity": {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [good, bad],
                        "preferredDuringSchedulingIgnoredDuringExecution": [weighted(&good)]},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [good],
                            "preferredDuringSchedulingIgnoredDuringExecution": [weighted(&bad)]}}});
    let PodAffinity { required, required_anti, preferred, preferred_anti, error } = labelled(spec).pod_affinity.clone();
    assert_eq!((required.len(), required_anti.len(), preferred.len(), preferred_anti.len()), (0, 1, 1, 0));
    let problem = "values[0][app]: Invalid value: \"{{bad}}\": a valid label must be an empty string or consist of \
                   alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
                   'MyValue',  or 'my_value',  or '12345', regex used for validation is \
                   '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    let whole = format!("[requiredAffinityTerms: {problem}, preferredAntiAffinityTerms: {problem}]");
    assert_eq!(error.as_deref(), Some(whole.as_str()));
}

#[test]
fn the_controller_matters_to_pods_without_constraints() {
    let owned = |api_version: &str, kind: &str, controller: bool, spec: Value| {
        let owner = json!({"apiVersion": api_version, "kind": kind, "name": "o", "uid": "u", "controller": controller});
        let metadata = json!({"name": "p", "namespace": "ns", "uid": "u", "ownerReferences": [owner]});
        read(&json!({"metadata": metadata, "spec": spec})).class.owner.clone()
    };
    let plain = || json!({"containers": []});
    let some = |kind| Some(Owner { kind, name: "o".into() });
    assert_eq!(owned("apps/v1", "ReplicaSet", true, plain()), some(OwnerKind::ReplicaSet));
    assert_eq!(owned("apps/v1", "StatefulSet", true, plain()), some(OwnerKind::StatefulSet));
    assert_eq!(owned("v1", "ReplicationController", true, plain()), some(OwnerKind::ReplicationController));
    assert_eq!(owned("apps/v1", "ReplicaSet", false, plain()), None, "an owner that is no controller");
    assert_eq!(owned("batch/v1", "Job", true, plain()), None, "a kind that selects nothing here");
    assert_eq!(owned("apps/v1beta2", "ReplicaSet", true, plain()), None, "a version of old");
    let spread = json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]);
    let own = json!({"containers": [], "topologySpreadConstraints": spread});
    assert_eq!(owned("apps/v1", "ReplicaSet", true, own), None, "constraints of its own");
}

#[test]
fn a_pod_that_terminates_is_of_another_class() {
    let metadata = json!({"name": "p", "namespace": "ns", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"});
    let pod = read(&json!({"metadata": metadata, "spec": {"containers": []}}));
    assert!(pod.deleting && pod.class.terminating);
}

#[test]
fn operators_of_selectors_are_read() {
    let selector: k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector = serde_json::from_value(json!({
        "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["2", "1", "2"]}, {"key": "b", "operator": "NotIn", "values": ["1"]},
            {"key": "c", "operator": "Exists"}, {"key": "d", "operator": "DoesNotExist", "values": []}]}))
    .expect("a selector");
    let read = pods::label_selector(Some(&selector)).expect("readable");
    let LabelSelector::Matching(requirements) = read else { panic!("it selects something") };
    let operators: Vec<LabelOperator> = requirements.iter().map(|requirement| requirement.operator).collect();
    assert_eq!(operators, LabelOperator::ALL);
    assert_eq!(requirements[0].values, [text("1"), text("2")], "values are a set");
}

#[test]
fn a_node_with_more_cpu_than_an_integer_of_thousandths_holds_has_none() {
    let cpu = |amount: &str| {
        let object = json!({ "metadata": { "name": "n" }, "status": { "allocatable": { "cpu": amount } } });
        node(&serde_json::from_value(object).expect("a node")).expect("a node that can be read").allocatable.milli_cpu
    };
    assert_eq!(cpu("9223372036854775"), 9_223_372_036_854_775_000);
    assert_eq!(cpu("9E"), 0);
}

#[test]
fn a_pod_that_is_too_large_is_cut_down_when_it_is_read() {
    let term = |key: usize| json!({"topologyKey": format!("k{key}")});
    let terms: Vec<Value> = (0..2_000).map(term).collect();
    let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
    let spec = json!({"affinity": apart, "containers": [container("c", json!({"cpu": "2"}))]});
    let metadata = json!({"name": "p", "namespace": "default", "uid": "u"});
    let expected = "spec.affinity.podAntiAffinity has 2000 terms, the limit is 1024";
    let pending = read(&json!({"metadata": metadata, "spec": spec}));
    assert_eq!(pending.excess.as_deref(), Some(expected));
    assert_eq!(*pending.class, Class { namespace: "default".into(), ..Class::default() });
    let mut spec = spec;
    spec["nodeName"] = json!("n");
    let bound = read(&json!({"metadata": metadata, "spec": spec}));
    assert_eq!(bound.excess.as_deref(), Some(expected));
    assert_eq!((bound.class.accounted.milli_cpu, &bound.class.pod_affinity), (2_000, &PodAffinity::default()));
}

#[test]
fn a_pod_that_stands_on_a_node_is_charged_for_amounts_of_any_length_and_for_all_where_one_cannot_be_read() {
    let metadata = json!({"name": "p", "namespace": "default", "uid": "u"});
    let on_node = |requests: Value| {
        read(&json!({"metadata": metadata, "spec": {"nodeName": "n", "containers": [container("c", requests)]}}))
    };
    let long = format!("{}64", "0".repeat(80));
    let pod = on_node(json!({"cpu": long, "memory": "1Gi"}));
    assert_eq!((pod.class.accounted.milli_cpu, pod.unreadable), (64_000, None));
    let pod = on_node(json!({"cpu": "many", "memory": "1Gi", "example.com/gpu": "-1"}));
    assert_eq!((pod.class.accounted.milli_cpu, pod.class.accounted.memory), (i64::MAX, 1 << 30));
    assert_eq!(pod.class.accounted.get("example.com/gpu"), 0);
    let reason = pod.unreadable.expect("a reason");
    assert!(reason.starts_with("spec.containers[0].resources.requests[cpu]: \"many\" is not a quantity"), "{reason}");
    let pending = json!({"metadata": metadata, "spec": {"containers": [container("c", json!({"cpu": "many"}))]}});
    let pending: api::Pod = serde_json::from_value(pending).expect("a pod");
    assert!(super::pod(&pending, Features::default()).is_err());
}

#[test]
fn a_node_that_is_too_large_is_refused_by_field_size_and_limit() {
    let keys = |count: usize| {
        (0..count).map(|number| (format!("a.b/{number}"), json!("1"))).collect::<serde_json::Map<_, _>>()
    };
    let taints: Vec<Value> =
        (0..257).map(|number| json!({"key": format!("{number}"), "effect": "NoSchedule"})).collect();
    let names: Vec<String> = (0..16_384).map(|number| number.to_string()).collect();
    let cases = [
        (json!({"metadata": {"labels": keys(1_025)}}), "metadata.labels has 1025 labels, the limit is 1024"),
        (json!({"spec": {"taints": taints}}), "spec.taints has 257 taints, the limit is 256"),
        (
            json!({"status": {"allocatable": keys(257)}}),
            "status.allocatable has 257 extended resources, the limit is 256",
        ),
        (
            json!({"status": {"images": [{"names": names}]}}),
            "status.images has 16385 images and names, the limit is 16384",
        ),
    ];
    for (mut object, expected) in cases {
        object["metadata"]["name"] = json!("n");
        let node: api::Node = serde_json::from_value(object).expect("a node");
        let error = super::node(&node).expect_err("a node that is too large");
        assert_eq!((error.to_string().as_str(), error.is_too_large()), (expected, true));
    }
    let largest: api::Node = serde_json::from_value(
        json!({"metadata": {"name": "n", "labels": keys(1_024)}, "status": {"allocatable": keys(256)}}),
    )
    .expect("a node");
    assert!(node(&largest).is_ok());
}

#[test]
fn a_budget_whose_selector_is_too_large_protects_all_labelled_pods_of_its_namespace() {
    let budget = |values: usize| {
        let values: Vec<String> = (0..values).map(|number| format!("v{number}")).collect();
        let expressions = json!([{"key": "app", "operator": "In", "values": values}]);
        let object = json!({
            "metadata": {"name": "b", "namespace": "default"},
            "spec": {"selector": {"matchExpressions": expressions}},
            "status": {"disruptionsAllowed": 3, "disruptedPods": {"p": "2026-01-01T00:00:00Z"}}});
        budgets::budget(&serde_json::from_value(object).expect("a budget")).expect("a budget that can be read")
    };
    let covers = |budget: &crate::preemption::Budget, label: &str| {
        let class = crate::testing::pod("p").label("app", label).into_class();
        (budget.covers(&class, &"p".into()), budget.disruptions_allowed)
    };
    assert_eq!(covers(&budget(2_047), "other"), (false, 3));
    assert_eq!(covers(&budget(2_048), "other"), (true, 0));
    assert_eq!(covers(&budget(150_000), crate::signature::OTHER), (true, 0));
}

#[test]
fn a_selector_of_a_service_or_a_controller_that_is_too_large_selects_nothing() {
    let map = |labels: usize| (0..labels).map(|number| (format!("k{number}"), "v".to_owned())).collect();
    assert_ne!(selectors::map_selector(Some(&map(1_024))), LabelSelector::Nothing);
    assert_eq!(selectors::map_selector(Some(&map(100_000))), LabelSelector::Nothing);
    let selector = |labels| k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector {
        match_labels: Some(map(labels)),
        match_expressions: None,
    };
    assert_ne!(selectors::controller_selector(Some(&selector(1_024))), LabelSelector::Nothing);
    assert_eq!(selectors::controller_selector(Some(&selector(1_025))), LabelSelector::Nothing);
    assert_eq!(
        excess::objects::of_selector(Some(&selector(1_025))).as_deref(),
        Some("spec.selector has 2050 requirements and values, the limit is 2048")
    );
}

#[test]
fn a_selector_of_nodes_that_is_too_large_is_refused() {
    let names: Vec<String> = (0..8_191).map(|number| number.to_string()).collect();
    let terms = json!([{"matchExpressions": [{"key": "k", "operator": "In", "values": names}]}]);
    let is_too_large = |error: Option<IngestError>| error.is_some_and(|error| error.is_too_large());
    let volume =
        json!({"metadata": {"name": "v"}, "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}});
    let volume = storage::volume(&serde_json::from_value(volume).expect("a volume"));
    assert!(is_too_large(volume.err()));
    let class = json!({"metadata": {"name": "c"}, "provisioner": "p", "allowedTopologies":
        [{"matchLabelExpressions": [{"key": "k", "values": names}]}]});
    let class = storage::storage_class(&serde_json::from_value(class).expect("a storage class"));
    assert!(is_too_large(class.err()));
    let slice = json!({"metadata": {"name": "s"}, "spec": {"driver": "d",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "nodeSelector": {"nodeSelectorTerms": terms}}});
    let slice = device_objects::slice(&serde_json::from_value(slice).expect("a slice"), Features::default());
    assert!(is_too_large(slice.err()));
}
