//! Comparison of another scheduler's decisions with those of a follower.

use std::sync::Arc;

use flotilla_framework::{
    class::{PodInfo, Scheduled},
    testing::{self, PodBuilder, node, pod},
};
use flotilla_machine::{
    comparison::{Compared, DecisionDifference},
    event::Event,
};

use crate::world::World;

/// A follower with a small, a large and a tainted node.
fn following() -> World {
    let mut world = World::dormant(vec![testing::profile()]);
    world.tell(Event::Synced);
    world.node(node("small").capacity("cpu", "4").build());
    world.node(node("large").capacity("cpu", "16").build());
    world.node(node("tainted").capacity("cpu", "64").taint("gpu", "", "NoSchedule").build());
    world
}

fn on(pod: PodBuilder, node: &str) -> PodInfo {
    PodInfo { node_name: Some(node.into()), ..pod.build() }
}

fn unschedulable(pod: PodBuilder, message: &str) -> PodInfo {
    let condition = Scheduled { status: false, reason: "Unschedulable".into(), message: message.into() };
    PodInfo { condition: Some(condition), ..pod.build() }
}

/// The comparison before the machine handles the pod's result.
fn compared(world: &mut World, after: PodInfo) -> Option<Compared> {
    let event = Event::PodApplied(Arc::new(after));
    let found = world.machine.compare(&event).map(|comparison| comparison.judge().expect("it can be told"));
    world.tell(event);
    found
}

fn verdict(waiting: PodBuilder, after: PodInfo) -> DecisionDifference {
    let mut world = following();
    world.pod(waiting.build());
    compared(&mut world, after).expect("the pod was waiting").verdict
}

const WORDS: &str = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu.";

#[test]
fn a_node_of_another_scheduler_is_the_same_or_lower_or_refused_or_unknown() {
    let web = || pod("web").request("cpu", "1");
    let of = |node: &str| verdict(web(), on(web(), node));
    assert_eq!(of("large"), DecisionDifference::SameNode);
    assert_eq!(of("gone"), DecisionDifference::NodeUnknown);
    let DecisionDifference::Refused { plugin: Some("TaintToleration"), reasons } = of("tainted") else {
        panic!("it is tainted")
    };
    assert_eq!(*reasons, ["node(s) had untolerated taint(s)".to_owned()]);
    let DecisionDifference::Lower { ours, totals: (best, theirs), parts } = of("small") else {
        panic!("the large node is better")
    };
    assert_eq!(&*ours, "large");
    let (gained, lost) = parts.iter().fold((0, 0), |(ours, theirs), part| (ours + part.ours, theirs + part.theirs));
    assert!(best > theirs && gained - lost == best - theirs, "{best} {theirs} {parts:?}");
    assert!(parts.iter().any(|part| part.plugin == "NodeResourcesFit"), "{parts:?}");
}

#[test]
fn of_two_equal_nodes_either_may_be_taken() {
    let of = |theirs: &str| {
        let mut world = World::dormant(vec![testing::profile()]);
        world.tell(Event::Synced);
        world.node(node("a").build());
        world.node(node("b").build());
        world.pod(pod("web").build());
        compared(&mut world, on(pod("web"), theirs)).expect("the pod was waiting").verdict
    };
    let both = [of("a"), of("b")];
    assert_eq!(both.iter().filter(|verdict| **verdict == DecisionDifference::SameNode).count(), 1, "{both:?}");
    assert_eq!(
        both.iter().filter(|verdict| matches!(verdict, DecisionDifference::EqualTotal { .. })).count(),
        1,
        "{both:?}"
    );
}

#[test]
fn a_pod_that_no_node_takes_has_the_same_reasons_or_others_or_a_node() {
    let huge = || pod("huge").request("cpu", "100");
    let after = |message: &str| verdict(huge(), unschedulable(huge(), message));
    let advice = "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
    let cases =
        [(WORDS.to_owned(), true), (format!("{WORDS} {advice}"), true), ("0/3 nodes are available".into(), false)];
    for (message, expected) in cases {
        let DecisionDifference::Neither { ours, same_words } = after(&message) else { panic!("it is huge") };
        assert_eq!((&*ours, same_words), (WORDS, expected), "{message}");
    }
    let web = || pod("web").request("cpu", "1");
    assert_eq!(verdict(web(), unschedulable(web(), WORDS)), DecisionDifference::Feasible { ours: "large".into() });
}

#[test]
fn only_a_pod_that_was_seen_waiting_is_compared_and_only_when_something_was_decided() {
    let mut world = following();
    let web = || pod("web").request("cpu", "1");
    assert_eq!(compared(&mut world, on(pod("old"), "large")), None, "it was never seen waiting");
    assert_eq!(compared(&mut world, web().build()), None, "it begins to wait");
    assert_eq!(compared(&mut world, web().label("a", "b").build()), None, "nothing was decided");
    assert!(compared(&mut world, unschedulable(web(), WORDS)).is_some());
    assert_eq!(compared(&mut world, unschedulable(web(), WORDS)), None, "it has been compared");
    let placed = compared(&mut world, on(web(), "large")).expect("now it is placed");
    assert_eq!((&*placed.pod.name, &*placed.profile), ("web", "default-scheduler"));
    assert_eq!((placed.nodes, placed.feasible, placed.verdict), (3, 2, DecisionDifference::SameNode));
    assert_eq!(compared(&mut world, on(web(), "large")), None, "it is where it was");
    let foreign = || PodInfo { scheduler_name: "another".into(), ..web().build() };
    assert_eq!(compared(&mut world, PodInfo { uid: "other".into(), ..foreign() }), None);
    let bound = PodInfo { uid: "other".into(), node_name: Some("large".into()), ..foreign() };
    assert_eq!(compared(&mut world, bound), None, "no profile is meant");
}

#[test]
fn pods_that_were_placed_before_count() {
    let mut world = following();
    for (name, expected) in [("one", "large"), ("two", "large"), ("three", "large")] {
        let pod = || pod(name).request("cpu", "5");
        world.pod(pod().build());
        assert_eq!(
            compared(&mut world, on(pod(), expected)).map(|found| found.verdict),
            Some(DecisionDifference::SameNode),
            "{name}"
        );
    }
    let last = || pod("last").request("cpu", "5");
    world.pod(last().build());
    let Some(Compared { verdict: DecisionDifference::Refused { plugin, .. }, feasible, .. }) =
        compared(&mut world, on(last(), "large"))
    else {
        panic!("the node is full")
    };
    assert_eq!((plugin, feasible), (Some("NodeResourcesFit"), 0));
}
