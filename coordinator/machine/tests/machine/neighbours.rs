//! Pods with affinities and spread constraints: the effect of each placement on the next decision.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{
    class::OwnerKind,
    shard::Reply,
    testing::{PodBuilder, node, pod, selecting, term},
};
use flotilla_machine::event::{Event, Selecting, SelectingKind};

use crate::world::World;

const ZONE: &str = "topology.kubernetes.io/zone";

const HOST: &str = "kubernetes.io/hostname";

const WEB: (&str, &str) = ("app", "web");

fn nodes(world: &mut World, count: usize) {
    for index in 0..count {
        world.node(node(&format!("node-{index}")).label(ZONE, ["a", "b", "c"][index % 3]).build());
    }
}

fn web(name: &str) -> PodBuilder {
    pod(name).label("app", "web").request("cpu", "10m").request("memory", "1Mi")
}

fn zone_of(world: &World, pod: &str) -> Option<String> {
    let place = world.place_of(pod)?;
    let nodes = world.known_nodes();
    let node = nodes.iter().find(|node| &*node.name == place)?;
    node.label(ZONE).map(str::to_owned)
}

fn by_zone(world: &World) -> Vec<usize> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (pod, _) in &world.bound {
        *counts.entry(zone_of(world, pod).expect("a zone")).or_default() += 1;
    }
    counts.into_values().collect()
}

fn service(name: &str, app: &str) -> Event {
    let object = Selecting { kind: SelectingKind::Service, namespace: "default".into(), name: name.into() };
    Event::SelectorApplied { object, selector: selecting(("app", app)) }
}

#[test]
fn one_round_trip_serves_many_pods_that_count_each_other() {
    let mut world = World::new(3);
    nodes(&mut world, 30);
    world.settle();
    for index in 0..90 {
        world.pod(web(&format!("p{index}")).spread(1, ZONE, WEB).spread(1, HOST, WEB).build());
    }
    world.settle();
    assert_eq!(by_zone(&world), [30, 30, 30]);
    let mut hosts: BTreeMap<&str, usize> = BTreeMap::new();
    world.bound.iter().for_each(|(_, node)| *hosts.entry(node).or_default() += 1);
    assert!(hosts.values().all(|&pods| pods == 3), "{hosts:?}");
    let status = world.machine.status();
    assert!(status.evaluations_asked <= 4, "{} evaluations for one class", status.evaluations_asked);
}

#[test]
fn a_placement_by_one_class_is_felt_by_the_next_decision_of_another() {
    let mut world = World::new(2);
    nodes(&mut world, 9);
    world.settle();
    for index in 0..9 {
        let size = format!("{}m", 1 + index % 3);
        world.pod(web(&format!("p{index}")).request("cpu", &size).far(HOST, WEB).spread(1, ZONE, WEB).build());
    }
    world.settle();
    let mut places: Vec<&str> = world.bound.iter().map(|(_, node)| node.as_str()).collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), 9, "three classes share nine nodes, none twice");
    assert_eq!(by_zone(&world), [3, 3, 3]);
    world.pod(web("late").far(HOST, WEB).build());
    world.settle();
    let all = "0/9 nodes are available: 9 node(s) didn't match pod anti-affinity rules.";
    assert_eq!(world.message_of("late"), Some(all));
    assert!(world.machine.status().evaluations_asked <= 8);
}

#[test]
fn placements_are_the_same_for_any_number_of_workers() {
    let place = |workers: usize| {
        let mut world = World::new(workers);
        nodes(&mut world, 14);
        world.tell(service("web", "web"));
        for index in 0..60 {
            let built = web(&format!("p{index}"));
            world.pod(match index % 5 {
                0 => built.spread(1, ZONE, WEB).build(),
                1 => built.prefer_far(20, HOST, WEB).build(),
                2 => pod(&format!("p{index}")).label("app", "db").far(HOST, ("app", "db")).build(),
                3 => built.near(ZONE, ("app", "db")).build(),
                _ => built.build(),
            });
        }
        world.advance(2_000);
        world.settle();
        world.bound
    };
    let alone = place(0);
    assert_eq!(alone.len(), 60);
    for workers in [1, 2, 3, 7, 40] {
        assert_eq!(place(workers), alone, "with {workers} workers");
    }
}

