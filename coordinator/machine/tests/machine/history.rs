//! Regression tests for faults of kube-scheduler; each name states the fault.
//!
//! Numbers are issues and pull requests of kubernetes/kubernetes, unless another repository is named. Further tests: nominations in
//! `nominations.rs` (#126700) and `preemption.rs` (#72124, #85447, #93505); preemptions in `preemption.rs` (#130429, #134249,
//! #141694, #91492, #126643, apache/yunikorn-k8shim#1093); incomplete hints in `simulation.rs` (PR 127427), where a new machine evaluates
//! every waiting pod.

use std::sync::Arc;

use flotilla_framework::{
    class::PodInfo,
    testing::{node, pod, pod_group},
};
use flotilla_machine::{
    action::{Binding, Reason},
    event::{BindFailure, Configuration, Event},
};

use crate::{
    groups, storage,
    world::{World, preempting},
};

fn asks(name: &str, cpu: &str) -> PodInfo {
    pod(name).request("cpu", cpu).build()
}

fn world_of_one() -> World {
    let mut world = World::new(1);
    world.node(node("n").capacity("cpu", "1").build());
    world
}

fn decided(world: &mut World) -> Binding {
    for _ in 0..10 {
        if let Some(binding) = world.binds.pop_front() {
            return binding;
        }
        world.run_workers();
    }
    panic!("nothing is bound; told was {:?}", world.reports)
}

fn fail(world: &mut World, binding: &Binding, failure: BindFailure) {
    world.tell(Event::BindFailed { uid: binding.uid.clone(), failure });
}

fn error() -> BindFailure {
    BindFailure::Error("the API server is overloaded".to_owned())
}

type Happening = fn(&mut World);

/// Pods in activeQ, in backoffQ, parked, and gated.
fn waiting(world: &World) -> [u64; 4] {
    let status = world.machine.status();
    [status.pods_active, status.pods_backoff, status.pods_unschedulable, status.pods_gated]
}

fn queue(world: &World) -> String {
    let all = format!("{:?}", world.machine);
    let (from, to) = (all.find("queue: Queue").expect("it is there"), all.find("cache: Cache").expect("it comes next"));
    all[from..to].to_owned()
}

/// #1139
#[test]
fn a_pod_was_scheduled_again_before_its_own_bind_was_seen() {
    let mut world = world_of_one();
    world.pod(asks("web", "1"));
    let binding = decided(&mut world);
    world.tell(Event::Bound { uid: binding.uid });
    let mut late = asks("web", "1");
    late.generation = 2;
    world.tell(Event::PodApplied(late.into()));
    world.run_workers();
    assert_eq!((world.binds.len(), waiting(&world)), (0, [0; 4]));
}

/// #4623
#[test]
fn two_pods_got_one_host_port_while_the_watch_was_slow() {
    let mut world = world_of_one();
    world.pod(pod("first").host_port(80).build());
    world.pod(pod("second").host_port(80).build());
    decided(&mut world);
    world.settle();
    assert_eq!(world.bound, []);
    let message = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.";
    assert_eq!(world.message_of("second"), Some(message));
}

/// #3950, #102761
#[test]
fn a_bind_went_to_a_pod_of_the_same_name_that_was_made_since() {
    let mut world = world_of_one();
    world.pod(asks("web", "1"));
    world.run_workers();
    world.delete_pod("uid-web");
    world.pod(pod("web").uid("uid-web-again").request("cpu", "1").build());
    world.settle();
    assert_eq!(world.bound, [("web".to_owned(), "n".to_owned())], "only the pod that exists is bound");
    assert_eq!(world.machine.status().binds_in_flight, 0);
}

/// #37232, #31977, #29846
#[test]
fn what_was_assumed_for_a_bind_that_failed_was_never_given_back() {
    let mut world = world_of_one();
    world.pod(asks("web", "1"));
    let binding = decided(&mut world);
    // An update during its bind does not queue it again.
    world.tell(Event::PodApplied(pod("web").request("cpu", "1").label("seen", "again").build().into()));
    assert_eq!(waiting(&world), [0; 4]);
    fail(&mut world, &binding, error());
    assert_eq!((world.machine.status().binds_in_flight, waiting(&world)), (0, [0, 1, 0, 0]));
    world.pod(asks("other", "1"));
    world.settle();
    assert_eq!(world.place_of("other"), Some("n"));
}

