//! Pod groups: placed together or not at all, and the time of attempts.

use std::sync::Arc;

use flotilla_framework::{
    class::PodInfo,
    pod_group::{GroupCondition, PodGroup},
    testing::{self, PodBuilder, node, pod, pod_group},
};
use flotilla_machine::{
    action::Reason,
    event::{BindFailure, Configuration, Event},
    outlook::{PodName, PodState},
};

use crate::world::World;

/// The default configuration with the gate GenericWorkload.
pub(crate) fn configuration(generation: u64) -> Configuration {
    let mut profile = testing::profile();
    profile.plugins.pre_enqueue.push("GangScheduling".to_owned());
    profile.plugins.permit.push("GangScheduling".to_owned());
    profile.plugins.pre_filter.push("DynamicResources".to_owned());
    let preempts = ["DynamicResources", "DefaultPreemption"].map(str::to_owned);
    profile.plugins.post_filter = preempts.to_vec();
    profile.plugins.pod_group_post_filter = preempts.to_vec();
    Configuration { generic_workload: true, ..Configuration::new(generation, vec![profile]) }
}

fn world(workers: usize, nodes: usize) -> World {
    let mut world = World::new(workers);
    world.tell(Event::Configured(Arc::new(configuration(2))));
    for index in 0..nodes {
        world.node(node(&format!("n{index}")).build());
    }
    world.settle();
    world
}

const NO_VICTIMS: &str = "pod group preemption: No preemption victims found for incoming preemptor";

fn member(name: &str, cpus: &str) -> PodBuilder {
    pod(name).request("cpu", cpus).request("memory", "1Mi").group("g")
}

fn object(world: &mut World, group: PodGroup) {
    world.tell(Event::PodGroupApplied(Arc::new(group)));
    world.settle();
}

fn gang(world: &mut World, min_count: u32) {
    object(world, pod_group("g", Some(min_count)));
}

fn members(world: &mut World, cpus: &[&str]) {
    for (index, cpus) in cpus.iter().enumerate() {
        world.pod(member(["a", "b", "c", "d", "e"][index], cpus).build());
    }
    world.settle();
}

fn placed(world: &World) -> Vec<&str> {
    let mut placed: Vec<&str> = world.bound.iter().map(|(pod, _)| pod.as_str()).collect();
    placed.sort_unstable();
    placed
}

fn condition(world: &World) -> Option<(bool, &str, &str)> {
    let report = world.group_reports.last()?;
    Some((report.status, report.reason, &report.message))
}

fn gate(world: &World, pod: &str) -> Option<String> {
    let name = PodName { namespace: "default".into(), name: pod.into() };
    match world.machine.outlook(world.now_ms, &name)?.standing {
        PodState::Gated { message, .. } => Some(message),
        _ => None,
    }
}

#[test]
fn a_gang_waits_for_its_object_and_for_enough_pods_and_is_then_placed_whole() {
    for workers in [0, 1, 3] {
        let mut world = world(workers, 2);
        world.advance(2_000);
        members(&mut world, &["1", "1"]);
        let absent = "waiting for pods's pod group \"g\" to appear in scheduling queue";
        assert_eq!(gate(&world, "a").as_deref(), Some(absent));
        gang(&mut world, 3);
        let few = "waiting for minCount pods from a gang to appear in scheduling queue";
        assert_eq!((gate(&world, "a").as_deref(), placed(&world).len()), (Some(few), 0));
        world.pod(member("c", "1").build());
        world.settle();
        assert_eq!(placed(&world), ["a", "b", "c"], "{workers} workers");
        assert_eq!(condition(&world), Some((true, "Scheduled", "")));
        assert_eq!(world.reports, []);
    }
}

