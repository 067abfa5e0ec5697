//! Cases of upstream's fit_test.go about the filter and the queueing hints.

use std::sync::Arc;

use crate::{
    devices::{claimed::PodDevices, model::class::DeviceClass, objects::DeviceObject},
    extension::ClusterEvent,
    testing::{
        NodeBuilder, PodBuilder,
        checks::{Said, alone, unresolvable, unschedulable},
        node, pod,
    },
};

const NAME: &str = "NodeResourcesFit";

/// 10 millicores, 20 bytes of memory and 32 pods.
fn small() -> NodeBuilder {
    node("n").capacity("cpu", "10m").capacity("memory", "20").capacity("pods", "32")
}

fn asks(cpu: &str, memory: &str) -> PodBuilder {
    pod("p").request("cpu", cpu).request("memory", memory)
}

fn check(table: Vec<(&str, PodBuilder, NodeBuilder, Vec<PodBuilder>, Said)>) {
    for (case, pod, node, standing, expected) in table {
        assert_eq!(alone(NAME).filter(&pod, &node, &standing), expected, "{case}");
    }
}

#[test]
fn cpu_and_memory_must_both_be_free() {
    let (cpu, memory) = ("Insufficient cpu", "Insufficient memory");
    check(vec![
        ("nothing asked fits a full node", pod("p"), small(), vec![asks("10m", "20")], Ok(())),
        ("both short", asks("1m", "1"), small(), vec![asks("10m", "20")], unschedulable(&[cpu, memory])),
        ("both fit", asks("1m", "1"), small(), vec![asks("5m", "5")], Ok(())),
        ("memory fits", asks("2m", "1"), small(), vec![asks("9m", "5")], unschedulable(&[cpu])),
        ("cpu fits", asks("1m", "2"), small(), vec![asks("5m", "19")], unschedulable(&[memory])),
        ("just enough", asks("5m", "1"), small(), vec![asks("5m", "19")], Ok(())),
        ("asked as zero is not asked", asks("0", "0"), small(), vec![asks("11m", "21")], Ok(())),
    ]);
}

#[test]
fn what_an_empty_node_could_not_hold_is_refused_for_good() {
    let (cpu, memory) = ("Insufficient cpu", "Insufficient memory");
    check(vec![
        ("more than there is", asks("11m", "1"), small(), vec![], unresolvable(&[cpu])),
        ("one for good, one for now", asks("11m", "2"), small(), vec![asks("0", "19")], unresolvable(&[cpu, memory])),
        (
            "as much as there is, but taken",
            asks("10m", "20"),
            small(),
            vec![asks("1m", "1")],
            unschedulable(&[cpu, memory]),
        ),
        ("a node without the resource", asks("1m", "0"), node("n").capacity("cpu", "0"), vec![], unresolvable(&[cpu])),
    ]);
}

#[test]
fn a_node_takes_no_more_pods_than_it_says() {
    let full = || small().capacity("pods", "1");
    let many = "Too many pods";
    check(vec![
        ("nothing asked", pod("p"), full(), vec![pod("s")], unschedulable(&[many])),
        ("resources would fit", asks("1m", "1"), full(), vec![asks("5m", "5")], unschedulable(&[many])),
        ("just enough resources", asks("5m", "1"), full(), vec![asks("5m", "19")], unschedulable(&[many])),
        (
            "resources short too",
            asks("6m", "1"),
            full(),
            vec![asks("5m", "19")],
            unschedulable(&[many, "Insufficient cpu"]),
        ),
        ("room for one", pod("p"), full(), vec![], Ok(())),
        ("room for none is no matter of size", pod("p"), small().capacity("pods", "0"), vec![], unschedulable(&[many])),
    ]);
}

#[test]
fn ephemeral_storage_is_counted_like_memory() {
    let disk = || small().capacity("ephemeral-storage", "20");
    let asks = |amount| pod("p").request("ephemeral-storage", amount);
    let short = ["Insufficient ephemeral-storage"];
    check(vec![
        ("enough", asks("10"), disk(), vec![asks("10")], Ok(())),
        ("short", asks("11"), disk(), vec![asks("10")], unschedulable(&short)),
        ("more than there is", asks("25"), disk(), vec![], unresolvable(&short)),
        ("none asked", pod("p"), disk(), vec![asks("25")], Ok(())),
    ]);
}