/// #46347, #50916: the scheduler exited because its cache was corrupted.
#[test]
fn the_watch_told_of_a_pod_in_another_order_than_expected() {
    let placed = || Event::PodApplied(pod("web").request("cpu", "1").on("n").build().into());
    let gone = || Event::PodDeleted { uid: "uid-web".into() };
    let answered = || Event::Bound { uid: "uid-web".into() };
    let orders: [Vec<Event>; 5] = [
        vec![placed(), answered(), placed(), gone(), gone()],
        vec![gone(), answered(), placed(), gone()],
        vec![gone(), placed(), answered(), gone()],
        vec![placed(), gone(), answered()],
        vec![answered(), answered(), gone(), placed(), placed(), gone()],
    ];
    for (number, order) in orders.into_iter().enumerate() {
        let mut world = world_of_one();
        world.pod(asks("web", "1"));
        decided(&mut world);
        order.into_iter().for_each(|event| world.tell(event));
        world.pod(asks("next", "1"));
        world.settle();
        assert_eq!(world.place_of("next"), Some("n"), "order {number}");
    }
}

/// #42063, #56682
#[test]
fn a_pod_recreated_under_its_name_was_never_scheduled() {
    let mut world = World::new(1);
    world.node(node("n").capacity("cpu", "2").build());
    world.pod(asks("web", "1"));
    let binding = decided(&mut world);
    // The watch shows the new one first.
    world.pod(pod("web").uid("again").request("cpu", "1").build());
    world.delete_pod("uid-web");
    fail(&mut world, &binding, BindFailure::Gone);
    world.settle();
    assert_eq!(world.bound.len(), 1);
    assert_eq!(world.api["again"].node_name.as_deref(), Some("n"));
}

/// #63356, #86626, #73845
#[test]
fn old_events_were_told_again_and_rolled_the_cache_back() {
    let mut world = world_of_one();
    world.pod(asks("web", "1"));
    world.settle();
    world.tell(Event::PodApplied(asks("web", "1").into()));
    world.pod(asks("other", "1"));
    world.settle();
    assert_eq!(world.bound.len(), 1, "the pod is where it was, and is not scheduled again");
    assert_eq!(world.message_of("other"), Some("0/1 nodes are available: 1 Insufficient cpu."));
}

/// #106361
#[test]
fn an_assumed_pod_expired_while_its_bind_was_slow_and_its_node_was_given_away() {
    let mut world = world_of_one();
    world.pod(asks("slow", "1"));
    let binding = decided(&mut world);
    world.pod(asks("quick", "1"));
    world.now_ms += 3_600_000;
    world.tell(Event::Tick);
    world.settle();
    assert_eq!(world.bound, []);
    world.binds.push_back(binding);
    world.settle();
    assert_eq!(world.bound, [("slow".to_owned(), "n".to_owned())]);
}

/// #49314, PR 49661, PR 50106
#[test]
fn an_error_left_a_pod_in_no_queue() {
    let mut world = world_of_one();
    world.pod(asks("web", "1"));
    for failures in 1..5 {
        let binding = decided(&mut world);
        fail(&mut world, &binding, error());
        assert_eq!(waiting(&world), [0, 1, 0, 0], "failure {failures}");
        world.advance_lazily(11_000);
    }
    world.settle();
    assert_eq!(world.place_of("web"), Some("n"));
}

/// #96071
#[test]
fn the_same_update_told_twice_queued_a_pod_twice() {
    let mut world = world_of_one();
    for _ in 0..3 {
        world.tell(Event::PodApplied(asks("web", "1").into()));
    }
    assert_eq!(waiting(&world), [1, 0, 0, 0]);
    world.api.insert("uid-web".into(), asks("web", "1"));
    world.settle();
    assert_eq!((world.bound.len(), world.machine.status().decisions), (1, 1));
}

