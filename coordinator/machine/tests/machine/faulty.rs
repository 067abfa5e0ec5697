//! Workers with incorrect answers: only they are dropped. No pod is misplaced, preempted or reported as unschedulable because of them, and
//! the machine always progresses.

use std::sync::Arc;

use flotilla_framework::{
    evaluation::{Evaluation, Offer, Refused},
    extension::{NodeScore, Plugin, Preparation, Score},
    node::NodeId,
    pod_group::PodGroup,
    profile::{Profile, WeightedPlugin},
    registry::Registry,
    shard::{FromWorker, Reply},
    snapshot::{Slot, Snapshot},
    status::{Code, Refusal},
    testing::{self, node, pod, pod_group},
};
use flotilla_machine::{
    action::Reason,
    event::{Event, WorkerId},
};

use crate::{
    groups::configuration,
    world::{World, preempting},
};

fn nodes(world: &mut World, count: usize) {
    for index in 0..count {
        world.node(node(&format!("node-{index}")).build());
    }
    world.settle();
}

fn changed(mut word: FromWorker, change: impl Fn(&mut Evaluation)) -> FromWorker {
    if let Reply::Evaluated { evaluation, .. } = &mut word.reply {
        change(evaluation);
    }
    word
}

/// The first worker answers with changed evaluations, then all others answer correctly.
fn lie(world: &mut World, change: impl Fn(&mut Evaluation)) -> WorkerId {
    let (liar, words) = world.intercept();
    for word in words {
        world.tell(Event::FromWorker { worker: liar, word: changed(word, &change) });
    }
    world.settle();
    liar
}

fn offers(evaluation: &mut Evaluation) -> impl Iterator<Item = &mut Offer> {
    evaluation.strata.iter_mut().flat_map(|stratum| &mut stratum.offers)
}

/// Checks that the incorrect worker is dropped, the other one stays, and the pod is bound.
fn check_alone_in_its_fate(world: &World, liar: WorkerId) {
    assert!(!world.workers.contains_key(&liar), "the liar is given up");
    assert_eq!((world.workers.len(), world.dropped.len()), (1, 1), "the other one is not: {:?}", world.dropped);
    assert_eq!((world.bound.len(), world.reports.len()), (1, 0));
}

#[test]
fn a_worker_that_offers_a_node_that_nobody_knows_is_given_up_alone() {
    let mut world = World::new(2);
    nodes(&mut world, 6);
    world.pod(pod("pod").build());
    let liar = lie(&mut world, |evaluation| {
        offers(evaluation).take(1).for_each(|offer| (offer.node, offer.base) = (NodeId(4_000_000_000), i64::MAX));
    });
    check_alone_in_its_fate(&world, liar);
}

#[test]
fn a_worker_that_offers_a_node_of_another_one_is_given_up_alone() {
    let mut world = World::new(2);
    nodes(&mut world, 6);
    world.pod(pod("pod").build());
    let other = *world.workers.keys().nth(1).expect("a second worker");
    let mut of_other = Vec::new();
    for word in world.workers[&other].inbox.clone() {
        let replica = &mut world.workers.get_mut(&other).expect("it is there").replica;
        if let Some(Reply::Evaluated { evaluation, .. }) = replica.apply(word).map(|word| word.reply) {
            of_other.extend(evaluation.strata.into_iter().flat_map(|stratum| stratum.offers));
        }
    }
    assert!(!of_other.is_empty());
    let liar = lie(&mut world, |evaluation| {
        for (offer, stolen) in offers(evaluation).zip(&of_other).take(1) {
            *offer = Offer { base: 100_000, ..*stolen };
        }
    });
    check_alone_in_its_fate(&world, liar);
}

#[test]
fn a_worker_that_offers_a_node_that_left_before_it_was_asked_is_given_up_alone() {
    let mut world = World::new(2);
    nodes(&mut world, 7);
    world.tell(Event::NodeDeleted { name: "node-6".into() });
    world.settle();
    world.pod(pod("pod").build());
    let liar = lie(&mut world, |evaluation| {
        offers(evaluation).take(1).for_each(|offer| (offer.node, offer.base) = (NodeId(7), 100_000));
    });
    check_alone_in_its_fate(&world, liar);
}

