//! Pod groups of `scheduling.x-k8s.io`: pods name them by a label, and no feature gate is on.

use std::sync::Arc;

use flotilla_framework::{
    class::PodInfo,
    pod_group::{COSCHEDULING, GroupApi, LABEL, PodGroup},
    resources::Resources,
    testing::{self, PodBuilder, node, pod, pod_group},
};
use flotilla_machine::{
    event::{Configuration, Event},
    outlook::{PodName, PodState},
};

use crate::world::World;

/// The default profile with the plugin Coscheduling, if it is `on`.
fn configuration(generation: u64, on: bool) -> Configuration {
    let mut profile = testing::profile();
    profile.plugins.permit.extend(on.then(|| COSCHEDULING.to_owned()));
    profile.plugins.post_filter = vec!["DefaultPreemption".to_owned()];
    profile.plugins.pod_group_post_filter = vec!["DefaultPreemption".to_owned()];
    Configuration::new(generation, vec![profile])
}

/// Nodes of 4 CPUs each.
fn world(nodes: usize) -> World {
    let mut world = World::new(1);
    world.tell(Event::Configured(Arc::new(configuration(2, true))));
    for index in 0..nodes {
        world.node(node(&format!("n{index}")).build());
    }
    world.settle();
    world
}

fn group(min_member: u32) -> PodGroup {
    PodGroup { api: GroupApi::Coscheduling, ..pod_group("g", Some(min_member)) }
}

fn object(world: &mut World, group: PodGroup) {
    world.tell(Event::PodGroupApplied(Arc::new(group)));
    world.settle();
}

fn member(name: &str, cpus: &str) -> PodBuilder {
    pod(name).request("cpu", cpus).request("memory", "1Mi").label(LABEL, "g")
}

fn members(world: &mut World, names: &[&str]) {
    names.iter().for_each(|name| world.pod(member(name, "3").build()));
    world.settle();
}

fn placed(world: &World) -> Vec<&str> {
    let mut placed: Vec<&str> = world.bound.iter().map(|(pod, _)| pod.as_str()).collect();
    placed.sort_unstable();
    placed
}

fn gate(world: &World, pod: &str) -> Option<(&'static str, String)> {
    let name = PodName { namespace: "default".into(), name: pod.into() };
    match world.machine.outlook(world.now_ms, &name)?.standing {
        PodState::Gated { plugin, message } => Some((plugin?, message)),
        _ => None,
    }
}

#[test]
fn pods_with_the_label_wait_for_their_group_and_for_its_minimum_and_are_then_placed_together() {
    let mut world = world(3);
    members(&mut world, &["a", "b"]);
    let absent =
        "PodGroup not found: the label scheduling.x-k8s.io/pod-group names \"g\"; create it, or remove the label";
    assert_eq!(gate(&world, "a"), Some((COSCHEDULING, absent.to_owned())));
    object(&mut world, group(3));
    let few = "cannot find enough sibling pods, current pods number: 2, minMember of group: 3";
    assert_eq!(gate(&world, "a"), Some((COSCHEDULING, few.to_owned())));
    members(&mut world, &["c"]);
    assert_eq!(placed(&world), ["a", "b", "c"]);
    world.node(node("n3").build());
    members(&mut world, &["d"]);
    assert_eq!(placed(&world), ["a", "b", "c", "d"], "a pod beyond the minimum needs no others");
}

#[test]
fn a_gang_that_does_not_fit_holds_nothing_and_is_placed_once_there_is_room() {
    let mut world = world(1);
    object(&mut world, group(2));
    members(&mut world, &["a", "b"]);
    let message = world.message_of("a").expect("a report");
    assert!(message.contains("minMember (2) cannot be satisfied: 1 scheduled, 0 remaining"), "{message}");
    world.pod(pod("other").request("cpu", "4").build());
    world.settle();
    assert_eq!(placed(&world), ["other"]);
    world.advance(500);
    world.node(node("n1").build());
    world.node(node("n2").build());
    world.settle();
    assert_eq!(placed(&world), ["other"], "at most one attempt a second");
    world.advance(500);
    assert_eq!(placed(&world), ["a", "b", "other"], "made room ends the backoff");
}

#[test]
fn the_longest_backoff_does_not_grow_with_the_pods() {
    let mut world = world(1);
    object(&mut world, group(4));
    members(&mut world, &["a", "b", "c", "d"]);
    let tried = |world: &World| world.reports.iter().filter(|report| &*report.name == "a").count();
    world.advance(60_000);
    // Every 10 s in the end. With the growth there would be 7.
    assert_eq!(tried(&world), 8);
}

#[test]
fn without_the_plugin_the_label_means_nothing_and_a_new_configuration_changes_that_both_ways() {
    let mut world = World::new(1);
    world.tell(Event::Configured(Arc::new(configuration(2, false))));
    world.node(node("n0").build());
    object(&mut world, group(3));
    members(&mut world, &["a"]);
    assert_eq!(placed(&world), ["a"]);
    world.tell(Event::Configured(Arc::new(configuration(3, true))));
    world.node(node("n1").build());
    members(&mut world, &["b"]);
    let few = "cannot find enough sibling pods, current pods number: 2, minMember of group: 3";
    assert_eq!(gate(&world, "b"), Some((COSCHEDULING, few.to_owned())), "the bound pod counts");
    world.tell(Event::Configured(Arc::new(configuration(4, false))));
    world.settle();
    assert_eq!(placed(&world), ["a", "b"]);
}

