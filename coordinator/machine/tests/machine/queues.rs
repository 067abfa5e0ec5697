//! Queues: gates, updates of waiting pods, flushes, whole classes, and counts.

use flotilla_framework::{
    class::PodInfo,
    testing::{self, node, pod},
};
use flotilla_machine::event::{BindFailure, Configuration, Event};

use crate::world::World;

fn asks(name: &str, cpu: &str) -> PodInfo {
    pod(name).request("cpu", cpu).build()
}

fn world_of_one() -> World {
    let mut world = World::new(1);
    world.node(node("n").capacity("cpu", "1").build());
    world
}

/// Pods in activeQ, in backoffQ, parked, and gated.
fn waiting(world: &World) -> [u64; 4] {
    let status = world.machine.status();
    [status.pods_active, status.pods_backoff, status.pods_unschedulable, status.pods_gated]
}

fn incoming(world: &World) -> Vec<(&'static str, &'static str, u64)> {
    world.machine.census().incoming.iter().collect()
}

#[test]
fn a_pod_is_counted_on_each_way_into_a_queue() {
    let mut world = world_of_one();
    world.pod(asks("big", "2"));
    world.settle();
    world.node(node("n").capacity("cpu", "2").build());
    world.settle();
    let expected = [
        ("active", "PopFromBackoffQ", 1),
        ("active", "UnscheduledPodAdd", 1),
        ("backoff", "NodeUpdateNodeAllocatable", 1),
        ("unschedulable", "ScheduleAttemptFailure", 1),
    ];
    assert_eq!(incoming(&world), expected);
    assert_eq!(world.place_of("big"), Some("n"));
}

#[test]
fn a_pod_whose_backoff_is_over_goes_straight_to_the_active_queue() {
    let mut world = world_of_one();
    world.pod(asks("big", "2"));
    world.settle();
    world.advance(5_000);
    world.node(node("n").capacity("cpu", "2").build());
    assert_eq!(world.machine.census().incoming.get("active", "NodeUpdateNodeAllocatable"), 1);
}

#[test]
fn gated_pods_wait_for_their_own_update_and_for_nothing_else() {
    let mut world = world_of_one();
    world.pod(pod("web").gate("a").request("cpu", "1").build());
    world.node(node("m").capacity("cpu", "4").build());
    world.delete_pod("uid-nobody");
    world.advance(400_000);
    assert_eq!(waiting(&world), [0, 0, 0, 1]);
    assert_eq!(world.machine.status().decisions, 0, "not even the flush lets it in");
    world.pod(pod("web").gate("a").label("x", "y").request("cpu", "1").build());
    assert_eq!(waiting(&world), [0, 0, 0, 1]);
    let by_plugin = world.machine.census().unschedulable;
    assert_eq!(
        by_plugin.into_iter().map(|((_, plugin), pods)| (plugin, pods)).collect::<Vec<_>>(),
        [("SchedulingGates", 1)]
    );
    world.pod(asks("web", "1"));
    world.settle();
    assert_eq!((world.bound.len(), waiting(&world)), (1, [0; 4]));
}

#[test]
fn a_pod_that_was_gated_for_long_goes_before_pods_that_came_later() {
    let mut world = World::dormant(vec![testing::profile()]);
    world.node(node("n").build());
    world.pod(pod("early").gate("a").build());
    world.now_ms += 10;
    world.pod(pod("late").build());
    world.now_ms += 10;
    world.pod(pod("early").build());
    world.tell(Event::Synced);
    world.tell(Event::Leading { epoch: 1 });
    world.join("w");
    world.settle();
    assert_eq!(world.bound.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["early", "late"]);
}