#[test]
fn an_attempt_at_a_group_is_told_once_with_what_became_of_it() {
    for (cpus, result, room, members_tried) in
        [("1", "scheduled", None, 3), ("64", "unschedulable", Some("Unschedulable"), 1)]
    {
        let mut world = world(0, 2);
        world.advance(2_000);
        gang(&mut world, 3);
        members(&mut world, &[cpus, cpus]);
        assert_eq!(world.machine.ended().groups, [], "there are too few to try");
        world.machine.apply(world.now_ms, Event::PodApplied(Arc::new(member("c", cpus).build())));
        let [attempt] = world.machine.ended().groups else { panic!("{:?}", world.machine.ended()) };
        assert_eq!((attempt.result, attempt.room, attempt.members), (result, room, members_tried));
        world.machine.apply(world.now_ms, Event::Tick);
        assert_eq!(world.machine.ended().groups, []);
    }
}

#[test]
fn without_the_gate_a_group_is_no_more_than_a_name() {
    let mut world = World::new(1);
    world.node(node("n0").build());
    members(&mut world, &["1", "1"]);
    gang(&mut world, 3);
    assert_eq!(placed(&world), ["a", "b"]);
    assert_eq!(world.group_reports, []);
}

#[test]
fn what_is_said_of_each_pod_of_a_gang_that_does_not_fit() {
    let mut world = world(2, 1);
    gang(&mut world, 4);
    members(&mut world, &["2", "3", "1", "2", "1"]);
    assert!(placed(&world).is_empty());
    let never = "minCount (4) cannot be satisfied: 2 scheduled, 1 remaining";
    let condition_message = format!("{never}, {NO_VICTIMS}");
    let whole = format!("pod group is unschedulable, {condition_message}");
    let no_room = "0/1 nodes are available: 1 Insufficient cpu.";
    let said = |pod: &str| world.reports.iter().rev().find(|report| &*report.name == pod).map(|one| &*one.message);
    let messages = ["a", "b", "c", "d", "e"].map(|pod| said(pod).expect("a report"));
    assert_eq!(messages, [whole.as_str(), no_room, &whole, no_room, never]);
    assert_eq!(condition(&world), Some((false, "Unschedulable", &*condition_message)));
    assert!(world.reports.iter().all(|report| report.reason == Reason::Unschedulable && report.write_condition));
    world.pod(pod("other").request("cpu", "4").build());
    world.settle();
    assert_eq!(world.place_of("other"), Some("n0"), "the group holds nothing");
}

#[test]
fn a_group_that_was_refused_is_tried_again_when_its_backoff_ends_and_not_before() {
    let mut world = world(1, 1);
    gang(&mut world, 2);
    members(&mut world, &["3", "3"]);
    assert!(placed(&world).is_empty());
    world.node(node("n1").build());
    world.settle();
    assert!(placed(&world).is_empty(), "no event wakes a group");
    world.advance(1_999);
    assert!(placed(&world).is_empty());
    world.advance(1);
    assert_eq!(placed(&world), ["a", "b"]);
    let statuses: Vec<(bool, bool)> = world.group_reports.iter().map(|one| (one.status, one.begins)).collect();
    assert_eq!(statuses, [(false, true), (true, true)]);
}

#[test]
fn the_longest_backoff_grows_with_the_root_of_the_pods() {
    let mut world = world(1, 1);
    gang(&mut world, 4);
    members(&mut world, &["3", "3", "3", "3"]);
    world.advance(57_000 - 1);
    let tried = |world: &World| world.reports.iter().filter(|report| &*report.name == "a").count();
    assert_eq!(tried(&world), 6);
    world.advance(1);
    assert_eq!(tried(&world), 7, "20 s, the root of four pods times 10 s, is the longest");
}

#[test]
fn a_group_without_backoff_is_tried_once_a_second_and_not_endlessly() {
    let mut world = world(1, 1);
    let none = Configuration { pod_initial_backoff_ms: 0, pod_max_backoff_ms: 0, ..configuration(3) };
    world.tell(Event::Configured(Arc::new(none)));
    gang(&mut world, 2);
    members(&mut world, &["3", "3"]);
    let tried = |world: &World| world.reports.iter().filter(|report| &*report.name == "a").count();
    for attempts in 2..5 {
        world.advance(1_000);
        assert_eq!(tried(&world), attempts);
    }
}