#[test]
fn a_worker_that_offers_a_node_that_has_left_since_is_no_liar() {
    let mut world = World::new(2);
    nodes(&mut world, 6);
    world.pod(pod("pod").build());
    (0..6).step_by(2).for_each(|index| world.tell(Event::NodeDeleted { name: format!("node-{index}").into() }));
    world.settle();
    assert_eq!((world.bound.len(), &*world.dropped), (1, &[][..]));
}

#[test]
fn a_worker_that_offers_what_another_one_took_over_since_is_no_liar() {
    let mut world = World::new(1);
    nodes(&mut world, 20);
    world.pod(pod("pod").build());
    let (first, words) = world.intercept();
    world.join("late");
    for word in words {
        world.tell(Event::FromWorker { worker: first, word });
    }
    world.settle();
    assert_eq!((world.bound.len(), world.workers.len(), &*world.dropped), (1, 2, &[][..]));
}

type Lie = (&'static str, fn(&mut Evaluation));

#[test]
fn answers_of_any_wrong_shape_cost_the_answerer_its_place_and_nothing_else() {
    let lies: [Lie; 9] = [
        ("twice", |evaluation| {
            let mut offers = offers(evaluation);
            let first = offers.next().map(|offer| *offer);
            offers.zip(first).for_each(|(offer, first)| offer.node = first.node);
        }),
        ("a base beyond all", |evaluation| offers(evaluation).take(1).for_each(|offer| offer.base = i64::MAX)),
        ("another rank", |evaluation| offers(evaluation).for_each(|offer| offer.rank /= 2)),
        ("raw scores beyond all", |evaluation| {
            evaluation.strata.iter_mut().flat_map(|stratum| &mut stratum.raws).for_each(|raw| *raw = i64::MIN);
        }),
        ("no raw scores", |evaluation| evaluation.strata.iter_mut().for_each(|stratum| stratum.raws.clear())),
        ("domains", |evaluation| evaluation.strata.iter_mut().for_each(|stratum| stratum.domains.push(None))),
        ("no offers", |evaluation| evaluation.strata.iter_mut().for_each(|stratum| stratum.offers.clear())),
        ("the worst first", |evaluation| evaluation.strata.iter_mut().for_each(|stratum| stratum.offers.reverse())),
        ("counts that do not add up", |evaluation| evaluation.strata.iter_mut().for_each(|stratum| stratum.size += 1)),
    ];
    for (what, change) in lies {
        let mut world = World::new(2);
        nodes(&mut world, 12);
        world.pod(pod("pod").build());
        let liar = lie(&mut world, change);
        assert!(!world.workers.contains_key(&liar), "{what}");
        assert_eq!((world.workers.len(), world.dropped.len(), world.bound.len()), (1, 1, 1), "{what}");
    }
}

/// Two classes are requested. The first worker answers only for the second one, with scores that are too high, and disconnects.
fn lie_and_leave(world: &mut World) {
    world.pod(pod("first").build());
    world.pod(pod("second").request("cpu", "100m").build());
    let (liar, words) = world.intercept();
    assert_eq!(words.len(), 2, "both classes are asked about");
    let word = changed(words.into_iter().nth(1).expect("two answers"), |evaluation| {
        offers(evaluation).for_each(|offer| offer.base += 1_000);
    });
    world.tell(Event::FromWorker { worker: liar, word });
    world.run_workers();
    world.kill(liar);
    world.settle();
}

#[test]
fn a_worker_that_left_a_lie_behind_takes_nobody_with_it() {
    let mut world = World::new(2);
    nodes(&mut world, 12);
    lie_and_leave(&mut world);
    assert_eq!((world.bound.len(), world.workers.len(), &*world.dropped), (2, 1, &[][..]));
}

#[test]
fn a_lie_that_the_last_worker_left_behind_is_found_out_and_forgotten() {
    let mut world = World::new(1);
    nodes(&mut world, 12);
    lie_and_leave(&mut world);
    assert_eq!((world.bound.len(), world.reports.len(), world.alone), (2, 0, Some(true)));
}

#[test]
fn a_worker_that_puts_a_node_among_better_ones_is_found_out_before_the_pod_is_placed() {
    let tainted = |name: &str| node(name).taint("noisy", "", "PreferNoSchedule").build();
    let mut world = World::new(1);
    (0..3).for_each(|index| world.node(tainted(&format!("tainted-{index}"))));
    world.node(node("clean").capacity("cpu", "2").build());
    world.settle();
    world.pod(pod("pod").request("cpu", "1").build());
    let change = |evaluation: &mut Evaluation| {
        evaluation.strata.iter_mut().for_each(|stratum| stratum.raws = vec![0; stratum.raws.len()]);
    };
    lie(&mut world, change);
    assert_eq!(world.place_of("pod"), Some("clean"));
    assert_eq!(world.dropped.len(), 1);
}

/// A plugin with batch scores that differ from its single scores.
struct TwoFaced;

impl Plugin for TwoFaced {
    fn name(&self) -> &'static str {
        "TwoFaced"
    }

    fn score(&self, _preparation: &mut Preparation<'_>) -> Option<Score> {
        Some(Score::Node(Box::new(Self)))
    }
}