/// #118226, PR 127016
#[test]
fn a_pod_that_changed_while_it_was_tried_was_tried_twice_at_once() {
    let mut world = world_of_one();
    world.pod(asks("web", "1"));
    let (worker, words) = world.intercept();
    world.pod(pod("web").request("cpu", "1").label("changed", "yes").build());
    words.into_iter().for_each(|word| world.tell(Event::FromWorker { worker, word }));
    world.settle();
    assert_eq!(world.bound.len(), 1);
    assert_eq!((waiting(&world), world.machine.status().decisions), ([0; 4], 1));
}

/// #138316
#[test]
fn a_pod_recreated_while_it_was_tried_left_something_in_flight_forever() {
    let mut world = world_of_one();
    let before = queue(&world).len();
    for round in 0..20 {
        world.pod(pod("web").uid(&format!("uid-{round}")).request("cpu", "2").build());
        let (worker, words) = world.intercept();
        world.delete_pod(&format!("uid-{round}"));
        words.into_iter().for_each(|word| world.tell(Event::FromWorker { worker, word }));
    }
    world.settle();
    assert_eq!(waiting(&world), [0; 4]);
    let grown = queue(&world).len() - before;
    assert!(grown < 400, "{grown} characters more: {}", queue(&world));
}

/// #120622: a few slow pods kept 63,000 events.
#[test]
fn events_piled_up_while_binds_were_slow() {
    let mut world = World::new(1);
    world.node(node("n").capacity("cpu", "2").build());
    world.pod(asks("slow", "1"));
    world.pod(asks("waits", "4"));
    decided(&mut world);
    world.run_workers();
    let mut flap = |times: usize| {
        for round in 0..times {
            let taint = ["a", "b"][round % 2];
            world.tell(Event::NodeApplied(node("m").taint(taint, "", "NoSchedule").build().into()));
        }
        queue(&world).len()
    };
    let (few, many) = (flap(10), flap(1_000));
    assert!(many < few + 100, "{few} characters, and then {many}");
}

/// #129967
#[test]
fn events_piled_up_while_a_pod_waited_for_its_volumes() {
    let mut world = World::with_volumes(1);
    world.node(node("n1").capacity("cpu", "2").build());
    world.store_claim(storage::claim("data", "made"));
    world.pod(storage::with_claims(pod("slow"), &["data"]).build());
    world.settle();
    let mut flap = |times: usize| {
        for round in 0..times {
            let taint = ["a", "b"][round % 2];
            world.tell(Event::NodeApplied(node("m").taint(taint, "", "NoSchedule").build().into()));
        }
        queue(&world).len()
    };
    let (few, many) = (flap(10), flap(1_000));
    assert!(many < few + 100, "{few} characters, and then {many}");
}

/// #72122, PR 72558
#[test]
fn what_would_have_helped_happened_while_the_pod_was_tried() {
    let mut world = world_of_one();
    world.pod(asks("big", "2"));
    let (worker, words) = world.intercept();
    world.node(node("large").capacity("cpu", "2").build());
    words.into_iter().for_each(|word| world.tell(Event::FromWorker { worker, word }));
    world.settle();
    assert_eq!(world.place_of("big"), Some("large"));
    assert_eq!(world.machine.status().flushed, 0);
}

/// #102790
#[test]
fn a_pod_whose_first_event_was_missed_was_never_scheduled() {
    let mut world = world_of_one();
    let mut updated = asks("web", "1");
    updated.generation = 7;
    world.pod(updated);
    world.settle();
    assert_eq!(world.place_of("web"), Some("n"), "any word of a pod is as good as the first");
}

/// #104521
#[test]
fn a_pod_was_seen_before_what_it_needed_and_waited_forever() {
    let mut world = World::new(1);
    world.pod(pod("web").request("cpu", "1").node_selector("zone", "a").build());
    world.settle();
    world.node(node("n").label("zone", "b").build());
    world.settle();
    world.node(node("n").label("zone", "a").build());
    world.advance(11_000);
    assert_eq!(world.place_of("web"), Some("n"));
    assert_eq!(world.machine.status().flushed, 0);
}

