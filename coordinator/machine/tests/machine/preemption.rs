//! Preemption: victims, waits and faults.
//!
//! A test of a past fault in kube-scheduler or another scheduler names it.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{
    class::{Class, PodInfo},
    extender::Extender,
    labels::LabelSelector,
    preemption::{Budget, DryRunResult},
    shard::{FromWorker, Reply},
    testing::{self, PodBuilder, node, pod},
};
use flotilla_machine::{
    action::{Nomination, PreemptionProposal},
    event::{BindFailure, Configuration, Event, WorkerId},
};

use crate::world::{World, preempting};

const ZONE: &str = "topology.kubernetes.io/zone";

fn asks(name: &str, cpus: &str, priority: i32) -> PodBuilder {
    pod(name).request("cpu", cpus).request("memory", "1Mi").priority(priority)
}

fn world(workers: usize) -> World {
    World::with_workers(workers, preempting())
}

/// Nodes `a` and `b` of one CPU, with the pods `low` of priority 1 on `a` and `mid` of priority 5 on `b`.
fn full(workers: usize) -> World {
    let mut world = world(workers);
    for name in ["a", "b"] {
        world.node(node(name).label(ZONE, name).capacity("cpu", "1").build());
    }
    world.pod(asks("low", "1", 1).label("app", "low").on("a").build());
    world.pod(asks("mid", "1", 5).label("app", "mid").on("b").build());
    world.settle();
    world
}

fn evicted(world: &World) -> Vec<(&str, &str, Vec<&str>)> {
    world
        .evicted
        .iter()
        .map(|(pod, node, victims)| (pod.as_str(), node.as_str(), victims.iter().map(String::as_str).collect()))
        .collect()
}

fn budget(name: &str, allowed: i32) -> Event {
    let selector: LabelSelector = testing::selecting(("app", name));
    let (namespace, name) = (Arc::from("default"), Arc::from(name));
    Event::BudgetApplied(Arc::new(Budget {
        namespace,
        name,
        selector,
        disruptions_allowed: allowed,
        disrupted: vec![],
    }))
}

fn going(pod: &PodInfo) -> PodInfo {
    let class = Class { terminating: true, ..(*pod.class).clone() };
    PodInfo { deleting: true, is_preempted: true, class: Arc::new(class), ..pod.clone() }
}

#[test]
fn the_least_important_pod_makes_room_and_the_pod_lands_where_it_was() {
    let mut world = full(2);
    world.pod(asks("high", "1", 10).build());
    world.settle();
    assert_eq!(evicted(&world), [("high", "a", vec!["low"])]);
    let expected = "0/2 nodes are available: 2 Insufficient cpu. preemption: found a potential placement for pod on node \
                    a, preempting 1 victims";
    assert_eq!(world.whole_message_of("high"), Some(expected));
    let report = world.reports.iter().find(|report| &*report.name == "high").expect("a report");
    assert_eq!(report.nomination, Nomination::To("a".into()));
    world.advance(10_000);
    assert_eq!(world.place_of("high"), Some("a"));
    assert_eq!((world.machine.status().flushed, evicted(&world).len()), (0, 1));
}

#[test]
fn no_pod_is_preempted_for_a_pod_of_the_same_priority_or_one_that_may_not() {
    for (pod, why) in [
        (asks("equal", "1", 1).build(), "0/2 nodes are available: 2 No preemption victims found for incoming pod."),
        (asks("polite", "1", 10).never_preempts().build(), "not eligible due to preemptionPolicy=Never."),
        (
            asks("picky", "1", 10).node_selector("disk", "ssd").build(),
            "0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
        ),
        (
            asks("large", "2", 10).build(),
            "0/2 nodes are available: 1 Insufficient cpu, 1 Preemption is not helpful for scheduling.",
        ),
    ] {
        let mut world = full(1);
        world.node(node("b").label(ZONE, "b").capacity("cpu", "2").build());
        world.pod(asks("static", "1", 100).on("b").build());
        let name = Arc::clone(&pod.name);
        world.pod(pod);
        world.settle();
        assert_eq!(world.evicted, [], "{name}");
        let message = world.whole_message_of(&name).expect("a report");
        assert!(message.ends_with(&format!(" preemption: {why}")), "{name}: {message}");
    }
}