impl NodeScore for TwoFaced {
    fn score(&self, _nodes: &Snapshot, _slot: Slot) -> i64 {
        0
    }

    fn add_column(&self, _nodes: &Snapshot, todo: &[Slot], _weight: i64, sums: &mut [i64]) {
        sums.iter_mut().zip(todo).for_each(|(sum, _)| *sum += 1);
    }
}

fn two_faced() -> (Registry, Profile) {
    let mut profile = testing::profile();
    profile.plugins.score.push(WeightedPlugin { name: "TwoFaced".to_owned(), weight: 1 });
    let registry = Registry::built_in().with([Box::new(TwoFaced) as Box<dyn Plugin>]).expect("a name of its own");
    (registry, profile)
}

#[test]
fn what_the_coordinator_itself_finds_in_two_ways_fails_the_attempt_and_nothing_else() {
    let (registry, profile) = two_faced();
    let mut world = World::with_plugins(registry, profile);
    let ids: Vec<WorkerId> = world.workers.keys().copied().collect();
    ids.into_iter().for_each(|id| world.kill(id));
    nodes(&mut world, 3);
    world.pod(pod("pod").build());
    world.settle();
    assert_eq!(world.bound, []);
    let report = world.reports.first().expect("the pod's owner is told");
    assert_eq!(report.reason, Reason::SchedulerError);
    assert!(report.message.contains("node-"), "{}", report.message);
    assert_eq!(world.machine.status().pods_backoff, 1, "it is tried again later");
}

/// Refuses all offered nodes because of insufficient CPU.
fn refuse_all(evaluation: &mut Evaluation) {
    let count: u32 = evaluation.strata.drain(..).map(|stratum| stratum.size).sum();
    let known =
        evaluation.refused.iter_mut().find(|group| group.order == FIT && group.refusal.code == Code::Unschedulable);
    match known {
        Some(known) => known.count += count,
        None if count == 0 => {}
        None => {
            let refusal = Refusal { code: Code::Unschedulable, detail: CPU };
            evaluation.refused.push(Refused { order: FIT, refusal, domains: Vec::new(), count });
        }
    }
}

/// Index of NodeResourcesFit in the default profile, with the argument for insufficient CPU.
const FIT: u16 = 6;
const CPU: u64 = 2;

