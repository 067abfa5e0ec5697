//! Invariants of columns after any changes: positions, charges, stamps.

use super::*;
use crate::testing::{PodBuilder, node, pod};

const NODE: NodeId = NodeId(7);
const CLASS: ClassId = ClassId(3);

fn holding(node: &NodeInfo, pod: PodBuilder) -> Snapshot {
    let mut nodes = Snapshot::new(0);
    nodes.upsert_node(NODE, node);
    nodes.register_class(CLASS, pod.build().class);
    nodes
}

#[test]
fn a_pod_is_charged_when_it_comes_and_given_back_when_it_goes() {
    let pod = pod("p").request("cpu", "2").request("example.com/gpu", "1").host_port(80);
    let mut nodes = holding(&node("n").build(), pod);
    assert!(nodes.add_pod(NODE, CLASS) && nodes.add_pod(NODE, CLASS));
    assert_eq!(
        (nodes.accounts.milli_cpu[0], nodes.accounts.nonzero_milli_cpu[0], nodes.accounts.pods[0]),
        (4000, 4000, 2)
    );
    assert_eq!(nodes.accounts.nonzero_memory[0], 400 << 20);
    assert_eq!(nodes.accounts.requested(0).get("example.com/gpu"), 2);
    assert_eq!((nodes.tenants(0), nodes.ports(0).len()), ([(CLASS, 2)].as_slice(), 2));
    assert!(nodes.remove_pod(NODE, CLASS));
    assert_eq!((nodes.accounts.milli_cpu[0], nodes.accounts.pods[0], nodes.ports(0).len()), (2000, 1, 1));
    assert!(nodes.remove_pod(NODE, CLASS));
    assert!(!nodes.remove_pod(NODE, CLASS), "no such pod is there any more");
    assert_eq!(nodes.accounts.requested(0), crate::resources::Resources::default());
    assert!(nodes.tenants(0).is_empty());
}

#[test]
fn unknown_nodes_and_classes_change_nothing() {
    let mut nodes = holding(&node("n").build(), pod("p"));
    let stamp = nodes.stamp();
    assert!(!nodes.add_pod(NodeId(8), CLASS));
    assert!(!nodes.add_pod(NODE, ClassId(4)));
    assert!(!nodes.remove_pod(NODE, CLASS));
    nodes.remove_node(NodeId(8));
    assert_eq!(nodes.stamp(), stamp);
    assert!(nodes.add_pod(NODE, CLASS));
    nodes.forget_class(CLASS);
    assert!(!nodes.remove_pod(NODE, CLASS));
    assert_eq!(nodes.tenants(0), [(CLASS, 1)], "a refused removal leaves the pod where it is");
}

#[test]
fn sums_that_saturated_are_counted_again_when_a_pod_goes() {
    let huge = pod("p").request("memory", "8Ei").request("example.com/gpu", "5E");
    let mut nodes = holding(&node("n").build(), huge);
    nodes.register_class(ClassId(4), pod("q").request("memory", "1Gi").request("example.com/gpu", "1").build().class);
    for class in [CLASS, ClassId(4), CLASS, ClassId(4)] {
        assert!(nodes.add_pod(NODE, class));
    }
    assert_eq!(nodes.accounts.memory[0], i64::MAX);
    assert!(nodes.remove_pod(NODE, CLASS) && nodes.remove_pod(NODE, CLASS));
    assert_eq!((nodes.accounts.memory[0], nodes.accounts.pods[0]), (2 << 30, 2));
    assert_eq!(nodes.accounts.requested(0).get("example.com/gpu"), 2);
}