#[test]
fn a_pod_that_waits_for_company_is_woken_when_it_comes() {
    let mut world = World::new(2);
    nodes(&mut world, 6);
    world.settle();
    world.pod(pod("cache").near(ZONE, WEB).build());
    world.settle();
    assert_eq!(world.message_of("cache"), Some("0/6 nodes are available: 6 node(s) didn't match pod affinity rules."));
    world.pod(web("w").build());
    world.settle();
    world.advance(1_000);
    assert_eq!(zone_of(&world, "cache"), zone_of(&world, "w"));
    assert_eq!(world.machine.status().flushed, 0);
}

#[test]
fn a_pod_that_waits_for_distance_is_woken_when_the_other_goes() {
    let mut world = World::new(1);
    world.node(node("only").label(ZONE, "a").build());
    world.pod(pod("hermit").scheduler("other").on("only").far(ZONE, WEB).build());
    world.pod(web("w").build());
    world.settle();
    assert_eq!(
        world.message_of("w"),
        Some("0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules.")
    );
    world.delete_pod("uid-hermit");
    world.advance(1_000);
    assert_eq!(world.place_of("w"), Some("only"));
}

#[test]
fn a_standing_pod_that_begins_to_terminate_does_not_count_for_spread_any_more() {
    let mut world = World::new(2);
    nodes(&mut world, 2);
    world.settle();
    world.node(node("node-1").label(ZONE, "b").taint("t", "", "NoSchedule").build());
    let standing = || web("old").on("node-0");
    world.pod(standing().build());
    world.pod(web("new").spread(1, ZONE, WEB).build());
    world.settle();
    assert_eq!(world.place_of("new"), None);
    world.pod(standing().terminating().build());
    world.advance(1_000);
    assert_eq!(world.place_of("new"), Some("node-0"));
}

#[test]
fn a_node_that_moves_to_another_zone_is_counted_there() {
    let mut world = World::new(2);
    nodes(&mut world, 3);
    world.settle();
    for index in 0..3 {
        world.pod(web(&format!("p{index}")).far(ZONE, WEB).build());
    }
    world.settle();
    assert_eq!(by_zone(&world), [1, 1, 1]);
    world.pod(web("late").far(ZONE, WEB).build());
    world.settle();
    assert_eq!(world.place_of("late"), None);
    world.node(node("node-2").label(ZONE, "a").build());
    world.node(node("node-3").label(ZONE, "c").build());
    world.advance(1_000);
    assert_eq!(world.place_of("late"), Some("node-3"));
}

#[test]
fn a_service_spreads_the_pods_that_it_selects() {
    let place = |served: bool| {
        let mut world = World::new(2);
        nodes(&mut world, 3);
        world.node(node("large").label(ZONE, "a").capacity("cpu", "64").capacity("memory", "256Gi").build());
        world.settle();
        if served {
            world.tell(service("web", "web"));
        }
        for index in 0..6 {
            world.pod(web(&format!("p{index}")).build());
        }
        world.settle();
        by_zone(&world)
    };
    assert_eq!(place(false), [6], "nothing selects them, and the large node is the emptiest");
    assert_eq!(place(true), [2, 2, 2]);
}

#[test]
fn a_controller_spreads_its_pods_as_well() {
    let mut world = World::new(2);
    nodes(&mut world, 3);
    let kind = SelectingKind::Controller(OwnerKind::ReplicaSet);
    let object = Selecting { kind, namespace: "default".into(), name: "set".into() };
    world.tell(Event::SelectorApplied { object, selector: selecting(WEB) });
    world.node(node("large").label(ZONE, "a").capacity("cpu", "64").capacity("memory", "256Gi").build());
    world.settle();
    for index in 0..3 {
        let owner = Some(flotilla_framework::class::Owner { kind: OwnerKind::ReplicaSet, name: "set".into() });
        world.pod(web(&format!("p{index}")).class(|class| class.owner = owner).build());
    }
    world.settle();
    assert_eq!(by_zone(&world), [1, 1, 1]);
}

