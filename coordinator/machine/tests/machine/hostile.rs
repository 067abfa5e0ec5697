//! Valid pods that are far larger than usual: they do not affect other pods.

use std::sync::Arc;

use flotilla_framework::{
    class::{AffinityTerm, PodInfo},
    labels::{LabelOperator, LabelRequirement, LabelSelector},
    preemption::Budget,
    shard::{Change, Command},
    testing::{node, pod},
};
use flotilla_machine::{action::Reason, event::Event, status::Status};

use crate::world::World;

fn namespaces(world: &mut World, count: usize) {
    for index in 0..count {
        world.tell(Event::NamespaceApplied { name: format!("team-{index:04}").into(), labels: Vec::new() });
    }
}

/// A term over every namespace without a label; each number gives another selector.
fn term(number: usize) -> AffinityTerm {
    let requirement = LabelRequirement {
        key: format!("absent-{number}").into(),
        operator: LabelOperator::DoesNotExist,
        values: Vec::new(),
    };
    AffinityTerm {
        selector: LabelSelector::EVERYTHING,
        namespaces: Vec::new(),
        namespace_selector: LabelSelector::Matching(vec![requirement]),
        topology_key: "kubernetes.io/hostname".into(),
    }
}

fn affine(name: &str, terms: usize, selectors: usize) -> PodInfo {
    let terms: Vec<_> = (0..terms).map(|number| (1, term(number % selectors))).collect();
    pod(name).class(|class| class.pod_affinity.preferred = terms).build()
}

fn told_names(world: &World) -> usize {
    let words = world.workers.values().flat_map(|worker| &worker.inbox);
    let facts = words.filter_map(|word| match &word.command {
        Command::Evaluate { facts, .. } => Some(facts),
        _ => None,
    });
    facts.flat_map(|facts| &facts.term_namespaces).map(|names| names.len()).sum()
}

#[test]
fn a_pod_of_26_000_terms_over_1_000_namespaces_is_reported_and_no_other_pod_feels_it() {
    let mut world = World::new(2);
    world.node(node("n").build());
    namespaces(&mut world, 1_000);
    world.pod(affine("hostile", 26_000, 1));
    world.pod(pod("web").build());
    assert_eq!(told_names(&world), 0);
    world.settle();
    assert_eq!(world.place_of("web"), Some("n"));
    assert_eq!(world.place_of("hostile"), None);
    assert_eq!(world.reports[0].reason, Reason::SchedulerError, "autoscalers must not buy machines for it");
    let message = world.message_of("hostile").expect("a report");
    assert!(message.contains("spec.affinity.podAffinity has 26000 terms"), "{message}");
    assert!(message.contains("the limit is 1024"), "{message}");
}

#[test]
fn a_pod_that_became_too_large_by_namespaces_is_tried_again_when_enough_of_them_are_gone() {
    let mut world = World::new(2);
    world.node(node("n").build());
    namespaces(&mut world, 600);
    world.pod(affine("hostile", 1_000, 1_000));
    world.pod(pod("web").build());
    world.settle();
    assert_eq!((world.place_of("hostile"), world.place_of("web")), (None, Some("n")));
    let message = world.message_of("hostile").expect("a report");
    let expected = "spec.affinity.podAffinity has 1000 different namespaceSelectors over 600 namespaces, which is 600000 \
                    comparisons, the limit is 524288";
    assert!(message.contains(expected), "{message}");
    assert_eq!(world.machine.status().pods_too_large, 1);
    let reports = world.reports.len();
    for index in 524..600 {
        world.tell(Event::NamespaceDeleted { name: format!("team-{index:04}").into() });
    }
    world.settle();
    assert_eq!(world.place_of("hostile"), Some("n"));
    assert_eq!((world.reports.len(), world.machine.status().pods_too_large), (reports, 0));
}

#[test]
fn a_pod_that_waits_is_not_tried_once_the_namespaces_are_too_many() {
    let mut world = World::new(2);
    world.node(node("n").capacity("cpu", "1").build());
    namespaces(&mut world, 10);
    let PodInfo { class, .. } = affine("any", 1_000, 1_000);
    world.pod(pod("big").request("cpu", "2").class(|of| of.pod_affinity = class.pod_affinity.clone()).build());
    world.settle();
    assert_eq!(world.message_of("big"), Some("0/1 nodes are available: 1 Insufficient cpu."));
    namespaces(&mut world, 600);
    world.node(node("larger").build());
    world.advance(60_000);
    assert_eq!(world.place_of("big"), None);
    assert!(world.message_of("big").is_some_and(|message| message.contains("over 600 namespaces")));
    assert_eq!(world.machine.status().pods_gated, 1);
}