#[test]
fn a_node_that_changes_keeps_its_position_and_its_pods() {
    let before = node("n").label("a", "1").label("b", "2").capacity("example.com/gpu", "4").image("x:1", 5).build();
    let mut nodes = holding(&before, pod("p").request("cpu", "1"));
    assert!(nodes.add_pod(NODE, CLASS));
    let slot = nodes.upsert_node(NODE, &node("n").label("b", "3").cordon().build());
    let key = |nodes: &mut Snapshot, text: &str| nodes.symbols.intern(text);
    let (a, b, three) = (key(&mut nodes, "a"), key(&mut nodes, "b"), key(&mut nodes, "3"));
    assert_eq!((slot, nodes.label(a, slot), nodes.label(b, slot)), (0, Symbol::NONE, three));
    assert!(nodes.unschedulable(slot) && nodes.images(slot).is_empty());
    assert!(nodes.accounts.scalar("example.com/gpu").is_none(), "no node has any");
    assert_eq!((nodes.accounts.milli_cpu[0], nodes.tenants(slot)), (1000, [(CLASS, 1)].as_slice()));
}

#[test]
fn a_resource_of_which_a_node_has_none_is_named_only_where_the_node_names_it() {
    let gpu = "example.com/gpu";
    let mut nodes = holding(&node("n").capacity(gpu, "0").build(), pod("p").request("cpu", "1"));
    let other = nodes.upsert_node(NodeId(9), &node("other").build());
    let named = |nodes: &Snapshot| [0, other].map(|slot| nodes.accounts.named_scalar(gpu, slot));
    assert_eq!(named(&nodes), [Some(0), None]);
    nodes.upsert_node(NodeId(9), &node("other").capacity(gpu, "2").build());
    assert_eq!(named(&nodes), [Some(0), Some(2)]);
    nodes.upsert_node(NODE, &node("n").build());
    assert_eq!(named(&nodes), [None, Some(2)]);
    nodes.upsert_node(NodeId(9), &node("other").capacity(gpu, "0").build());
    assert_eq!(named(&nodes), [None, Some(0)]);
    nodes.remove_node(NodeId(9));
    assert_eq!(named(&nodes), [None, None]);
}

#[test]
fn a_position_that_is_free_again_starts_clean() {
    let old = node("old")
        .label("a", "1")
        .taint("k", "", "NoSchedule")
        .cordon()
        .image("x:1", 5)
        .capacity("example.com/gpu", "4");
    let mut nodes = holding(&old.build(), pod("p").request("cpu", "1").request("example.com/gpu", "1").host_port(80));
    assert!(nodes.add_pod(NODE, CLASS));
    nodes.remove_node(NODE);
    assert_eq!((nodes.node_count(), nodes.capacity(), nodes.live().count(), nodes.slot(NODE)), (0, 1, 0, None));
    let slot = nodes.upsert_node(NodeId(9), &node("new").build());
    let a = nodes.symbols.intern("a");
    assert_eq!((slot, nodes.id(slot), nodes.label(a, slot)), (0, Some(NodeId(9)), Symbol::NONE));
    assert!(!nodes.unschedulable(slot) && nodes.images(slot).is_empty() && nodes.ports(slot).is_empty());
    assert!(nodes.taints(nodes.taint_set(slot)).is_empty() && nodes.tenants(slot).is_empty());
    assert_eq!(nodes.accounts.requested(slot), crate::resources::Resources::default());
    assert_eq!(nodes.accounts.pods[0], 0);
}

#[test]
fn every_change_moves_the_stamp_of_its_position_alone() {
    let mut nodes = holding(&node("n").build(), pod("p"));
    let other = nodes.upsert_node(NodeId(8), &node("m").build());
    let (first, second) = (nodes.changed(0), nodes.changed(other));
    assert!(nodes.add_pod(NODE, CLASS));
    assert!(nodes.changed(0) > first && nodes.changed(0) == nodes.stamp());
    assert_eq!(nodes.changed(other), second);
    nodes.remove_node(NodeId(8));
    assert_eq!(nodes.changed(other), nodes.stamp());
}