#[test]
fn pods_beyond_the_minimum_that_do_not_fit_are_told_and_tried_again_without_the_others() {
    let mut world = world(2, 1);
    gang(&mut world, 2);
    members(&mut world, &["2", "2", "1"]);
    assert_eq!(placed(&world), ["a", "b"]);
    let told: Vec<&str> = world.reports.iter().map(|report| report.message.as_str()).collect();
    let no_room = "0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(told, [no_room, no_room], "once beside the others, and once for itself");
    assert_eq!(condition(&world), Some((true, "Scheduled", "")), "what was placed stays so");
    assert_eq!(world.group_reports.len(), 1);
    world.node(node("n1").build());
    world.advance(2_000);
    assert_eq!(placed(&world), ["a", "b", "c"]);
}

#[test]
fn a_basic_group_places_each_pod_that_fits() {
    let mut world = world(1, 1);
    object(&mut world, pod_group("g", None));
    members(&mut world, &["8", "2", "2"]);
    assert_eq!(placed(&world), ["b", "c"]);
    assert_eq!(condition(&world), Some((true, "Scheduled", "")));
    // It does not fit on its own, and no other pod of its group was placed in that attempt.
    assert_eq!(world.message_of("a"), Some("0/1 nodes are available: 1 Insufficient cpu."));
}

#[test]
fn pods_that_may_not_be_in_one_group_are_refused_as_errors_in_upstreams_words() {
    let priority =
        "all pods in a single pod group should have the same priority as the pod group's priority, got 7 and 0";
    let mut one = world(1, 1);
    gang(&mut one, 2);
    one.pod(member("a", "1").build());
    one.pod(member("b", "1").priority(7).build());
    one.settle();
    assert!(placed(&one).is_empty());
    for pod in ["a", "b"] {
        assert_eq!(one.message_of(pod), Some(priority), "{pod}");
    }
    assert!(one.reports.iter().all(|report| report.reason == Reason::SchedulerError));
    assert_eq!(condition(&one), Some((false, "SchedulerError", priority)));

    let mut other = world(1, 1);
    gang(&mut other, 2);
    other.pod(member("x", "1").scheduler("other").on("n0").build());
    other.pod(member("a", "1").build());
    other.settle();
    assert_eq!(
        other.message_of("a"),
        Some(
            "all pods in a single pod group should have the same .spec.schedulerName set, got: \"other\" and \
             \"default-scheduler\""
        ),
        "pods that have a node count too"
    );
}

#[test]
fn one_gated_pod_keeps_the_whole_group_out() {
    let mut world = world(1, 1);
    gang(&mut world, 2);
    let gated = member("b", "1").gate("wait").build();
    world.pod(member("a", "1").build());
    world.pod(gated.clone());
    world.pod(member("c", "1").build());
    world.settle();
    assert!(placed(&world).is_empty());
    world.pod(PodInfo { gates: Vec::new(), ..gated });
    world.settle();
    assert_eq!(placed(&world), ["a", "b", "c"]);
}

#[test]
fn what_ends_the_wait_of_a_group() {
    type Change = fn(&mut World);
    let changes: [(&str, Change); 4] = [
        ("fewer pods are enough", |world| gang(world, 2)),
        ("it is a gang no more", |world| object(world, pod_group("g", None))),
        ("another pod comes", |world| world.pod(member("c", "1").build())),
        ("another pod is there that has a node", |world| {
            world.pod(member("c", "1").scheduler("default-scheduler").on("n0").build());
        }),
    ];
    for (what, change) in changes {
        let mut world = world(1, 1);
        gang(&mut world, 3);
        members(&mut world, &["1", "1"]);
        assert!(placed(&world).is_empty());
        change(&mut world);
        world.settle();
        assert!(placed(&world).starts_with(&["a", "b"]), "{what}");
    }
}

