//! Priorities in backoff: no pod takes room that a pod of higher priority in backoffQ needs.

use flotilla_framework::{
    class::PodInfo,
    node::NodeInfo,
    pod_group::PodGroup,
    testing::{self, PodBuilder, node, pod},
};
use flotilla_machine::event::{BindFailure, Configuration, Event};

use crate::{
    groups,
    world::{World, preempting},
};

const SMALL: usize = 15;

/// The taint of a Karpenter node until it is registered.
const UNREGISTERED: &str = "karpenter.sh/unregistered";

fn asks(name: &str, cpus: usize, priority: i32) -> PodBuilder {
    pod(name).request("cpu", &cpus.to_string()).priority(priority)
}

fn high(name: &str) -> PodInfo {
    asks(name, SMALL, 1_000).build()
}

fn low(name: &str) -> PodInfo {
    asks(name, 1, 0).build()
}

fn empty(name: &str) -> NodeInfo {
    node(name).capacity("cpu", &SMALL.to_string()).build()
}

/// A Karpenter node: with the taint, and 0.2 s later without it.
fn register(world: &mut World, name: &str) {
    world.node(node(name).capacity("cpu", &SMALL.to_string()).taint(UNREGISTERED, "", "NoExecute").build());
    world.advance(200);
    world.node(empty(name));
    world.settle();
}

fn places<'a>(world: &'a World, pods: &str) -> Vec<(&'a str, &'a str)> {
    let bound = world.bound.iter().filter(|(name, _)| name.starts_with(pods));
    bound.map(|(name, node)| (name.as_str(), node.as_str())).collect()
}

/// The victims of the only preemption go one after the other within 4 s. Their replacements wait from the beginning.
fn preempted_once(workers: usize) -> World {
    let mut world = World::with_workers(workers, preempting());
    // The grace period is over, so a coordinator without workers evaluates.
    world.advance(60_000);
    world.graceful = true;
    world.node(empty("a"));
    for index in 0..SMALL {
        world.pod(asks(&format!("old-{index:02}"), 1, 0).on("a").build());
    }
    world.settle();
    world.pod(high("high-1"));
    world.pod(high("high-2"));
    world.settle();
    for index in 0..SMALL {
        world.pod(low(&format!("new-{index:02}")));
        world.advance(10);
    }
    world.advance(3_500);
    for index in 0..SMALL {
        world.delete_pod(&format!("uid-old-{index:02}"));
        world.advance(20);
    }
    world
}

#[test]
fn a_pod_in_backoff_takes_a_node_that_registers_before_pods_of_lower_priority() {
    for (workers, wait_ms) in [(0, 0), (1, 300), (2, 0), (2, 130), (2, 700), (2, 1_900), (2, 5_000)] {
        let mut world = preempted_once(workers);
        assert_eq!(world.evicted.len(), 1);
        world.advance(wait_ms);
        assert_eq!(places(&world, "high"), [("high-1", "a")], "{workers} workers, {wait_ms} ms");
        register(&mut world, "b");
        assert_eq!(world.place_of("high-2"), Some("b"), "{workers} workers, {wait_ms} ms");
        assert_eq!((world.evicted.len(), places(&world, "new").len()), (1, 0), "{workers} workers, {wait_ms} ms");
        register(&mut world, "c");
        world.advance(12_000);
        assert_eq!(places(&world, "new").len(), SMALL, "and they have the next one");
    }
}

#[test]
fn a_pod_that_never_preempted_takes_a_node_that_registers_before_pods_of_lower_priority() {
    for (workers, wait_ms) in (0..20).map(|round| (round % 3, round as u64 * 170)) {
        let mut world = World::with_workers(workers, preempting());
        world.advance(60_000);
        world.node(node("full").capacity("cpu", "1").build());
        world.pod(asks("standing", 1, 2_000).on("full").build());
        world.pod(high("high-1"));
        world.settle();
        for index in 0..SMALL {
            world.pod(low(&format!("new-{index:02}")));
            world.advance(20);
        }
        world.advance(wait_ms);
        // A pod elsewhere comes and goes, and wakes everything once more.
        world.pod(asks("passing", 0, 3_000).build());
        world.settle();
        world.delete_pod("uid-passing");
        world.advance(100);
        register(&mut world, "b");
        assert_eq!(world.place_of("high-1"), Some("b"), "{workers} workers, {wait_ms} ms");
        assert_eq!((world.evicted.len(), places(&world, "new").len()), (0, 0), "{workers} workers, {wait_ms} ms");
    }
}

/// A full node `a`, and the pod `high` in backoffQ, woken by an event that did not help it.
fn backing_off(high: PodInfo) -> World {
    let mut world = World::with_workers(2, preempting());
    world.node(node("a").capacity("cpu", "1").build());
    world.pod(asks("standing", 1, 2_000).on("a").build());
    world.settle();
    world.pod(high);
    world.settle();
    world
}

