//! The overview of workers, classes and evaluations.

use flotilla_framework::testing::{node, pod};
use flotilla_machine::overview::Overview;

use crate::world::World;

fn overview(world: &World) -> Overview {
    world.machine.overview(world.now_ms)
}

#[test]
fn each_worker_is_shown_with_its_shard_and_what_it_owes() {
    let mut world = World::new(2);
    for index in 0..20 {
        world.node(node(&format!("node-{index}")).build());
    }
    world.settle();
    let told = overview(&world);
    let nodes: u32 = told.workers.iter().map(|worker| worker.nodes).sum();
    assert_eq!((nodes, told.status.nodes, told.profiles.len()), (20, 20, 1));
    for worker in &told.workers {
        assert_eq!((worker.generation, worker.owes_ms, worker.in_flight, worker.behind), (1, None, 0, 0), "{worker:?}");
    }

    // One stops answering.
    let silent = *world.workers.keys().next().expect("a worker");
    world.workers.get_mut(&silent).expect("known").silent = true;
    world.pod(pod("web").build());
    world.run_workers();
    world.now_ms += 700;
    let told = overview(&world);
    let (idle, busy): (Vec<_>, Vec<_>) = told.workers.iter().partition(|worker| worker.worker != silent);
    assert_eq!((idle[0].in_flight, idle[0].oldest_ms), (0, 0));
    assert_eq!((busy[0].in_flight, busy[0].oldest_ms, busy[0].owes_ms), (1, 700, None));
    assert!(busy[0].behind > 0, "{busy:?}");
}

#[test]
fn a_worker_that_has_not_acknowledged_its_shard_says_since_when() {
    let mut world = World::new(1);
    let late = world.join("late");
    world.now_ms += 300;
    let told = overview(&world);
    let late = told.workers.iter().find(|worker| worker.worker == late).expect("connected");
    assert_eq!((late.owes_ms, late.generation, &*late.name), (Some(300), 0, "late"));
}

#[test]
fn an_evaluation_that_took_long_names_its_pod_and_the_worker_that_was_last() {
    let mut world = World::new(2);
    world.node(node("a").build());
    world.pod(pod("web").build());
    let mut workers: Vec<_> = world.workers.keys().copied().collect();
    let last = workers.pop().expect("two workers");
    world.run_worker(workers[0]);
    world.now_ms += 40;
    world.run_worker(last);
    let told = overview(&world);
    let slowest = &told.slowest[0];
    assert_eq!((slowest.took_ms, &*slowest.last_worker), (40, &*world.workers[&last].name));
    assert_eq!((slowest.pod.as_deref(), &*slowest.namespace), (Some("web"), "default"));
    world.settle();
    world.now_ms += 2_000;
    assert!(overview(&world).decisions_per_second > 0.0);
}

#[test]
fn the_classes_with_the_most_pods_that_wait_come_first() {
    let mut world = World::new(1);
    world.node(node("small").capacity("cpu", "1").build());
    for index in 0..3 {
        world.pod(pod(&format!("huge-{index}")).request("cpu", "100").build());
    }
    for index in 0..2 {
        world.pod(pod(&format!("gated-{index}")).gate("example.com/quota").build());
    }
    world.settle();
    let told = overview(&world);
    let seen: Vec<_> = told.classes.iter().map(|class| (class.unschedulable, class.gated, &*class.pod)).collect();
    assert_eq!(seen, [(3, 0, "huge-0"), (0, 2, "gated-0")], "{:?}", told.classes);
}
