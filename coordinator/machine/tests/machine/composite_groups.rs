//! Composite pod groups: groups of groups, placed by one attempt.

use std::sync::Arc;

use flotilla_framework::{
    class::PodInfo,
    pod_group::{GroupApi, PodGroup, Topology},
    testing::{PodBuilder, node, pod, pod_group},
};
use flotilla_machine::event::Event;

use crate::{groups_in_domains::configuration, world::World};

const PRIORITY: i32 = 10;

/// A pod group below a composite one; its pods are those with its name.
fn leaf(name: &str, parent: &str, min_count: Option<u32>) -> PodGroup {
    let topology = Topology::Unconstrained;
    PodGroup { parent: Some(parent.into()), topology, priority: PRIORITY, ..pod_group(name, min_count) }
}

fn composite(name: &str, parent: Option<&str>, min_groups: Option<u32>) -> PodGroup {
    let (api, topology) = (GroupApi::Composite, Topology::Unconstrained);
    PodGroup { api, parent: parent.map(Into::into), topology, priority: PRIORITY, ..pod_group(name, min_groups) }
}

fn within(key: &str, group: PodGroup) -> PodGroup {
    PodGroup { topology: Topology::Key(key.into()), ..group }
}

/// A pod that needs most of a node.
fn member(name: &str, group: &str) -> PodBuilder {
    pod(name).request("cpu", "3").request("memory", "1Mi").priority(PRIORITY).group(group)
}

/// A world with one node per rack of a block; a rack is named by its block and its name.
fn world(nodes: &[(&str, &str)], groups: &[PodGroup], members: &[(&str, &str)]) -> World {
    let mut world = empty(nodes);
    for (name, group) in members {
        world.pod(member(name, group).build());
    }
    groups.iter().for_each(|group| world.tell(Event::PodGroupApplied(Arc::new(group.clone()))));
    world.settle();
    world
}

fn empty(nodes: &[(&str, &str)]) -> World {
    let mut world = World::new(1);
    world.tell(Event::Configured(Arc::new(configuration())));
    for (index, (block, rack)) in nodes.iter().enumerate() {
        world.node(node(&format!("n{index}")).label("block", block).label("rack", rack).build());
    }
    world
}

fn bound(world: &World) -> Vec<(&str, &str)> {
    let mut bound: Vec<(&str, &str)> = world.bound.iter().map(|(pod, node)| (pod.as_str(), node.as_str())).collect();
    bound.sort_unstable();
    bound
}

/// The last message about each pod group.
fn messages(world: &World) -> Vec<(&str, &str)> {
    let mut messages: Vec<(&str, &str)> = Vec::new();
    for report in world.group_reports.iter().rev() {
        if !messages.iter().any(|(name, _)| *name == &*report.name) {
            messages.push((&report.name, &report.message));
        }
    }
    messages.sort_unstable();
    messages
}

const FOUR: [(&str, &str); 4] = [("x", "xa"), ("x", "xb"), ("y", "ya"), ("y", "yb")];
const TWO_GROUPS: [(&str, &str); 4] = [("a0", "a"), ("a1", "a"), ("b0", "b"), ("b1", "b")];

#[test]
fn the_groups_of_a_composite_group_are_placed_together() {
    let groups = [composite("c", None, Some(2)), leaf("a", "c", Some(2)), leaf("b", "c", Some(2))];
    let world = world(&FOUR, &groups, &TWO_GROUPS);
    assert_eq!(bound(&world).len(), 4);
    assert_eq!(messages(&world), [("a", ""), ("b", "")], "a composite group has no condition");
}

#[test]
fn no_group_is_placed_if_too_few_of_them_fit() {
    let groups = [composite("c", None, Some(2)), leaf("a", "c", Some(2)), leaf("b", "c", Some(2))];
    let world = world(&FOUR[..3], &groups, &TWO_GROUPS);
    assert_eq!(bound(&world), []);
    let shared = "pod group is unschedulable, 0/1 placements are available, first placement status: minCount (2) cannot be satisfied: 1 \
                  scheduled, 0 remaining";
    let none = "pod group preemption: No preemption victims found for incoming preemptor";
    let own = "pod group is unschedulable, 0/1 placements are available, first placement status: minCount (2) cannot be satisfied: 1 \
               scheduled, 0 remaining";
    assert_eq!(
        messages(&world),
        [("a", format!("{shared}, {none}, {none}").as_str()), ("b", format!("{own}, {none}").as_str())],
        "the refusal of the composite group is shared with the group that fits"
    );
}