#[test]
fn everything_that_is_counted_by_name_must_be_free_too() {
    let gpu = "example.com/gpu";
    let asks = |name: &str, amount: &str| pod("p").request(name, amount);
    let has = |name: &str| small().capacity(name, "5");
    check(vec![
        ("enough", asks(gpu, "3"), has(gpu), vec![asks(gpu, "2")], Ok(())),
        ("short", asks(gpu, "4"), has(gpu), vec![asks(gpu, "2")], unschedulable(&["Insufficient example.com/gpu"])),
        ("more than there is", asks(gpu, "6"), has(gpu), vec![], unresolvable(&["Insufficient example.com/gpu"])),
        (
            "a resource of no node",
            asks("example.com/other", "1"),
            has(gpu),
            vec![],
            unresolvable(&["Insufficient example.com/other"]),
        ),
        ("asked as zero", asks("example.com/other", "0"), has(gpu), vec![], Ok(())),
        (
            "huge pages",
            asks("hugepages-2Mi", "4"),
            has("hugepages-2Mi"),
            vec![asks("hugepages-2Mi", "2")],
            unschedulable(&["Insufficient hugepages-2Mi"]),
        ),
        (
            "a native name with a prefix",
            asks("x.kubernetes.io/y", "6"),
            has("x.kubernetes.io/y"),
            vec![],
            unresolvable(&["Insufficient x.kubernetes.io/y"]),
        ),
        (
            "attachable volumes",
            asks("attachable-volumes-x", "6"),
            has("attachable-volumes-x"),
            vec![],
            unresolvable(&["Insufficient attachable-volumes-x"]),
        ),
        ("names that mean quota are not counted", asks("requests.example.com/gpu", "6"), has(gpu), vec![], Ok(())),
        (
            "two are short",
            asks(gpu, "6").request("a.io/b", "1").request("cpu", "20m"),
            has(gpu),
            vec![],
            unresolvable(&["Insufficient cpu", "Insufficient a.io/b", "Insufficient example.com/gpu"]),
        ),
    ]);
}

#[test]
fn resources_that_the_operator_ignores_are_not_looked_at() {
    let plugin = alone(NAME).args(|args| {
        args.node_resources_fit.ignored_resources = vec!["example.com/gpu".to_owned(), "hugepages-2Mi".to_owned()];
        args.node_resources_fit.ignored_resource_groups = vec!["vendor.io".to_owned()];
    });
    let asks = |name: &str| pod("p").request(name, "1");
    let table = [
        ("an ignored resource", "example.com/gpu", Ok(())),
        ("another of the same domain", "example.com/fpga", unresolvable(&["Insufficient example.com/fpga"])),
        ("any of an ignored group", "vendor.io/fpga", Ok(())),
        ("a longer domain is another group", "x.vendor.io/fpga", unresolvable(&["Insufficient x.vendor.io/fpga"])),
        ("what is not extended is never ignored", "hugepages-2Mi", unresolvable(&["Insufficient hugepages-2Mi"])),
    ];
    for (case, name, expected) in table {
        assert_eq!(plugin.filter(&asks(name), &small(), &[]), expected, "{case}");
    }
    let event = small().build();
    assert!(!plugin.wakes(ClusterEvent::NodeAdded(&event), &asks("vendor.io/fpga")), "the hint ignores nothing");
}

#[test]
fn more_resources_than_there_are_bits_still_refuse() {
    let names: Vec<String> = (0..70).map(|index| format!("example.com/r{index:02}")).collect();
    let all = names.iter().fold(pod("p"), |pod, name| pod.request(name, "1"));
    let stocked = names[..69].iter().fold(small(), |node, name| node.capacity(name, "1"));
    let (_, reasons) = alone(NAME).filter(&all, &stocked, &[]).expect_err("the last one is missing");
    assert_eq!(reasons, ["Insufficient example.com/r59"]);
}