#[test]
fn a_budget_is_violated_only_where_there_is_no_other_way() {
    let mut world = full(3);
    world.tell(budget("low", 0));
    world.pod(asks("high", "1", 10).build());
    world.settle();
    assert_eq!(evicted(&world), [("high", "b", vec!["mid"])]);
    world.advance(10_000);
    world.pod(asks("next", "1", 4).build());
    world.settle();
    assert_eq!(evicted(&world).last(), Some(&("next", "a", vec!["low"])), "there is no other pod");
}

#[test]
fn a_space_that_is_freed_is_not_taken_before_the_watch_shows_the_nomination() {
    let mut world = full(2);
    world.evicts_slowly = true;
    world.pod(asks("high", "1", 10).build());
    world.run_workers();
    world.run_workers();
    assert_eq!(world.preemptions.len(), 1);
    // The nomination is still in the watch; the victim's deletion overtakes it.
    world.api.remove("uid-low");
    world.tell(Event::PodDeleted { uid: "uid-low".into() });
    let late = asks("late", "1", 5).build();
    world.api.insert(Arc::clone(&late.uid), late.clone());
    world.tell(Event::PodApplied(Arc::new(late)));
    world.evicts_slowly = false;
    world.settle();
    world.advance(10_000);
    assert_eq!((world.place_of("high"), world.place_of("late")), (Some("a"), None));
}

#[test]
fn the_replacement_of_a_victim_does_not_take_its_place_back() {
    let mut world = full(2);
    world.pod(asks("high", "1", 10).build());
    world.settle();
    world.pod(asks("low-again", "1", 1).label("app", "low").build());
    world.settle();
    world.advance(20_000);
    assert_eq!((world.place_of("high"), world.place_of("low-again")), (Some("a"), None));
    assert_eq!(evicted(&world).len(), 1);
}

#[test]
fn no_nomination_outlives_a_pod_that_is_deleted_while_it_preempts() {
    let mut world = full(2);
    world.evicts_slowly = true;
    world.pod(asks("high", "1", 10).build());
    world.settle();
    world.delete_pod("uid-high");
    world.pod(asks("late", "1", 1).build());
    world.evicts_slowly = false;
    world.settle();
    world.advance(10_000);
    assert_eq!(world.place_of("late"), Some("a"), "the victim is gone, and no pod keeps its place");
    assert_eq!(world.machine.status().preemptions_in_flight, 0);
}

#[test]
fn a_pod_without_victims_any_more_keeps_no_node_free() {
    let mut world = full(2);
    world.graceful = true;
    world.pod(asks("high", "1", 10).build());
    world.settle();
    // The remaining pods and a new one leave no room on either node.
    world.pod(asks("static", "1", 100).on("a").build());
    world.pod(asks("static-too", "1", 100).on("b").build());
    world.finish_deletions();
    world.advance(10_000);
    assert_eq!(world.api["uid-high"].nominated_node_name, None);
    world.delete_pod("uid-static");
    world.settle();
    world.advance(10_000);
    assert_eq!(world.place_of("high"), Some("a"), "it was woken all the same");
}

#[test]
fn a_pod_is_not_glued_to_a_nominated_node_that_does_not_admit_it_any_more() {
    let mut world = full(2);
    world.graceful = true;
    world.pod(asks("high", "1", 10).build());
    world.settle();
    assert_eq!(evicted(&world), [("high", "a", vec!["low"])]);
    world.node(node("a").label(ZONE, "a").capacity("cpu", "1").taint("broken", "", "NoSchedule").build());
    world.settle();
    world.pod(PodInfo { generation: 2, ..world.api["uid-mid"].clone() });
    world.advance(400_000);
    assert_eq!(evicted(&world).last(), Some(&("high", "b", vec!["mid"])), "its victim on `a` never ends");
    world.finish_deletions();
    world.advance(10_000);
    assert_eq!(world.place_of("high"), Some("b"));
}

