//! The outlook of a pod in each state.

use flotilla_framework::testing::{self, node, pod};
use flotilla_machine::{
    event::{BindFailure, Event},
    outlook::{NotOurs, Outlook, PodName, PodState},
};

use crate::world::World;

fn outlook(world: &World, name: &str) -> Option<Outlook> {
    world.machine.outlook(world.now_ms, &PodName { namespace: "default".into(), name: name.into() })
}

fn standing(world: &World, name: &str) -> PodState {
    outlook(world, name).expect("the machine knows it").standing
}

#[test]
fn pods_in_the_active_queue_know_how_many_go_before_them() {
    let mut world = World::dormant(vec![testing::profile()]);
    world.node(node("n").build());
    for (name, priority) in [("first", 5), ("last", 0), ("middle", 3)] {
        world.pod(pod(name).priority(priority).build());
    }
    world.now_ms += 250;
    for (name, ahead) in [("first", 0), ("middle", 1), ("last", 2)] {
        assert_eq!(standing(&world, name), PodState::Active { ahead, for_ms: 250 }, "{name}");
    }
    let first = outlook(&world, "first").expect("known");
    assert_eq!((first.attempts, first.priority, first.queued_for_ms, first.told), (0, 5, Some(250), None));
}

#[test]
fn an_unschedulable_pod_knows_who_refused_it_what_they_wait_for_and_when_it_is_tried_anyway() {
    let mut world = World::new(2);
    world.node(node("n").capacity("cpu", "1").build());
    world.node(node("tainted").taint("gpu", "", "NoSchedule").build());
    world.pod(pod("big").request("cpu", "2").build());
    world.settle();
    world.now_ms += 5_000;
    let told = outlook(&world, "big").expect("known");
    let PodState::Unschedulable { for_ms, rejected_by, flush_in_ms } = told.standing else {
        panic!("{:?}", told.standing)
    };
    assert_eq!((for_ms, flush_in_ms), (5_000, 295_000));
    let plugins: Vec<_> = rejected_by.iter().map(|rejection| rejection.plugin).collect();
    assert_eq!(plugins, ["NodeResourcesFit", "TaintToleration"]);
    assert!(rejected_by[0].waits_for.contains(&"AssignedPodDelete"));
    assert_eq!(rejected_by[1].waits_for, ["NodeAdd", "NodeUpdateNodeTaint", "TargetPodUpdatePodToleration"]);
    let message = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s).";
    assert_eq!(told.told.map(|(reason, text)| (reason.as_str(), text)), Some(("Unschedulable", message.to_owned())));
    assert_eq!(told.attempts, 1);
}

#[test]
fn a_pod_whose_bind_failed_backs_off_and_knows_for_how_long() {
    let mut world = World::new(1);
    world.node(node("n").build());
    world.pod(pod("web").build());
    while world.binds.is_empty() {
        world.run_workers();
    }
    assert_eq!(standing(&world, "web"), PodState::Binding { node: "n".into(), answered: false });
    let uid = world.binds.pop_front().expect("asked for").uid;
    world.tell(Event::BindFailed { uid, failure: BindFailure::Error("the API server is away".to_owned()) });
    world.now_ms += 300;
    let told = outlook(&world, "web").expect("known");
    assert_eq!(told.standing, PodState::BackingOff { left_ms: 1_700 });
    assert_eq!(told.attempts, 1);
    assert_eq!(told.told.map(|(_, text)| text).as_deref(), Some("the API server is away"));
}

#[test]
fn a_bind_is_under_way_until_the_watch_shows_the_pod_on_its_node() {
    let mut world = World::new(1);
    world.node(node("n").build());
    world.pod(pod("web").build());
    while world.binds.is_empty() {
        world.run_workers();
    }
    world.run_bind();
    assert_eq!(standing(&world, "web"), PodState::Binding { node: "n".into(), answered: true });
    world.settle();
    assert_eq!(standing(&world, "web"), PodState::Bound { node: "n".into() });
}

#[test]
fn a_gated_pod_names_the_plugin_that_keeps_it_out_and_its_words() {
    let mut world = World::new(1);
    world.pod(pod("waiting").gate("example.com/quota").build());
    let PodState::Gated { plugin, message } = standing(&world, "waiting") else { panic!("it is gated") };
    assert_eq!(plugin, Some("SchedulingGates"));
    assert!(message.contains("example.com/quota"), "{message}");
}

#[test]
fn for_a_pod_that_is_not_scheduled_here_the_answer_says_why() {
    let mut world = World::new(1);
    world.node(node("n").build());
    world.pod(pod("theirs").scheduler("another").build());
    let mut leaving = pod("leaving").build();
    leaving.deleting = true;
    world.pod(leaving);
    let mut ended = pod("ended").build();
    ended.finished = true;
    world.pod(ended);
    world.settle();
    let expected = [("theirs", NotOurs::OtherScheduler), ("leaving", NotOurs::Deleting), ("ended", NotOurs::Finished)];
    for (name, why) in expected {
        assert_eq!(standing(&world, name), PodState::NotOurs(why), "{name}");
    }
    assert_eq!(outlook(&world, "unheard-of"), None);
    let elsewhere = PodName { namespace: "other".into(), name: "theirs".into() };
    assert_eq!(world.machine.outlook(world.now_ms, &elsewhere), None, "names are told apart by namespace");
}

#[test]
fn of_two_pods_of_one_name_the_later_one_is_meant() {
    let mut world = World::new(1);
    world.node(node("n").capacity("cpu", "1").build());
    world.pod(pod("db-0").uid("old").on("n").build());
    world.pod(pod("db-0").uid("new").gate("not-yet").build());
    assert_eq!(&*outlook(&world, "db-0").expect("known").uid, "new");
}

#[test]
fn asking_changes_nothing() {
    let mut world = World::new(1);
    world.node(node("n").capacity("cpu", "1").build());
    world.pod(pod("big").request("cpu", "2").build());
    world.settle();
    let before = (world.machine.status(), world.machine.next_wakeup());
    let (first, second) = (outlook(&world, "big"), outlook(&world, "big"));
    assert_eq!(first, second);
    assert_eq!((world.machine.status(), world.machine.next_wakeup()), before);
}