#[test]
fn pre_filter_never_skips() {
    assert_eq!(alone(NAME).pre_filter(&pod("p")), "continue");
}

#[test]
fn a_node_wakes_the_pod_if_it_could_hold_it_alone_and_has_more_than_before() {
    let asking = asks("2", "2Gi").request("example.com/gpu", "1");
    let node = |cpu: &str, gpu: &str, pods: &str| {
        node("n").capacity("cpu", cpu).capacity("example.com/gpu", gpu).capacity("pods", pods).build()
    };
    let (small, enough, more) = (node("1", "1", "10"), node("2", "1", "10"), node("4", "1", "10"));
    let (pods, lone, gpus) = (node("2", "1", "20"), node("2", "0", "10"), node("2", "5", "10"));
    let relabeled =
        crate::testing::node("n").capacity("cpu", "2").capacity("example.com/gpu", "1").capacity("pods", "10");
    let relabeled = relabeled.label("a", "b").build();
    let table = [
        ("too small a node appears", ClusterEvent::NodeAdded(&small), false),
        ("a large enough node appears", ClusterEvent::NodeAdded(&enough), true),
        ("a node without the extended resource appears", ClusterEvent::NodeAdded(&lone), false),
        ("cpu grows to enough", ClusterEvent::NodeUpdated { old: &small, new: &enough }, true),
        ("cpu grows beyond enough", ClusterEvent::NodeUpdated { old: &enough, new: &more }, true),
        ("cpu shrinks but is enough", ClusterEvent::NodeUpdated { old: &more, new: &enough }, false),
        ("cpu shrinks to too little", ClusterEvent::NodeUpdated { old: &enough, new: &small }, false),
        ("room for more pods", ClusterEvent::NodeUpdated { old: &enough, new: &pods }, true),
        ("more of the extended resource", ClusterEvent::NodeUpdated { old: &enough, new: &gpus }, true),
        ("nothing that counts changes", ClusterEvent::NodeUpdated { old: &enough, new: &relabeled }, false),
    ];
    for (case, event, expected) in table {
        assert_eq!(alone(NAME).wakes(event, &asking), expected, "{case}");
    }
}

/// A pod that requests a GPU which a DeviceClass provides.
fn asks_for_devices() -> PodBuilder {
    let devices = PodDevices { mapped: vec!["example.com/gpu".into()], ..PodDevices::default() };
    asks("1m", "1").request("example.com/gpu", "1").class(|class| class.devices = Some(Arc::new(devices)))
}

#[test]
fn a_resource_that_comes_from_devices_does_not_count_where_no_device_plugin_has_it() {
    let gpus = |amount: &str| small().capacity("example.com/gpu", amount);
    let (gpu, short) = (asks_for_devices, ["Insufficient example.com/gpu"]);
    check(vec![
        ("a node without", gpu(), small(), vec![], Ok(())),
        ("a node with none", gpu(), gpus("0"), vec![gpu()], Ok(())),
        ("a node with one", gpu(), gpus("1"), vec![], Ok(())),
        ("a node whose one is taken", gpu(), gpus("1"), vec![gpu()], unschedulable(&short)),
    ]);
    let node = small().build();
    assert!(alone(NAME).wakes(ClusterEvent::NodeAdded(&node), &asks_for_devices()));
    assert!(alone(NAME).wakes(ClusterEvent::NodeUpdated { old: &node, new: &node }, &asks_for_devices()));
}