#[test]
fn a_preemption_is_not_begun_again_before_it_has_ended() {
    let mut world = full(2);
    world.evicts_slowly = true;
    world.pod(asks("high", "1", 10).build());
    world.settle();
    for round in 0..20 {
        // Any event would wake it.
        let closed = node(&format!("closed-{round}")).capacity("cpu", "1").taint("closed", "", "NoSchedule");
        world.node(closed.build());
        world.pod(asks(&format!("gone-{round}"), "1", 1).on("b").build());
        world.delete_pod(&format!("uid-gone-{round}"));
        world.advance(30_000);
    }
    assert_eq!(world.preemptions.len(), 1, "the API server is slow, and was asked once");
    world.evicts_slowly = false;
    world.settle();
    world.advance(10_000);
    assert_eq!((world.place_of("high"), evicted(&world).len()), (Some("a"), 1));
}

#[test]
fn a_preemptor_is_not_tried_before_the_watch_shows_what_came_of_its_preemption() {
    for answer_is_first in [false, true] {
        let mut world = full(2);
        world.evicts_slowly = true;
        world.pod(asks("high", "1", 10).build());
        world.settle();
        let preemption = world.preemptions.pop_front().expect("a preemption");
        // The API server has deleted the victim, but no event has arrived, and another event wakes the pod.
        let closed = node("closed").capacity("cpu", "1").taint("closed", "", "NoSchedule");
        let woken = Event::NodeApplied(Arc::new(closed.build()));
        let answered = Event::Preempted { uid: preemption.preemptor.uid.clone(), id: preemption.id, failure: None };
        let events = if answer_is_first { [answered, woken] } else { [woken, answered] };
        events.into_iter().for_each(|event| world.tell(event));
        let attempts = world.machine.status().unschedulable;
        world.advance(5_000);
        assert_eq!((world.preemptions.len(), world.machine.status().unschedulable), (0, attempts));
        world.delete_pod("uid-low");
        world.settle();
        world.advance(10_000);
        assert_eq!(world.place_of("high"), Some("a"));
    }
}

#[test]
fn no_event_wakes_a_preemptor_until_the_watch_shows_the_last_victim_as_gone_or_terminating() {
    for shows_termination in [false, true] {
        let mut world = world(1);
        world.evicts_slowly = true;
        world.node(node("a").capacity("cpu", "2").build());
        for name in ["one", "two"] {
            world.pod(asks(name, "1", 1).on("a").build());
        }
        world.pod(asks("high", "2", 10).build());
        world.settle();
        let preemption = world.preemptions.pop_front().expect("a preemption");
        world.delete_pod("uid-one");
        world.tell(Event::Preempted { uid: preemption.preemptor.uid, id: preemption.id, failure: None });
        let attempts = world.machine.status().unschedulable;
        world.advance(20_000);
        assert_eq!(world.machine.status().unschedulable, attempts, "it would fail once more");
        if shows_termination {
            world.pod(going(&world.api["uid-two"].clone()));
            world.advance(20_000);
            assert_eq!(world.machine.status().unschedulable, attempts);
            world.node(node("closed").capacity("cpu", "2").taint("closed", "", "NoSchedule").build());
            world.advance(20_000);
            assert_eq!(world.machine.status().unschedulable, attempts + 1, "the victim may take long to end");
        }
        world.delete_pod("uid-two");
        world.settle();
        world.advance(20_000);
        assert_eq!(world.place_of("high"), Some("a"));
        assert_eq!(world.machine.status().flushed, 0);
    }
}

#[test]
fn a_victim_that_the_watch_shows_as_gone_or_finished_before_the_answer_wakes_its_preemptor() {
    for finishes in [false, true] {
        let mut world = full(2);
        world.evicts_slowly = true;
        world.pod(asks("high", "1", 10).build());
        world.settle();
        let preemption = world.preemptions.pop_front().expect("a preemption");
        match finishes {
            true => world.pod(PodInfo { finished: true, ..world.api["uid-low"].clone() }),
            false => world.delete_pod("uid-low"),
        }
        world.advance(5_000);
        assert_eq!(world.place_of("high"), None, "its preemption is under way");
        world.tell(Event::Preempted { uid: preemption.preemptor.uid, id: preemption.id, failure: None });
        world.advance(5_000);
        assert_eq!(world.place_of("high"), Some("a"), "finishes: {finishes}");
        assert_eq!(world.machine.status().flushed, 0);
    }
}

