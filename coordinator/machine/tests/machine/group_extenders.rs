//! Pod groups with extenders, which are called for each member after those before it.

use std::sync::Arc;

use flotilla_framework::{
    extender::Extender,
    pod_group::PodGroup,
    testing::{node, pod, pod_group},
};
use flotilla_machine::event::{Configuration, Event, ExtensionOutcome};

use crate::{
    extenders::{answer, extender},
    groups,
    world::World,
};

fn configured(generation: u64, extenders: Vec<Extender>) -> Event {
    let configuration = groups::configuration(generation);
    let extenders = extenders.into_iter().map(Arc::new).collect();
    Event::Configured(Arc::new(Configuration { extenders, ..configuration }))
}

/// Nodes `n0`, `n1`… of 4 CPUs, and a gang of `a` and `b`, both required.
fn world(nodes: usize, cpus: [&str; 2], priority: i32) -> World {
    let mut world = World::new(2);
    world.tell(configured(2, vec![extender()]));
    for index in 0..nodes {
        world.node(node(&format!("n{index}")).build());
    }
    world.settle();
    world.tell(Event::PodGroupApplied(Arc::new(PodGroup { priority, ..pod_group("g", Some(2)) })));
    for (name, cpus) in ["a", "b"].into_iter().zip(cpus) {
        world.pod(pod(name).request("cpu", cpus).request("memory", "1Mi").priority(priority).group("g").build());
    }
    world.settle();
    world
}

fn asked(world: &World) -> Option<(String, Vec<String>)> {
    let extension = world.extensions.front()?;
    Some((extension.name.to_string(), extension.nodes.iter().map(ToString::to_string).collect()))
}

fn about(pod: &str, nodes: &[&str]) -> Option<(String, Vec<String>)> {
    Some((pod.to_owned(), nodes.iter().map(|&node| node.to_owned()).collect()))
}

fn say(world: &mut World, left: &[&str]) {
    let extension = world.extensions.pop_front().expect("a question");
    let outcome = answer(&extension, left, &[]);
    world.tell(Event::Extended { request: extension.request, outcome });
    world.settle();
}

type Happening = fn(&mut World);

fn said(world: &World, pod: &str) -> String {
    world.message_of(pod).expect("a report").to_owned()
}

#[test]
fn each_member_is_asked_about_beside_those_before_it_and_all_are_placed_in_the_end() {
    let mut world = world(2, ["3", "3"], 0);
    assert_eq!(asked(&world), about("a", &["n0", "n1"]));
    say(&mut world, &["n1"]);
    assert_eq!(asked(&world), about("b", &["n0"]), "the first one would be on the other node");
    assert_eq!(world.bound, [], "and nothing is bound before all of them have a place");
    say(&mut world, &["n0"]);
    assert_eq!((world.place_of("a"), world.place_of("b")), (Some("n1"), Some("n0")));
    assert_eq!(asked(&world), None);
}

#[test]
fn a_member_that_extenders_leave_no_node_keeps_the_others_out() {
    let mut world = world(2, ["1", "1"], 0);
    say(&mut world, &["n0", "n1"]);
    say(&mut world, &[]);
    assert_eq!(said(&world, "b"), "0/2 nodes are available: 2 the extender says no.");
    let whole = said(&world, "a");
    assert!(whole.starts_with("pod group is unschedulable, minCount (2) cannot be satisfied: 1 scheduled"), "{whole}");
    assert_eq!((world.bound.len(), asked(&world)), (0, None));
    world.advance(2_000);
    assert_eq!(asked(&world), about("a", &["n0", "n1"]), "after the backoff they are asked anew");
}

