//! `Unschedulable` triggers cluster autoscalers: no feasible pod is reported so, and no report is based on a part of the nodes.

use std::sync::Arc;

use flotilla_framework::{
    class::PodInfo,
    diagnosis::NO_NODES,
    testing::{self, node, pod},
};
use flotilla_machine::{
    action::Reason,
    event::{Configuration, Event},
};

use crate::{simulation::Seed, world::World};

/// The free CPU of each node in milli-CPU, according to the API server and the binds in flight.
fn left(world: &World) -> Vec<(Arc<str>, i64)> {
    let on = |name: &str| -> i64 {
        let bound = world.api.values().filter(|pod| pod.node_name.as_deref() == Some(name));
        let binding = world.binds.iter().filter(|binding| &*binding.node == name);
        let binding = binding.filter_map(|binding| world.api.get(&binding.uid)).filter(|pod| pod.node_name.is_none());
        bound.chain(binding).map(|pod| pod.class.requests.milli_cpu).sum()
    };
    let nodes = world.known_nodes().into_iter();
    nodes.map(|info| (Arc::clone(&info.name), info.allocatable.milli_cpu - on(&info.name))).collect()
}

/// Checks that each `Unschedulable` report after `from` is correct for the current nodes, and counts all of them.
fn check(world: &World, from: usize, what: &str) {
    let left = left(world);
    for report in world.reports[from..].iter().filter(|report| report.reason == Reason::Unschedulable) {
        let wanted = world.api.get(&report.uid).map_or(i64::MAX, |pod| pod.class.requests.milli_cpu);
        let fits = left.iter().find(|(_, left)| *left >= wanted);
        assert_eq!(fits, None, "{what}: {} wants {wanted}: {}", report.name, report.message);
        let told = match left.len() {
            0 => NO_NODES.to_owned(),
            count => format!("0/{count} nodes are available: {count} Insufficient cpu."),
        };
        assert_eq!(report.message, told, "{what}");
    }
}

fn asking(name: &str, milli_cpu: u64) -> PodInfo {
    pod(name).request("cpu", &format!("{milli_cpu}m")).build()
}

/// One step with immediate watches; workers join, leave, hang and answer late.
fn step(world: &mut World, seed: &mut Seed, index: u64) {
    let worker = |world: &World, seed: &mut Seed| {
        let ids: Vec<_> = world.workers.keys().copied().collect();
        (!ids.is_empty()).then(|| ids[seed.below(ids.len() as u64) as usize])
    };
    match seed.below(12) {
        0..=2 => world.pod(asking(&format!("pod-{index}"), [100, 900, 1_500, 3_000][seed.below(4) as usize])),
        3 | 4 => {
            let name = format!("node-{}", seed.below(6));
            world.node(node(&name).capacity("cpu", ["1", "2", "4"][seed.below(3) as usize]).build());
        }
        5 => world.tell(Event::NodeDeleted { name: format!("node-{}", seed.below(6)).into() }),
        6 => {
            world.join(&format!("worker-{index}"));
        }
        7 => {
            if let Some(id) = worker(world, seed) {
                world.kill(id);
            }
        }
        8 => {
            if let Some(worker) = worker(world, seed).and_then(|id| world.workers.get_mut(&id)) {
                worker.silent = !worker.silent;
            }
        }
        9 => world.advance_lazily(seed.below(3_000)),
        10 => _ = world.run_bind(),
        _ => {
            let uid = world.api.keys().nth(seed.below(world.api.len().max(1) as u64) as usize).cloned();
            if let Some(uid) = uid {
                world.delete_pod(&uid);
            }
        }
    }
    // One answer after the other, so that some are missing.
    if let Some(id) = worker(world, seed) {
        world.run_worker(id);
    }
    while world.run_watch() {}
}

#[test]
fn no_pod_that_a_node_would_take_is_called_unschedulable_under_any_fault_of_the_workers() {
    let mut told = 0;
    for number in 0..60 {
        let mut seed = Seed(number);
        let mut world = World::new(seed.below(4) as usize);
        for index in 0..150 {
            let from = world.reports.len();
            step(&mut world, &mut seed, index);
            check(&world, from, &format!("seed {number} step {index}"));
        }
        told += world.reports.len();
    }
    assert!(told > 400, "{told} reports were looked at");
}

#[test]
fn no_pod_is_called_unschedulable_by_a_follower_or_a_leader_that_has_not_synced() {
    for events in [vec![], vec![Event::Synced], vec![Event::Leading { epoch: 1 }]] {
        let mut world = World::dormant(vec![testing::profile()]);
        let told = format!("{events:?}");
        events.into_iter().for_each(|event| world.tell(event));
        world.join("worker");
        world.pod(asking("early", 100));
        world.node(node("small").capacity("cpu", "1").build());
        world.pod(asking("huge", 90_000));
        world.settle();
        world.advance(600_000);
        assert_eq!((world.reports.len(), world.bound.len()), (0, 0), "after {told}");
    }
}

#[test]
fn a_leader_that_followed_for_a_while_judges_by_the_nodes_of_now() {
    let mut world = World::new(2);
    world.node(node("small").capacity("cpu", "1").build());
    world.settle();
    world.tell(Event::Following);
    world.pod(asking("big", 2_000));
    world.settle();
    world.advance(60_000);
    world.node(node("large").capacity("cpu", "4").build());
    world.tell(Event::Leading { epoch: 2 });
    world.settle();
    world.advance(5_000);
    assert_eq!((world.place_of("big"), world.reports.len()), (Some("large"), 0));
}

#[test]
fn a_worker_that_hangs_holds_a_verdict_up_until_all_nodes_are_judged_without_it() {
    let mut world = World::new(2);
    (0..6).for_each(|index| world.node(node(&format!("node-{index}")).capacity("cpu", "1").build()));
    world.settle();
    for worker in world.workers.values_mut().take(1) {
        worker.silent = true;
    }
    world.pod(asking("huge", 9_000));
    world.settle();
    assert_eq!(world.reports.len(), 0, "half of the nodes have said nothing");
    world.advance(60_000);
    assert!(!world.reports.is_empty(), "the other half is not waited for for ever");
    check(&world, 0, "after a minute");
}

#[test]
fn a_configuration_that_changes_in_the_middle_of_an_attempt_makes_no_pod_unschedulable() {
    let mut world = World::new(2);
    (0..4).for_each(|index| world.node(node(&format!("node-{index}")).capacity("cpu", "4").build()));
    world.settle();
    world.pod(asking("web", 2_000));
    let first = *world.workers.keys().next().expect("a worker");
    world.run_worker(first);
    world.tell(Event::Configured(Arc::new(Configuration::new(2, vec![testing::profile()]))));
    world.settle();
    assert_eq!((world.bound.len(), world.reports.len()), (1, 0));
}