/// PR 115796
#[test]
fn an_event_that_helps_no_pod_sent_the_pod_that_was_tried_into_backoff() {
    let mut world = world_of_one();
    world.pod(asks("big", "2"));
    let (worker, words) = world.intercept();
    world.node(node("small").capacity("cpu", "1").build());
    words.into_iter().for_each(|word| world.tell(Event::FromWorker { worker, word }));
    world.settle();
    assert_eq!(waiting(&world), [0, 0, 1, 0]);
}

/// PR 119784
#[test]
fn the_only_pod_of_a_cluster_came_back_without_a_wake_up() {
    let mut world = world_of_one();
    world.pod(asks("web", "1"));
    let binding = decided(&mut world);
    fail(&mut world, &binding, error());
    let wakeup = world.machine.next_wakeup().expect("it is to be woken");
    assert_eq!(wakeup, 2_000);
    world.advance(2_000);
    assert_eq!(world.place_of("web"), Some("n"));
}

/// PR 120334
#[test]
fn a_pod_that_failed_waited_for_the_plugin_that_had_refused_it_before() {
    let mut world = World::new(1);
    world.node(node("n").taint("t", "", "NoSchedule").build());
    world.pod(pod("web").build());
    world.settle();
    world.node(node("n").build());
    world.tell(Event::Tick);
    let binding = decided(&mut world);
    fail(&mut world, &binding, error());
    assert_eq!(waiting(&world), [0, 1, 0, 0]);
    world.advance(11_000);
    assert_eq!(world.place_of("web"), Some("n"), "time alone brings it back");
}

/// #122019
#[test]
fn who_was_refused_from_afar_was_not_told_of_events() {
    let mut world = World::new(3);
    for name in ["a", "b", "c", "d"] {
        world.node(node(name).capacity("cpu", "1").build());
    }
    world.pod(asks("big", "2"));
    world.settle();
    let refused = world.machine.census().unschedulable;
    let refused: Vec<_> = refused.iter().map(|((profile, plugin), pods)| (&**profile, *plugin, *pods)).collect();
    assert_eq!(refused, [("default-scheduler", "NodeResourcesFit", 1)]);
    world.node(node("c").capacity("cpu", "2").build());
    world.settle();
    assert_eq!(world.place_of("big"), Some("c"));
}

/// #94437, #56261
#[test]
fn a_node_whose_deletion_was_missed_was_chosen_forever() {
    let mut world = World::new(2);
    world.node(node("n").taint("t", "", "NoSchedule").build());
    world.pod(pod("web").build());
    world.settle();
    let mut again = node("n").build();
    again.uid = "another".into();
    world.node(again);
    world.advance(1_000);
    assert_eq!(world.place_of("web"), Some("n"), "another UID is another node");
}

/// #55587, #51313
#[test]
fn a_pod_whose_end_was_missed_took_room_until_the_restart() {
    let mut world = world_of_one();
    world.pod(asks("db-0", "1"));
    world.settle();
    world.pod(pod("db-0").uid("again").request("cpu", "1").build());
    world.settle();
    assert_eq!(world.message_of("db-0"), Some("0/1 nodes are available: 1 Insufficient cpu."));
    // A relist shows that the old one is deleted.
    world.delete_pod("uid-db-0");
    world.advance(11_000);
    assert_eq!(world.api["again"].node_name.as_deref(), Some("n"));
}

/// #43806
#[test]
fn a_pod_of_a_namespace_and_a_node_that_are_gone_stopped_the_scheduler() {
    let mut world = world_of_one();
    world.pod(pod("orphan").namespace("gone").request("cpu", "1").on("vanished").build());
    world.tell(Event::NamespaceDeleted { name: "gone".into() });
    world.tell(Event::NodeDeleted { name: "vanished".into() });
    world.pod(asks("web", "1"));
    world.settle();
    assert_eq!(world.place_of("web"), Some("n"));
}

/// #63262
#[test]
fn a_node_that_came_back_under_its_name_was_taken_for_what_it_had_been() {
    let mut world = World::new(2);
    world.pod(pod("early").request("cpu", "4").on("n").build());
    world.node(node("n").build());
    world.pod(asks("late", "1"));
    world.settle();
    assert_eq!(world.message_of("late"), Some("0/1 nodes are available: 1 Insufficient cpu."));
    world.tell(Event::NodeDeleted { name: "n".into() });
    world.node(node("n").build());
    world.advance(11_000);
    assert_eq!(world.place_of("late"), None, "the pod still runs there after the node came back");
    world.tell(Event::NodeDeleted { name: "n".into() });
    world.node(node("n").capacity("cpu", "5").build());
    world.advance(11_000);
    assert_eq!(world.place_of("late"), Some("n"));
}