#[test]
fn an_update_wakes_a_pod_only_if_it_means_something_to_who_refused_it() {
    let refused_by_fit = |update: fn() -> PodInfo| {
        let mut world = world_of_one();
        world.pod(asks("web", "2"));
        world.settle();
        assert_eq!(waiting(&world), [0, 0, 1, 0]);
        world.pod(update());
        world.settle();
        (world.bound.len(), world.machine.status().decisions)
    };
    assert_eq!(refused_by_fit(|| pod("web").request("cpu", "2").label("a", "b").build()), (0, 1), "labels");
    assert_eq!(refused_by_fit(|| pod("web").request("cpu", "2").tolerate("t", "Exists", "", "").build()), (0, 1));
    assert_eq!(refused_by_fit(|| asks("web", "3")), (0, 1), "it asks for more");
    assert_eq!(refused_by_fit(|| asks("web", "1")), (1, 2), "it asks for less");
    let mut world = World::new(1);
    world.node(node("n").taint("t", "", "NoSchedule").build());
    world.pod(pod("web").build());
    world.settle();
    world.pod(pod("web").label("a", "b").build());
    world.settle();
    assert_eq!(world.machine.status().decisions, 1);
    world.pod(pod("web").label("a", "b").tolerate("t", "Exists", "", "").build());
    world.settle();
    assert_eq!(world.place_of("web"), Some("n"), "it tolerates the taint");
    assert_eq!(world.machine.census().incoming.get("backoff", "TargetPodUpdatePodToleration"), 1);
}

#[test]
fn events_after_an_update_are_judged_by_what_the_pod_is_now() {
    let mut world = world_of_one();
    world.pod(pod("web").request("cpu", "4").build());
    world.settle();
    world.pod(pod("web").request("cpu", "8").build());
    world.node(node("four").capacity("cpu", "4").build());
    world.settle();
    assert_eq!(world.machine.status().decisions, 1, "a node of four CPUs does not help it any more");
    world.node(node("eight").capacity("cpu", "8").build());
    world.settle();
    assert_eq!(world.place_of("web"), Some("eight"));
}

#[test]
fn a_pod_that_changes_while_it_backs_off_is_tried_as_what_it_is() {
    let mut world = world_of_one();
    world.pod(asks("web", "1"));
    while world.binds.is_empty() {
        world.run_workers();
    }
    let uid = world.binds.pop_front().expect("asked for").uid;
    world.tell(Event::BindFailed { uid, failure: BindFailure::Error("try again".to_owned()) });
    world.pod(asks("web", "2"));
    assert_eq!(waiting(&world), [0, 1, 0, 0]);
    world.advance(1_999);
    assert_eq!(waiting(&world), [0, 1, 0, 0], "an update shortens no backoff");
    world.advance(1);
    assert_eq!(world.message_of("web"), Some("0/1 nodes are available: 1 Insufficient cpu."));
}

#[test]
fn a_class_that_fits_nowhere_is_tried_once_for_all_its_pods() {
    let mut world = world_of_one();
    for index in 0..50 {
        world.pod(asks(&format!("p{index:02}"), "2"));
    }
    world.settle();
    assert_eq!((world.reports.len(), waiting(&world)), (50, [0, 0, 50, 0]), "each is told once");
    world.advance(12_000);
    world.node(node("m").capacity("cpu", "1").build());
    world.node(node("m").capacity("cpu", "2").taint("t", "", "NoSchedule").build());
    world.settle();
    assert_eq!(world.reports.len(), 51, "the node is large enough, but for its taint");
    assert_eq!(&*world.reports[50].name, "p00");
    assert_eq!(waiting(&world), [0, 0, 50, 0]);
    world.advance(12_000);
    world.node(node("m").capacity("cpu", "6").build());
    world.settle();
    let placed: Vec<&str> = world.bound.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(placed, ["p01", "p02", "p03"], "in the order in which they were last tried");
    assert_eq!(waiting(&world), [0, 0, 47, 0]);
    assert_eq!(world.machine.status().flushed, 0);
}