#[test]
fn a_member_that_comes_while_workers_are_asked_is_placed_with_the_others() {
    let mut world = world(1, 2);
    gang(&mut world, 2);
    world.pod(member("a", "1").build());
    world.pod(member("b", "1").build());
    let (worker, words) = world.intercept();
    assert!(world.binds.is_empty());
    world.pod(member("c", "1").build());
    world.delete_pod("uid-a");
    for word in words {
        world.tell(Event::FromWorker { worker, word });
    }
    world.settle();
    assert_eq!(placed(&world), ["b", "c"]);
}

#[test]
fn a_group_whose_object_goes_while_workers_are_asked_waits_for_it() {
    let mut world = world(1, 2);
    gang(&mut world, 2);
    world.pod(member("a", "1").build());
    world.pod(member("b", "1").build());
    world.tell(Event::PodGroupDeleted(pod_group("g", None).group_key()));
    world.settle();
    assert!(placed(&world).is_empty());
    gang(&mut world, 2);
    assert_eq!(placed(&world), ["a", "b"]);
}

#[test]
fn a_worker_that_dies_while_a_group_waits_for_it_costs_time_only() {
    let mut world = world(2, 4);
    gang(&mut world, 3);
    members(&mut world, &[]);
    for name in ["a", "b", "c"] {
        world.pod(member(name, "3").build());
    }
    let id = *world.workers.keys().next().expect("a worker");
    world.kill(id);
    world.settle();
    assert_eq!(placed(&world), ["a", "b", "c"]);
}

#[test]
fn a_member_whose_bind_fails_goes_back_to_its_group_and_is_bound_after_its_backoff() {
    let mut world = world(1, 2);
    gang(&mut world, 2);
    world.pod(member("a", "1").build());
    world.pod(member("b", "1").build());
    world.run_workers();
    assert_eq!(world.binds.len(), 2);
    let failed = world.binds.pop_front().expect("a bind");
    world.tell(Event::BindFailed { uid: failed.uid, failure: BindFailure::Error("timeout".to_owned()) });
    world.settle();
    assert_eq!(placed(&world), ["b"]);
    world.advance(2_000);
    assert_eq!(placed(&world), ["a", "b"]);
    assert_eq!(condition(&world), Some((true, "Scheduled", "")));
}

#[test]
fn a_standby_that_takes_over_in_the_middle_places_the_rest() {
    let mut world = world(1, 2);
    let done = GroupCondition { status: true, reason: "Scheduled".into(), message: "".into(), observed_generation: 1 };
    object(&mut world, PodGroup { condition: Some(done), ..pod_group("g", Some(3)) });
    world.pod(member("a", "1").on("n0").build());
    world.pod(member("b", "4").build());
    world.pod(member("c", "4").build());
    world.settle();
    assert_eq!(placed(&world).len(), 0, "two of three pods have a place, and that is too few");
    assert_eq!(world.group_reports, [], "a group that was placed once stays so in its condition");
    world.node(node("n2").build());
    world.advance(2_000);
    assert_eq!(placed(&world), ["b", "c"]);
}

#[test]
fn a_follower_reports_nothing_and_knows_the_groups_when_it_leads() {
    let mut world = World::dormant(configuration(1).profiles.to_vec());
    world.tell(Event::Configured(Arc::new(configuration(2))));
    world.node(node("n0").build());
    gang(&mut world, 2);
    members(&mut world, &["1", "1"]);
    world.tell(Event::Synced);
    world.settle();
    assert!(world.group_reports.is_empty() && placed(&world).is_empty());
    world.tell(Event::Leading { epoch: 1 });
    world.join("worker-0");
    world.settle();
    assert_eq!(placed(&world), ["a", "b"]);
}

#[test]
fn members_are_placed_beside_each_other_where_they_keep_apart() {
    let apart = |name: &str| member(name, "1").label("app", "x").far("kubernetes.io/hostname", ("app", "x")).build();
    for nodes in [2, 3] {
        let mut world = world(2, nodes);
        gang(&mut world, 3);
        for name in ["a", "b", "c"] {
            world.pod(apart(name));
        }
        world.settle();
        assert_eq!(placed(&world).len(), if nodes == 3 { 3 } else { 0 }, "{nodes} nodes");
    }
}

