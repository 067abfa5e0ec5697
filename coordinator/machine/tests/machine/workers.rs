//! Workers that join, leave, stop answering and answer incorrectly.

use std::sync::Arc;

use flotilla_framework::{
    shard::{FromWorker, Reply},
    testing::{node, pod, profile},
};
use flotilla_machine::event::{Configuration, Event};

use crate::world::World;

fn nodes(world: &mut World, count: usize) {
    for index in 0..count {
        world.node(node(&format!("node-{index}")).build());
    }
}

fn pods(world: &mut World, from: usize, count: usize) {
    for index in from..from + count {
        world.pod(pod(&format!("pod-{index}")).request("cpu", "100m").request("memory", "100Mi").build());
    }
}

#[test]
fn placements_are_the_same_for_any_number_of_workers() {
    let place = |workers: usize| {
        let mut world = World::new(workers);
        nodes(&mut world, 23);
        pods(&mut world, 0, 100);
        world.advance(2_000);
        world.settle();
        world.bound
    };
    let alone = place(0);
    assert_eq!(alone.len(), 100);
    for workers in [1, 2, 3, 7, 40] {
        assert_eq!(place(workers), alone, "with {workers} workers");
    }
}

#[test]
fn without_workers_the_coordinator_waits_a_moment_and_then_evaluates_by_itself() {
    let mut world = World::new(0);
    nodes(&mut world, 3);
    pods(&mut world, 0, 1);
    world.settle();
    assert_eq!((world.bound.len(), world.alone), (0, None));
    world.advance(1_000);
    assert_eq!((world.bound.len(), world.alone), (1, Some(true)));
    world.join("late");
    world.settle();
    assert_eq!(world.alone, Some(false));
    world.pod(pod("of-another-class").request("cpu", "1").build());
    world.settle();
    assert_eq!((world.bound.len(), world.machine.status().evaluations_asked), (2, 1));
}

#[test]
fn a_worker_that_dies_before_it_answers_costs_nothing_but_time() {
    let mut world = World::new(3);
    nodes(&mut world, 9);
    pods(&mut world, 0, 50);
    let victim = *world.workers.keys().next().expect("a worker");
    world.kill(victim);
    world.settle();
    assert_eq!(world.bound.len(), 50);
    assert_eq!(world.reports, [], "no pod was called unschedulable meanwhile");
}

#[test]
fn the_last_worker_that_dies_leaves_the_coordinator_alone_at_once() {
    let mut world = World::new(1);
    nodes(&mut world, 3);
    pods(&mut world, 0, 5);
    let victim = *world.workers.keys().next().expect("a worker");
    world.kill(victim);
    world.settle();
    assert_eq!((world.bound.len(), world.alone), (5, Some(true)));
}

#[test]
fn a_silent_worker_is_given_up_at_its_deadline() {
    let mut world = World::new(2);
    nodes(&mut world, 8);
    world.settle();
    let victim = *world.workers.keys().next().expect("a worker");
    world.workers.get_mut(&victim).expect("it is there").silent = true;
    pods(&mut world, 0, 10);
    world.settle();
    assert_eq!(world.bound.len(), 0);
    world.advance(2_000);
    assert_eq!(world.bound.len(), 10);
    assert_eq!(world.dropped, ["it has not answered for 2000 ms"]);
}

#[test]
fn a_worker_that_joins_in_the_middle_takes_its_part() {
    let mut world = World::new(1);
    nodes(&mut world, 40);
    pods(&mut world, 0, 20);
    world.settle();
    let late = world.join("late");
    pods(&mut world, 20, 20);
    world.settle();
    assert_eq!(world.bound.len(), 40);
    let held = world.workers[&late].replica.node_count();
    assert!((8..32).contains(&held), "the new worker holds {held} of 40 nodes");
    let all: usize = world.workers.values().map(|worker| worker.replica.node_count()).sum();
    assert_eq!(all, 40);
}