/// Sends enough events that an empty activeQ pops no pod from backoffQ.
fn keep_busy(world: &mut World) {
    for index in 0..200 {
        world.tell(Event::NamespaceApplied { name: format!("namespace-{index}").into(), labels: Vec::new() });
    }
}

#[test]
fn a_pod_that_finds_a_node_leaves_it_to_one_that_comes_before_it_and_waits_for_the_end_of_its_backoff() {
    let mut world = backing_off(high("high"));
    keep_busy(&mut world);
    world.node(empty("b"));
    // The event moved it to backoffQ. Another pod that fits arrives.
    assert_eq!(world.machine.status().pods_backoff, 1);
    world.pod(low("low"));
    while world.binds.is_empty() {
        world.run_workers();
    }
    assert_eq!(&*world.binds[0].name, "high");
    world.settle();
    assert_eq!((world.place_of("high"), world.place_of("low")), (Some("b"), None));
    assert_eq!(world.machine.status().ahead_first, 1);
}

#[test]
fn a_pod_whose_node_is_too_small_for_those_before_it_takes_the_node() {
    let mut world = backing_off(asks("high", SMALL + 1, 1_000).build());
    keep_busy(&mut world);
    world.node(empty("b"));
    world.pod(low("low"));
    world.settle();
    assert_eq!((world.place_of("low"), world.machine.status().ahead_first), (Some("b"), 0));
}

#[test]
fn without_the_gate_a_pod_waits_for_the_end_of_its_backoff_whatever_comes_after_it() {
    let mut world = backing_off(high("high"));
    let configuration = Configuration { pops_from_backoff: false, ..Configuration::new(2, vec![preempting()]) };
    world.tell(Event::Configured(configuration.into()));
    world.settle();
    world.node(empty("b"));
    world.pod(low("low"));
    world.settle();
    assert_eq!((world.place_of("high"), world.place_of("low")), (None, Some("b")));
}

#[test]
fn a_pod_that_came_back_with_an_error_keeps_no_node_from_others() {
    let mut world = World::with_workers(2, preempting());
    world.node(empty("a"));
    world.pod(high("high"));
    while world.binds.is_empty() {
        world.run_workers();
    }
    let uid = world.binds.pop_front().expect("asked for").uid;
    world.tell(Event::BindFailed { uid, failure: BindFailure::Error("try again".to_owned()) });
    world.pod(low("low"));
    world.settle();
    assert_eq!(world.place_of("low"), Some("a"));
}

#[test]
fn an_attempt_before_its_time_does_not_lengthen_the_backoff() {
    let mut world = World::with_profiles(vec![testing::profile()]);
    world.advance(2_000);
    world.node(node("a").capacity("cpu", "1").build());
    world.pod(asks("high", 4, 10).build());
    world.settle();
    // New nodes are too small or tainted: each triggers an attempt at once.
    for index in 0..6 {
        world
            .node(node(&format!("n{index}")).capacity("cpu", "8").taint("t", &index.to_string(), "NoSchedule").build());
        world.settle();
    }
    assert_eq!(world.reports.len(), 7, "each is an attempt");
    let before = world.reports.len();
    world.advance(2_000);
    keep_busy(&mut world);
    world.node(node("last").capacity("cpu", "8").taint("t", "", "NoSchedule").build());
    assert_eq!(world.reports.len(), before + 1, "its first backoff has ended, so that it is tried with the event");
}

#[test]
fn pods_in_backoff_go_by_priority_whenever_their_backoff_ends() {
    let mut world = World::with_profiles(vec![testing::profile()]);
    world.advance(2_000);
    world.node(node("a").capacity("cpu", "1").build());
    // The pod of higher priority has more attempts, and so a longer backoff.
    world.pod(asks("high", 4, 10).build());
    world.settle();
    for index in 0..3 {
        world.advance(15_000);
        world.node(node(&format!("n{index}")).capacity("cpu", "4").taint("t", "", "NoSchedule").build());
        world.settle();
    }
    world.pod(asks("low", 3, 0).build());
    world.settle();
    keep_busy(&mut world);
    world.node(node("b").capacity("cpu", "4").build());
    assert_eq!(world.machine.status().pods_backoff, 2);
    world.settle();
    assert_eq!((world.place_of("high"), world.place_of("low")), (Some("b"), None));
}

#[test]
fn a_pod_looks_for_victims_after_those_of_higher_priority_in_backoff() {
    let mut world = backing_off(high("high"));
    keep_busy(&mut world);
    // A new node is full of potential victims, so the pod may preempt there. It is still in backoff.
    world.pod(asks("small", SMALL, 0).on("b").build());
    world.node(empty("b"));
    assert_eq!(world.machine.status().pods_backoff, 1);
    world.pod(asks("mid", SMALL, 500).build());
    world.settle();
    world.advance(12_000);
    let preempted: Vec<&str> = world.evicted.iter().map(|(pod, ..)| pod.as_str()).collect();
    assert_eq!((preempted, world.place_of("high")), (vec!["high"], Some("b")));
}