#[test]
fn members_that_are_nominated_do_not_count_twice() {
    let mut world = world(1, 1);
    gang(&mut world, 2);
    for name in ["a", "b"] {
        world.pod(member(name, "2").nominated("n0").build());
    }
    world.settle();
    assert_eq!(placed(&world), ["a", "b"]);
}

#[test]
fn groups_have_their_turn_by_the_priority_of_the_group() {
    let mut world = world(1, 1);
    world.pod(pod("blocker").request("cpu", "4").on("n0").build());
    object(&mut world, PodGroup { priority: 5, ..pod_group("g", Some(1)) });
    object(&mut world, PodGroup { priority: 9, ..pod_group("h", Some(1)) });
    world.pod(member("a", "3").priority(5).build());
    world.pod(pod("z").request("cpu", "3").priority(9).group("h").build());
    world.settle();
    world.delete_pod("uid-blocker");
    world.advance(2_000);
    assert_eq!(placed(&world), ["z"]);
}

#[test]
fn members_are_tried_in_the_order_that_they_came_in() {
    let mut world = world(1, 1);
    gang(&mut world, 1);
    for name in ["late", "a", "b"] {
        world.pod(member(name, "2").gate("wait").build());
    }
    world.settle();
    for name in ["b", "a", "late"] {
        world.pod(member(name, "2").build());
    }
    world.settle();
    assert_eq!(placed(&world), ["a", "late"]);
}

/// A gang `g` of priority 10 that needs two pods of 3 CPUs, on two nodes that others fill.
fn crowded(others: impl IntoIterator<Item = PodInfo>) -> World {
    let mut world = world(1, 2);
    for other in others {
        world.pod(other);
    }
    world.settle();
    object(&mut world, PodGroup { priority: 10, ..pod_group("g", Some(2)) });
    for name in ["a", "b"] {
        world.pod(member(name, "3").priority(10).build());
    }
    world.run_workers();
    world
}

fn low(name: &str, cpus: &str, node: &str) -> PodBuilder {
    pod(name).request("cpu", cpus).request("memory", "1Mi").on(node)
}

fn victims(world: &World) -> Vec<&str> {
    let preempted = world.preemptions.iter().flat_map(|preemption| &preemption.victims);
    preempted.map(|victim| &*victim.pod.name).collect()
}

#[test]
fn a_gang_takes_away_no_more_than_it_needs_and_lands_when_that_is_gone() {
    let mut world = crowded([
        low("spared", "1", "n0").build(),
        low("goes", "3", "n0").priority(-1).build(),
        low("also", "4", "n1").build(),
        low("equal", "0", "n0").priority(10).build(),
    ]);
    assert_eq!(victims(&world), ["also", "goes"].as_slice(), "the more important ones come first");
    let told = "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining, pod group preemption: found a placement for \
                podgroup, preempting 2 victims";
    assert_eq!(condition(&world), Some((false, "Unschedulable", told)));
    assert!(placed(&world).is_empty());
    world.settle();
    world.advance(2_000);
    assert_eq!(placed(&world), ["a", "b"]);
    assert_eq!(condition(&world), Some((true, "Scheduled", "")));
}

#[test]
fn no_pod_is_preempted_where_that_would_not_be_enough() {
    let mut world = crowded([low("low", "2", "n0").build(), low("high", "2", "n1").priority(10).build()]);
    assert!(victims(&world).is_empty());
    let (_, _, told) = condition(&world).expect("a condition");
    assert_eq!(
        told,
        "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining, deallocation and deletion of ResourceClaims \
         completed, pod group preemption: minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
    );
    world.delete_pod("uid-low");
    world.delete_pod("uid-high");
    world.advance(2_000);
    assert_eq!(placed(&world), ["a", "b"], "and nothing is left charged");
}