#[test]
fn a_pod_that_is_made_smaller_is_tried() {
    let mut world = World::new(1);
    world.node(node("n").build());
    world.pod(affine("shrinking", 2_000, 1));
    world.settle();
    assert_eq!(world.place_of("shrinking"), None);
    world.pod(affine("shrinking", 20, 1));
    world.settle();
    assert_eq!(world.place_of("shrinking"), Some("n"));
}

#[test]
fn a_new_leader_says_what_is_too_large_although_it_was_found_by_a_follower() {
    let mut world = World::dormant(vec![flotilla_framework::testing::profile()]);
    world.node(node("n").build());
    world.pod(affine("hostile", 2_000, 1));
    world.tell(Event::Synced);
    assert_eq!(world.reports.len(), 0);
    world.tell(Event::Leading { epoch: 7 });
    assert!(world.message_of("hostile").is_some_and(|message| message.contains("2000 terms")));
}

#[test]
fn a_pod_that_stands_somewhere_is_charged_however_large_it_is() {
    let mut world = World::new(1);
    world.node(node("n").capacity("cpu", "4").build());
    let terms: Vec<AffinityTerm> = (0..30_000).map(term).collect();
    let hostile = pod("hostile").request("cpu", "3").on("n");
    world.pod(hostile.class(|of| of.pod_affinity.required_anti = terms).build());
    world.pod(pod("fits").request("cpu", "1").build());
    world.pod(pod("late").request("cpu", "1").build());
    world.settle();
    assert_eq!(world.place_of("fits"), Some("n"), "the terms of a pod that is too large mean nobody");
    assert_eq!(world.message_of("late"), Some("0/1 nodes are available: 1 Insufficient cpu."));
    assert_eq!(world.machine.status().pods_too_large, 1);
}

/// A PodDisruptionBudget that requires any of the labels `k0`, `k1`, and so on.
fn budget(keys: std::ops::Range<usize>, disruptions_allowed: i32) -> Event {
    let requirements = keys.map(|key| LabelRequirement {
        key: format!("k{key}").into(),
        operator: LabelOperator::Exists,
        values: Vec::new(),
    });
    let selector = LabelSelector::Matching(requirements.collect());
    let (namespace, name) = ("default".into(), "b".into());
    Event::BudgetApplied(Arc::new(Budget { namespace, name, selector, disruptions_allowed, disrupted: Vec::new() }))
}

#[test]
fn a_selector_of_many_requirements_that_comes_into_play_signs_each_pod_once() {
    let mut world = World::new(1);
    world.node(node("n").build());
    let labels: Vec<_> = (0..1_000).map(|key| (Arc::from(format!("k{key}")), Arc::from("v"))).collect();
    let mut sorted = labels;
    sorted.sort_unstable();
    for number in 0..50 {
        world.pod(pod(&format!("p{number}")).on("n").class(|class| class.labels = sorted.clone()).build());
    }
    let signed = |world: &World| world.machine.status().pods_signed_again;
    for round in 1..=3 {
        world.tell(budget(0..500, 0));
        world.tell(budget(500..1_000, 0));
        assert_eq!(signed(&world), round * 2 * 50, "each pod once for each selector");
    }
    world.tell(budget(500..1_000, 1));
    assert_eq!(signed(&world), 300, "the status of a budget signs no pod");
    world.pod(pod("web").build());
    world.settle();
    assert_eq!(world.place_of("web"), Some("n"));
}

#[test]
fn a_node_that_fits_into_no_message_is_evaluated_by_the_coordinator() {
    let mut world = World::new(2);
    let large = |bytes: usize| {
        let mut large = node("large").capacity("cpu", "64").build();
        large.labels = vec![("rack".into(), "r".repeat(bytes).into())];
        large
    };
    world.node(node("small").capacity("cpu", "1").build());
    world.node(large(4 << 20));
    world.pod(pod("first").request("cpu", "2").build());
    let has_large = |world: &World| {
        let words = world.workers.values().flat_map(|worker| &worker.inbox);
        let mut changes = words.flat_map(|word| match &word.command {
            Command::Snapshot { changes, .. } | Command::Delta { changes, .. } => changes.as_slice(),
            _ => &[],
        });
        changes.any(|change| matches!(change, Change::UpsertNode { node, .. } if &*node.name == "large"))
    };
    assert!(!has_large(&world));
    world.settle();
    assert_eq!(world.place_of("first"), Some("large"));
    // It shrinks, and a worker gets it; it grows, and is removed from the worker.
    world.node(large(1_000));
    world.pod(pod("second").request("cpu", "2").build());
    assert!(has_large(&world));
    world.settle();
    world.node(large(4 << 20));
    world.pod(pod("third").request("cpu", "2").build());
    assert!(!has_large(&world));
    world.settle();
    assert_eq!((world.place_of("second"), world.place_of("third")), (Some("large"), Some("large")));
}