#[test]
fn a_rejected_group_below_a_composite_group_that_fits_keeps_its_reason_if_the_root_is_rejected() {
    // `between` fits with `b` alone; `c` fits nowhere, so the root is rejected.
    let groups = [
        composite("root", None, Some(2)),
        composite("between", Some("root"), Some(1)),
        leaf("a", "between", Some(1)),
        leaf("b", "between", Some(1)),
        leaf("c", "root", Some(1)),
    ];
    let mut world = empty(&FOUR);
    for (name, cpus) in [("a", "5"), ("b", "3"), ("c", "5")] {
        world.pod(pod(name).request("cpu", cpus).priority(PRIORITY).group(name).build());
    }
    groups.into_iter().for_each(|group| world.tell(Event::PodGroupApplied(Arc::new(group))));
    world.settle();
    assert_eq!(bound(&world), []);
    let message = |name: &str| world.reports.iter().find(|report| &*report.name == name).map(|report| &*report.message);
    assert_eq!(message("a"), Some("0/4 nodes are available: 4 Insufficient cpu."));
    assert!(
        message("b").is_some_and(|message| message.starts_with("pod group is unschedulable")),
        "{:?}",
        message("b")
    );
}

#[test]
fn a_composite_group_that_needs_one_group_is_placed_without_the_others() {
    for min_groups in [None, Some(1)] {
        let groups = [composite("c", None, min_groups), leaf("a", "c", Some(2)), leaf("b", "c", Some(2))];
        let world = world(&FOUR[..3], &groups, &TWO_GROUPS);
        let placed: Vec<&str> = bound(&world).into_iter().map(|(pod, _)| pod).collect();
        assert_eq!(placed, ["a0", "a1"], "{min_groups:?}");
    }
}

#[test]
fn the_domain_of_a_group_is_within_that_of_the_group_above() {
    let groups = [
        within("block", composite("c", None, Some(2))),
        within("rack", leaf("a", "c", Some(1))),
        within("rack", leaf("b", "c", Some(1))),
    ];
    let (a, b) = (("a0", "a"), ("b0", "b"));
    let mut nodes = FOUR.to_vec();
    nodes.remove(0);
    let world = world(&nodes, &groups, &[a, b]);
    let placed: Vec<&str> = bound(&world).into_iter().map(|(_, node)| node).collect();
    assert_eq!(placed.len(), 2);
    assert!(!placed.contains(&"n0"), "block x has room for one group only: {placed:?}");
}

#[test]
fn groups_wait_until_each_group_above_exists_and_enough_groups_are_complete() {
    let mut world = empty(&FOUR);
    let steps: [(&str, &[PodGroup], &[&str]); 5] = [
        ("the root does not exist", &[leaf("a", "c", Some(2))], &["a0", "a1"]),
        ("the group between does not exist", &[composite("top", None, Some(1))], &[]),
        ("two groups are needed", &[composite("c", Some("top"), Some(2))], &[]),
        ("the second group needs two pods", &[leaf("b", "c", Some(2))], &["b0"]),
        ("", &[], &["b1"]),
    ];
    for (why, groups, members) in steps {
        groups.iter().for_each(|group| world.tell(Event::PodGroupApplied(Arc::new(group.clone()))));
        members.iter().for_each(|name| world.pod(member(name, &name[..1]).build()));
        world.settle();
        assert_eq!(bound(&world).is_empty(), !why.is_empty(), "{why}");
    }
    assert_eq!(bound(&world).len(), 4);
}

#[test]
fn groups_wait_again_when_a_group_above_is_deleted() {
    let groups = [composite("top", None, Some(1)), composite("c", Some("top"), Some(1)), leaf("a", "c", Some(2))];
    for gone in ["top", "c"] {
        let mut world = world(&FOUR, &groups, &TWO_GROUPS[..1]);
        assert_eq!(bound(&world), [], "one pod of two");
        world.tell(Event::PodGroupDeleted(composite(gone, None, None).group_key()));
        world.pod(member("a1", "a").build());
        world.settle();
        assert_eq!(bound(&world), [], "without {gone}");
        let again = groups.iter().find(|group| &*group.name == gone).expect("one of the groups");
        world.tell(Event::PodGroupApplied(Arc::new(again.clone())));
        world.settle();
        assert_eq!(bound(&world).len(), 2, "with {gone} again");
    }
}

#[test]
fn victims_below_a_composite_group_with_mode_all_are_evicted_together() {
    for (disrupted_whole, expected) in [(true, 2), (false, 1)] {
        let low = |group| PodGroup { priority: 0, ..group };
        let top = PodGroup { disrupted_whole, ..low(composite("victims", None, Some(1))) };
        let groups = [
            top,
            low(leaf("v", "victims", Some(1))),
            low(leaf("w", "victims", Some(1))),
            composite("c", None, Some(1)),
            leaf("a", "c", Some(1)),
        ];
        let mut world = empty(&FOUR[..2]);
        world.evicts_slowly = true;
        let standing =
            |name: &str, group: &str, node: &str| -> PodInfo { member(name, group).priority(0).on(node).build() };
        world.pod(standing("v0", "v", "n0"));
        world.pod(standing("w0", "w", "n1"));
        groups.iter().for_each(|group| world.tell(Event::PodGroupApplied(Arc::new(group.clone()))));
        world.pod(member("a0", "a").build());
        world.settle();
        let [(_, message)] = messages(&world)[..] else { panic!("one group is tried") };
        assert!(message.ends_with(&format!("preempting {expected} victims")), "{message}");
    }
}
