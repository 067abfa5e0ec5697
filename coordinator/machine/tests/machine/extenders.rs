//! Decisions with extenders.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{
    extender::{Extended, Extender, ExtenderManagedResource, FilterAnswer, HostPriority},
    testing::{self, node, pod},
};
use flotilla_machine::{
    action::{Extension, Reason},
    event::{BindFailure, Configuration, Event, ExtensionOutcome},
};

use crate::world::World;

pub(crate) fn extender() -> Extender {
    Extender {
        url_prefix: "http://u".to_owned(),
        filter_verb: "filter".to_owned(),
        prioritize_verb: "prioritize".to_owned(),
        weight: 1,
        node_cache_capable: true,
        ..Extender::default()
    }
}

fn configuration(generation: u64, extenders: Vec<Extender>) -> Event {
    let mut configuration = Configuration::new(generation, vec![testing::profile()]);
    configuration.extenders = extenders.into_iter().map(Arc::new).collect();
    Event::Configured(Arc::new(configuration))
}

fn world(extenders: Vec<Extender>, nodes: &[(&str, &str)]) -> World {
    let mut world = World::new(2);
    world.tell(configuration(2, extenders));
    for (name, cpu) in nodes {
        world.node(node(name).capacity("cpu", cpu).build());
    }
    world.settle();
    world
}

/// The extenders' answer, if each filter leaves `left` and rejects the others, and each score is as in `scores`.
pub(crate) fn answer(extension: &Extension, left: &[&str], scores: &[(&str, i64)]) -> ExtensionOutcome {
    let mut extended = Extended::new(extension.nodes.clone());
    for extender in &*extension.extenders {
        let is_left = |name: &&Arc<str>| left.contains(&&***name);
        let (kept, others): (Vec<_>, Vec<_>) = extended.nodes.iter().partition(is_left);
        let failed: BTreeMap<String, String> =
            others.into_iter().map(|name| (name.to_string(), "the extender says no".to_owned())).collect();
        let answer = FilterAnswer {
            node_names: Some(kept.into_iter().map(ToString::to_string).collect()),
            failed_nodes: failed,
            ..FilterAnswer::default()
        };
        extended.filter(extender, Ok(answer)).expect("an answer");
        let scores = scores.iter().map(|&(host, score)| HostPriority { host: host.to_owned(), score });
        extended.prioritize(extender, scores.collect());
    }
    ExtensionOutcome::Done(Box::new(extended))
}

fn next(world: &mut World) -> Extension {
    world.extensions.pop_front().expect("extenders are to be asked")
}

fn tell(world: &mut World, request: u64, outcome: ExtensionOutcome) {
    world.tell(Event::Extended { request, outcome });
    world.settle();
}

fn say(world: &mut World, left: &[&str], scores: &[(&str, i64)]) {
    let extension = next(world);
    let outcome = answer(&extension, left, scores);
    tell(world, extension.request, outcome);
}

