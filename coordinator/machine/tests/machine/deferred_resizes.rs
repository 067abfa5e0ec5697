//! Pods on their node with a deferred resize: tried there, with preemption, and never placed or nominated.

use std::sync::Arc;

use flotilla_framework::{
    class::{Class, PodInfo},
    profile::Profile,
    testing::{NodeBuilder, PodBuilder, node, pod},
};
use flotilla_machine::{
    event::Event,
    outlook::{PodName, PodState},
};

use crate::world::{World, preempting};

fn profile() -> Profile {
    let mut profile = preempting();
    for list in [&mut profile.plugins.pre_filter, &mut profile.plugins.filter] {
        let place = list.iter().position(|name| name == "NodeResourcesFit").expect("a default plugin");
        list.insert(place, "DeferredPodScheduling".to_owned());
    }
    profile
}

fn asks(name: &str, cpus: &str, priority: i32) -> PodBuilder {
    pod(name).request("cpu", cpus).request("memory", "1Mi").priority(priority)
}

fn small(name: &str) -> NodeBuilder {
    node(name).capacity("cpu", "1")
}

/// Nodes `a` and `b` of one CPU, with these pods on `a` and `elsewhere` on `b`.
fn world(workers: usize, pods: impl IntoIterator<Item = PodInfo>) -> World {
    let mut world = World::with_workers(workers, profile());
    world.node(small("a").build());
    world.node(small("b").build());
    world.pod(asks("elsewhere", "100m", 0).on("b").build());
    pods.into_iter().for_each(|pod| world.pod(pod));
    world.settle();
    world
}

fn deferred(cpus: &str, priority: i32) -> PodInfo {
    asks("resized", cpus, priority).resize_deferred_on("a").build()
}

/// The state of the pod, and the number of its attempts.
fn state(world: &World) -> (PodState, u32) {
    let name = PodName { namespace: "default".into(), name: "resized".into() };
    let outlook = world.machine.outlook(world.now_ms, &name).expect("a known pod");
    (outlook.standing, outlook.attempts)
}

fn attempts(world: &World) -> u32 {
    state(world).1
}

fn evicted(world: &World) -> Vec<(&str, &str)> {
    world.evicted.iter().map(|(pod, node, _)| (&**pod, &**node)).collect()
}

#[test]
fn a_deferred_resize_preempts_on_its_node_without_condition_event_or_nomination() {
    for workers in [0, 2] {
        let mut world = world(workers, [asks("low", "700m", 1).on("a").build(), deferred("500m", 10)]);
        world.advance(30_000);
        assert_eq!(evicted(&world), [("resized", "a")]);
        assert_eq!((world.reports.len(), world.bound.len()), (0, 0));
        assert_eq!(world.api["uid-resized"].nominated_node_name, None);
        // It fits, and is tried again after each backoff, until the kubelet has resized it.
        assert!(attempts(&world) > 3, "{:?}", state(&world));
        world.pod(asks("resized", "500m", 10).on("a").build());
        world.settle();
        assert_eq!(state(&world).0, PodState::Bound { node: "a".into() });
    }
}

type Change = fn(&mut World);

#[test]
fn a_resize_that_does_not_fit_waits_for_changes_of_its_node() {
    let others = || [asks("other", "700m", 20).on("a").build(), deferred("500m", 10)];
    let higher = world(1, others());
    assert!(matches!(state(&higher).0, PodState::Unschedulable { .. }));
    let tries = |change: Change| {
        let mut world = world(1, others());
        let before = attempts(&world);
        // The backoff is over.
        world.advance(2_000);
        change(&mut world);
        world.advance(500);
        attempts(&world) > before
    };
    let table: [(&str, bool, Change); 9] = [
        ("nothing happens", false, |_| {}),
        ("a pod on its node is deleted", true, |world| world.delete_pod("uid-other")),
        ("a pod on another node is deleted", false, |world| world.delete_pod("uid-elsewhere")),
        ("a pod on its node is scaled down", true, |world| world.pod(asks("other", "600m", 20).on("a").build())),
        ("a pod on its node is scaled up", true, |world| world.pod(asks("other", "800m", 20).on("a").build())),
        ("a pod elsewhere is scaled down", false, |world| world.pod(asks("elsewhere", "50m", 0).on("b").build())),
        ("it is scaled down", true, |world| world.pod(deferred("400m", 10))),
        ("its node grows", true, |world| world.node(small("a").capacity("cpu", "2").build())),
        ("another node grows", false, |world| world.node(small("b").capacity("cpu", "2").build())),
    ];
    for (change, expected, make) in table {
        assert_eq!(tries(make), expected, "{change}");
    }
}

#[test]
fn a_node_that_disables_preemption_for_resizes_keeps_its_pods() {
    let mut world = World::with_workers(1, profile());
    world.node(small("a").without_resize_preemption().build());
    world.pod(asks("low", "700m", 1).on("a").build());
    world.pod(deferred("500m", 10));
    world.advance(10_000);
    assert_eq!(evicted(&world), []);
    assert!(matches!(state(&world).0, PodState::Unschedulable { .. }));
    world.node(small("a").build());
    world.advance(10_000);
    assert_eq!(evicted(&world), [("resized", "a")]);
}

#[test]
fn a_deferred_pod_that_goes_leaves_the_queue() {
    let mut world = world(1, [asks("other", "700m", 20).on("a").build(), deferred("500m", 10)]);
    let class = Class { terminating: true, ..(*deferred("500m", 10).class).clone() };
    world.pod(PodInfo { deleting: true, class: Arc::new(class), ..deferred("500m", 10) });
    assert_eq!(state(&world).0, PodState::Bound { node: "a".into() });
    world.pod(deferred("500m", 10));
    assert!(matches!(state(&world).0, PodState::Active { .. } | PodState::Unschedulable { .. }));
    world.delete_pod("uid-resized");
    let status = world.machine.status();
    assert_eq!((status.pods_active, status.pods_backoff, status.pods_unschedulable), (0, 0, 0));
}

#[test]
fn a_deferred_pod_of_another_scheduler_is_not_tried() {
    let other = PodInfo { scheduler_name: "other".into(), ..deferred("500m", 10) };
    let world = world(1, [asks("low", "700m", 1).on("a").build(), other]);
    assert_eq!(state(&world), (PodState::Bound { node: "a".into() }, 0));
}

#[test]
fn a_backup_that_reverts_the_placement_of_a_deferred_pod_queues_it_without_a_node() {
    let mut world = world(1, [asks("other", "700m", 20).on("a").build(), deferred("500m", 10)]);
    let unbound = asks("resized", "500m", 10).build();
    world.pod(unbound.clone());
    assert!(matches!(state(&world).0, PodState::Unschedulable { .. }), "an older event");
    world.tell(Event::WentBack);
    world.pod(unbound);
    world.settle();
    assert_eq!(world.place_of("resized"), Some("b"));
}