/// PR 93938, #95124, PR 95130
#[test]
fn a_node_went_before_its_pods_and_they_were_lost() {
    let mut world = world_of_one();
    world.pod(asks("web", "1"));
    world.settle();
    world.tell(Event::NodeDeleted { name: "n".into() });
    world.node(node("n").capacity("cpu", "1").build());
    world.pod(asks("next", "1"));
    world.settle();
    assert_eq!(world.place_of("next"), None);
    world.delete_pod("uid-web");
    world.advance(11_000);
    assert_eq!(world.place_of("next"), Some("n"));
}

/// #89552, #31968
#[test]
fn a_node_that_went_in_the_middle_of_something_crashed_the_scheduler() {
    let gone = || Event::NodeDeleted { name: "n".into() };
    let mut world = world_of_one();
    world.pod(asks("asked", "1"));
    let (worker, words) = world.intercept();
    world.tell(gone());
    words.into_iter().for_each(|word| world.tell(Event::FromWorker { worker, word }));
    world.settle();
    assert_eq!(world.bound, []);
    world.node(node("n").capacity("cpu", "1").build());
    world.advance_lazily(11_000);
    let binding = decided(&mut world);
    world.tell(gone());
    fail(&mut world, &binding, error());
    world.node(node("m").capacity("cpu", "1").build());
    world.advance(11_000);
    assert_eq!(world.place_of("asked"), Some("m"));
}

/// #71486, #86373, #81214, #129806
#[test]
fn pods_of_high_priority_that_fit_nowhere_kept_all_others_from_being_tried() {
    let mut world = World::new(2);
    world.node(node("n").capacity("cpu", "64").capacity("pods", "200").build());
    for index in 0..40 {
        world.pod(pod(&format!("unresolvable{index}")).priority(100).request("cpu", "99").build());
    }
    world.settle();
    let before = world.machine.status().decisions;
    for index in 0..30 {
        world.pod(pod(&format!("web{index}")).request("cpu", "1").build());
        world.pod(pod(&format!("leaves{index}")).request("cpu", "1").build());
        world.settle();
        // Every deleted pod may make room for the others.
        world.delete_pod(&format!("uid-leaves{index}"));
        world.now_ms += 100;
    }
    world.settle();
    let placed = world.bound.iter().filter(|(name, _)| name.starts_with("web")).count();
    let attempts = world.machine.status().decisions - before;
    assert_eq!(placed, 30);
    assert!(attempts <= 60 + 2 * 30, "{attempts} attempts for 60 pods that fit and 30 events");
}

/// #96579, #122494, #60616
#[test]
fn a_bind_that_timed_out_had_been_carried_out_and_was_tried_again_forever() {
    let mut world = world_of_one();
    world.pod(asks("web", "1"));
    let binding = decided(&mut world);
    world.tell(Event::PodApplied(pod("web").request("cpu", "1").on("n").build().into()));
    fail(&mut world, &binding, BindFailure::Error("timeout".to_owned()));
    world.advance(60_000);
    assert_eq!((world.binds.len(), waiting(&world), world.reports.len()), (0, [0; 4], 0));
}

/// #141328
#[test]
fn requests_that_wrapped_made_a_full_node_look_empty() {
    let mut world = World::new(1);
    world.node(node("n").capacity("cpu", "4").capacity("memory", "8Gi").build());
    for index in 0..3 {
        world.pod(pod(&format!("huge{index}")).request("memory", "9223372036854775807").on("n").build());
    }
    world.pod(pod("web").request("memory", "1Gi").build());
    world.settle();
    assert_eq!(world.message_of("web"), Some("0/1 nodes are available: 1 Insufficient memory."));
}