#[test]
fn extenders_hear_of_all_feasible_nodes_and_of_no_others() {
    let mut world = world(vec![extender()], &[("small", "1"), ("b", "4"), ("a", "8")]);
    world.pod(pod("web").request("cpu", "2").build());
    world.settle();
    let extension = next(&mut world);
    assert_eq!(extension.nodes.iter().map(|name| &**name).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!((&*extension.namespace, &*extension.name, &*extension.uid), ("default", "web", "uid-web"));
    assert_eq!(world.bound, [], "nothing is decided before they have answered");
}

#[test]
fn a_filter_takes_nodes_away_and_a_score_moves_the_pod() {
    let mut world = world(vec![extender()], &[("large", "8"), ("middle", "7"), ("small", "2")]);
    world.pod(pod("first").request("cpu", "1").build());
    world.settle();
    say(&mut world, &["middle", "small"], &[("large", 10)]);
    assert_eq!(world.place_of("first"), Some("middle"), "the emptiest of those that are left");
    world.pod(pod("second").request("cpu", "1").build());
    world.settle();
    say(&mut world, &["large", "middle", "small"], &[("small", 10)]);
    assert_eq!(world.place_of("second"), Some("small"));
}

#[test]
fn plugins_normalise_over_the_nodes_that_extenders_leave() {
    let total = |left: &[&str]| {
        let mut world = World::new(2);
        world.tell(configuration(2, vec![extender()]));
        for (name, taints) in [("clean", 0), ("one", 1), ("two", 2)] {
            let taint = |number: i32| number.to_string();
            let built = (0..taints).fold(node(name), |node, number| node.taint(&taint(number), "", "PreferNoSchedule"));
            world.node(built.build());
        }
        world.pod(pod("web").build());
        world.settle();
        let extension = next(&mut world);
        let outcome = answer(&extension, left, &[("one", 100)]);
        world.tell(Event::Extended { request: extension.request, outcome });
        let bind = world.binds.front().expect("a bind");
        assert_eq!(&*bind.node, "one");
        bind.total
    };
    // With the worst of three it is in the middle, without it at the end; the weight of TaintToleration is 3.
    assert_eq!(total(&["clean", "one", "two"]) - total(&["clean", "one"]), 3 * 50);
}

#[test]
fn pods_that_extenders_do_not_care_for_are_decided_without_them() {
    let resource = ExtenderManagedResource { name: "example.com/gpu".to_owned(), ignored_by_scheduler: true };
    let managing = Extender { managed_resources: vec![resource], ..extender() };
    let preempting = Extender { preempt_verb: "preempt".to_owned(), ..Extender::default() };
    let mut world = world(vec![managing, preempting], &[("a", "8")]);
    world.pod(pod("plain").request("cpu", "1").build());
    world.settle();
    assert_eq!((world.place_of("plain"), world.extensions.len()), (Some("a"), 0));
    world.pod(pod("gpu").request("example.com/gpu", "0").build());
    world.settle();
    let extension = next(&mut world);
    assert_eq!(extension.extenders.len(), 1);
    let outcome = answer(&extension, &["a"], &[]);
    tell(&mut world, extension.request, outcome);
    assert_eq!(world.place_of("gpu"), Some("a"));
}

#[test]
fn a_pod_that_no_extender_leaves_a_node_for_is_told_so_and_any_event_wakes_it() {
    let mut world = world(vec![extender()], &[("small", "1"), ("a", "4"), ("b", "4")]);
    world.pod(pod("web").request("cpu", "2").build());
    world.settle();
    say(&mut world, &[], &[]);
    let report = &world.reports[0];
    assert_eq!(report.message, "0/3 nodes are available: 1 Insufficient cpu, 2 the extender says no.");
    assert_eq!(report.reason, Reason::Unschedulable);
    assert_eq!(world.machine.status().pods_unschedulable, 1);
    world.pod(pod("other").scheduler("other").on("small").build());
    world.settle();
    assert_eq!(world.extensions.len(), 1, "it is not known what helps an extender");
    say(&mut world, &["b"], &[]);
    assert_eq!(world.place_of("web"), Some("b"));
}

#[test]
fn what_happened_while_they_were_asked_is_reason_enough_to_ask_again() {
    let mut world = world(vec![extender()], &[("a", "4")]);
    world.pod(pod("web").build());
    world.settle();
    world.node(node("b").build());
    say(&mut world, &[], &[]);
    assert_eq!(world.message_of("web"), Some("0/2 nodes are available: 1 the extender says no."));
    assert_eq!(next(&mut world).nodes.len(), 2);
}

#[test]
fn a_failure_is_an_error_of_the_scheduler_and_the_pod_is_tried_again() {
    let mut world = world(vec![extender()], &[("a", "4")]);
    world.pod(pod("web").build());
    world.settle();
    let request = next(&mut world).request;
    tell(&mut world, request, ExtensionOutcome::Failed("Post \"http://u/filter\": no".to_owned()));
    assert_eq!(world.reports[0].reason, Reason::SchedulerError);
    assert_eq!(world.reports[0].message, "Post \"http://u/filter\": no");
    world.advance(2_000);
    say(&mut world, &["a"], &[]);
    assert_eq!(world.place_of("web"), Some("a"));
}

#[test]
fn a_pod_that_is_gone_meanwhile_is_forgotten_and_the_next_one_has_its_turn() {
    let mut world = world(vec![extender()], &[("a", "4")]);
    world.pod(pod("first").build());
    world.pod(pod("second").build());
    world.settle();
    let first = next(&mut world);
    world.delete_pod("uid-first");
    assert_eq!(world.extensions.len(), 0, "one pod at a time");
    let outcome = answer(&first, &["a"], &[]);
    tell(&mut world, first.request, outcome);
    assert_eq!(world.machine.status().extensions_discarded, 1);
    say(&mut world, &["a"], &[]);
    assert_eq!(world.bound, [("second".to_owned(), "a".to_owned())]);
}

#[test]
fn a_pod_that_the_performer_finds_gone_is_out_of_the_way_without_a_word() {
    let mut world = world(vec![extender()], &[("a", "4")]);
    world.pod(pod("first").build());
    world.pod(pod("second").build());
    world.settle();
    let request = next(&mut world).request;
    tell(&mut world, request, ExtensionOutcome::Gone);
    assert_eq!(world.reports.len(), 0);
    assert_eq!(&*next(&mut world).name, "second");
}

#[test]
fn a_node_that_is_gone_or_full_meanwhile_is_not_taken() {
    let mut world = world(vec![extender()], &[("a", "4"), ("b", "2"), ("c", "1")]);
    world.pod(pod("web").request("cpu", "1").build());
    world.settle();
    world.tell(Event::NodeDeleted { name: "a".into() });
    world.pod(pod("theirs").scheduler("other").request("cpu", "2").on("b").build());
    say(&mut world, &["a", "b", "c"], &[("a", 10), ("b", 10)]);
    assert_eq!(world.place_of("web"), Some("c"));
}

#[test]
fn when_none_of_their_nodes_will_do_any_more_they_are_asked_again() {
    let mut world = world(vec![extender()], &[("a", "4"), ("b", "2")]);
    world.pod(pod("web").request("cpu", "1").build());
    world.settle();
    world.tell(Event::NodeDeleted { name: "a".into() });
    say(&mut world, &["a"], &[]);
    assert_eq!(world.reports.len(), 0);
    assert_eq!(next(&mut world).nodes.iter().map(|name| &**name).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn an_answer_under_an_older_configuration_does_not_count() {
    let mut world = world(vec![extender()], &[("a", "4"), ("b", "4")]);
    world.pod(pod("web").build());
    world.settle();
    let first = next(&mut world);
    world.tell(configuration(3, vec![]));
    world.settle();
    assert_eq!(world.bound, [], "the queue waits for the answer");
    let outcome = answer(&first, &["a"], &[]);
    tell(&mut world, first.request, outcome);
    assert_eq!(world.bound.len(), 1, "without extenders, and without asking again");
    assert_eq!(world.machine.status().extensions_discarded, 1);
}

#[test]
fn an_answer_after_the_lead_is_lost_decides_nothing() {
    let mut world = world(vec![extender()], &[("a", "4")]);
    world.pod(pod("web").build());
    world.settle();
    let first = next(&mut world);
    world.tell(Event::Following);
    let outcome = answer(&first, &["a"], &[]);
    tell(&mut world, first.request, outcome.clone());
    assert_eq!((world.binds.len(), world.reports.len()), (0, 0));
    world.tell(Event::Leading { epoch: 2 });
    world.join("again");
    world.settle();
    tell(&mut world, first.request, outcome);
    assert_eq!(world.bound, [], "an answer to an earlier question");
    say(&mut world, &["a"], &[]);
    assert_eq!(world.place_of("web"), Some("a"));
}

#[test]
fn a_lost_answer_does_not_block_the_queue_forever_and_is_ignored_when_it_comes() {
    let mut world = world(vec![extender()], &[("a", "4")]);
    world.pod(pod("web").build());
    world.settle();
    let first = next(&mut world);
    world.advance(31_000);
    assert_eq!(world.machine.status().extensions_lost, 1);
    assert_eq!(world.message_of("web"), Some("the extenders' answer was lost"));
    let outcome = answer(&first, &["a"], &[]);
    tell(&mut world, first.request, outcome);
    assert_eq!(world.bound, []);
    world.advance(2_000);
    say(&mut world, &["a"], &[]);
    assert_eq!(world.place_of("web"), Some("a"));
}

#[test]
fn a_changed_pod_is_asked_about_again() {
    let mut world = world(vec![extender()], &[("a", "4"), ("b", "2")]);
    world.pod(pod("web").request("cpu", "1").build());
    world.settle();
    let first = next(&mut world);
    world.pod(pod("web").request("cpu", "3").build());
    let outcome = answer(&first, &["b"], &[]);
    tell(&mut world, first.request, outcome);
    assert_eq!(next(&mut world).nodes.iter().map(|name| &**name).collect::<Vec<_>>(), ["a"]);
}

#[test]
fn an_extender_that_binds_is_named_in_the_bind_of_the_pods_that_it_manages() {
    let resource = ExtenderManagedResource { name: "example.com/gpu".to_owned(), ignored_by_scheduler: true };
    let binder = Extender {
        url_prefix: "http://binder".to_owned(),
        bind_verb: "bind".to_owned(),
        managed_resources: vec![resource],
        ..Extender::default()
    };
    let mut world = world(vec![binder], &[("a", "4")]);
    world.pod(pod("plain").build());
    world.run_workers();
    world.pod(pod("gpu").request("example.com/gpu", "0").build());
    world.run_workers();
    let named: Vec<_> =
        world.binds.iter().map(|bind| bind.extender.as_ref().map(|binder| &*binder.url_prefix)).collect();
    assert_eq!(named, [None, Some("http://binder")]);
    let uid = Arc::clone(&world.binds[1].uid);
    world.binds.pop_back();
    world.tell(Event::BindFailed { uid, failure: BindFailure::Error("the extender is out of order".to_owned()) });
    assert_eq!(world.message_of("gpu"), Some("the extender is out of order"));
}

#[test]
fn extenders_hear_of_more_nodes_than_workers_offer_by_themselves_and_without_workers_too() {
    let names: Vec<String> = (0..400).map(|index| format!("n-{index:03}")).collect();
    for workers in [0, 1, 3] {
        let mut world = World::new(workers);
        world.tell(configuration(2, vec![extender()]));
        world.settle();
        names.iter().for_each(|name| world.node(node(name).build()));
        world.pod(pod("web").build());
        world.settle();
        world.advance(2_000);
        let extension = next(&mut world);
        assert_eq!(extension.nodes.iter().map(|name| name.to_string()).collect::<Vec<_>>(), names);
        let outcome = answer(&extension, &["n-399"], &[]);
        tell(&mut world, extension.request, outcome);
        assert_eq!(world.place_of("web"), Some("n-399"));
        assert_eq!(world.machine.status().evaluations_local, u64::from(workers == 0));
    }
}

#[test]
fn pods_that_are_spread_are_scored_over_the_nodes_that_are_left() {
    let mut world = World::new(2);
    world.tell(configuration(2, vec![extender()]));
    for (name, zone) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("c1", "c")] {
        world.node(node(name).label("zone", zone).build());
    }
    let spread = |name: &str| pod(name).label("app", "web").spread(1, "zone", ("app", "web")).build();
    world.settle();
    for (name, left, expected) in [("p1", ["a1", "a2"], "a"), ("p2", ["b1", "c1"], "b1c1")] {
        world.pod(spread(name));
        world.settle();
        say(&mut world, &left, &[]);
        let place = world.place_of(name).expect("it has landed").to_owned();
        assert!(expected.contains(&place) || place.starts_with(expected), "{name} is on {place}");
    }
    world.pod(spread("p3"));
    world.settle();
    let extension = next(&mut world);
    assert_eq!(extension.nodes.len(), 1, "one zone is left: {:?}", extension.nodes);
}

#[test]
fn extenders_are_asked_about_the_node_that_a_pod_is_nominated_to_before_the_others() {
    let cases = [
        ("they like it", vec!["small"], vec![vec!["small"]], Some("small")),
        ("they turn it down", vec![], vec![vec!["small"], vec!["large", "small"]], Some("large")),
    ];
    for (what, own, asked, place) in cases {
        let mut world = world(vec![extender()], &[("large", "8"), ("small", "2")]);
        world.pod(pod("web").request("cpu", "1").nominated("small").build());
        world.settle();
        let mut heard: Vec<Vec<String>> = Vec::new();
        while let Some(extension) = world.extensions.pop_front() {
            heard.push(extension.nodes.iter().map(ToString::to_string).collect());
            let left = if heard.len() == 1 { &own[..] } else { &["large"] };
            let outcome = answer(&extension, left, &[]);
            tell(&mut world, extension.request, outcome);
        }
        assert_eq!(heard, asked, "{what}");
        assert_eq!(world.place_of("web"), place, "{what}");
    }
}

#[test]
fn extenders_that_cannot_be_asked_about_the_nominated_node_are_asked_about_all() {
    let mut world = world(vec![extender()], &[("large", "8"), ("small", "2")]);
    world.pod(pod("web").request("cpu", "1").nominated("small").build());
    world.settle();
    let own = next(&mut world);
    tell(&mut world, own.request, ExtensionOutcome::Failed("connection refused".to_owned()));
    say(&mut world, &["large", "small"], &[]);
    assert_eq!(world.place_of("web"), Some("large"), "the emptier one");
}

#[test]
fn a_node_that_is_kept_free_is_neither_asked_about_nor_taken() {
    let mut world = world(vec![extender()], &[("kept", "8"), ("small", "2")]);
    world.pod(pod("first").request("cpu", "7").priority(10).gate("wait").nominated("kept").build());
    world.pod(pod("late").request("cpu", "2").build());
    world.settle();
    let extension = next(&mut world);
    assert_eq!(extension.nodes.iter().map(|name| &**name).collect::<Vec<_>>(), ["small"]);
    let outcome = answer(&extension, &["kept", "small"], &[("kept", 10)]);
    tell(&mut world, extension.request, outcome);
    assert_eq!(world.place_of("late"), Some("small"));
}

#[test]
fn a_node_that_is_kept_free_since_extenders_were_asked_is_not_taken() {
    let mut world = world(vec![extender()], &[("kept", "8"), ("small", "2")]);
    world.pod(pod("late").request("cpu", "2").build());
    world.settle();
    let extension = next(&mut world);
    world.pod(pod("first").request("cpu", "7").priority(10).gate("wait").nominated("kept").build());
    let outcome = answer(&extension, &["kept", "small"], &[("kept", 10)]);
    tell(&mut world, extension.request, outcome);
    assert_eq!(world.place_of("late"), Some("small"));
}
