//! The best node and the refusals do not depend on the sharding, the order of arrival or the history.

use std::collections::BTreeMap;

use flotilla_framework::{
    class::ClassId,
    evaluate::{Columns, Scratch},
    evaluation::{Evaluation, MAX_OFFERS, TooManyStrata},
    extension::Facts,
    matches::Matches,
    node::{NodeId, NodeInfo},
    prepared::Prepared,
    registry::Registry,
    select::{Best, View, select},
    snapshot::Snapshot,
    status::Refusal,
    testing::{NodeBuilder, node, pod, profile},
};
use proptest::{collection::vec, prelude::*};

#[path = "support/cluster.rs"]
mod cluster;

use cluster::{World, any_node, any_world, any_world_with_volumes, best_by_hand, canonical, evaluate, placed};

/// Numbers of offers that a leader may request: one, a few, all.
const K: [usize; 3] = [1, 3, usize::MAX];

fn refusals(view: &View) -> BTreeMap<(u16, Refusal), u32> {
    let mut counts = BTreeMap::new();
    for group in view.refused() {
        *counts.entry((group.order, group.refusal)).or_default() += group.count;
    }
    counts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_best_node_does_not_hang_on_how_nodes_are_split(
        world in any_world(24),
        owners in vec(0..7_usize, 24),
        shards in 1..=7_usize,
    ) {
        let mut nodes = world.whole();
        let prepared = world.prepare(Registry::built_in(), &mut nodes);
        prop_assume!(prepared.refusal().is_none());
        let by_hand = best_by_hand(Registry::built_in(), &world.profile, &prepared, &nodes);
        for k in K {
            let whole = select(&prepared, vec![evaluate(&prepared, &nodes, k)]);
            prop_assert_eq!(placed(whole), Ok(by_hand), "whole, k = {}", k);
            let split = select(&prepared, world.answers(Registry::built_in(), &owners, shards, k));
            prop_assert_eq!(split, whole, "split, k = {}", k);
        }
    }

    #[test]
    fn neither_the_best_node_nor_refusals_hang_on_how_nodes_are_split_where_pods_have_volumes(
        world in any_world_with_volumes(24),
        owners in vec(0..7_usize, 24),
        shards in 1..=7_usize,
    ) {
        let mut nodes = world.whole();
        let prepared = world.prepare(Registry::built_in(), &mut nodes);
        prop_assume!(prepared.refusal().is_none());
        let by_hand = best_by_hand(Registry::built_in(), &world.profile, &prepared, &nodes);
        for k in K {
            let whole = View::new(&prepared, vec![evaluate(&prepared, &nodes, k)]);
            let split = View::new(&prepared, world.answers(Registry::built_in(), &owners, shards, k));
            prop_assert_eq!(refusals(&whole), refusals(&split));
            prop_assert_eq!(whole.error(&prepared), split.error(&prepared));
            for mut view in [whole, split] {
                prop_assert_eq!(placed(view.best(&prepared, None)), Ok(by_hand), "k = {}", k);
            }
        }
    }

    #[test]
    fn refusals_add_up_to_the_same_however_nodes_are_split(
        world in any_world(24),
        owners in vec(0..7_usize, 24),
        shards in 1..=7_usize,
    ) {
        let mut nodes = world.whole();
        let prepared = world.prepare(Registry::built_in(), &mut nodes);
        prop_assume!(prepared.refusal().is_none());
        let whole = View::new(&prepared, vec![evaluate(&prepared, &nodes, 1)]);
        let split = View::new(&prepared, world.answers(Registry::built_in(), &owners, shards, 1));
        prop_assert_eq!(refusals(&whole), refusals(&split));
        prop_assert_eq!(whole.covered(), split.covered());
        prop_assert_eq!(split.covered() as usize, world.nodes.len());
    }

    #[test]
    fn ties_break_alike_in_any_order_of_the_nodes(
        (world, order) in any_world(16).prop_flat_map(|world| {
            let places: Vec<usize> = (0..world.nodes.len()).collect();
            (Just(world), Just(places).prop_shuffle())
        }),
    ) {
        let mut nodes = world.whole();
        let prepared = world.prepare(Registry::built_in(), &mut nodes);
        prop_assume!(prepared.refusal().is_none());
        let best = select(&prepared, vec![evaluate(&prepared, &nodes, 2)]);
        // Numbers, positions and symbols all differ; names and totals must not.
        let mut turned = world.clone();
        turned.nodes = order.iter().map(|&place| world.nodes[place].clone()).collect();
        turned.standing = order.iter().map(|&place| world.standing[place].clone()).collect();
        let mut others = turned.whole();
        let again = turned.prepare(Registry::built_in(), &mut others);
        let other = select(&again, vec![evaluate(&again, &others, 2)]);
        let name = |world: &World, best| {
            placed(best).map(|placed| placed.map(|(node, total)| (world.nodes[node.0 as usize].name.clone(), total)))
        };
        prop_assert_eq!(name(&world, best), name(&turned, other));
    }
}

