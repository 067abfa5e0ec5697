//! Pods from arrival to bind.

use flotilla_framework::testing::{self, node, pod};
use flotilla_machine::{
    action::Reason,
    event::{BindFailure, Event},
};

use crate::world::World;

#[test]
fn a_pod_that_fits_lands_on_the_emptiest_node() {
    let mut world = World::new(2);
    world.node(node("small").capacity("cpu", "1").build());
    world.node(node("large").capacity("cpu", "8").build());
    world.pod(pod("web").request("cpu", "500m").request("memory", "1Gi").build());
    world.settle();
    assert_eq!(world.place_of("web"), Some("large"));
    assert_eq!(world.machine.status().placed, 1);
}

#[test]
fn pods_share_nodes_with_equal_totals() {
    for workers in [0, 1, 3] {
        let mut world = World::new(workers);
        for name in ["a", "b", "c"] {
            // The default requests of one pod exceed the node, so that all scores are equal with any number of pods.
            world.node(node(name).capacity("cpu", "50m").capacity("memory", "100Mi").build());
        }
        for index in 0..30 {
            // A class per pod, and one class for all.
            let one = pod(&format!("p{index}")).label("app", "web");
            world.pod(if index % 2 == 0 { one.far("zone", ("app", &format!("db-{index}"))) } else { one }.build());
        }
        // Without workers the coordinator waits for the grace period.
        world.advance(2_000);
        let on = |name: &str| world.bound.iter().filter(|(pod, _)| world.place_of(pod) == Some(name)).count();
        assert_eq!(["a", "b", "c"].map(on), [10, 10, 10], "{workers} workers");
    }
}

#[test]
fn pods_go_by_priority_and_then_by_age() {
    let mut world = World::dormant(vec![testing::profile()]);
    world.node(node("n").build());
    for (name, priority) in [("old", 0), ("young", 0), ("urgent", 100)] {
        world.pod(pod(name).priority(priority).build());
        world.now_ms += 1;
    }
    world.tell(Event::Synced);
    world.tell(Event::Leading { epoch: 1 });
    world.join("w");
    world.settle();
    let order: Vec<&str> = world.bound.iter().map(|(pod, _)| pod.as_str()).collect();
    assert_eq!(order, ["urgent", "old", "young"]);
}

#[test]
fn a_pod_that_no_node_takes_is_told_why_in_upstreams_words() {
    let mut world = World::new(2);
    for index in 0..3 {
        world.node(node(&format!("tainted-{index}")).taint("gpu", "", "NoSchedule").build());
    }
    for index in 0..2 {
        world.node(node(&format!("small-{index}")).capacity("cpu", "1").build());
    }
    world.pod(pod("big").request("cpu", "2").build());
    world.settle();
    let report = &world.reports[0];
    assert_eq!(report.message, "0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s).");
    assert_eq!(report.reason, Reason::Unschedulable);
    assert!(report.write_condition);
}

#[test]
fn the_same_condition_is_not_written_twice() {
    let mut world = World::new(1);
    world.node(node("n").capacity("cpu", "1").build());
    world.pod(pod("big").request("cpu", "2").build());
    world.settle();
    world.node(node("m").capacity("cpu", "1").build());
    world.node(node("m").capacity("cpu", "2").taint("t", "", "NoSchedule").build());
    world.advance(20_000);
    world.advance(300_000);
    let written: Vec<(&str, bool)> =
        world.reports.iter().map(|report| (report.message.as_str(), report.write_condition)).collect();
    assert_eq!(written[0], ("0/1 nodes are available: 1 Insufficient cpu.", true));
    let again = written.iter().filter(|(_, write)| *write).map(|(message, _)| *message);
    let mut distinct: Vec<&str> = again.clone().collect();
    distinct.dedup();
    assert_eq!(distinct.len(), again.count());
    assert!(written.len() > 1, "the pod was never tried again");
}

#[test]
fn a_node_that_is_added_wakes_the_pods_that_it_can_help_and_no_others() {
    let mut world = World::new(1);
    world.node(node("n").capacity("cpu", "1").build());
    world.pod(pod("two").request("cpu", "2").build());
    world.pod(pod("nine").request("cpu", "9").build());
    world.settle();
    assert_eq!(world.machine.status().pods_unschedulable, 2);
    world.node(node("m").capacity("cpu", "2").build());
    world.settle();
    let status = world.machine.status();
    assert_eq!((status.placed, status.pods_unschedulable), (1, 1), "a node of 2 CPUs helps only one of them");
    world.settle();
    assert_eq!(world.place_of("two"), Some("m"));
    assert_eq!(world.place_of("nine"), None);
}

#[test]
fn a_pod_that_leaves_makes_room_for_one_that_waits() {
    let mut world = World::new(2);
    world.node(node("n").capacity("cpu", "1").build());
    world.pod(pod("first").request("cpu", "1").build());
    world.settle();
    world.pod(pod("second").request("cpu", "1").build());
    world.settle();
    assert_eq!(world.message_of("second"), Some("0/1 nodes are available: 1 Insufficient cpu."));
    world.delete_pod("uid-first");
    world.advance(1_000);
    assert_eq!(world.place_of("second"), Some("n"));
}

