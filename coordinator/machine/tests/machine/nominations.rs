//! Nominated pods: the reserved capacity, the affected pods, and the end of a nomination.

use flotilla_framework::{
    class::{Class, PodInfo},
    testing::{self, PodBuilder, node, pod},
    volumes::objects::{BindingMode, CsiNode, StorageObject},
};
use flotilla_machine::{
    action::Nomination,
    event::{BindFailure, Event},
};

use crate::{
    storage,
    world::{World, preempting},
};

const ZONE: &str = "topology.kubernetes.io/zone";

const HOST: &str = "kubernetes.io/hostname";

/// A pod that never preempts, so a failed attempt keeps its nomination.
fn asks(name: &str, cpus: &str, priority: i32) -> PodBuilder {
    pod(name).request("cpu", cpus).request("memory", "1Mi").priority(priority).never_preempts()
}

/// A node `n` of 4 CPUs, half of them taken, and a pod `first` of priority 10 nominated to it with 3 CPUs.
fn kept_free(workers: usize) -> World {
    let mut world = World::with_workers(workers, preempting());
    world.node(node("n").build());
    world.pod(asks("standing", "2", 0).on("n").build());
    world.pod(asks("first", "3", 10).nominated("n").build());
    world.settle();
    world
}

fn message<'a>(world: &'a World, pod: &str) -> &'a str {
    world.message_of(pod).expect("a report")
}

#[test]
fn a_node_is_kept_free_from_pods_of_the_same_and_lower_priority() {
    let cases = [("lower", 0, None), ("equal", 10, None), ("higher", 11, Some("n"))];
    for (name, priority, place) in cases {
        let mut world = kept_free(2);
        world.pod(asks(name, "1", priority).build());
        world.settle();
        assert_eq!(world.place_of(name), place, "{name}");
    }
}

#[test]
fn pods_of_one_class_and_different_priorities_are_told_apart_one_after_the_other() {
    let mut world = kept_free(2);
    world.node(node("m").capacity("cpu", "100m").build());
    for (name, priority) in [("a", 0), ("b", 20), ("c", 5), ("d", 20)] {
        world.pod(asks(name, "500m", priority).build());
        world.settle();
    }
    let places: Vec<Option<&str>> = ["a", "b", "c", "d"].iter().map(|name| world.place_of(name)).collect();
    assert_eq!(places, [None, Some("n"), None, Some("n")]);
    assert_eq!(message(&world, "c"), "0/2 nodes are available: 2 Insufficient cpu.");
}

#[test]
fn nodes_that_are_kept_free_stand_in_the_message_with_the_reason_of_the_first_pass() {
    let mut world = kept_free(3);
    world.node(node("tainted").taint("gpu", "", "NoSchedule").build());
    world.node(node("both").taint("gpu", "", "NoSchedule").build());
    world.pod(asks("port", "1", 10).host_port(80).gate("wait").nominated("both").build());
    world.pod(asks("late", "1", 0).host_port(80).build());
    world.settle();
    let expected = "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s).";
    assert_eq!(message(&world, "late"), expected);
    world.pod(
        asks("tolerant", "1", 0).host_port(80).tolerate("gpu", "Exists", "", "").require(HOST, "In", &["both"]).build(),
    );
    world.settle();
    let expected = "0/3 nodes are available: 1 node(s) didn't have free ports for the requested pod ports, 2 node(s) \
                    didn't match Pod's node affinity/selector.";
    assert_eq!(message(&world, "tolerant"), expected, "gated pods keep their node free too");
}

#[test]
fn the_node_that_a_pod_is_nominated_to_is_tried_first() {
    let cases = [
        ("it fits", "small", "1", Some("small")),
        ("it does not fit", "small", "3", Some("large")),
        ("there is no such node", "gone", "1", Some("large")),
        ("nothing fits", "small", "9", None),
    ];
    for (what, nominated, cpus, place) in cases {
        let mut world = World::with_workers(2, preempting());
        world.node(node("small").capacity("cpu", "2").build());
        world.node(node("large").capacity("cpu", "8").build());
        world.pod(asks("p", cpus, 0).nominated(nominated).build());
        world.settle();
        assert_eq!(world.place_of("p"), place, "{what}");
    }
}

#[test]
fn a_pod_gives_way_on_its_own_nominated_node_too() {
    let mut world = kept_free(1);
    world.node(node("m").capacity("cpu", "1").build());
    world.pod(asks("second", "1", 10).nominated("n").build());
    world.settle();
    assert_eq!((world.place_of("first"), world.place_of("second")), (None, Some("m")));
}