/// aws/karpenter#984
#[test]
fn another_scheduler_bound_the_pod_and_it_counted_on_the_wrong_node() {
    let mut world = World::new(1);
    world.node(node("n").build());
    world.node(node("m").build());
    world.pod(pod("web").build());
    world.run_workers();
    let chosen = world.binds[0].node.to_string();
    let other = if chosen == "n" { "m" } else { "n" };
    let taken = pod("web").on(other).build();
    world.api.insert("uid-web".into(), taken.clone());
    world.settle();
    world.tell(Event::PodApplied(taken.into()));
    world.settle();
    assert_eq!(world.bound, []);
    assert_eq!((world.machine.status().bind_failures, waiting(&world)), (1, [0; 4]));
}

/// #108667, #108665
#[test]
fn a_pod_that_had_a_node_already_was_scheduled_again() {
    let mut world = world_of_one();
    world.pod(asks("big", "2"));
    world.settle();
    assert_eq!(waiting(&world), [0, 0, 1, 0]);
    world.tell(Event::PodApplied(pod("big").request("cpu", "2").on("elsewhere").build().into()));
    world.node(node("large").capacity("cpu", "2").build());
    world.advance(60_000);
    assert_eq!((world.bound.len(), waiting(&world)), (0, [0; 4]));
}

/// #134859
#[test]
fn another_scheduler_bound_the_pod_and_the_room_that_it_left_woke_no_pod() {
    let mut world = world_of_one();
    world.node(node("m").capacity("cpu", "1").taint("theirs", "", "NoSchedule").build());
    world.pod(asks("web", "1"));
    decided(&mut world);
    world.pod(asks("waits", "1"));
    world.run_workers();
    world.run_workers();
    assert_eq!(world.reports.first().map(|report| report.reason), Some(Reason::Unschedulable));
    world.tell(Event::PodApplied(pod("web").request("cpu", "1").on("m").build().into()));
    world.settle();
    assert_eq!(world.place_of("waits"), Some("n"));
    assert_eq!(world.machine.status().flushed, 0);
}

/// PR 139450: a pod that returned to its group during an attempt was lost.
#[test]
fn a_pod_of_a_group_came_back_while_the_group_was_tried_and_was_lost() {
    for comes_before_the_answer in [true, false] {
        let mut world = World::new(1);
        world.tell(Event::Configured(Arc::new(groups::configuration(2))));
        world.node(node("n").capacity("cpu", "8").build());
        world.settle();
        world.tell(Event::PodGroupApplied(Arc::new(pod_group("g", None))));
        world.pod(pod("first").request("cpu", "1").group("g").build());
        let binding = decided(&mut world);
        // Its group is at the head of the queue again, for another pod, and a request is in flight.
        world.pod(pod("second").request("cpu", "2").group("g").build());
        let (worker, words) = world.intercept();
        assert!(!words.is_empty(), "they have something to say");
        let answer = |world: &mut World| {
            words.iter().cloned().for_each(|word| world.tell(Event::FromWorker { worker, word }));
        };
        if comes_before_the_answer {
            fail(&mut world, &binding, error());
            answer(&mut world);
        } else {
            answer(&mut world);
            fail(&mut world, &binding, error());
        }
        world.settle();
        world.advance(20_000);
        assert_eq!((world.place_of("first"), world.place_of("second")), (Some("n"), Some("n")));
        assert_eq!((world.machine.status().flushed, waiting(&world)), (0, [0; 4]));
    }
}

/// A node of one CPU, and a pod `low` that waits for its volume before its bind there.
fn world_of_one_that_waits_for_its_volume() -> World {
    let mut world = World::with_volumes(1);
    let mut profile = storage::profile();
    profile.plugins.post_filter = preempting().plugins.post_filter;
    profile.plugins.pre_enqueue.push("DefaultPreemption".to_owned());
    world.tell(Event::Configured(Arc::new(Configuration::new(2, vec![profile]))));
    world.node(node("n").capacity("cpu", "1").build());
    world.store_claim(storage::claim("data", "made"));
    let low = storage::with_claims(pod("low").request("cpu", "1").request("memory", "1Mi").priority(1), &["data"]);
    world.pod(low.build());
    for _ in 0..5 {
        world.run_workers();
    }
    assert_eq!((world.machine.status().preparations, world.bound.len()), (1, 0), "nothing is written yet");
    world
}