#[test]
fn pods_of_a_group_that_is_disrupted_as_a_whole_go_together() {
    for (whole, expected) in [(true, 3), (false, 2)] {
        let mut world = world(1, 3);
        object(&mut world, PodGroup { disrupted_whole: whole, ..pod_group("v", None) });
        for (index, node) in ["n0", "n1", "n2"].into_iter().enumerate() {
            let name = ["x", "y", "z"][index];
            world.pod(pod(name).request("cpu", "2").request("memory", "1Mi").group("v").on(node).build());
        }
        object(&mut world, PodGroup { priority: 10, ..pod_group("g", Some(2)) });
        for name in ["a", "b"] {
            world.pod(member(name, "3").priority(10).build());
        }
        world.run_workers();
        assert_eq!(victims(&world).len(), expected, "{whole}");
        world.settle();
        world.advance(2_000);
        assert_eq!(placed(&world), ["a", "b"]);
    }
}

/// The groups `v` and `w` with pods of 2 CPUs: `v` on `n0` and `n1`, `w` on `n0` and `n2`, which are full with it.
fn grouped(workers: usize, whole: bool, priorities: [i32; 2]) -> World {
    let mut world = world(workers, 3);
    world.advance(2_000);
    for (name, priority) in ["v", "w"].into_iter().zip(priorities) {
        let object_of = PodGroup { disrupted_whole: whole, priority, ..pod_group(name, None) };
        object(&mut world, object_of);
    }
    for (name, group, node) in [("v0", "v", "n0"), ("v1", "v", "n1"), ("w0", "w", "n0"), ("w2", "w", "n2")] {
        world.pod(pod(name).request("cpu", "2").request("memory", "1Mi").group(group).on(node).build());
    }
    for node in ["n1", "n2"] {
        world.pod(low(&format!("full-{node}"), "2", node).priority(100).build());
    }
    world
}

#[test]
fn a_pod_takes_a_group_that_is_disrupted_as_a_whole_with_all_its_pods_or_spares_it() {
    for workers in [0, 1, 3] {
        for (case, whole, priorities, cpus, priority, expected) in [
            ("one by one", false, [0, 1], "2", 10, vec!["v0"]),
            ("as a whole", true, [0, 1], "2", 10, vec!["v0", "v1"]),
            ("both", true, [0, 1], "4", 10, vec!["w0", "w2", "v0", "v1"]),
            ("the other one is less important", true, [1, 0], "2", 10, vec!["w0", "w2"]),
            ("by the priority of the group, not of its pods", true, [20, 5], "2", 10, vec!["w0", "w2"]),
            ("no pod is less important", true, [20, 20], "2", 10, vec![]),
            ("the group's priority may be less than its pods'", true, [-5, 20], "2", 0, vec!["v0", "v1"]),
        ] {
            let mut world = grouped(workers, whole, priorities);
            // Preemption is possible only there.
            let high = pod("high").request("cpu", cpus).request("memory", "1Mi").priority(priority);
            world.pod(high.node_selector("kubernetes.io/hostname", "n0").build());
            world.run_workers();
            world.run_workers();
            assert_eq!(victims(&world), expected, "{case}, {workers} workers");
            world.settle();
            world.advance(11_000);
            assert_eq!(world.place_of("high").is_some(), !expected.is_empty(), "{case}");
        }
    }
}

#[test]
fn a_pod_without_a_group_goes_before_one_with_a_group_of_the_same_priority() {
    let mut world = world(1, 1);
    object(&mut world, pod_group("v", None));
    world.pod(pod("grouped").request("cpu", "2").request("memory", "1Mi").group("v").started(9).on("n0").build());
    world.pod(low("single", "2", "n0").started(1).build());
    world.pod(pod("high").request("cpu", "2").request("memory", "1Mi").priority(10).build());
    world.settle();
    let (_, _, gone) = world.evicted.first().expect("a victim");
    assert_eq!(gone, &["single"], "though it started before");
}