#[test]
fn a_victim_whose_deletion_a_restored_backup_took_back_is_preempted_again() {
    let low = || asks("low", "1", 1).label("app", "low").on("a");
    for was_shown in [false, true] {
        let mut world = full(2);
        world.evicts_slowly = true;
        world.pod(asks("high", "1", 10).build());
        world.settle();
        let preemption = world.preemptions.pop_front().expect("a preemption");
        world.tell(Event::Preempted { uid: preemption.preemptor.uid, id: preemption.id, failure: None });
        let shown = if was_shown { low().terminating() } else { low() };
        world.tell(Event::PodApplied(Arc::new(shown.build())));
        world.advance(20_000);
        assert_eq!(world.preemptions.len(), 0, "it goes, whatever a watch that lags behind tells");
        world.tell(Event::PodsRelisted);
        world.tell(Event::PodApplied(Arc::new(low().build())));
        world.advance(20_000);
        assert_eq!(world.preemptions.len(), 1, "shown before: {was_shown}");
    }
}

#[test]
fn a_victim_whose_deletion_failed_is_preempted_again_and_no_pod_is_left_waiting() {
    let mut world = full(2);
    world.evicts_slowly = true;
    world.pod(asks("high", "1", 10).build());
    world.settle();
    for _ in 0..3 {
        let preemption = world.preemptions.pop_front().expect("a preemption");
        let failure = Some("etcdserver: request timed out".to_owned());
        world.tell(Event::Preempted { uid: preemption.preemptor.uid, id: preemption.id, failure });
        world.advance(10_000);
    }
    world.evicts_slowly = false;
    world.settle();
    world.advance(10_000);
    assert_eq!(world.place_of("high"), Some("a"));
    let status = world.machine.status();
    assert_eq!((status.preemptions, status.preemptions_failed, status.flushed), (4, 3, 0));
}

#[test]
fn a_victim_is_named_by_its_uid_and_told_with_its_own_generation() {
    let mut world = full(2);
    world.evicts_slowly = true;
    world.pod(PodInfo { generation: 7, ..world.api["uid-low"].clone() });
    world.pod(PodInfo { generation: 3, ..asks("high", "1", 10).build() });
    world.settle();
    let preemption = world.preemptions.front().expect("a preemption");
    let victim = &preemption.victims[0];
    assert_eq!((&*victim.pod.uid, &*victim.pod.name, victim.generation), ("uid-low", "low", 7));
    // The victim is recreated with the highest priority before the deletion arrives.
    world.delete_pod("uid-low");
    world.pod(PodInfo { uid: "uid-new".into(), ..asks("low", "1", 99).on("a").build() });
    world.evicts_slowly = false;
    world.settle();
    assert!(world.api.contains_key("uid-new"));
    world.advance(10_000);
    assert_eq!(world.place_of("high"), Some("b"), "at the cost of `mid`");
}

#[test]
fn a_pod_that_is_being_bound_is_deleted_and_the_one_that_preempts_is_woken() {
    let mut world = world(1);
    world.node(node("a").capacity("cpu", "1").build());
    world.pod(asks("low", "1", 1).build());
    world.run_workers();
    let binding = world.binds.pop_front().expect("a bind");
    world.pod(asks("high", "1", 10).build());
    world.settle();
    assert_eq!(evicted(&world), [("high", "a", vec!["low"])]);
    world.tell(Event::BindFailed { uid: binding.uid, failure: BindFailure::Gone });
    world.advance(10_000);
    assert_eq!(world.place_of("high"), Some("a"));
}

#[test]
fn nominations_of_lower_priority_on_the_node_are_taken_back_and_their_pods_tried_elsewhere() {
    let mut world = full(2);
    world.graceful = true;
    world.pod(asks("high", "1", 10).build());
    world.settle();
    world.pod(asks("higher", "1", 20).require(ZONE, "In", &["a"]).build());
    world.settle();
    world.advance(2_000);
    assert_eq!(world.api["uid-high"].nominated_node_name.as_deref(), Some("b"));
    assert_eq!(world.api["uid-higher"].nominated_node_name.as_deref(), Some("a"));
    world.finish_deletions();
    world.advance(10_000);
    assert_eq!((world.place_of("higher"), world.place_of("high")), (Some("a"), Some("b")));
}