#[derive(Debug, Clone)]
enum Step {
    Add(usize, u64),
    Remove(usize, u64),
    Upsert(usize, NodeInfo),
    Drop(usize),
}

const PLACES: usize = 12;

fn any_step() -> impl Strategy<Value = Step> {
    let place = || 0..PLACES;
    prop_oneof![
        4 => (place(), 0..4_u64).prop_map(|(place, class)| Step::Add(place, class)),
        2 => (place(), 0..4_u64).prop_map(|(place, class)| Step::Remove(place, class)),
        2 => place().prop_flat_map(|place| any_node(place).prop_map(move |node| Step::Upsert(place, node))),
        1 => place().prop_map(Step::Drop),
    ]
}

fn apply(nodes: &mut Snapshot, step: &Step) -> NodeId {
    let id = |place: usize| NodeId(u32::try_from(place).expect("a small cluster"));
    match step {
        Step::Add(place, class) => {
            nodes.add_pod(id(*place), ClassId(*class));
            id(*place)
        }
        Step::Remove(place, class) => {
            nodes.remove_pod(id(*place), ClassId(*class));
            id(*place)
        }
        Step::Upsert(place, node) => {
            nodes.upsert_node(id(*place), node);
            id(*place)
        }
        Step::Drop(place) => {
            nodes.remove_node(id(*place));
            id(*place)
        }
    }
}

