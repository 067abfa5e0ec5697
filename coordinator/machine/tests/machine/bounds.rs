//! Bounds: the work of an event, and unexpected messages of workers.

use std::sync::Arc;

use flotilla_framework::{
    shard::{FromWorker, Reply},
    testing::{node, pod},
};
use flotilla_machine::event::Event;

use crate::world::World;

/// 15,000,000 units and the last decision of an event.
const BOUND: u64 = 15_000_000 + 30_000;

#[test]
fn a_new_leader_without_workers_decides_on_a_thousand_classes_in_events_of_bounded_work() {
    let mut world = World::new(0);
    for index in 0..600 {
        world.machine.apply(0, Event::NodeApplied(Arc::new(node(&format!("node-{index}")).build())));
    }
    world.machine.apply(0, Event::Following);
    for index in 0..1_200 {
        let refused = pod(&format!("pod-{index:04}")).request("cpu", &format!("{}", 1_000 + index)).build();
        world.machine.apply(0, Event::PodApplied(Arc::new(refused)));
    }
    world.machine.apply(0, Event::Leading { epoch: 9 });
    world.advance(60_000);
    let status = world.machine.status();
    assert!(world.machine.largest_work() <= BOUND, "{} units in one event", world.machine.largest_work());
    assert!(status.events_cut > 0, "the bound was reached");
    assert_eq!(status.pods_active, 0, "all are decided");
    let reported: Vec<_> = world.reports.iter().take(1_200).map(|report| report.name.to_string()).collect();
    assert!(reported.is_sorted(), "in the order of the queue");
}

#[test]
fn a_worker_that_repeats_itself_is_given_up_alone() {
    let mut world = World::new(2);
    let (&worker, _) = world.workers.first_key_value().expect("a worker");
    let epoch = world.machine.status().epoch;
    for _ in 0..100 {
        let reply = Reply::Applied { generation: 1, nodes: 0 };
        world.tell(Event::FromWorker { worker, word: FromWorker { epoch, revision: 0, reply } });
    }
    world.settle();
    assert_eq!(world.dropped, ["it has sent more than 64 unexpected messages"]);
    assert!(!world.workers.contains_key(&worker), "it is given up");
    assert_eq!(world.workers.len(), 1, "the other one is not");
}

#[test]
fn a_worker_that_answers_what_it_is_asked_never_sends_too_much() {
    let mut world = World::new(3);
    (0..20).for_each(|index| world.node(node(&format!("node-{index}")).build()));
    for index in 0..300 {
        world.pod(pod(&format!("pod-{index}")).request("cpu", &format!("{}m", 1 + index)).build());
        world.settle();
    }
    assert_eq!((world.machine.status().answers_unasked, world.dropped.len()), (0, 0));
}