#[test]
fn no_pod_is_evicted_because_a_worker_says_that_nothing_fits() {
    let mut world = World::with_workers(2, preempting());
    nodes(&mut world, 12);
    for index in 0..12 {
        world.pod(pod(&format!("low-{index}")).request("cpu", "3").on(&format!("node-{index}")).build());
    }
    world.node(node("free").build());
    world.settle();
    world.pod(pod("high").priority(10).request("cpu", "2").build());
    // The worker with the free node is incorrect.
    let mut words = Vec::new();
    for (id, worker) in &mut world.workers {
        while let Some(word) = worker.inbox.pop_front() {
            words.extend(worker.replica.apply(word).map(|word| (*id, word)));
        }
    }
    for (worker, word) in words {
        world.tell(Event::FromWorker { worker, word: changed(word, refuse_all) });
    }
    world.settle();
    assert_eq!(world.evicted, [], "nobody has to go");
    assert_eq!(world.place_of("high"), Some("free"));
    assert_eq!(
        world.dropped.len(),
        1,
        "who holds the free node is given up, and the other one is not: {:?}",
        world.dropped
    );
    assert!(world.dropped[0].contains("which is feasible"), "{}", world.dropped[0]);
}

#[test]
fn no_pod_of_a_cluster_that_is_looked_at_whole_is_turned_down_on_a_workers_word_alone() {
    let mut world = World::new(2);
    nodes(&mut world, 12);
    world.pod(pod("pod").build());
    let liar = lie(&mut world, refuse_all);
    // The other worker offered its nodes, so the pod was placed on one of these.
    assert_eq!((world.bound.len(), world.workers.contains_key(&liar)), (1, true));
    world.kill(liar);
    world.pod(pod("another").request("cpu", "1").build());
    let liar = lie(&mut world, refuse_all);
    assert!(!world.workers.contains_key(&liar));
    assert_eq!((world.bound.len(), world.reports.len()), (2, 0));
    assert_eq!(world.machine.status().refusals_refuted, 1);
}

#[test]
fn in_a_large_cluster_a_false_refusal_is_found_out_by_and_by() {
    let mut world = World::new(1);
    for index in 0..1_000 {
        world.node(node(&format!("node-{index}")).capacity("cpu", "1").build());
    }
    world.node(node("large").build());
    world.settle();
    world.pod(pod("pod").request("cpu", "2").build());
    lie(&mut world, refuse_all);
    assert_eq!((world.bound.len(), world.reports.len()), (0, 1), "the first 256 nodes do not do");
    world.advance(5 * 330_000);
    assert_eq!(world.place_of("pod"), Some("large"));
    assert_eq!(world.dropped.len(), 1);
}

#[test]
fn no_pod_fails_because_a_worker_says_that_a_filter_did() {
    let mut world = World::new(1);
    nodes(&mut world, 3);
    world.pod(pod("pod").build());
    lie(&mut world, |evaluation| {
        refuse_all(evaluation);
        evaluation.refused.iter_mut().for_each(|group| group.refusal.code = Code::Error);
    });
    assert_eq!((world.bound.len(), world.reports.len()), (1, 0));
    assert_eq!(world.machine.status().refusals_refuted, 1);
}

#[test]
fn no_pod_is_evicted_for_a_group_because_a_worker_says_that_nothing_fits() {
    let mut world = World::new(1);
    world.tell(Event::Configured(Arc::new(configuration(2))));
    nodes(&mut world, 300);
    for index in 0..300 {
        world.pod(pod(&format!("low-{index}")).request("cpu", "3").on(&format!("node-{index}")).build());
    }
    world.node(node("free").build());
    world.settle();
    world.tell(Event::PodGroupApplied(Arc::new(PodGroup { priority: 10, ..pod_group("g", Some(1)) })));
    world.pod(pod("member").priority(10).request("cpu", "2").group("g").build());
    lie(&mut world, refuse_all);
    world.advance(2_000);
    assert_eq!((world.preemptions.len(), &*world.evicted), (0, &[][..]), "nobody has to go");
    assert_eq!(world.place_of("member"), Some("free"));
}