#[test]
fn a_worker_that_lies_about_a_score_is_given_up_and_misplaces_nothing() {
    let mut world = World::new(2);
    nodes(&mut world, 6);
    world.node(node("full").capacity("cpu", "1m").build());
    world.settle();
    pods(&mut world, 0, 1);
    let (liar, words) = world.intercept();
    for mut word in words {
        if let Reply::Evaluated { evaluation, .. } = &mut word.reply {
            for offer in evaluation.strata.iter_mut().flat_map(|stratum| &mut stratum.offers) {
                offer.base += 1_000;
            }
        }
        world.tell(Event::FromWorker { worker: liar, word });
    }
    world.settle();
    assert_eq!(world.bound.len(), 1);
    assert_eq!(world.dropped.len(), 1);
    assert!(world.dropped[0].contains("with an incorrect score"), "{}", world.dropped[0]);
}

#[test]
fn a_worker_that_forgets_nodes_makes_no_pod_unschedulable() {
    let mut world = World::new(2);
    nodes(&mut world, 6);
    world.settle();
    pods(&mut world, 0, 1);
    let (liar, words) = world.intercept();
    for mut word in words {
        if let Reply::Evaluated { evaluation, .. } = &mut word.reply {
            *evaluation = flotilla_framework::evaluation::Evaluation::default();
        }
        world.tell(Event::FromWorker { worker: liar, word });
    }
    world.settle();
    assert_eq!((world.bound.len(), world.reports.len(), world.dropped.len()), (1, 0, 1));
}

#[test]
fn words_of_another_epoch_do_not_count() {
    let mut world = World::new(1);
    nodes(&mut world, 3);
    pods(&mut world, 0, 1);
    let (id, words) = world.intercept();
    for word in &words {
        let word = FromWorker { epoch: word.epoch + 1, ..word.clone() };
        world.tell(Event::FromWorker { worker: id, word });
    }
    assert_eq!(world.binds.len(), 0);
    for word in words {
        world.tell(Event::FromWorker { worker: id, word });
    }
    world.settle();
    assert_eq!(world.bound.len(), 1);
}

#[test]
fn every_worker_acknowledges_a_configuration_before_it_is_asked_under_it() {
    let mut world = World::new(2);
    nodes(&mut world, 4);
    world.settle();
    assert_eq!(world.acknowledged.last(), Some(&1));
    let again = Configuration::new(2, vec![profile()]);
    world.tell(Event::Configured(again.into()));
    pods(&mut world, 0, 1);
    let ids: Vec<_> = world.workers.keys().copied().collect();
    world.run_worker(ids[0]);
    assert_eq!(world.machine.status().evaluations_asked, 0, "one worker has not acknowledged yet");
    world.settle();
    assert_eq!(world.acknowledged.last(), Some(&2));
    assert_eq!(world.bound.len(), 1);
}

#[test]
fn one_round_trip_serves_many_pods_of_a_class() {
    let mut world = World::new(2);
    nodes(&mut world, 50);
    world.settle();
    pods(&mut world, 0, 500);
    world.settle();
    let status = world.machine.status();
    assert_eq!(status.placed, 500);
    assert!(status.evaluations_asked <= 4, "{} evaluations for one class", status.evaluations_asked);
}

#[test]
fn a_worker_is_not_late_while_its_answer_waits_unread_or_because_the_machine_was_long_at_one_event() {
    let mut world = World::new(1);
    // No hedge evaluates in place of the answer.
    let configuration = Configuration { worker_hedge_ms: u64::MAX / 2, ..Configuration::new(2, vec![profile()]) };
    world.tell(Event::Configured(Arc::new(configuration)));
    nodes(&mut world, 3);
    world.settle();
    pods(&mut world, 0, 1);
    let (worker, words) = world.intercept();
    let asked_ms = world.now_ms;
    let tick = |world: &mut World, now_ms, heard_ms| {
        world.machine.handle_event(now_ms, Event::Tick);
        world.machine.poll_actions_as_of(now_ms, heard_ms)
    };
    // Five seconds later, one of them read by the machine.
    assert_eq!(tick(&mut world, asked_ms + 5_000, asked_ms + 1_000), []);
    // The requesting event took four of them.
    world.machine.asked_at(asked_ms, asked_ms + 4_000);
    assert_eq!(tick(&mut world, asked_ms + 5_900, asked_ms + 5_900), []);
    assert_eq!(world.machine.next_wakeup().map(|at| at.min(asked_ms + 6_000)), Some(asked_ms + 6_000));
    world.now_ms = asked_ms + 5_900;
    for word in words {
        world.tell(Event::FromWorker { worker, word });
    }
    world.settle();
    assert_eq!((world.bound.len(), world.dropped.len()), (1, 0));
}
