//! Workers that are late, silent, or reconnect repeatedly: nothing waits for them.

use std::sync::Arc;

use flotilla_framework::{
    class::PodInfo,
    shard::{Command, FromWorker, Reply},
    testing::{node, pod},
    volumes::objects::{Claim, ClaimReference, Volume},
};
use flotilla_machine::event::{Configuration, Event, WorkerId};

use crate::{
    simulation::Seed,
    storage::{claim, local_volume, with_claims},
    world::World,
};

fn nodes(world: &mut World, count: usize) {
    for index in 0..count {
        world.node(node(&format!("node-{index}")).build());
    }
    world.settle();
}

/// A pod with its own class.
fn new_class(world: &mut World, number: usize) {
    world.pod(pod(&format!("pod-{number}")).request("cpu", &format!("{}m", 10 + number)).build());
    world.settle();
}

fn silence(world: &mut World, worker: WorkerId, silent: bool) {
    world.workers.get_mut(&worker).expect("it is there").silent = silent;
}

fn asked(world: &World, worker: WorkerId) -> usize {
    let inbox = &world.workers[&worker].inbox;
    inbox.iter().filter(|word| matches!(word.command, Command::Evaluate { .. } | Command::DryRun { .. })).count()
}

#[test]
fn a_worker_that_never_acknowledges_its_shard_is_not_asked_and_blocks_nothing() {
    let mut world = World::new(2);
    nodes(&mut world, 30);
    let mute = world.join("mute");
    silence(&mut world, mute, true);
    (0..3).for_each(|number| new_class(&mut world, number));
    assert_eq!((world.bound.len(), world.now_ms, asked(&world, mute)), (3, 0, 0));
    let status = world.machine.status();
    assert_eq!((status.workers, status.workers_ready), (3, 2));
    assert!(status.evaluations_partial > 0, "its nodes are judged here meanwhile");
    world.advance(3_000);
    assert_eq!(world.dropped.len(), 1);
    assert!(world.dropped[0].starts_with("it has not acknowledged its shard for 20"), "{}", world.dropped[0]);
}

#[test]
fn a_worker_that_has_acknowledged_half_of_what_it_got_is_not_asked_yet() {
    let mut world = World::new(1);
    nodes(&mut world, 4);
    let late = world.join("late");
    let word = world.workers[&late].inbox[0].clone();
    assert!(matches!(word.command, Command::Configure { .. }));
    let word = world.workers.get_mut(&late).expect("it is there").replica.apply(word).expect("it says so");
    world.tell(Event::FromWorker { worker: late, word });
    assert_eq!(world.machine.status().workers_ready, 1, "the shard is not there");
}

#[test]
fn placements_do_not_hang_on_which_workers_are_ready() {
    let place = |mute: usize| {
        let mut world = World::new(3);
        nodes(&mut world, 23);
        for number in 0..mute {
            let worker = world.join(&format!("mute-{number}"));
            silence(&mut world, worker, true);
        }
        for number in 0..40 {
            let spread = |builder: flotilla_framework::testing::PodBuilder| match number % 4 {
                0 => builder.spread(1, "kubernetes.io/hostname", ("app", "web")),
                1 => builder.prefer_far(10, "kubernetes.io/hostname", ("app", "web")),
                _ => builder,
            };
            let builder =
                pod(&format!("pod-{number}")).label("app", "web").request("cpu", &format!("{}m", 10 + number % 7));
            world.pod(spread(builder).build());
        }
        world.settle();
        assert_eq!((world.bound.len(), world.machine.status().evaluations_refuted), (40, 0));
        world.bound
    };
    let with_all = place(0);
    for mute in [1, 2, 5] {
        assert_eq!(place(mute), with_all, "{mute} mute workers");
    }
}

#[test]
fn the_nodes_of_a_late_worker_are_judged_here_until_it_has_answered() {
    let mut world = World::new(2);
    nodes(&mut world, 12);
    let late = *world.workers.keys().next().expect("a worker");
    silence(&mut world, late, true);
    new_class(&mut world, 0);
    assert_eq!(world.bound.len(), 0, "it may answer any moment");
    world.advance(100);
    assert_eq!((world.bound.len(), world.now_ms, &*world.dropped), (1, 100, &[][..]));
    new_class(&mut world, 1);
    assert_eq!((world.bound.len(), world.now_ms, asked(&world, late)), (2, 100, 1), "it is not asked again yet");
    assert_eq!(world.machine.status().workers_ready, 1);
    silence(&mut world, late, false);
    world.settle();
    assert_eq!(world.machine.status().workers_ready, 2, "it has answered");
    silence(&mut world, late, true);
    new_class(&mut world, 2);
    assert_eq!(asked(&world, late), 1, "it is asked again");
}