#[test]
fn an_older_word_that_the_watch_shows_late_does_not_end_a_newer_nomination() {
    let mut world = full(2);
    world.graceful = true;
    world.pod(asks("high", "1", 10).build());
    world.settle();
    // From here on the watch is late: `higher` displaces `high`, which preempts on the other node.
    let shown = world.api["uid-high"].clone();
    let higher = asks("higher", "1", 20).require(ZONE, "In", &["a"]).build();
    world.api.insert(Arc::clone(&higher.uid), higher.clone());
    world.tell(Event::PodApplied(Arc::new(higher)));
    while world.api["uid-high"].nominated_node_name.as_deref() != Some("b") {
        world.run_workers();
        world.advance_lazily(500);
        assert!(world.now_ms < 60_000, "{:?}", world.whole_message_of("high"));
    }
    world.tell(Event::PodApplied(Arc::new(PodInfo { nominated_node_name: None, ..shown })));
    world.api.remove("uid-mid");
    world.tell(Event::PodDeleted { uid: "uid-mid".into() });
    let late = asks("late", "1", 5).build();
    world.api.insert(Arc::clone(&late.uid), late.clone());
    world.tell(Event::PodApplied(Arc::new(late)));
    world.settle();
    world.advance(20_000);
    assert_eq!((world.place_of("high"), world.place_of("late")), (Some("b"), None));
}

#[test]
fn another_scheduler_binds_the_nominated_pod_and_the_pod_that_gave_way_is_woken() {
    let mut world = full(2);
    world.graceful = true;
    world.pod(asks("high", "1", 10).build());
    world.pod(asks("late", "1", 1).build());
    world.settle();
    world.node(node("c").capacity("cpu", "100m").build());
    world.pod(PodInfo { node_name: Some("c".into()), ..world.api["uid-high"].clone() });
    world.finish_deletions();
    world.advance(10_000);
    assert_eq!(world.place_of("late"), Some("a"));
}

#[test]
fn a_new_leader_goes_on_from_what_the_api_server_has() {
    let mut world = full(2);
    world.graceful = true;
    world.pod(asks("high", "1", 10).build());
    world.settle();
    let mut next = World::dormant(vec![preempting()]);
    for info in world.known_nodes() {
        next.tell(Event::NodeApplied(info));
    }
    let pods: Vec<PodInfo> = world.api.values().cloned().collect();
    pods.into_iter().for_each(|pod| next.pod(pod));
    next.tell(Event::Synced);
    next.tell(Event::Leading { epoch: 2 });
    next.advance(2_000);
    assert_eq!((next.evicted.len(), next.preemptions.len()), (0, 0), "the victims are on their way out");
    next.finish_deletions();
    next.advance(10_000);
    assert_eq!(next.place_of("high"), Some("a"));
}

#[test]
fn a_leader_that_loses_the_lead_forgets_its_own_nomination_and_ignores_the_answer() {
    let mut world = full(2);
    world.evicts_slowly = true;
    world.pod(asks("high", "1", 10).build());
    world.run_workers();
    world.run_workers();
    let preemption = world.preemptions.pop_front().expect("a preemption");
    world.tell(Event::Following);
    world.tell(Event::Preempted { uid: preemption.preemptor.uid, id: preemption.id, failure: None });
    let status = world.machine.status();
    assert_eq!((status.preemptions_in_flight, status.preemptions_discarded), (0, 1));
    world.tell(Event::Leading { epoch: 2 });
    world.evicts_slowly = false;
    world.settle();
    world.advance(20_000);
    assert_eq!(world.place_of("high"), Some("a"));
}

#[test]
fn a_pod_that_is_going_is_not_deleted_again() {
    let mut world = full(2);
    let low = going(&world.api["uid-low"]);
    world.pod(low);
    world.pod(asks("high", "1", 10).build());
    world.settle();
    assert_eq!(world.evicted, []);
    assert_eq!(world.api["uid-high"].nominated_node_name.as_deref(), Some("a"));
    world.finish_deletions();
    world.advance(10_000);
    assert_eq!(world.place_of("high"), Some("a"));
}