/// Repairs a view after each step and compares it with a new one, until a list is exhausted. Returns the number of steps.
fn follow(world: &World, owners: &[usize], shards: usize, k: usize, steps: &[Step]) -> Result<usize, TestCaseError> {
    let mut nodes = world.whole();
    let prepared = world.prepare(Registry::built_in(), &mut nodes);
    let mut view = View::new(&prepared, world.answers(Registry::built_in(), owners, shards, k));
    for (done, step) in steps.iter().enumerate() {
        let node = apply(&mut nodes, step);
        let slot = nodes.slot(node);
        let result = slot.map(|slot| prepared.judge(&nodes, slot));
        view.repair(&prepared, &nodes, &Matches::default(), node, result);
        let best = view.best(&prepared, None);
        if best == Best::Dry {
            prop_assert_ne!(k, usize::MAX, "a complete list cannot run dry");
            return Ok(done);
        }
        let fresh = select(&prepared, vec![evaluate(&prepared, &nodes, 1)]);
        prop_assert_eq!(placed(best), placed(fresh), "after step {} of {:?}", done, steps);
        prop_assert!(!view.is_untouched() && view.touched() <= done + 1);
    }
    Ok(steps.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_repaired_book_equals_a_fresh_one(
        world in any_world(PLACES),
        owners in vec(0..4_usize, PLACES),
        shards in 1..=4_usize,
        steps in vec(any_step(), 1..40),
    ) {
        let mut nodes = world.whole();
        prop_assume!(world.prepare(Registry::built_in(), &mut nodes).refusal().is_none());
        for k in K {
            let lasted = follow(&world, &owners, shards, k, &steps)?;
            prop_assert!(k != usize::MAX || lasted == steps.len());
        }
    }

    #[test]
    fn columns_brought_up_to_date_equal_columns_from_scratch(
        world in any_world(PLACES),
        steps in vec(any_step(), 1..40),
        k in 1..5_usize,
    ) {
        let mut nodes = world.whole();
        let prepared = world.prepare(Registry::built_in(), &mut nodes);
        let (mut columns, mut scratch) = (Columns::default(), Scratch::default());
        prop_assert_eq!(columns.refresh(&prepared, &nodes, &mut scratch), world.nodes.len());
        for steps in steps.chunks(3) {
            for step in steps {
                apply(&mut nodes, step);
            }
            let judged = columns.refresh(&prepared, &nodes, &mut scratch);
            prop_assert!(judged <= steps.len());
            let up_to_date = columns.answer_all(&prepared, &nodes, k, &mut scratch);
            prop_assert_eq!(canonical(up_to_date), canonical(evaluate(&prepared, &nodes, k)));
        }
        prop_assert_eq!(columns.refresh(&prepared, &nodes, &mut scratch), 0, "nothing is news any more");
    }
}

/// `count` nodes, and a pod with 17 preferences that distinguish nodes by their number under the mask.
fn laid_out(count: u32, mask: u32) -> (Prepared, Snapshot) {
    let mut nodes = Snapshot::new(0);
    for number in 0..count {
        let labels =
            (0..17).filter(|bit| number & mask & (1 << bit) != 0).map(|bit| (format!("b{bit:02}").into(), "1".into()));
        let info = NodeInfo { labels: labels.collect(), ..node(&format!("n{number}")).build() };
        nodes.upsert_node(NodeId(number), &info);
    }
    let wishes = (0..17).fold(pod("p"), |pod, bit| pod.prefer(1 << bit, &format!("b{bit:02}"), "Exists", &[]));
    let class = wishes.build().class;
    let prepared = Prepared::new(Registry::built_in(), &profile(), &class, &Facts::default(), &nodes);
    (prepared, nodes)
}

fn answered(count: u32, mask: u32, k: usize) -> Result<Evaluation, TooManyStrata> {
    let (prepared, nodes) = laid_out(count, mask);
    let (mut columns, mut scratch) = (Columns::default(), Scratch::default());
    columns.refresh(&prepared, &nodes, &mut scratch);
    columns.answer(&prepared, &nodes, k, &mut scratch)
}

#[test]
fn an_answer_never_holds_more_offers_than_it_may() {
    let most = u32::try_from(MAX_OFFERS).expect("it fits");
    let strata = answered(most, u32::MAX, usize::MAX).expect("just as many as it may hold").strata;
    assert_eq!((strata.len(), strata.iter().all(|stratum| stratum.offers.len() == 1)), (MAX_OFFERS, true));
    assert_eq!(answered(most + 1, u32::MAX, 1), Err(TooManyStrata { strata: MAX_OFFERS + 1 }));
    let strata = answered(most + 1000, 1, usize::MAX).expect("two strata").strata;
    let offers: Vec<usize> = strata.iter().map(|stratum| stratum.offers.len()).collect();
    assert_eq!(offers, [MAX_OFFERS / 2; 2], "many nodes in few strata");
}

#[test]
fn an_answer_holds_the_head_of_every_stratum_however_few_are_asked_for() {
    let evaluation = answered(1000, u32::MAX, 0).expect("few strata");
    assert_eq!((evaluation.covered, evaluation.strata.len()), (1000, 1000));
    assert!(evaluation.strata.iter().all(|stratum| stratum.offers.len() == 1 && stratum.size == 1));
}

#[test]
fn ranks_break_ties_between_nodes_that_plugins_see_differently() {
    // A hundred and one soft taints make one of them weigh nothing, so that 0 and 1 have the same total.
    let tainted = |name: &str, count: usize| {
        let add = |node: NodeBuilder, number: usize| node.taint(&format!("t{number}"), "", "PreferNoSchedule");
        (0..count).fold(node(name), add).build()
    };
    let class = pod("p").build().class;
    for seed in 0..8 {
        let mut nodes = Snapshot::new(seed);
        for (number, count) in [(0, 0), (1, 1), (2, 101)] {
            nodes.upsert_node(NodeId(number), &tainted(&format!("n{number}"), count));
        }
        let prepared = Prepared::new(Registry::built_in(), &profile(), &class, &Facts::default(), &nodes);
        let evaluation = evaluate(&prepared, &nodes, 1);
        assert_eq!(evaluation.strata.len(), 3);
        let Best::Node { offer, .. } = select(&prepared, vec![evaluation]) else { panic!("a node is feasible") };
        assert_eq!(offer.rank, nodes.rank(0).min(nodes.rank(1)), "seed {seed}");
    }
}

#[test]
fn no_shards_and_empty_shards_know_of_no_node() {
    let nodes = Snapshot::new(0);
    let class = pod("p").build().class;
    let prepared = Prepared::new(Registry::built_in(), &profile(), &class, &Facts::default(), &nodes);
    assert_eq!(select(&prepared, Vec::new()), Best::Nothing);
    assert_eq!(select(&prepared, vec![Evaluation::default(), evaluate(&prepared, &nodes, 1)]), Best::Nothing);
}

#[test]
fn a_list_that_was_cut_runs_dry_only_once_all_of_it_is_used() {
    let mut nodes = Snapshot::new(0);
    for number in 0..5 {
        nodes.upsert_node(NodeId(number), &node(&format!("n{number}")).build());
    }
    let class = pod("p").build().class;
    let prepared = Prepared::new(Registry::built_in(), &profile(), &class, &Facts::default(), &nodes);
    let mut view = View::new(&prepared, vec![evaluate(&prepared, &nodes, 2)]);
    for used in 0..2 {
        let Best::Node { offer, repaired: false, .. } = view.best(&prepared, None) else {
            panic!("offer {used} is there")
        };
        view.repair(&prepared, &nodes, &Matches::default(), offer.node, None);
    }
    assert_eq!(view.best(&prepared, None), Best::Dry);
    // Even a node that is better than any other does not compensate for unknown nodes.
    let result = prepared.judge(&nodes, 0);
    view.repair(&prepared, &nodes, &Matches::default(), NodeId(0), Some(result));
    assert_eq!(view.best(&prepared, None), Best::Dry);
}
