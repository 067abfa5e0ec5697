//! Counts of pods, attempts and events, for metrics.

use std::sync::Arc;

use flotilla_framework::testing::{self, node, pod};
use flotilla_machine::{
    action::Action,
    event::{Event, WorkerId},
};

use crate::world::World;

fn unschedulable(world: &World) -> Vec<(&'static str, u64)> {
    world.machine.census().unschedulable.into_iter().map(|((_, plugin), pods)| (plugin, pods)).collect()
}

fn judged(world: &World, plugin: &str, point: &str) -> u64 {
    let judged = world.machine.census().judged;
    judged.iter().filter(|(key, _)| key.plugin == plugin && key.point == point).map(|(_, count)| count).sum()
}

#[test]
fn a_pod_counts_for_every_plugin_that_refused_it_until_it_is_tried_again() {
    let mut world = World::new(1);
    world.node(node("small").capacity("cpu", "1").build());
    world.node(node("tainted").taint("gpu", "", "NoSchedule").build());
    world.pod(pod("big").request("cpu", "2").build());
    world.pod(pod("gated").gate("wait").build());
    world.settle();
    assert_eq!(unschedulable(&world), [("NodeResourcesFit", 1), ("SchedulingGates", 1), ("TaintToleration", 1)]);
    world.node(node("large").capacity("cpu", "8").build());
    world.settle();
    world.now_ms += 60_000;
    world.tell(Event::Tick);
    world.settle();
    assert_eq!(world.bound, [("big".to_owned(), "large".to_owned())]);
    assert_eq!(unschedulable(&world), [("SchedulingGates", 1)]);
}

#[test]
fn plugins_are_counted_where_they_had_a_part_and_scores_only_where_a_node_was_found() {
    let mut world = World::new(2);
    for name in ["a", "b"] {
        world.node(node(name).capacity("cpu", "1").build());
    }
    world.pod(pod("web").request("cpu", "500m").build());
    world.pod(pod("huge").request("cpu", "5").build());
    world.settle();
    for (plugin, point, attempts) in [
        ("NodeResourcesFit", "PreFilter", 2),
        ("NodeResourcesFit", "Filter", 2),
        ("NodeResourcesFit", "Score", 1),
        ("NodePorts", "PreFilter", 0),
        ("NodePorts", "Filter", 0),
        ("NodeAffinity", "Score", 0),
    ] {
        assert_eq!(judged(&world, plugin, point), attempts, "{plugin} {point}");
    }
    // The indexes of profiles may change, but counts are kept.
    let configuration = flotilla_machine::event::Configuration::new(2, vec![testing::profile()]);
    world.tell(Event::Configured(Arc::new(configuration)));
    assert_eq!(judged(&world, "NodeResourcesFit", "Score"), 1);
}

#[test]
fn pods_on_nodes_are_counted_and_those_that_the_watch_does_not_show_yet_apart() {
    let mut world = World::new(1);
    world.node(node("n").build());
    world.pod(pod("standing").on("n").build());
    world.pod(pod("new").build());
    let census = world.machine.census();
    assert_eq!((census.pods, census.assumed_pods), (1, 0), "its class is asked about");
    world.settle();
    let census = world.machine.census();
    assert_eq!((census.pods, census.assumed_pods), (2, 0), "the watch has shown it");
}

#[test]
fn the_wait_of_an_attempt_for_the_workers_is_part_of_it_and_the_wait_before_is_not() {
    let mut world = World::new(1);
    world.node(node("n").build());
    world.settle();
    world.now_ms = 1_000;
    let first = world.machine.apply(1_000, Event::PodApplied(Arc::new(pod("web").build())));
    assert_eq!(world.machine.ended().decided, [0_u64; 0], "the worker is asked");
    let word = first
        .into_iter()
        .flat_map(|action| match action {
            Action::Send { worker: WorkerId(_), word } => Some(word),
            _ => None,
        })
        .filter_map(|word| world.workers.values_mut().next()?.replica.apply(word));
    let answers: Vec<_> = word.collect();
    let worker = *world.workers.keys().next().expect("a worker");
    let mut actions = Vec::new();
    for word in answers {
        actions = world.machine.apply(1_007, Event::FromWorker { worker, word });
    }
    assert_eq!((world.machine.ended().decided, world.machine.ended().evaluated), (&[7][..], &[7][..]));
    let binding = actions.iter().find_map(|action| match action {
        Action::Bind(binding) => Some(binding),
        _ => None,
    });
    let binding = binding.expect("it is bound");
    assert_eq!((binding.began_ms, binding.decided_ms, binding.prepared_ms), (1_000, 1_007, None));
    assert!(!binding.flushed);
    world.machine.apply(1_009, Event::Tick);
    assert!(world.machine.ended().decided.is_empty(), "nothing is told twice");
}

#[test]
fn events_have_kube_schedulers_labels() {
    let mut world = World::new(0);
    let unplaced = || Event::PodApplied(Arc::new(pod("web").build()));
    let placed = || Event::PodApplied(Arc::new(pod("web").on("n").build()));
    let deleted = || Event::PodDeleted { uid: Arc::clone(&pod("web").build().uid) };
    let foreign = Event::PodApplied(Arc::new(pod("other").scheduler("nobody").build()));
    for (event, label) in [
        (Event::NodeApplied(Arc::new(node("n").build())), Some("NodeAdd")),
        (Event::NodeApplied(Arc::new(node("n").label("a", "b").build())), Some("NodeUpdate")),
        (unplaced(), Some("UnscheduledPodAdd")),
        (unplaced(), Some("UnscheduledPodUpdate")),
        (placed(), Some("AssignedPodAdd")),
        (placed(), Some("AssignedPodUpdate")),
        (deleted(), Some("AssignedPodDelete")),
        (deleted(), None),
        (foreign, None),
        (Event::NodeDeleted { name: "n".into() }, Some("NodeDelete")),
        (Event::Tick, None),
    ] {
        let described = format!("{event:?}");
        assert_eq!(world.machine.handle_event(0, event), label, "{described}");
        world.machine.poll_actions(0);
    }
}

#[test]
fn a_pod_that_lands_only_because_it_had_waited_for_too_long_says_so() {
    let mut world = World::new(1);
    world.node(node("n").build());
    world.pod(pod("big").request("cpu", "5000").build());
    world.settle();
    world.now_ms += 330_001;
    let flushed = world.machine.apply(world.now_ms, Event::Tick);
    assert_eq!(flushed.iter().filter(|action| matches!(action, Action::Report(_))).count(), 1, "it was tried");
    assert_eq!(world.machine.status().flushed, 1);
    let incoming = world.machine.census().incoming;
    assert_eq!(incoming.get("unschedulable", "ScheduleAttemptFailure"), 2);
}