/// #134217, #140082: no pod is deleted, so no watch event follows.
#[test]
fn a_victim_was_not_bound_yet_and_its_preemptor_waited_for_its_end_forever() {
    let mut world = world_of_one_that_waits_for_its_volume();
    world.pod(pod("high").request("cpu", "1").request("memory", "1Mi").priority(10).build());
    for _ in 0..5 {
        world.run_workers();
    }
    let preemption = world.preemptions.front().expect("a preemption");
    let named = |victims: &[flotilla_machine::action::Victim]| -> Vec<String> {
        victims.iter().map(|victim| victim.pod.name.to_string()).collect()
    };
    assert_eq!((named(&preemption.victims), named(&preemption.in_memory)), (vec![], vec!["low".to_owned()]));
    world.settle();
    world.advance(10_000);
    assert_eq!((world.place_of("high"), world.place_of("low")), (Some("n"), None));
    assert!(world.api.contains_key("uid-low"), "it is not deleted");
    assert_eq!((world.machine.status().flushed, world.evicted.len()), (0, 1));
    world.delete_pod("uid-high");
    world.advance(20_000);
    assert_eq!(world.machine.status().preparations, 1, "and it has its turn again");
}

/// #134217: the answer to the victim's writes arrives after its deletion.
#[test]
fn a_victim_that_was_taken_back_was_bound_after_all() {
    let mut world = world_of_one_that_waits_for_its_volume();
    world.pod(pod("high").request("cpu", "1").request("memory", "1Mi").priority(10).build());
    for _ in 0..5 {
        world.run_workers();
    }
    // The watch shows the claim bound when no pod waits for it.
    world.settle();
    world.advance(60_000);
    assert_eq!((world.place_of("high"), world.bound.len()), (Some("n"), 1), "{:?}", world.bound);
    assert_eq!(world.machine.status().preparations, 0);
}

/// PR 139904, #138267
#[test]
fn a_nomination_that_was_taken_back_stayed_under_a_node_without_a_name() {
    let mut world = World::with_workers(1, preempting());
    world.node(node("n").build());
    let asks = |name: &str| pod(name).request("cpu", "4").request("memory", "1Mi");
    world.pod(asks("standing").priority(100).on("n").build());
    let waits = asks("waits").priority(10).never_preempts();
    for nominated in ["n", "", "n", ""] {
        world.pod(waits.clone().nominated(nominated).build());
        world.settle();
    }
    world.delete_pod("uid-waits");
    world.delete_pod("uid-standing");
    world.pod(asks("low").priority(1).build());
    world.settle();
    assert_eq!(world.place_of("low"), Some("n"));
}

/// PR 139057
#[test]
fn the_node_of_a_nominated_pod_was_given_away_while_a_gate_kept_the_pod_out() {
    let mut world = World::with_workers(1, preempting());
    world.node(node("n").build());
    let asks = |name: &str| pod(name).request("cpu", "3").request("memory", "1Mi").never_preempts();
    let gated = asks("first").priority(10).nominated("n").gate("wait");
    world.pod(gated.build());
    world.pod(asks("second").priority(10).build());
    world.settle();
    assert_eq!((world.place_of("second"), waiting(&world)[3]), (None, 1));
    world.pod(asks("first").priority(10).nominated("n").build());
    world.settle();
    assert_eq!(world.place_of("first"), Some("n"));
}

/// #138482, #135981
#[test]
fn pods_that_were_gone_were_counted_as_waiting_for_a_plugin_forever() {
    let counted = |world: &World| -> u64 { world.machine.census().unschedulable.values().sum() };
    let gone: [(&str, Happening); 4] = [
        ("deleted", |world| world.delete_pod("uid-web")),
        ("bound by another scheduler", |world| world.pod(pod("web").request("cpu", "2").on("m").build())),
        ("another scheduler's", |world| world.pod(pod("web").request("cpu", "2").scheduler("other").build())),
        ("made anew, and small enough", |world| {
            world.delete_pod("uid-web");
            world.pod(pod("web").uid("uid-new").request("cpu", "1").build());
        }),
    ];
    for (case, go) in gone {
        let mut world = world_of_one();
        world.pod(asks("web", "2"));
        world.settle();
        assert_eq!(counted(&world), 1, "{case}");
        go(&mut world);
        world.settle();
        assert_eq!((counted(&world), waiting(&world)), (0, [0; 4]), "{case}");
    }
}