#[test]
fn a_pod_without_victims_gets_a_new_message_when_a_group_becomes_less_important() {
    let mut world = grouped(1, true, [20, 20]);
    let high = pod("high").request("cpu", "2").request("memory", "1Mi").priority(10);
    world.pod(high.node_selector("kubernetes.io/hostname", "n0").build());
    world.settle();
    assert!(world.evicted.is_empty());
    object(&mut world, PodGroup { disrupted_whole: true, priority: 5, ..pod_group("v", None) });
    world.pod(
        pod("next")
            .request("cpu", "2")
            .request("memory", "1Mi")
            .priority(10)
            .node_selector("kubernetes.io/hostname", "n0")
            .build(),
    );
    world.settle();
    let gone: Vec<&String> = world.evicted.iter().flat_map(|(_, _, victims)| victims).collect();
    assert_eq!(gone, ["v0", "v1"]);
}

#[test]
fn a_gang_that_may_not_preempt_and_one_whose_victims_are_going_wait() {
    let mut world = world(1, 1);
    world.pod(low("low", "4", "n0").build());
    object(&mut world, PodGroup { priority: 10, ..pod_group("g", Some(1)) });
    let mut never = member("a", "3").priority(10).build();
    never.never_preempts = true;
    world.pod(never);
    world.settle();
    assert!(victims(&world).is_empty());
    let (_, _, told) = condition(&world).expect("a condition");
    assert!(told.ends_with("pod group preemption: not eligible due to preemptionPolicy=Never."), "{told}");

    let mut world = crowded([low("low", "4", "n0").build(), low("other", "4", "n1").build()]);
    assert_eq!(victims(&world).len(), 2);
    // The API server is slow: both victims still exist at the end of the backoff.
    tick_until(&mut world, 2_000);
    let (_, _, told) = condition(&world).expect("a condition");
    assert!(told.ends_with("pod group preemption: found a placement for podgroup, preempting 2 victims"), "{told}");
    let gate = gate(&world, "a").expect("a gate");
    assert_eq!(gate, "waiting for the preemption for this pod group to be finished");
    assert_eq!(world.preemptions.len(), 1, "no other pod has to go");
}

fn tick_until(world: &mut World, until_ms: u64) {
    while let Some(wakeup) = world.machine.next_wakeup().filter(|&wakeup| wakeup <= until_ms) {
        world.now_ms = wakeup;
        world.tell(Event::Tick);
        world.run_workers();
    }
}

#[test]
fn a_gang_is_tried_when_its_victims_are_gone_and_not_while_they_terminate() {
    let mut world = crowded([low("low", "4", "n0").build(), low("other", "4", "n1").build()]);
    world.graceful = true;
    world.settle();
    world.advance(500);
    assert_eq!(world.machine.status().groups_refused, 1, "the victims still occupy the nodes");
    world.advance(60_000);
    let refused = world.machine.status().groups_refused;
    world.delete_pod("uid-low");
    world.settle();
    assert_eq!(world.machine.status().groups_refused, refused, "one victim still occupies its node");
    world.finish_deletions();
    assert_eq!(placed(&world), ["a", "b"], "the backoff does not matter");
}

#[test]
fn the_end_of_the_last_victim_ends_the_backoff_of_a_gang() {
    let mut world = crowded([low("low", "4", "n0").build(), low("other", "4", "n1").build()]);
    world.settle();
    assert_eq!(placed(&world), ["a", "b"], "without an advance of time");
    assert_eq!(world.machine.status().groups_refused, 1);
}

#[test]
fn a_gang_whose_preemption_failed_is_tried_again_after_its_backoff() {
    let mut world = crowded([low("low", "4", "n0").build(), low("other", "4", "n1").build()]);
    world.fail_preemption();
    world.settle();
    world.advance(2_000);
    assert_eq!(placed(&world), ["a", "b"]);
}

#[test]
fn a_budget_is_spared_as_long_as_another_pod_can_go() {
    let mut world = world(1, 2);
    world.tell(Event::BudgetApplied(Arc::new(testing_budget())));
    world.pod(low("guarded", "2", "n0").label("app", "x").build());
    world.pod(low("free", "2", "n0").priority(1).build());
    object(&mut world, PodGroup { priority: 10, ..pod_group("g", Some(2)) });
    world.pod(low("full", "4", "n1").priority(10).build());
    for name in ["a", "b"] {
        world.pod(member(name, "1").priority(10).build());
    }
    world.run_workers();
    assert_eq!(victims(&world), ["free"].as_slice());
}