#[test]
fn many_pods_without_victims_cost_one_look_at_the_nodes() {
    let mut world = world(2);
    for index in 0..50 {
        world.node(node(&format!("n{index}")).capacity("cpu", "1").build());
        world.pod(asks(&format!("low{index}"), "100m", 1).on(&format!("n{index}")).build());
        world.pod(asks(&format!("high{index}"), "500m", 100).on(&format!("n{index}")).build());
    }
    world.settle();
    for index in 0..500 {
        world.pod(asks(&format!("large{index}"), "800m", 10).build());
    }
    world.settle();
    let status = world.machine.status();
    assert_eq!((status.unschedulable, status.dry_runs_local + status.dry_runs_asked), (500, 1));
}

/// Two workers, a slow one among them, and a pod that waits for a dry run.
fn asking() -> (World, WorkerId) {
    let mut world = full(2);
    world.pod(asks("high", "1", 10).build());
    while world.machine.status().dry_runs_asked == 0 {
        world.run_workers();
    }
    let asked = world.workers.iter().find(|(_, worker)| !worker.inbox.is_empty()).map(|(id, _)| *id);
    (world, asked.expect("a worker is asked"))
}

#[test]
fn workers_are_asked_and_one_that_is_lost_or_silent_costs_time_only() {
    let (mut world, _) = asking();
    world.settle();
    assert_eq!((world.machine.status().dry_runs_local, evicted(&world).len()), (0, 1));
    let (mut world, asked) = asking();
    world.kill(asked);
    world.settle();
    assert_eq!((world.machine.status().dry_runs_local, evicted(&world)), (1, vec![("high", "a", vec!["low"])]));
    let (mut world, asked) = asking();
    world.workers.get_mut(&asked).expect("it is there").silent = true;
    world.settle();
    assert_eq!(evicted(&world), []);
    world.advance(3_000);
    assert_eq!(evicted(&world), [("high", "a", vec!["low"])]);
    assert_eq!(world.dropped, ["it has not answered for 2000 ms"]);
}

#[test]
fn an_answer_to_another_question_is_dropped_and_counted() {
    let (mut world, asked) = asking();
    world.delete_pod("uid-high");
    world.settle();
    assert_eq!((world.machine.status().dry_runs_discarded, world.evicted.len()), (1, 0));
    let word = FromWorker { epoch: 1, revision: 0, reply: Reply::DryRunResults { request: 99, outcomes: Vec::new() } };
    world.tell(Event::FromWorker { worker: asked, word });
    assert_eq!(world.machine.status().dry_runs_discarded, 2);
}

#[test]
fn no_pod_is_preempted_by_a_worker_s_answer_alone() {
    for lie in [
        DryRunResult::Victims { indexes: vec![7], violations: 0 },
        DryRunResult::Victims { indexes: vec![0], violations: 0 },
        DryRunResult::Needless,
    ] {
        let mut world = full(1);
        world.tell(budget("low", 0));
        world.tell(budget("mid", 0));
        world.pod(asks("high", "1", 10).build());
        while world.machine.status().dry_runs_asked == 0 {
            world.run_workers();
        }
        let (worker, words) = world.intercept();
        for mut word in words {
            if let Reply::DryRunResults { outcomes, .. } = &mut word.reply {
                *outcomes = outcomes.iter().map(|_| lie.clone()).collect();
            }
            world.tell(Event::FromWorker { worker, word });
        }
        world.settle();
        world.advance(10_000);
        assert_eq!(evicted(&world).len(), usize::from(lie != DryRunResult::Needless), "{lie:?}");
        assert!(evicted(&world).iter().all(|(_, node, victims)| (*node, victims[0]) == ("a", "low")), "{lie:?}");
    }
}

#[test]
fn what_happens_while_workers_are_asked_does_not_leave_the_pod_waiting() {
    let (mut world, _) = asking();
    world.delete_pod("uid-mid");
    world.delete_pod("uid-low");
    world.settle();
    world.advance(10_000);
    assert_eq!((world.evicted.len(), world.place_of("high").is_some()), (0, true));
    assert_eq!(world.machine.status().flushed, 0);
}

fn proposing() -> (World, PreemptionProposal) {
    let mut world = full(2);
    let mut configuration = Configuration::new(2, vec![preempting()]);
    let extender =
        Extender { url_prefix: "http://u".to_owned(), preempt_verb: "preempt".to_owned(), ..Extender::default() };
    configuration.extenders = vec![Arc::new(extender)].into();
    world.tell(Event::Configured(Arc::new(configuration)));
    world.pod(asks("high", "1", 10).build());
    world.settle();
    let proposal = world.proposals.pop_front().expect("a question");
    (world, proposal)
}