#[test]
fn a_nomination_reserves_its_node_once_the_node_exists() {
    for was_deleted in [false, true] {
        let mut world = World::with_workers(2, preempting());
        if was_deleted {
            world.node(node("n").build());
        }
        world.pod(asks("first", "3", 10).gate("wait").nominated("n").build());
        world.settle();
        if was_deleted {
            world.tell(Event::NodeDeleted { name: "n".into() });
        }
        world.node(node("n").build());
        world.pod(asks("lower", "2", 0).build());
        world.settle();
        assert_eq!(world.place_of("lower"), None, "deleted before: {was_deleted}");
    }
}

fn end(world: &mut World, how: &str) {
    let first = world.api["uid-first"].clone();
    match how {
        "it is deleted" => world.delete_pod("uid-first"),
        "it is not nominated any more" => world.pod(PodInfo { nominated_node_name: None, ..first }),
        "it is nominated elsewhere" => world.pod(PodInfo { nominated_node_name: Some("m".into()), ..first }),
        "it is being deleted" => world.pod(PodInfo { deleting: true, ..first }),
        "another scheduler binds it elsewhere" => world.pod(PodInfo { node_name: Some("m".into()), ..first }),
        _ => unreachable!("{how}"),
    }
    world.settle();
    world.advance(1_000);
}

#[test]
fn a_pod_that_gave_way_is_woken_when_the_nomination_ends() {
    let ends = [
        "it is deleted",
        "it is not nominated any more",
        "it is nominated elsewhere",
        "it is being deleted",
        "another scheduler binds it elsewhere",
    ];
    for how in ends {
        let mut world = kept_free(2);
        world.node(node("m").capacity("cpu", "100m").build());
        world.pod(asks("late", "1", 0).build());
        world.pod(asks("higher", "3", 20).build());
        world.settle();
        let tried = world.reports.iter().filter(|report| &*report.name == "higher").count();
        end(&mut world, how);
        assert_eq!(world.place_of("late"), Some("n"), "{how}");
        let again = world.reports.iter().filter(|report| &*report.name == "higher").count();
        assert_eq!(tried, again, "{how}: a pod of a higher priority had not given way");
    }
}

#[test]
fn a_nominated_pod_that_lands_keeps_no_node_free_any_more() {
    let mut world = kept_free(1);
    world.pod(asks("late", "1", 0).build());
    world.settle();
    assert_eq!(world.place_of("late"), None);
    world.node(node("m").capacity("cpu", "3").build());
    world.advance(1_000);
    assert_eq!((world.place_of("first"), world.place_of("late")), (Some("m"), Some("n")));
}

#[test]
fn a_bind_that_fails_takes_the_nomination_back() {
    let mut world = World::with_workers(1, preempting());
    world.node(node("n").capacity("cpu", "1").build());
    world.pod(asks("first", "1", 10).nominated("n").build());
    world.run_workers();
    let binding = world.binds.pop_front().expect("a bind");
    world.pod(asks("late", "1", 0).build());
    world.settle();
    assert_eq!(world.bound, []);
    world.advance(5_000);
    world.tell(Event::BindFailed { uid: binding.uid, failure: BindFailure::Error("try again".to_owned()) });
    world.settle();
    assert_eq!(world.api["uid-first"].nominated_node_name, None);
    world.advance(10_000);
    assert_eq!((world.place_of("first"), world.place_of("late")), (None, Some("n")), "`first` was backing off");
}

#[test]
fn an_attempt_that_fails_takes_the_nomination_back_unless_preemption_says_otherwise() {
    let cases = [("preemption does not help", preempting(), false), ("no pod preempts", testing::profile(), false)];
    for (what, profile, stays) in cases {
        let mut world = World::with_workers(1, profile);
        world.node(node("n").capacity("cpu", "1").build());
        world.pod(pod("first").request("cpu", "2").priority(10).nominated("n").build());
        world.settle();
        assert_eq!(world.api["uid-first"].nominated_node_name.is_some(), stays, "{what}");
        world.pod(asks("late", "1", 0).build());
        world.settle();
        assert_eq!(world.place_of("late"), Some("n"), "{what}");
    }
}