#[test]
fn a_device_class_wakes_the_pods_that_ask_for_what_it_stands_behind() {
    let class = |resource: Option<&str>| {
        let extended_resource = resource.map(Into::into);
        DeviceObject::from(DeviceClass { name: "gpus".into(), extended_resource, ..DeviceClass::default() })
    };
    let (explicit, implicit) = ("example.com/gpu", "deviceclass.resource.kubernetes.io/gpus");
    let (plain, behind) = (class(None), class(Some(explicit)));
    let table = [
        ("it is new and names the resource", None, &behind, explicit, true),
        ("it is new and names none", None, &plain, explicit, false),
        ("it is new and the resource names it", None, &plain, implicit, true),
        ("it names the resource now", Some(&plain), &behind, explicit, true),
        ("it names it as before", Some(&behind), &behind, explicit, false),
        ("it names it no more", Some(&behind), &plain, explicit, false),
        ("it changes, and the resource names it", Some(&plain), &behind, implicit, false),
    ];
    for (case, old, new, resource, expected) in table {
        let event = ClusterEvent::DeviceChanged { old, new: Some(new) };
        assert_eq!(alone(NAME).wakes(event, &pod("p").request(resource, "1")), expected, "{case}");
    }
    let gone = ClusterEvent::DeviceChanged { old: Some(&behind), new: None };
    assert!(!alone(NAME).wakes(gone, &pod("p").request(explicit, "1")));
}

#[test]
fn growth_of_a_resource_that_the_pod_does_not_request_does_not_wake_it() {
    let (old, new) = (node("n").build(), node("n").capacity("cpu", "8").capacity("example.com/gpu", "8").build());
    assert!(!alone(NAME).wakes(ClusterEvent::NodeUpdated { old: &old, new: &new }, &pod("p").request("memory", "1Gi")));
    assert!(!alone(NAME).wakes(ClusterEvent::NodeUpdated { old: &old, new: &new }, &pod("p")));
}

#[test]
fn any_pod_that_goes_wakes() {
    let gone = pod("gone").build();
    assert!(alone(NAME).wakes(ClusterEvent::PodRemoved(&gone.class), &pod("p").request("cpu", "1")));
}

/// Cases of upstream's TestFitsRequest_DeferredResize and of its hints.
#[test]
fn a_deferred_resize_needs_only_more_than_its_node_already_counts() {
    let gpu = "example.com/gpu";
    let (cpu, many) = ("Insufficient cpu", "Too many pods");
    let resized = || asks("6m", "1").resize_deferred_on("n");
    let grown = || {
        resized().class(|class| {
            class.accounted.milli_cpu = 4;
            class.nonzero_milli_cpu = 4;
        })
    };
    let gpus = || pod("p").request(gpu, "2").resize_deferred_on("n");
    check(vec![
        ("its node counts all of it", resized(), small(), vec![resized(), asks("4m", "1")], Ok(())),
        ("its node is over capacity", resized(), small(), vec![resized(), asks("5m", "1")], unschedulable(&[cpu])),
        ("its node counts a part", grown(), small(), vec![grown(), asks("4m", "1")], Ok(())),
        ("the rest does not fit", grown(), small(), vec![grown(), asks("5m", "1")], unschedulable(&[cpu])),
        (
            "more than its node has",
            asks("11m", "1").resize_deferred_on("n"),
            small(),
            vec![asks("11m", "1").resize_deferred_on("n")],
            unresolvable(&[cpu]),
        ),
        (
            "another node needs all of it",
            asks("6m", "1").resize_deferred_on("m"),
            small(),
            vec![asks("5m", "1")],
            unschedulable(&[cpu]),
        ),
        ("the pod counts twice", resized(), small().capacity("pods", "1"), vec![resized()], unschedulable(&[many])),
        ("extended resources that are counted", gpus(), small().capacity(gpu, "1"), vec![gpus()], Ok(())),
    ]);
}

#[test]
fn a_deferred_resize_waits_only_for_its_node() {
    let (small, large) = (node("n").capacity("cpu", "1").build(), node("n").capacity("cpu", "8").build());
    let (other_small, other_large) = (node("m").capacity("cpu", "1").build(), node("m").capacity("cpu", "8").build());
    let resized = pod("p").request("cpu", "2").resize_deferred_on("n");
    for (case, event, expected) in [
        ("its node grows", ClusterEvent::NodeUpdated { old: &small, new: &large }, true),
        ("another node grows", ClusterEvent::NodeUpdated { old: &other_small, new: &other_large }, false),
        ("its node appears", ClusterEvent::NodeAdded(&large), true),
        ("another node appears", ClusterEvent::NodeAdded(&other_large), false),
    ] {
        assert_eq!(alone(NAME).wakes(event, &resized), expected, "{case}");
    }
}