#[test]
fn extenders_have_a_say_in_which_pods_make_room() {
    let (mut world, question) = proposing();
    let uids = |node: &str| question.proposal.nodes[node].pods.iter().map(|uid| &**uid).collect::<Vec<_>>();
    assert_eq!((uids("a"), uids("b")), (vec!["uid-low"], vec!["uid-mid"]));
    let mut proposal = question.proposal.clone();
    let left = BTreeMap::from([("b".to_owned(), (vec!["uid-mid".to_owned()], 0))]);
    proposal.take(&question.extenders[0], Ok(left)).expect("an answer");
    world.tell(Event::Proposed { request: question.request, outcome: Ok(Box::new(proposal)) });
    world.settle();
    assert_eq!(evicted(&world), [("high", "b", vec!["mid"])]);
}

#[test]
fn without_a_valid_answer_of_extenders_no_pod_is_preempted_and_the_queue_goes_on() {
    let (mut world, question) = proposing();
    world.tell(Event::Proposed { request: question.request, outcome: Err("broken".to_owned()) });
    let message = world.whole_message_of("high").expect("a report");
    assert!(message.ends_with(" preemption: broken"), "{message}");

    let (mut world, question) = proposing();
    let mut proposal = question.proposal.clone();
    proposal.take(&question.extenders[0], Ok(BTreeMap::new())).expect("an answer");
    world.tell(Event::Proposed { request: question.request, outcome: Ok(Box::new(proposal)) });
    let message = world.whole_message_of("high").expect("a report");
    assert!(message.ends_with(" preemption: no candidate node for preemption"), "{message}");

    let (mut world, question) = proposing();
    world.pod(asks("other", "1", 10).on("c").build());
    world.advance(36_000);
    assert_eq!(world.machine.status().extensions_lost, 1);
    let again = world.proposals.pop_front();
    world.tell(Event::Proposed { request: question.request, outcome: Ok(Box::new(question.proposal)) });
    assert_eq!((world.machine.status().extensions_discarded, world.evicted.len()), (1, 0), "{again:?}");
}

#[test]
fn victims_and_placements_are_the_same_for_any_number_of_workers() {
    let course = |workers: usize| {
        // Early pops depend on the number of messages from workers.
        let mut world = World::without_pops(vec![preempting()]);
        for index in 0..workers {
            world.join(&format!("worker-{index}"));
        }
        world.advance(2_000);
        for index in 0..60_usize {
            let zone = ["a", "b", "c"][index % 3];
            let name = format!("n{index}");
            world.node(node(&name).label(ZONE, zone).capacity("cpu", ["1", "2", "4"][index % 3]).build());
            for place in 0..4_usize {
                let priority = ((index * 5 + place * 3) % 7) as i32;
                let builder = asks(&format!("s{index}-{place}"), ["250m", "500m", "1"][index % 3], priority);
                world.pod(
                    builder.started((index * 10 + place) as i64).label("app", ["x", "y"][place % 2]).on(&name).build(),
                );
            }
        }
        world.tell(budget("x", 3));
        world.settle();
        for index in 0..60_usize {
            let builder = asks(&format!("p{index}"), ["500m", "1", "2"][index % 3], (4 + index % 5) as i32);
            let builder = builder.label("app", "web");
            let builder = match index % 6 {
                1 => builder.spread(2, ZONE, ("app", "web")),
                2 => builder.far("kubernetes.io/hostname", ("app", "x")),
                3 => builder.host_port(80),
                _ => builder,
            };
            world.pod(builder.build());
            // A pod of higher priority that arrives during a request may overtake the other one.
            world.settle();
        }
        world.settle();
        let decided = (world.evicted.clone(), world.bound.clone());
        // From here on many pods return in the same second, and their order depends on the time of answers.
        world.advance(60_000);
        assert_eq!(world.machine.status().flushed, 0);
        decided
    };
    let alone = course(0);
    assert!(alone.0.len() > 20 && alone.1.len() > 20, "{} preempted, {} bound", alone.0.len(), alone.1.len());
    for workers in [1, 2, 7, 40] {
        assert_eq!(course(workers), alone, "with {workers} workers");
    }
}