#[test]
fn nominated_pods_count_over_domains_where_upstream_counts_them() {
    let web = ("app", "web");
    let kept = |world: &mut World, pod: PodBuilder| {
        world.node(node("a").label(ZONE, "a").build());
        world.node(node("b").label(ZONE, "b").capacity("cpu", "2").build());
        world.pod(pod.request("cpu", "9").priority(10).never_preempts().nominated("b").build());
        world.settle();
    };
    let places = |kept_for: PodBuilder, late: PodBuilder, others: Vec<PodInfo>| {
        let mut world = World::with_workers(2, preempting());
        others.into_iter().for_each(|other| world.pod(other));
        kept(&mut world, kept_for);
        world.pod(late.build());
        world.settle();
        world.place_of("late").map(str::to_owned)
    };
    let kept_for = || pod("kept").label("app", "web");
    let late = || pod("late").require(ZONE, "In", &["b"]);
    let b = Some("b".to_owned());
    assert_eq!(places(kept_for(), late(), Vec::new()), b, "it asks for nothing");
    assert_eq!(places(kept_for(), late().far(ZONE, web), Vec::new()), None, "its own anti-affinity");
    assert_eq!(places(kept_for(), late().near(ZONE, web), Vec::new()), None, "an affinity needs pods that stand");
    let spread = |late: PodBuilder| late.spread_with(1, ZONE, web, |constraint| constraint.honors_affinity = false);
    assert_eq!(places(kept_for(), spread(late().label("app", "web")), Vec::new()), None, "spread");
    assert_eq!(places(kept_for(), spread(late()), Vec::new()), b, "spread that the pod itself does not add to");
    // kube-scheduler skips the plugin, including nominated pods, for a pod that no placed pod refuses.
    let refusing = || pod("kept").far(ZONE, web);
    assert_eq!(places(refusing(), late().label("app", "web"), Vec::new()), b, "the nominated pod's anti-affinity");
    let elsewhere = pod("other").far(HOST, web).on("a").build();
    assert_eq!(
        places(refusing(), late().label("app", "web"), vec![elsewhere]),
        None,
        "where others refuse it somewhere"
    );
}

#[test]
fn more_nodes_are_kept_free_than_workers_offer() {
    let mut world = World::with_workers(2, preempting());
    for index in 0..200 {
        world.node(node(&format!("n{index}")).capacity("cpu", "2").build());
        if index != 123 {
            let kept = asks(&format!("kept{index}"), "2", 10).gate("wait").nominated(&format!("n{index}"));
            world.pod(kept.build());
        }
    }
    for index in 0..3 {
        world.pod(asks(&format!("late{index}"), "1", 0).build());
    }
    world.settle();
    let places: Vec<Option<&str>> = (0..3).map(|index| world.place_of(&format!("late{index}"))).collect();
    assert_eq!(places, [Some("n123"), Some("n123"), None]);
    assert_eq!(message(&world, "late2"), "0/200 nodes are available: 200 Insufficient cpu.");
}

#[test]
fn placements_are_the_same_for_any_number_of_workers() {
    let place = |workers: usize| {
        let mut world = World::with_profiles(vec![preempting()]);
        for index in 0..workers {
            world.join(&format!("worker-{index}"));
        }
        world.advance(2_000);
        for index in 0..40 {
            let capacity = ["1", "2", "4"][index % 3];
            let zone = ["a", "b", "c", "d"][index % 4];
            world.node(node(&format!("n{index}")).label(ZONE, zone).capacity("cpu", capacity).build());
        }
        for index in 0..160_usize {
            let app = ["web", "db"][index % 2];
            let mut builder = asks(&format!("p{index}"), ["500m", "1", "3"][index % 3], (index * 7 % 5) as i32);
            builder = builder.label("app", app);
            builder = match index % 8 {
                1 | 2 => builder.spread(1, ZONE, ("app", app)),
                3 => builder.far(HOST, ("app", "web")),
                4 => builder.prefer_near(10, ZONE, ("app", "db")),
                _ => builder,
            };
            builder = if index % 4 == 0 { builder.nominated(&format!("n{}", index * 3 % 45)) } else { builder };
            world.pod(if index % 16 == 8 { builder.gate("wait").build() } else { builder.build() });
            world.settle();
        }
        world.settle();
        world.advance(20_000);
        let told: Vec<(String, String)> =
            world.reports.iter().map(|report| (report.name.to_string(), report.message.clone())).collect();
        (world.bound, told)
    };
    let alone = place(0);
    assert!(alone.0.len() > 60 && alone.1.len() > 10, "{} bound, {} told", alone.0.len(), alone.1.len());
    for workers in [1, 2, 7] {
        assert_eq!(place(workers), alone, "with {workers} workers");
    }
}

#[test]
fn pods_that_count_over_domains_share_what_their_family_knows_while_another_is_nominated() {
    let asked = |is_nominated: bool| {
        let mut world = World::with_workers(2, preempting());
        for index in 0..12 {
            let name = format!("node-{index}");
            world.node(node(&name).label(ZONE, ["a", "b", "c"][index % 3]).label(HOST, &name).build());
        }
        if is_nominated {
            world.pod(asks("first", "100", 10).nominated("node-5").build());
        }
        world.settle();
        let before = world.machine.status();
        for index in 0..24 {
            let app = format!("app-{}", index / 2);
            let own = pod(&format!("p-{index}")).label("app", &app).request("cpu", "100m").request("memory", "1Mi");
            world.pod(own.spread(1, ZONE, ("app", &app)).build());
        }
        world.settle();
        let after = world.machine.status();
        assert_eq!(world.bound.len(), 24);
        let asked = after.evaluations_asked - before.evaluations_asked;
        (asked, after.evaluations_local - before.evaluations_local)
    };
    assert_eq!(asked(true), asked(false), "evaluations asked and local");
}