#[test]
fn what_changed_since_a_stamp_is_told_for_each_stamp() {
    let mut nodes = holding(&node("n").build(), pod("p"));
    for number in 100..300 {
        nodes.upsert_node(NodeId(number), &node(&format!("n{number}")).build());
    }
    for number in [131, 132, 299, 100] {
        assert!(nodes.add_pod(NodeId(number), CLASS));
    }
    nodes.remove_node(NodeId(163));
    for stamp in 0..=nodes.stamp() {
        let mut told = Vec::new();
        nodes.visit_changed_since(stamp, |slot| told.push(slot));
        let all = 0..Slot::try_from(nodes.capacity()).unwrap();
        assert_eq!(told, all.filter(|&slot| nodes.changed(slot) > stamp).collect::<Vec<_>>(), "since {stamp}");
    }
}

#[test]
fn hashes_depend_only_on_the_uid_and_the_seed() {
    let build = |seed, name: &str, uid: &str| {
        let mut nodes = Snapshot::new(seed);
        nodes.upsert_node(NodeId(1), &NodeInfo { uid: uid.into(), ..node(name).build() });
        nodes.hash(0)
    };
    assert_eq!(build(5, "a", "u"), build(5, "b", "u"));
    assert_ne!(build(5, "a", "u"), build(6, "a", "u"));
    assert_ne!(build(5, "a", "u"), build(5, "a", "v"));
    // Replicas must agree on the hash: it must be the same on every platform and in every release.
    assert_eq!([hash("uid-n1", 0), hash("uid-n1", 42)], [8_504_585_378_451_388_173, 7_793_482_476_618_997_769]);
    let mut nodes = Snapshot::new(1);
    nodes.set_seed(2);
    nodes.upsert_node(NodeId(1), &node("n").build());
    assert_eq!(nodes.hash(0), hash("uid-n", 2));
}

#[test]
fn clearing_leaves_the_classes() {
    let mut nodes = holding(&node("n").build(), pod("p"));
    nodes.clear_nodes();
    assert_eq!(nodes.node_count(), 0);
    assert!(nodes.class(CLASS).is_some());
    nodes.upsert_node(NODE, &node("n").build());
    assert!(nodes.add_pod(NODE, CLASS));
}

#[test]
fn resources_that_no_node_has_take_as_much_as_the_pods_that_ask_for_them_and_no_column() {
    let mut nodes = Snapshot::new(0);
    for id in 0..5_000 {
        nodes.upsert_node(NodeId(id), &node(&format!("n{id}")).build());
    }
    let empty = nodes.accounts.scalar_bytes();
    let names = (0..30_000).map(|number| (format!("example.com/r{number:05}").into(), 1)).collect();
    let greedy = pod("greedy").class(|class| class.accounted.scalars = names).into_class();
    nodes.register_class(ClassId(1), Arc::new(greedy));
    nodes.add_pod(NodeId(4_999), ClassId(1));
    let taken = nodes.accounts.scalar_bytes();
    assert!(taken <= 4 << 20, "{taken} bytes for 30,000 names on one node");
    assert_eq!(nodes.accounts.requested(4_999).scalars.len(), 30_000);
    nodes.remove_pod(NodeId(4_999), ClassId(1));
    assert_eq!(nodes.accounts.scalar_bytes(), empty);
}

#[test]
fn a_charge_stays_when_its_resource_becomes_a_column_and_ceases_to_be_one() {
    let gpu = "example.com/gpu";
    let mut nodes = holding(&node("n").build(), pod("p").request(gpu, "3"));
    assert!(nodes.add_pod(NODE, CLASS));
    assert_eq!((nodes.accounts.scalar(gpu).is_none(), nodes.accounts.scalar_amounts(gpu, 0)), (true, (0, 3)));
    let other = nodes.upsert_node(NodeId(8), &node("m").capacity(gpu, "8").build());
    let column = nodes.accounts.scalar(gpu).expect("a node has some");
    assert_eq!((column.allocatable(0), column.charged(0)), (0, 3));
    assert_eq!((column.allocatable(other), column.charged(other)), (8, 0));
    assert!(nodes.add_pod(NodeId(8), CLASS));
    nodes.upsert_node(NodeId(8), &node("m").build());
    assert!(nodes.accounts.scalar(gpu).is_none(), "no node has any");
    assert_eq!((nodes.accounts.scalar_amounts(gpu, 0), nodes.accounts.scalar_amounts(gpu, other)), ((0, 3), (0, 3)));
    assert!(nodes.remove_pod(NODE, CLASS) && nodes.remove_pod(NodeId(8), CLASS));
    assert_eq!(nodes.accounts.scalar_bytes(), 0);
    nodes.upsert_node(NODE, &node("n").capacity(gpu, "8").build());
    nodes.upsert_node(NodeId(8), &node("m").capacity(gpu, "8").build());
    nodes.remove_node(NODE);
    assert!(nodes.accounts.scalar(gpu).is_some());
    nodes.remove_node(NodeId(8));
    assert!(nodes.accounts.scalar(gpu).is_none() && nodes.accounts.scalar_bytes() == 0);
}