#[test]
fn a_late_worker_costs_a_decision_its_own_nodes_and_the_others_no_second_question() {
    let mut world = World::new(3);
    nodes(&mut world, 30);
    let late = *world.workers.keys().next().expect("a worker");
    silence(&mut world, late, true);
    let before = world.machine.status();
    new_class(&mut world, 0);
    world.advance(100);
    let status = world.machine.status();
    assert_eq!((world.bound.len(), world.now_ms, status.workers_ready), (1, 100, 2));
    assert_eq!(status.evaluations_asked - before.evaluations_asked, 1);
    assert_eq!(status.evaluations_partial - before.evaluations_partial, 1);
    silence(&mut world, late, false);
    world.settle();
    assert_eq!((world.machine.status().workers_ready, &*world.dropped), (3, &[][..]), "its answer comes late");
}

fn reference() -> ClaimReference {
    ClaimReference { namespace: "default".into(), name: "data".into(), uid: "claim-data".into() }
}

/// Changes while one worker's answer is late: binds of other schedulers, and added, changed or deleted nodes.
fn meddle(world: &mut World, seed: &mut Seed) {
    for index in 0..seed.below(6) {
        let place = format!("node-{}", seed.below(12));
        match seed.below(6) {
            0..=2 => {
                let builder = pod(&format!("foreign-{index}")).label("app", "web").on(&place);
                world.pod(builder.request("cpu", &format!("{}m", 100 * (1 + seed.below(30)))).build());
            }
            3 => world.node(node(&place).label("zone", "c").capacity("cpu", "64").build()),
            4 => world.node(node(&format!("new-{index}")).label("zone", "a").capacity("cpu", "128").build()),
            _ => world.tell(Event::NodeDeleted { name: place.into() }),
        }
    }
}

/// A pod is placed as without workers, whatever changes between the other workers' answers and the evaluation of the late worker's nodes.
#[test]
fn what_happens_while_an_answer_is_late_changes_no_placement() {
    let place = |number: u64, workers: usize| {
        let mut world = World::with_volumes(workers);
        let mut seed = Seed(number);
        // Bound, and reachable from every node.
        let volume = Volume { claim: Some(reference()), node_affinity: None, ..local_volume("disk", "") };
        world.store_volume(Volume { is_available: false, ..volume });
        world.store_claim(Claim { volume_name: "disk".into(), bind_completed: true, ..claim("data", "local") });
        for index in 0..12 {
            let zone = ["a", "b"][index % 2];
            world.node(node(&format!("node-{index}")).label("zone", zone).capacity("cpu", "32").build());
        }
        for index in 0..seed.below(8) {
            let on = format!("node-{}", seed.below(12));
            world.pod(pod(&format!("early-{index}")).label("app", "web").request("cpu", "3").on(&on).build());
        }
        world.advance(1_000);
        let builder = pod("late").label("app", "web").request("cpu", "2");
        // A class with counts and volumes does not share its family's list.
        let builder = match number % 7 {
            0 => builder.spread(1, "zone", ("app", "web")),
            1 => builder.prefer_far(10, "kubernetes.io/hostname", ("app", "web")),
            2 => builder.prefer_near(10, "zone", ("app", "web")),
            3 => builder.far("kubernetes.io/hostname", ("app", "web")),
            4 => with_claims(builder.spread(1, "zone", ("app", "web")), &["data"]),
            5 => with_claims(builder.prefer_far(10, "kubernetes.io/hostname", ("app", "web")), &["data"]),
            _ => builder,
        };
        let late = world.workers.keys().next_back().copied();
        late.into_iter().for_each(|late| silence(&mut world, late, true));
        if late.is_some() {
            // The others answer before the change.
            world.pod(builder.build());
            world.settle();
            meddle(&mut world, &mut seed);
            world.advance(100);
        } else {
            meddle(&mut world, &mut seed);
            world.pod(builder.build());
            world.settle();
        }
        let status = world.machine.status();
        assert_eq!((status.offers_refuted, status.evaluations_refuted), (0, 0), "seed {number}");
        assert!(world.dropped.is_empty(), "seed {number}: {:?}", world.dropped);
        (world.place_of("late").map(str::to_owned), status.evaluations_partial)
    };
    let (mut answered, mut placed) = (0, 0);
    for number in 0..200 {
        let (alone, _) = place(number, 0);
        let (late, partial) = place(number, 3);
        assert_eq!(late, alone, "seed {number}");
        answered += partial;
        placed += u64::from(late.is_some());
    }
    assert!(answered >= 200 && placed > 150, "{answered} {placed}");
}

#[test]
fn a_new_leader_does_not_wait_longer_for_a_mute_worker_than_for_none() {
    let mut world = World::new(0);
    nodes(&mut world, 3);
    let mute = world.join("mute");
    silence(&mut world, mute, true);
    new_class(&mut world, 0);
    world.advance(1_000);
    assert_eq!(world.bound.len(), 1);
}

#[test]
fn a_worker_that_does_not_take_up_a_configuration_blocks_nothing() {
    let mut world = World::new(2);
    nodes(&mut world, 12);
    let mute = *world.workers.keys().next().expect("a worker");
    silence(&mut world, mute, true);
    let again = Configuration::new(2, vec![flotilla_framework::testing::profile()]);
    world.tell(Event::Configured(again.into()));
    new_class(&mut world, 0);
    assert_eq!((world.bound.len(), world.now_ms), (1, 0));
}