#[test]
fn a_namespace_that_is_relabelled_changes_whom_a_term_means() {
    let mut world = World::new(2);
    nodes(&mut world, 1);
    let label =
        |team: &str| Event::NamespaceApplied { name: "other".into(), labels: vec![("team".into(), team.into())] };
    world.tell(label("x"));
    world.pod(web("theirs").namespace("other").on("node-0").build());
    let avoiding = pod("ours").class(|class| {
        let mut far = term(ZONE, WEB);
        far.namespace_selector = selecting(("team", "x"));
        class.pod_affinity.required_anti.push(far);
    });
    world.pod(avoiding.build());
    world.settle();
    let told = "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.";
    assert_eq!(world.message_of("ours"), Some(told));
    world.tell(label("y"));
    world.advance(1_000);
    assert_eq!(world.place_of("ours"), Some("node-0"));
}

#[test]
fn a_pod_that_cannot_be_read_is_told_so_and_autoscalers_are_not() {
    use flotilla_machine::action::Reason;
    let mut world = World::new(1);
    nodes(&mut world, 1);
    let unreadable = |constraint: &mut flotilla_framework::class::SpreadConstraint| {
        constraint.selector = Err("it is bad".into());
    };
    world.pod(web("bad").spread_with(1, ZONE, WEB, unreadable).build());
    world.settle();
    let report = &world.reports[0];
    let told = "running PreFilter plugin \"PodTopologySpread\": get constraints from pod: obtaining pod's hard topology \
                spread constraints: it is bad";
    assert_eq!((report.reason, report.message.as_str()), (Reason::SchedulerError, told));
}

fn answer_without_counts(world: &mut World) {
    let ids: Vec<_> = world.workers.keys().copied().collect();
    while world.workers.values().any(|worker| !worker.inbox.is_empty()) {
        for &id in &ids {
            let Some(worker) = world.workers.get_mut(&id) else { continue };
            let mut words = Vec::new();
            while let Some(word) = worker.inbox.pop_front() {
                words.extend(worker.replica.apply(word));
            }
            for mut word in words {
                if let Reply::Evaluated { evaluation, .. } = &mut word.reply {
                    evaluation.tallies.iter_mut().for_each(|tally| tally.0.clear());
                }
                world.tell(Event::FromWorker { worker: id, word });
            }
        }
    }
}

#[test]
fn a_worker_that_counts_wrong_misplaces_nothing() {
    for taken in [1, 6] {
        let mut world = World::new(2);
        nodes(&mut world, 6);
        world.settle();
        for index in 0..taken {
            world.pod(web(&format!("first-{index}")).scheduler("other").on(&format!("node-{index}")).build());
        }
        world.settle();
        world.pod(web("second").far(ZONE, WEB).build());
        answer_without_counts(&mut world);
        world.settle();
        assert_ne!(zone_of(&world, "second"), Some("a".to_owned()));
        // Workers' counts are requested only for a class without a feasible node on its family's sorted list.
        let (bound, refuted) = if taken == 6 { (0, 1) } else { (1, 0) };
        assert_eq!((world.bound.len(), world.machine.status().evaluations_refuted), (bound, refuted));
    }
}

#[test]
fn the_same_pods_in_the_same_order_land_on_the_same_nodes_after_a_restart_of_the_leader() {
    let place = |restart: bool| {
        let mut world = World::new(2);
        nodes(&mut world, 8);
        world.settle();
        for index in 0..24 {
            if restart && index == 12 {
                world.settle();
                world.tell(Event::Following);
                world.tell(Event::Leading { epoch: 2 });
                world.settle();
                world.join("fresh");
            }
            world.pod(web(&format!("p{index}")).spread(1, ZONE, WEB).prefer_far(5, HOST, WEB).build());
            world.settle();
        }
        world.bound.into_iter().map(|(pod, node)| (Arc::from(pod), node)).collect::<BTreeMap<Arc<str>, String>>()
    };
    assert_eq!(place(true), place(false));
}