#[test]
fn a_waiting_pod_whose_label_changes_leaves_its_group() {
    let mut world = world(2);
    object(&mut world, group(2));
    let waiting = member("a", "3").build();
    world.pod(waiting.clone());
    world.settle();
    assert!(placed(&world).is_empty());
    world.pod(PodInfo { class: pod("a").request("cpu", "3").build().class, ..waiting });
    world.settle();
    assert_eq!(placed(&world), ["a"]);
    members(&mut world, &["b"]);
    assert_eq!(placed(&world), ["a"], "one pod is no gang of two");
}

#[test]
fn gated_pods_beyond_the_minimum_do_not_keep_the_others_out() {
    let mut world = world(3);
    object(&mut world, group(2));
    world.pod(member("a", "3").gate("wait").build());
    members(&mut world, &["b"]);
    assert_eq!(gate(&world, "b").map(|(plugin, _)| plugin), Some("SchedulingGates"));
    members(&mut world, &["c"]);
    assert_eq!(placed(&world), ["b", "c"]);
    assert_eq!(gate(&world, "a").map(|(plugin, _)| plugin), Some("SchedulingGates"));
    world.pod(member("a", "3").build());
    world.settle();
    assert_eq!(placed(&world), ["a", "b", "c"]);
}

#[test]
fn no_pod_is_tried_before_the_cluster_has_the_least_resources() {
    let mut world = world(2);
    let least = Resources { milli_cpu: 9_000, ..Resources::default() };
    object(&mut world, PodGroup { min_resources: Some(Box::new(least)), ..group(2) });
    members(&mut world, &["a", "b"]);
    let message = "pod group is unschedulable, minResources of PodGroup default/g exceed the free resources: cpu 9000m of \
                   which 8000m are free";
    assert_eq!(world.message_of("a"), Some(message));
    assert!(placed(&world).is_empty());
    world.node(node("n2").build());
    world.advance(2_000);
    assert_eq!(placed(&world), ["a", "b"]);
    members(&mut world, &["c"]);
    assert_eq!(placed(&world), ["a", "b", "c"], "the group's own pods count as free");
}

/// The pods that no longer exist, of these.
fn victims<'a>(world: &World, pods: &[&'a str]) -> Vec<&'a str> {
    pods.iter().copied().filter(|pod| !world.api.contains_key(&*format!("uid-{pod}"))).collect()
}

#[test]
fn pods_that_the_group_may_preempt_count_as_free() {
    for (priority, never, expected) in [(10, false, true), (10, true, false), (0, false, false)] {
        let mut world = world(2);
        for (name, node) in [("x", "n0"), ("y", "n1")] {
            world.pod(pod(name).request("cpu", "3").on(node).build());
        }
        world.settle();
        let least = Resources { milli_cpu: 6_000, ..Resources::default() };
        object(&mut world, PodGroup { min_resources: Some(Box::new(least)), ..group(2) });
        for name in ["a", "b"] {
            let member = member(name, "3").priority(priority);
            world.pod(if never { member.never_preempts() } else { member }.build());
        }
        world.settle();
        world.advance(10_000);
        let (placed, gone) = if expected { (vec!["a", "b"], vec!["x", "y"]) } else { (vec![], vec![]) };
        assert_eq!((self::placed(&world), victims(&world, &["x", "y"])), (placed, gone), "{priority} {never}");
        let lacks = world.message_of("a").is_some_and(|message| message.contains("cpu 6000m of which 2000m are free"));
        assert_eq!(lacks, !expected, "{priority} {never}");
    }
}

#[test]
fn a_group_preempts_by_the_lowest_priority_of_its_pods_and_its_pods_are_victims_by_their_own() {
    let mut world = world(2);
    world.pod(pod("x").request("cpu", "3").priority(5).on("n0").build());
    world.settle();
    object(&mut world, group(2));
    world.pod(member("a", "3").priority(9).build());
    world.pod(member("b", "3").priority(4).build());
    world.settle();
    world.advance(10_000);
    assert_eq!((placed(&world), victims(&world, &["x"])), (vec![], vec![]), "b may not preempt x");
    world.node(node("n2").build());
    world.advance(30_000);
    assert_eq!(placed(&world), ["a", "b"]);
    world.pod(pod("high").request("cpu", "3").priority(6).build());
    world.settle();
    assert_eq!(victims(&world, &["a", "b", "x"]), ["b"], "the pod of the lowest priority goes");
}

#[test]
fn a_group_of_each_api_may_have_the_same_name() {
    let mut world = world(4);
    let gangs = Configuration { generic_workload: true, ..configuration(3, true) };
    world.tell(Event::Configured(Arc::new(gangs)));
    object(&mut world, pod_group("g", None));
    object(&mut world, group(2));
    world.pod(pod("native").request("cpu", "3").group("g").build());
    world.pod(member("a", "3").build());
    world.settle();
    assert_eq!(placed(&world), ["native"]);
    world.tell(Event::PodGroupDeleted(pod_group("g", None).group_key()));
    members(&mut world, &["b"]);
    assert_eq!(placed(&world), ["a", "b", "native"]);
}
