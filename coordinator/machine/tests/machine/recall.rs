//! Explanations of past decisions are exact whatever changed since.

use flotilla_framework::testing::{node, pod};
use flotilla_machine::{
    event::Event,
    outlook::PodName,
    recall::{Picture, Recalled, Unknowable},
};

use crate::world::{World, preempting};

fn recalled(world: &World, name: &str) -> Option<Recalled> {
    let asked = PodName { namespace: "default".into(), name: name.into() };
    world.machine.recall(world.now_ms, &asked).map(|recall| recall.account())
}

fn picture(world: &World, name: &str) -> Picture {
    recalled(world, name).expect("it is kept").picture.expect("it can be told")
}

/// Three nodes, one tainted, one larger, and a pod with a bind in flight to the larger one.
fn decided() -> World {
    let mut world = World::new(2);
    world.node(node("small").capacity("cpu", "4").build());
    world.node(node("large").capacity("cpu", "16").build());
    world.node(node("tainted").taint("gpu", "", "NoSchedule").build());
    world.settle();
    world.pod(pod("web").request("cpu", "1").build());
    world.settle();
    world
}

#[test]
fn a_decision_is_told_with_its_nodes_scores_and_refusals() {
    let mut world = decided();
    world.now_ms += 5_000;
    let told = recalled(&world, "web").expect("it is kept");
    assert_eq!((&*told.node, told.attempt, &*told.profile), ("large", 1, "default-scheduler"));
    assert!(told.ago_ms >= 5_000, "{}", told.ago_ms);
    let picture = told.picture.expect("it can be told");
    assert!(picture.agrees, "{picture:?}");
    assert_eq!((picture.nodes, picture.feasible, picture.tied), (3, 2, 1));
    let names: Vec<&str> = picture.candidates.iter().map(|candidate| &*candidate.node).collect();
    assert_eq!(names, ["large", "small"]);
    assert_eq!(picture.candidates[0].total, Some(told.total));
    let sum: i64 = picture.candidates[0].scores.iter().map(|score| score.weighted).sum();
    assert_eq!(sum, told.total);
    let [refused] = &picture.refused[..] else { panic!("{:?}", picture.refused) };
    assert_eq!((refused.plugin, refused.count, &*refused.examples[0]), (Some("TaintToleration"), 1, "tainted"));
}

#[test]
fn what_has_changed_since_changes_nothing_of_what_is_told() {
    let mut world = decided();
    let before = recalled(&world, "web").expect("it is kept");
    // Pods come and go; nodes are cordoned, deleted, added and relabelled.
    for name in ["other-1", "other-2", "other-3"] {
        world.pod(pod(name).request("cpu", "2").build());
    }
    world.settle();
    world.node(node("tainted").build());
    world.node(node("new").capacity("cpu", "64").build());
    world.node(node("small").capacity("cpu", "4").label("disk", "ssd").build());
    world.settle();
    world.delete_pod("uid-other-2");
    world.tell(Event::NodeDeleted { name: "large".into() });
    world.settle();
    world.pod(pod("last").request("cpu", "2").build());
    world.settle();
    let after = recalled(&world, "web").expect("it is kept");
    assert!(after.changes_since > before.changes_since, "{:?}", after.changes_since);
    assert_eq!(after.picture, before.picture);
    assert_eq!((after.node, after.total, after.revision), (before.node, before.total, before.revision));
    assert!(picture(&world, "last").agrees);
}

#[test]
fn every_decision_of_a_busy_cluster_comes_out_the_same_again() {
    let mut world = World::new(3);
    for at in 0..12 {
        let zone = format!("zone-{}", at % 3);
        world.node(node(&format!("n{at}")).label("topology.kubernetes.io/zone", &zone).capacity("cpu", "8").build());
    }
    world.settle();
    for at in 0..60 {
        let made = pod(&format!("p{at}")).request("cpu", if at % 3 == 0 { "1" } else { "500m" });
        world.pod(made.label("app", if at % 2 == 0 { "web" } else { "db" }).build());
        world.settle();
        if at % 7 == 6 {
            world.delete_pod(&format!("uid-p{}", at - 3));
        }
    }
    for at in 0..60 {
        let picture = picture(&world, &format!("p{at}"));
        assert!(picture.agrees, "p{at}: {picture:?}");
    }
}

#[test]
fn so_many_are_kept_as_are_asked_for_and_none_if_none_are() {
    let decided = |kept: usize| {
        let mut world = World::keeping(kept);
        world.node(node("n").build());
        world.settle();
        for name in ["a", "b", "c"] {
            world.pod(pod(name).build());
            world.settle();
        }
        world
    };
    let two = decided(2);
    assert_eq!(recalled(&two, "a"), None);
    assert!(recalled(&two, "b").is_some() && recalled(&two, "c").is_some());
    assert_eq!(recalled(&decided(0), "c"), None);
}

#[test]
fn a_pod_that_has_preempted_is_told_with_who_made_room() {
    let mut world = World::with_workers(1, preempting());
    world.node(node("n").capacity("cpu", "2").build());
    world.pod(pod("low").priority(0).request("cpu", "2").build());
    world.settle();
    world.pod(pod("high").priority(10).request("cpu", "2").build());
    world.settle();
    world.advance(20_000);
    let told = recalled(&world, "high").expect("it is kept");
    let [room] = &told.preemptions[..] else { panic!("{told:?}") };
    assert_eq!((&*room.node, &*room.victims[0].name), ("n", "low"));
    let picture = told.picture.expect("it can be told");
    assert!(picture.was_nominated && picture.agrees, "{picture:?}");
}

#[test]
fn a_state_too_long_ago_is_said_to_be() {
    let mut world = decided();
    for at in 0..3_000 {
        let capacity = if at % 2 == 0 { "5" } else { "6" };
        world.node(node("small").capacity("cpu", capacity).build());
    }
    assert_eq!(recalled(&world, "web").expect("it is kept").picture, Err(Unknowable::TooLongAgo));
}

#[test]
fn nominations_are_kept_with_a_decision_while_there_are_few() {
    for (nominated, is_told) in [(1, true), (16, true), (17, false)] {
        let mut world = World::new(1);
        world.node(node("n").capacity("cpu", "64").build());
        world.node(node("other").capacity("cpu", "64").build());
        for at in 0..nominated {
            let waits = pod(&format!("waits-{at}")).request("cpu", "1").gate("example.com/later");
            world.pod(waits.nominated("n").build());
        }
        world.pod(pod("web").request("cpu", "1").build());
        world.settle();
        let told = recalled(&world, "web").expect("it is kept").picture;
        assert_eq!(told.is_ok(), is_told, "{nominated}: {told:?}");
        assert!(told.as_ref().map_or_else(|error| *error == Unknowable::ManyNominated, |picture| picture.agrees));
    }
}