/// A restored backup of etcd reverts bindings.
#[test]
fn a_pod_whose_binding_a_restored_backup_took_back_waited_until_the_scheduler_was_restarted() {
    let mut world = World::new(1);
    world.node(node("n").capacity("cpu", "10").build());
    // The pods: one confirmed on its node, one bound but not shown, one with a bind in flight, and one that another scheduler has bound.
    world.pod(asks("placed", "1"));
    world.settle();
    let assumed = {
        world.pod(asks("assumed", "1"));
        decided(&mut world)
    };
    world.tell(Event::Bound { uid: assumed.uid });
    let elsewhere = {
        world.pod(asks("elsewhere", "1"));
        decided(&mut world)
    };
    fail(&mut world, &elsewhere, BindFailure::Elsewhere);
    world.pod(asks("binding", "1"));
    let binding = decided(&mut world);
    let tell_all = |world: &mut World| {
        for name in ["placed", "assumed", "elsewhere", "binding"] {
            world.tell(Event::PodApplied(asks(name, "1").into()));
        }
    };
    let binds = |world: &World| world.binds.iter().map(|bind| bind.name.to_string()).collect::<Vec<_>>();
    tell_all(&mut world);
    world.run_workers();
    assert_eq!(binds(&world), <[&str; 0]>::default(), "what a watch that lags behind tells of their places is old");
    world.tell(Event::WentBack);
    tell_all(&mut world);
    world.run_workers();
    let mut again = binds(&world);
    again.sort();
    assert_eq!(again, ["assumed", "elsewhere", "placed"], "and what becomes of a bind under way its answer says");
    tell_all(&mut world);
    world.tell(Event::Bound { uid: binding.uid });
    world.run_workers();
    assert_eq!(world.binds.len(), 3, "believed once");
}

/// The machine identifies a bind by its pod: with two at once, the failure of the first would free the resources of the second.
#[test]
fn a_pod_whose_bind_is_under_way_is_not_bound_a_second_time_when_the_cluster_goes_back() {
    let on_its_node = PodInfo { node_name: Some(Arc::from("n")), ..asks("web", "1") };
    let gone = Event::PodDeleted { uid: Arc::clone(&on_its_node.uid) };
    for (shown, keeps_its_room) in [(Event::PodApplied(on_its_node.into()), true), (gone, false)] {
        let mut world = world_of_one();
        world.pod(asks("web", "1"));
        let binding = decided(&mut world);
        world.tell(shown);
        world.tell(Event::WentBack);
        world.tell(Event::PodApplied(asks("web", "1").into()));
        if keeps_its_room {
            world.pod(asks("other", "1"));
        }
        world.advance(20_000);
        assert_eq!((world.binds.len(), world.bound.len()), (0, 0), "{:?}", world.bound);
        if keeps_its_room {
            world.delete_pod("uid-other");
        }
        fail(&mut world, &binding, error());
        world.advance(20_000);
        assert_eq!(world.place_of("web"), Some("n"), "it is tried again");
    }
}

#[test]
fn a_list_of_all_pods_takes_nothing_back_that_was_decided_or_answered_after_it_was_announced() {
    let mut world = World::new(1);
    world.node(node("n").capacity("cpu", "10").build());
    world.pod(asks("binding", "1"));
    let binding = decided(&mut world);
    world.tell(Event::PodsRelisted);
    world.tell(Event::Bound { uid: binding.uid });
    world.pod(asks("later", "1"));
    let later = decided(&mut world);
    world.tell(Event::Bound { uid: later.uid });
    for name in ["binding", "later"] {
        world.tell(Event::PodApplied(asks(name, "1").into()));
    }
    world.run_workers();
    assert!(world.binds.is_empty(), "the list may be older than both binds: {:?}", world.binds);
    world.tell(Event::PodsRelisted);
    world.tell(Event::PodApplied(asks("later", "1").into()));
    world.run_workers();
    assert_eq!(&*decided(&mut world).name, "later", "this list is not");
}