fn testing_budget() -> flotilla_framework::preemption::Budget {
    flotilla_framework::preemption::Budget {
        namespace: "default".into(),
        name: "b".into(),
        selector: testing::selecting(("app", "x")),
        disruptions_allowed: 0,
        disrupted: Vec::new(),
    }
}

#[test]
fn the_nomination_of_a_member_keeps_no_node_free_from_the_others_of_its_group() {
    let mut world = world(1, 1);
    world.pod(member("a", "3").build());
    world.pod(member("b", "3").nominated("n0").build());
    world.settle();
    gang(&mut world, 1);
    assert_eq!(placed(&world), ["a"]);
}

/// Three preemptors, each of which needs a node. Each node has one pod of its group, and `others` is full of the groups' other pods, or of
/// pods without a group. Preemptions run only on request.
fn many_victims(whole: bool) -> World {
    const PODS: usize = 150;
    let mut world = world(1, 0);
    world.evicts_slowly = true;
    let groups = ["x", "y", "z"];
    world.node(node("others").capacity("cpu", "450").capacity("pods", "1000").build());
    for name in groups {
        world.node(node(name).capacity("cpu", "2").label("of", name).build());
        let group = PodGroup { disrupted_whole: whole, priority: 1, ..pod_group(name, None) };
        world.tell(Event::PodGroupApplied(Arc::new(group)));
        for index in 0..PODS {
            let (node, cpus) = if index == 0 { (name, "2") } else { ("others", "1") };
            world.pod(low(&format!("{name}{index}"), cpus, node).group(name).build());
        }
    }
    world.settle();
    for name in groups {
        world.pod(pod(&format!("of-{name}")).request("cpu", "2").priority(10).node_selector("of", name).build());
        world.settle();
    }
    world
}

#[test]
fn a_preemptor_does_not_wait_for_victims_on_the_nodes_of_other_preemptors() {
    assert_eq!(many_victims(false).preemptions.len(), 3);
}

#[test]
fn a_preemptor_waits_while_many_victims_are_being_deleted() {
    let mut world = many_victims(true);
    assert_eq!(world.preemptions.len(), 2, "two preemptions delete 298 pods elsewhere");
    world.advance(10);
    assert_eq!(world.machine.status().preemptions_delayed, 1);
    world.run_preemption();
    world.settle();
    assert_eq!(world.preemptions.len(), 2, "the third preemptor goes on when the first has its victims");
}

#[test]
fn a_preemptor_does_not_wait_for_preemptions_that_make_no_progress() {
    let mut world = many_victims(true);
    world.advance(999);
    assert_eq!(world.preemptions.len(), 2);
    world.advance(1);
    assert_eq!(world.preemptions.len(), 3);
}

#[test]
fn a_gang_with_anti_affinity_preempts_in_its_zones_only() {
    const ZONE: &str = "topology.kubernetes.io/zone";
    let mut world = world(1, 0);
    for (name, zone, cpus) in [("n0", "a", "4"), ("n1", "a", "1"), ("n2", "b", "4"), ("n3", "b", "1"), ("n4", "c", "1")]
    {
        world.node(node(name).label(ZONE, zone).capacity("cpu", cpus).build());
    }
    for (name, node) in [("x1", "n1"), ("x3", "n3"), ("x4", "n4"), ("y1", "n1")] {
        world.pod(low(name, "100m", node).label("app", &name[..1]).build());
    }
    world.settle();
    object(&mut world, PodGroup { priority: 10, ..pod_group("g", Some(2)) });
    for name in ["a", "b"] {
        world.pod(member(name, "3").priority(10).far(ZONE, ("app", "x")).build());
    }
    world.run_workers();
    let mut gone = victims(&world);
    gone.sort_unstable();
    assert_eq!(gone, ["x1", "x3"], "n0 and n2 are feasible without them; x4 and y1 concern no pod of the gang");
    world.settle();
    assert_eq!(placed(&world), ["a", "b"]);
}