/// While victims terminate, pods of lower priority are tried, and never take the reserved node.
#[test]
fn no_pod_of_lower_priority_has_a_nominated_node_while_victims_go() {
    for workers in [0, 2] {
        let mut world = World::with_workers(workers, preempting());
        world.graceful = true;
        world.node(empty("a"));
        for index in 0..SMALL {
            world.pod(asks(&format!("old-{index:02}"), 1, 0).on("a").build());
        }
        world.settle();
        world.pod(high("high"));
        world.settle();
        for index in 0..SMALL {
            world.pod(low(&format!("new-{index:02}")));
            keep_busy(&mut world);
            world.delete_pod(&format!("uid-old-{index:02}"));
            world.pod(asks(&format!("other-{index:02}"), 1, 999).build());
            world.advance(if index % 4 == 0 { 2_300 } else { 70 });
            assert_eq!(places(&world, "new"), []);
            assert_eq!(places(&world, "other"), []);
        }
        world.settle();
        assert_eq!((world.place_of("high"), world.evicted.len()), (Some("a"), 1), "{workers} workers");
    }
}

/// Full nodes, and a gang of two pods of priority 10 that was refused at 2 s.
fn waiting_gang(now_ms: u64) -> World {
    let mut world = World::new(2);
    let mut configuration = groups::configuration(2);
    configuration.worker_grace_ms = 0;
    world.tell(Event::Configured(configuration.into()));
    world.node(node("full").capacity("cpu", "1").build());
    world.pod(asks("standing", 1, 2_000).on("full").build());
    world.advance(now_ms);
    world.tell(Event::PodGroupApplied(PodGroup { priority: 10, ..testing::pod_group("g", Some(2)) }.into()));
    for name in ["g-1", "g-2"] {
        world.pod(asks(name, 2, 10).group("g").build());
    }
    world.settle();
    world
}

#[test]
fn a_pod_that_finds_a_node_leaves_it_to_a_group_that_comes_before_it_once_room_was_made() {
    let mut world = waiting_gang(2_000);
    world.advance(1_000);
    // Its backoff lasts until 5 s.
    let before = world.machine.status().groups_refused;
    world.node(node("b").capacity("cpu", "4").build());
    world.settle();
    assert_eq!(world.machine.status().groups_refused, before, "an empty activeQ does not take it");
    world.pod(asks("low", 3, 0).build());
    world.settle();
    assert_eq!((places(&world, "g"), world.place_of("low")), (vec![("g-1", "b"), ("g-2", "b")], None));
}

#[test]
fn a_group_that_does_not_fit_either_goes_ahead_once_a_second_at_most_and_keeps_its_backoff() {
    let mut world = waiting_gang(2_000);
    world.advance(500);
    let before = world.machine.status().groups_refused;
    world.node(node("b").capacity("cpu", "3").build());
    world.pod(asks("early", 1, 0).build());
    world.settle();
    assert_eq!((world.place_of("early"), world.machine.status().groups_refused), (Some("b"), before), "too soon");
    world.advance(600);
    world.delete_pod("uid-early");
    for name in ["low-1", "low-2"] {
        world.pod(asks(name, 1, 0).build());
        world.settle();
        assert_eq!(world.place_of(name), Some("b"), "there is no room for two pods of the group");
    }
    assert_eq!(world.machine.status().groups_refused, before + 1, "it was tried once for both");
    world.node(node("c").capacity("cpu", "4").build());
    world.advance(3_000);
    assert_eq!(places(&world, "g"), [("g-1", "c"), ("g-2", "c")], "at the end of its first backoff");
}

/// A node that is temporarily infeasible for its nominated pod ends the nomination, as in kube-scheduler. The pod still gets the freed room
/// once the node is feasible.
#[test]
fn no_pod_of_lower_priority_has_a_nominated_node_that_was_tainted_while_victims_went() {
    for workers in [0, 2] {
        let mut world = World::with_workers(workers, preempting());
        world.advance(60_000);
        world.graceful = true;
        world.node(empty("a"));
        for index in 0..SMALL {
            world.pod(asks(&format!("old-{index:02}"), 1, 0).on("a").build());
        }
        world.settle();
        world.pod(high("high"));
        world.settle();
        assert_eq!(world.api["uid-high"].nominated_node_name.as_deref(), Some("a"));
        for index in 0..SMALL {
            world.pod(low(&format!("new-{index:02}")));
        }
        world.advance(1_000);
        world.node(node("a").capacity("cpu", &SMALL.to_string()).taint(UNREGISTERED, "", "NoExecute").build());
        world.advance(700);
        for index in 0..SMALL {
            world.delete_pod(&format!("uid-old-{index:02}"));
            world.advance(130);
        }
        world.node(empty("a"));
        world.settle();
        assert_eq!((world.place_of("high"), places(&world, "new").len()), (Some("a"), 0), "{workers} workers");
        assert_eq!(world.evicted.len(), 1);
    }
}