#[test]
fn pods_that_count_over_domains_give_way_to_nominated_ones() {
    for (priority, expected) in [(0, Some("node-1")), (20, Some("node-0"))] {
        let mut world = World::with_workers(2, preempting());
        for (index, cpus) in ["8", "4"].into_iter().enumerate() {
            let name = format!("node-{index}");
            world.node(node(&name).label(ZONE, "a").label(HOST, &name).capacity("cpu", cpus).build());
        }
        world.pod(asks("standing", "5", 0).on("node-0").build());
        world.pod(asks("other", "3", 0).on("node-1").build());
        world.pod(asks("first", "4", 10).nominated("node-0").build());
        world.settle();
        for name in ["late", "later"] {
            world.pod(asks(name, "500m", priority).label("app", "web").spread(5, ZONE, ("app", "web")).build());
            world.settle();
            assert_eq!(world.place_of(name), expected, "{name} of priority {priority}");
        }
    }
}

/// PostFilter of DynamicResources fails if its PreFilter did not run; then no later plugin runs.
#[test]
fn a_nomination_stays_where_a_pod_is_refused_before_dynamic_resources_was_asked() {
    const OURS: &str = "DynamicResources";
    let refused = "0/1 nodes are available: persistentvolumeclaim \"gone\" not found.";
    let unhelpful = " preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    let cases = [
        ("as by default", false, [OURS, "DefaultPreemption"].as_slice(), "", Nomination::Keep),
        ("it is asked first", true, &[OURS, "DefaultPreemption"], unhelpful, Nomination::Clear),
        ("it has no PostFilter", false, &["DefaultPreemption"], unhelpful, Nomination::Clear),
    ];
    for (case, is_first, post_filter, advice, nomination) in cases {
        let mut profile = storage::profile();
        let plugins = &mut profile.plugins;
        plugins.pre_filter.retain(|name| name != OURS);
        plugins.pre_filter.insert(if is_first { 0 } else { plugins.pre_filter.len() }, OURS.to_owned());
        plugins.post_filter = post_filter.iter().map(|&name| name.to_owned()).collect();
        let mut world = World::with_workers(2, profile);
        world.node(node("n").build());
        world.pod(PodInfo { nominated_node_name: Some("n".into()), ..storage::pod_with("p", &["gone"]) });
        world.settle();
        assert_eq!(world.whole_message_of("p"), Some(&*format!("{refused}{advice}")), "{case}");
        let report = world.reports.iter().find(|report| &*report.name == "p").expect("a report");
        assert_eq!(report.nomination, nomination, "{case}");
    }
}

/// NodeVolumeLimits fails if it cannot count the volumes of a pod on the node, including nominated ones.
#[test]
fn a_filter_that_fails_because_of_a_nominated_pod_fails_the_attempt_and_one_that_is_not_reached_does_not() {
    let error = |pod: &str| {
        format!(
            "running \"NodeVolumeLimits\" filter plugin: PVC default/{pod}-scratch was not created for pod default/{pod} (pod is \
             not owner)"
        )
    };
    let cases = [
        ("the nominated pod cannot be counted", "first", "1", None, Some(error("first"))),
        ("a pod on the node cannot be counted", "standing", "1", None, Some(error("standing"))),
        ("NodeResourcesFit refuses the node before", "standing", "4", Some("m"), None),
    ];
    for (case, uncountable, cpus, place, message) in cases {
        let mut world = World::with_workers(2, storage::profile());
        world.store(storage::class("made", BindingMode::WaitForFirstConsumer));
        let drivers = vec![("example.com/disk".into(), Some(5))];
        world.store(StorageObject::CsiNode(CsiNode { name: "n".into(), drivers, migrated_plugins: Vec::new() }));
        world.store_claim(storage::claim(&format!("{uncountable}-scratch"), "made"));
        world.store_claim(storage::claim("data", "made"));
        for name in ["m", "n"] {
            world.node(node(name).build());
        }
        let volumes = |name: &str| {
            let pod = storage::ephemeral_pod(name, "scratch");
            let volumes = pod.class.volumes.clone().filter(|_| name == uncountable);
            move |class: &mut Class| class.volumes = volumes
        };
        world.pod(asks("standing", "100m", 0).class(volumes("standing")).on("n").build());
        let first = asks("first", cpus, 10).class(volumes("first")).nominated("n").gate("wait");
        world.pod(first.build());
        world.settle();
        world.pod(storage::with_claims(asks("p", "100m", 0), &["data"]).build());
        world.settle();
        world.run_volume_controller();
        world.settle();
        assert_eq!((world.place_of("p"), world.message_of("p")), (place, message.as_deref()), "{case}");
    }
}