#[test]
fn a_large_shard_has_more_time_to_be_acknowledged() {
    let mut world = World::new(0);
    nodes(&mut world, 5_000);
    let mute = world.join("mute");
    silence(&mut world, mute, true);
    world.advance(6_999);
    assert!(world.dropped.is_empty());
    world.advance(1);
    assert_eq!(&*world.dropped, ["it has not acknowledged its shard for 7000 ms"]);
}

#[test]
fn a_worker_that_is_given_up_again_and_again_is_kept_away_for_ever_longer() {
    let mut world = World::new(1);
    nodes(&mut world, 12);
    let mut kept_away = Vec::new();
    for number in 0..5 {
        let mute = world.join("mute");
        silence(&mut world, mute, true);
        let before = world.dropped.len();
        world.advance(3_000);
        assert_eq!(world.dropped.len(), before + 1);
        new_class(&mut world, number);
        let quarantined = world.machine.overview(world.now_ms).quarantined;
        kept_away.push(quarantined.first().map_or(0, |view| view.left_ms.div_ceil(1_000)));
        assert_eq!(world.machine.status().workers_quarantined, quarantined.len() as u64);
        if let Some(view) = quarantined.first() {
            assert_eq!((&*view.name, view.times), ("mute", u32::try_from(number + 1).expect("few")));
            // A process that connects under this name meanwhile is dropped without commands.
            let early = world.join("mute");
            assert!(!world.workers.contains_key(&early));
            assert!(world.dropped.last().is_some_and(|why| why.contains("in quarantine for")), "{:?}", world.dropped);
            world.advance(view.left_ms);
            assert_eq!(world.machine.status().workers_quarantined, 0);
        }
    }
    assert_eq!(kept_away, [0, 10, 20, 40, 80]);
    assert_eq!(world.bound.len(), 5);
}

#[test]
fn a_process_that_is_kept_away_is_so_under_any_address() {
    let mut world = World::new(1);
    nodes(&mut world, 12);
    let hello = |world: &mut World, worker| {
        let reply = Reply::Hello { version: "1".into(), nonce: 7, plugins: Vec::new() };
        world.tell(Event::FromWorker { worker, word: FromWorker { epoch: 1, revision: 0, reply } });
    };
    for _ in 0..2 {
        let mute = world.join("mute");
        hello(&mut world, mute);
        silence(&mut world, mute, true);
        world.advance(3_000);
    }
    let elsewhere = world.join("elsewhere");
    assert!(world.workers.contains_key(&elsewhere), "it has not said who it is");
    hello(&mut world, elsewhere);
    assert!(!world.workers.contains_key(&elsewhere));
    assert_eq!(world.machine.overview(world.now_ms).quarantined.len(), 1);
}

/// A placed pod of a class that is larger than a message. Ingest truncates such lists ([`excess`]); this tests the machine without it.
///
/// [`excess`]: flotilla_framework::excess
fn too_large(name: &str, node: &str) -> PodInfo {
    let pod = pod(name).request("cpu", "3").on(node).build();
    let mut class = (*pod.class).clone();
    let term = flotilla_framework::testing::term("kubernetes.io/hostname", ("app", "nothing-is-called-so"));
    class.pod_affinity.required_anti = vec![term; 30_000];
    PodInfo { class: Arc::new(class), ..pod }
}

#[test]
fn no_worker_is_told_of_a_class_that_is_too_large_and_its_node_is_judged_here() {
    let mut world = World::new(2);
    nodes(&mut world, 8);
    let large = too_large("large", "node-3");
    assert!(!large.class.is_sendable(), "{} bytes", large.class.weight());
    world.pod(large);
    world.settle();
    let told = |world: &World| world.workers.values().map(|worker| worker.replica.node_count()).sum::<usize>();
    assert_eq!((told(&world), world.machine.status().pods_untold), (7, 1));
    // A new worker does not get it either.
    let new = world.join("late");
    assert!(world.workers[&new].inbox.iter().all(|word| match &word.command {
        Command::RegisterClass { class, .. } => class.is_sendable(),
        _ => true,
    }));
    world.settle();
    // Decisions still include the node.
    world.pod(pod("there").request("cpu", "1").node_selector("kubernetes.io/hostname", "node-3").build());
    world.settle();
    assert_eq!(world.place_of("there"), Some("node-3"));
    world.pod(pod("not-there").request("cpu", "1").node_selector("kubernetes.io/hostname", "node-3").build());
    world.settle();
    assert_eq!((world.place_of("not-there"), world.dropped.len()), (None, 0));
    world.delete_pod("uid-large");
    world.settle();
    assert_eq!((told(&world), world.machine.status().pods_untold), (8, 0), "it is told again");
    assert_eq!(world.place_of("not-there"), Some("node-3"));
}