/// One round without repetition: a pod with its own labels, selectors, tolerations and resources comes, is tried, and goes. A node gets
/// another label and another taint.
fn round(world: &mut World, number: usize) {
    let own = |what: &str| format!("{what}-{number}");
    let name = own("pod");
    let node_of_round = node(&format!("n{}", number % 3)).label(&own("key"), &own("value"));
    world
        .node(node_of_round.taint("ToBeDeleted", &own("at"), "PreferNoSchedule").image(&own("image"), 1 << 20).build());
    let values: Vec<String> = (0..100).map(|value| own(&format!("zone-{value}"))).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    world.pod(
        pod(&name)
            .label("name", &name)
            .label(&own("key"), "")
            .prefer(1, &own("rack"), "In", &values)
            .tolerate(&own("dedicated"), "Exists", "", "NoSchedule")
            .prefer_near(1, &own("topology"), ("name", &name))
            .request(&format!("example.com/{}", own("device")), "1")
            .build(),
    );
    world.pod(pod(&own("bound")).request(&format!("example.com/{}", own("held")), "1").on("n0").build());
    world.settle();
    world.delete_pod(&format!("uid-{name}"));
    world.delete_pod(&format!("uid-{}", own("bound")));
    world.settle();
    world.reports.clear();
}

/// Maximum of each table over some rounds, in bytes or entries.
fn peaks(world: &mut World, rounds: std::ops::Range<usize>) -> [u64; 8] {
    let mut peaks = [0; 8];
    for number in rounds {
        round(world, number);
        let Status { text_bytes, class_bytes, fact_bytes, resource_bytes, taint_sets, classes, .. } =
            world.machine.status();
        let in_play = world.machine.label_keys_in_play() as u64;
        let of_workers = world.workers.values().map(|worker| worker.replica.text_bytes() as u64).sum();
        let now = [text_bytes, class_bytes, fact_bytes, resource_bytes, taint_sets, classes, in_play, of_workers];
        peaks.iter_mut().zip(now).for_each(|(peak, now)| *peak = now.max(*peak));
    }
    peaks
}

#[test]
fn tables_do_not_grow_while_nothing_repeats() {
    let mut world = World::new(2);
    for index in 0..3 {
        world.node(node(&format!("n{index}")).build());
    }
    let warm = peaks(&mut world, 0..700);
    let later = peaks(&mut world, 700..2_100);
    for (place, (warm, later)) in warm.into_iter().zip(later).enumerate() {
        assert!(later <= warm + warm / 5, "table {place}: {later} after {warm}");
    }
    assert!(world.machine.status().compacted > 2);
}

#[test]
fn a_pod_waits_for_a_label_that_no_node_had_when_it_was_tried() {
    let mut world = World::new(2);
    world.node(node("n").build());
    world.pod(pod("web").node_selector("rack", "r7").build());
    world.pod(pod("same").node_selector("rack", "r7").build());
    world.settle();
    assert_eq!(world.bound.len(), 0);
    world.node(node("m").label("rack", "r8").build());
    world.settle();
    assert_eq!(world.bound.len(), 0);
    world.node(node("m").label("rack", "r7").build());
    world.advance(60_000);
    assert_eq!((world.place_of("web"), world.place_of("same")), (Some("m"), Some("m")));
}

#[test]
fn keys_that_no_node_has_as_a_label_are_told_to_nobody() {
    let mut world = World::new(1);
    world.node(node("n").label("zone", "a").build());
    let terms: Vec<AffinityTerm> = (0..100)
        .map(|number| AffinityTerm { topology_key: format!("absent-{number}").into(), ..term(0) })
        .chain([AffinityTerm { topology_key: "zone".into(), ..term(0) }])
        .map(|term| AffinityTerm { namespace_selector: LabelSelector::EVERYTHING, ..term })
        .collect();
    world.pod(pod("hostile").on("n").class(|class| class.pod_affinity.required_anti = terms).build());
    world.pod(pod("web").build());
    let words = world.workers.values().flat_map(|worker| &worker.inbox);
    let keys: Vec<usize> = words
        .filter_map(|word| match &word.command {
            Command::Evaluate { facts, .. } => Some(facts.repelling_keys.len()),
            _ => None,
        })
        .collect();
    assert_eq!(keys, [1]);
    world.settle();
    assert_eq!(world.place_of("web"), None);
    world.node(node("m").label("absent-7", "b").build());
    world.settle();
    assert_eq!(world.place_of("web"), Some("m"), "no pod stands in its domain");
}