/// Nodes of which the last one has this many labels and resources that no other node has.
fn with_one_large(nodes: u32, labels: usize, resources: usize) -> Snapshot {
    let mut snapshot = Snapshot::new(0);
    for number in 1..nodes {
        snapshot.upsert_node(NodeId(number), &node("n").label("zone", "a").capacity("example.com/gpu", "1").build());
    }
    let mut large = node("zz").build();
    large.labels = (0..labels).map(|number| (format!("{number:06}").into(), "v".into())).collect();
    large.allocatable.scalars = (0..resources).map(|number| (format!("a.b/{number:06}").into(), 1)).collect();
    snapshot.upsert_node(NodeId(nodes), &large);
    snapshot
}

#[test]
fn labels_and_resources_take_memory_by_how_many_there_are_and_not_by_the_nodes() {
    let (few, many) = (with_one_large(100, 10_000, 3_000), with_one_large(2_000, 10_000, 3_000));
    let (labels, resources) = (few.label_bytes(), few.accounts.scalar_bytes());
    assert!(labels < 200 * 10_000 && resources < 300 * 3_000, "{labels} bytes of labels, {resources} of resources");
    // Columns that all nodes use grow with the nodes: two columns of 2,000 positions and a label each.
    assert!(many.label_bytes() < labels + 32 * 2_000 && many.accounts.scalar_bytes() < resources + 64 * 2_000);
}

#[test]
fn a_node_that_changes_one_of_its_amounts_changes_no_other_column() {
    let mut nodes = with_one_large(50, 0, 3_000);
    let large = |changed: i64| {
        let mut large = node("zz").build();
        large.allocatable.scalars = (0..3_000).map(|number| (format!("a.b/{number:06}").into(), 1)).collect();
        large.allocatable.scalars[7].1 = changed;
        large
    };
    for amount in [2, 0, 5] {
        nodes.upsert_node(NodeId(50), &large(amount));
        let slot = nodes.slot(NodeId(50)).expect("a slot");
        assert_eq!(nodes.accounts.named_scalar("a.b/000007", slot), Some(amount));
        assert_eq!(nodes.accounts.scalars().count(), if amount == 0 { 3_000 } else { 3_001 });
        assert!(nodes.allocates(slot, &large(amount).allocatable, large(amount).allowed_pods));
    }
    nodes.upsert_node(NodeId(50), &node("zz").build());
    assert_eq!(nodes.accounts.scalars().count(), 1);
}

#[test]
fn labels_of_a_node_are_those_that_it_had_last_also_after_tables_are_compacted() {
    let mut nodes = with_one_large(40, 500, 0);
    nodes.upsert_node(NodeId(40), &node("zz").label("rack", "r1").label("zone", "b").build());
    nodes.compact();
    let slot = nodes.slot(NodeId(40)).expect("a slot");
    let text = |symbol| nodes.symbols.text(symbol).to_owned();
    let mut labels: Vec<_> = nodes.labels(slot).map(|(key, value)| (text(key), text(value))).collect();
    labels.sort_unstable();
    let expected = [("kubernetes.io/hostname", "zz"), ("rack", "r1"), ("zone", "b")];
    assert_eq!(labels, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
    assert_eq!((nodes.has_label("000001"), nodes.label_columns().count()), (false, 3));
}