#[test]
fn an_extender_that_fails_fails_the_whole_group() {
    for is_lost in [false, true] {
        let mut world = world(2, ["1", "1"], 0);
        say(&mut world, &["n0", "n1"]);
        let why = if is_lost {
            world.advance(60_000);
            world.extensions.pop_front();
            "the extenders' answer was lost"
        } else {
            let request = world.extensions.pop_front().expect("a question").request;
            world.tell(Event::Extended { request, outcome: ExtensionOutcome::Failed("broken".to_owned()) });
            world.settle();
            "broken"
        };
        assert_eq!(said(&world, "b"), why);
        assert_eq!(said(&world, "a"), format!("failed to schedule other pod from a pod group: {why}"));
        assert_eq!(world.bound, []);
    }
}

#[test]
fn an_event_while_they_are_asked_has_them_asked_again_but_not_forever() {
    let mut world = world(1, ["1", "1"], 0);
    let mut questions = 0;
    while let Some((pod, _)) = asked(&world) {
        questions += 1;
        assert!(questions < 10, "the attempt comes to an end");
        // The cluster changes at each answer.
        world.node(node(&format!("new-{questions}")).build());
        say(&mut world, &["n0"]);
        assert!(questions != 1 || pod == "a");
    }
    assert_eq!(questions, 6, "three times about each");
    assert_eq!((world.place_of("a"), world.place_of("b")), (Some("n0"), Some("n0")));
}

#[test]
fn an_answer_about_an_attempt_that_is_over_is_dropped_and_counted() {
    let overs: [(&str, Happening); 3] = [
        ("the group is too small now", |world| world.delete_pod("uid-b")),
        ("the group is gone", |world| {
            world.tell(Event::PodGroupDeleted(pod_group("g", None).group_key()));
        }),
        ("other extenders are configured", |world| world.tell(configured(3, vec![]))),
    ];
    for (case, end) in overs {
        let mut world = world(2, ["1", "1"], 0);
        end(&mut world);
        let extension = world.extensions.pop_front().expect("a question");
        let outcome = answer(&extension, &["n0"], &[]);
        world.tell(Event::Extended { request: extension.request, outcome });
        world.settle();
        let discarded = world.machine.status().extensions_discarded;
        // A configuration without extenders waits for no answer.
        assert!(discarded == 1 || world.bound.len() == 2, "{case}");
        world.pod(pod("other").request("cpu", "1").request("memory", "1Mi").build());
        world.settle();
        if asked(&world).is_some() {
            say(&mut world, &["n1"]);
        }
        assert!(world.place_of("other").is_some(), "{case}: the queue goes on");
    }
}

#[test]
fn extenders_are_asked_too_when_room_is_looked_for() {
    let mut world = World::new(1);
    world.tell(configured(2, vec![extender()]));
    for (name, low) in [("n0", "x"), ("n1", "y")] {
        world.node(node(name).build());
        world.pod(pod(low).request("cpu", "4").request("memory", "1Mi").on(name).build());
    }
    world.settle();
    world.tell(Event::PodGroupApplied(Arc::new(PodGroup { priority: 10, ..pod_group("g", Some(2)) })));
    for name in ["a", "b"] {
        world.pod(pod(name).request("cpu", "2").request("memory", "1Mi").priority(10).group("g").build());
    }
    world.run_workers();
    world.run_workers();
    assert_eq!(asked(&world), about("a", &["n0", "n1"]), "as if the two were gone");
    for pod in ["a", "b"] {
        assert_eq!(asked(&world).map(|(name, _)| name).as_deref(), Some(pod));
        let extension = world.extensions.pop_front().expect("a question");
        let outcome = answer(&extension, &["n1"], &[]);
        world.tell(Event::Extended { request: extension.request, outcome });
        world.run_workers();
    }
    let victims = |world: &World| -> Vec<String> {
        let victims = world.preemptions.iter().flat_map(|preemption| &preemption.victims);
        victims.map(|victim| victim.pod.name.to_string()).collect()
    };
    assert_eq!(victims(&world), ["y"], "both go where extenders let them");
    world.settle();
    world.advance(2_000);
    for _ in ["a", "b"] {
        say(&mut world, &["n1"]);
    }
    assert_eq!((world.place_of("a"), world.place_of("b")), (Some("n1"), Some("n1")));
}