#[test]
fn backoff_doubles_from_one_second_to_ten_and_ends_with_the_second_that_it_expires_in() {
    let mut world = World::new(1);
    world.node(node("n").build());
    world.pod(pod("web").build());
    let mut waits = Vec::new();
    for _ in 0..6 {
        while world.binds.is_empty() {
            let before = world.now_ms;
            let ids: Vec<_> = world.workers.keys().copied().collect();
            if !ids.into_iter().any(|id| world.run_worker(id)) {
                let next = world.machine.next_wakeup().expect("something to wait for");
                world.now_ms = next;
                waits.push(next - before);
                world.tell(Event::Tick);
            }
        }
        let binding = world.binds.pop_front().expect("a bind");
        let failure = BindFailure::Error("the API server is overloaded".to_owned());
        world.tell(Event::BindFailed { uid: binding.uid, failure });
    }
    assert_eq!(waits, [2_000, 3_000, 5_000, 9_000, 11_000]);
    assert_eq!(world.reports.len(), 6);
    assert!(world.reports.iter().all(|report| report.reason == Reason::SchedulerError));
}

#[test]
fn a_gated_pod_waits_for_its_last_gate() {
    let mut world = World::new(1);
    world.node(node("n").build());
    world.pod(pod("web").gate("a").gate("b").build());
    world.settle();
    assert_eq!((world.machine.status().pods_gated, world.bound.len()), (1, 0));
    world.pod(pod("web").gate("b").build());
    world.settle();
    assert_eq!((world.machine.status().pods_gated, world.bound.len()), (1, 0));
    world.pod(pod("web").build());
    world.settle();
    assert_eq!((world.machine.status().pods_gated, world.bound.len()), (0, 1));
}

#[test]
fn pods_of_other_schedulers_are_left_alone_but_count_where_they_run() {
    let mut world = World::new(1);
    world.node(node("n").capacity("cpu", "1").build());
    world.pod(pod("theirs").scheduler("other").request("cpu", "1").build());
    world.settle();
    assert_eq!(world.bound, []);
    world.pod(pod("theirs").scheduler("other").request("cpu", "1").on("n").build());
    world.pod(pod("ours").request("cpu", "1").build());
    world.settle();
    assert_eq!(world.message_of("ours"), Some("0/1 nodes are available: 1 Insufficient cpu."));
}

#[test]
fn without_nodes_a_pod_is_told_so_and_tried_again() {
    let mut world = World::new(1);
    world.pod(pod("web").build());
    world.settle();
    assert_eq!(world.message_of("web"), Some("no nodes available to schedule pods"));
    world.node(node("n").build());
    world.advance(2_000);
    assert_eq!(world.place_of("web"), Some("n"));
}

#[test]
fn a_pod_that_waits_too_long_is_tried_again_without_any_event() {
    let mut world = World::new(1);
    world.node(node("n").capacity("cpu", "1").build());
    world.pod(pod("big").request("cpu", "2").build());
    world.settle();
    world.advance(290_000);
    assert_eq!(world.reports.len(), 1);
    world.advance(60_000);
    assert_eq!(world.reports.len(), 2);
    assert_eq!(world.machine.status().flushed, 1);
}

#[test]
fn two_profiles_judge_the_same_pod_differently() {
    let mut lenient = testing::profile();
    lenient.scheduler_name = "lenient".into();
    lenient.plugins.filter.retain(|name| name != "TaintToleration");
    let mut world = World::with_profiles(vec![testing::profile(), lenient]);
    world.join("a");
    world.join("b");
    world.node(node("n").taint("t", "", "NoSchedule").build());
    world.pod(pod("strict").build());
    world.pod(pod("easy").scheduler("lenient").build());
    world.settle();
    assert_eq!(world.message_of("strict"), Some("0/1 nodes are available: 1 node(s) had untolerated taint(s)."));
    assert_eq!(world.place_of("easy"), Some("n"));
}

#[test]
fn a_preference_that_cannot_be_read_matters_only_where_there_is_a_choice() {
    let mut world = World::new(2);
    world.node(node("only").build());
    world.pod(pod("first").prefer(1, "zone", "Like", &["a"]).build());
    world.settle();
    assert_eq!(world.place_of("first"), Some("only"));
    world.node(node("another").build());
    world.pod(pod("second").prefer(1, "zone", "Like", &["a"]).build());
    world.settle();
    assert_eq!(world.place_of("second"), None);
    assert_eq!(world.reports[0].reason, Reason::SchedulerError);
    assert!(world.reports[0].message.contains("NodeAffinity"), "{}", world.reports[0].message);
}

#[test]
fn a_follower_keeps_up_and_decides_nothing() {
    let mut world = World::dormant(vec![testing::profile()]);
    world.node(node("n").build());
    world.pod(pod("web").build());
    world.tell(Event::Synced);
    world.settle();
    assert_eq!((world.binds.len(), world.machine.status().pods_active), (0, 1));
    world.tell(Event::Leading { epoch: 7 });
    world.join("w");
    world.settle();
    assert_eq!(world.place_of("web"), Some("n"));
}

#[test]
fn no_more_binds_are_under_way_than_the_bound_allows() {
    let mut configuration = flotilla_machine::event::Configuration::new(2, vec![testing::profile()]);
    configuration.max_binds_in_flight = 3;
    let mut world = World::new(2);
    world.tell(Event::Configured(configuration.into()));
    world.node(node("n").build());
    for index in 0..10 {
        world.pod(pod(&format!("p{index}")).build());
    }
    (0..3).for_each(|_| world.run_workers());
    assert_eq!(world.binds.len(), 3);
    world.settle();
    assert_eq!(world.bound.len(), 10);
}