#[test]
fn every_pod_of_a_class_that_fits_nowhere_has_its_turn() {
    let mut world = world_of_one();
    for index in 0..5 {
        world.pod(asks(&format!("p{index}"), "2"));
    }
    world.settle();
    for _ in 0..5 {
        world.advance(12_000);
        world.pod(asks("passing", "1"));
        world.settle();
        world.delete_pod("uid-passing");
        world.settle();
    }
    let told: Vec<&str> = world.reports[5..].iter().map(|report| &*report.name).collect();
    assert_eq!(told, ["p0", "p1", "p2", "p3", "p4"]);
    assert!(world.reports[5..].iter().all(|report| !report.write_condition));
    assert!(world.reports[5..].iter().all(|report| report.attempt == 2));
}

#[test]
fn of_one_class_a_pod_of_higher_priority_is_tried_by_itself() {
    let mut world = world_of_one();
    world.pod(pod("high").priority(5).request("cpu", "2").build());
    world.pod(asks("low", "2"));
    world.settle();
    world.advance(12_000);
    world.node(node("m").capacity("cpu", "2").taint("t", "", "NoSchedule").build());
    world.settle();
    let told: Vec<&str> = world.reports[2..].iter().map(|report| &*report.name).collect();
    assert_eq!(told, ["high"], "what no node has for the higher one, no node has for the lower one");
}

#[test]
fn pods_that_wait_too_long_are_tried_again_and_counted() {
    let mut world = world_of_one();
    for index in 0..3 {
        world.pod(asks(&format!("p{index}"), "2"));
    }
    world.settle();
    world.advance(300_000);
    assert_eq!(world.machine.status().flushed, 0, "longer than five minutes, looked at every half minute");
    world.advance(30_000);
    assert_eq!(world.machine.status().flushed, 3);
    assert_eq!(world.machine.census().incoming.get("active", "UnschedulableTimeout"), 3);
    assert_eq!(world.reports.len(), 4, "one of them is tried for all");
    world.advance(290_000);
    assert_eq!(world.machine.status().flushed, 3, "and the time begins anew");
    world.advance(40_000);
    assert_eq!(world.machine.status().flushed, 6);
}

#[test]
fn without_the_gate_no_pod_is_taken_from_the_backoff_queue_before_its_time() {
    let mut world = world_of_one();
    let profiles = vec![testing::profile()];
    let configuration = Configuration { pops_from_backoff: false, ..Configuration::new(2, profiles) };
    world.tell(Event::Configured(configuration.into()));
    world.now_ms = 500;
    world.pod(asks("big", "2"));
    world.settle();
    world.node(node("n").capacity("cpu", "2").build());
    world.settle();
    assert_eq!(waiting(&world), [0, 1, 0, 0]);
    world.advance(1_499);
    assert_eq!(world.place_of("big"), None);
    world.advance(1);
    assert_eq!(world.place_of("big"), Some("n"));
}

#[test]
fn a_longest_backoff_of_zero_means_none_and_an_error_still_does_not_spin() {
    let mut world = World::new(1);
    let configuration = Configuration { pod_max_backoff_ms: 0, ..Configuration::new(2, vec![testing::profile()]) };
    world.tell(Event::Configured(configuration.into()));
    world.pod(asks("web", "1"));
    world.settle();
    assert_eq!((world.reports.len(), waiting(&world)), (1, [0, 1, 0, 0]), "there are no nodes");
    world.node(node("n").capacity("cpu", "1").build());
    world.advance(1_000);
    assert_eq!(world.place_of("web"), Some("n"));
}

#[test]
fn more_classes_than_are_tried_for_one_event_have_their_turn_all_the_same() {
    let mut world = World::with_profiles(vec![testing::profile()]);
    world.advance(2_000);
    world.node(node("n").capacity("cpu", "1").build());
    for index in 0..30 {
        world.pod(asks(&format!("p{index}"), &format!("{}m", 1_100 + index)));
    }
    world.settle();
    world.pod(asks("new", "1"));
    world.settle();
    world.delete_pod("uid-new");
    let after_event = world.reports.len();
    assert!(after_event < 60, "{after_event}: not all of them within the event");
    world.settle();
    assert_eq!(world.reports.len(), 60);
}
