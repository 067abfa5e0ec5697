//! Domain-level plugins, tested with a limit of pods of an application per zone, and a preference for the zone with the fewest.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use flotilla_framework::{
    class::{Class, ClassId},
    domains::Sums,
    explain::{Explanation, NodeExplanation},
    extension::{
        Amounts, ClusterEvent, DefaultSelector, DomainFilter, DomainScore, Domains, Extremes, Filter, Normalize,
        Plugin, Preparation, Score, Term,
    },
    node::NodeId,
    plugins::{
        image_locality::ImageLocality, node_affinity::NodeAffinity, node_name::NodeName, node_ports::NodePorts,
        node_resources_balanced_allocation::NodeResourcesBalancedAllocation, node_resources_fit::NodeResourcesFit,
        node_unschedulable::NodeUnschedulable, normalize, taint_toleration::TaintToleration,
    },
    prepared::{NodeResult, Prepared},
    profile::{Args, Profile, WeightedPlugin},
    registry::Registry,
    select::{View, select},
    snapshot::{Slot, Snapshot},
    status::{FilterResult, Refusal},
    symbols::Symbol,
    testing::{node, pod, profile},
    volumes::storage::Storage,
};
use proptest::{collection::vec, prelude::*, sample::select as one_of};

#[path = "support/cluster.rs"]
mod cluster;

use cluster::{World, any_world, evaluate, pages, placed};

struct SameApp {
    terms: [Term; 1],
    app: String,
}

fn app_of(class: &Class) -> &str {
    class.labels.iter().find(|(key, _)| &**key == "app").map_or("", |(_, value)| value)
}

impl Domains for SameApp {
    fn terms(&self) -> &[Term] {
        &self.terms
    }

    fn amounts(&self, class: &Class) -> Amounts {
        if app_of(class) == self.app { [(0, 1)].into_iter().collect() } else { Amounts::new() }
    }
}

fn same_app(nodes: &Snapshot, slot: Slot, app: &str) -> i64 {
    let same = |id: &ClassId| nodes.class(*id).is_some_and(|class| app_of(class) == app);
    nodes.tenants(slot).iter().filter(|(id, _)| same(id)).map(|(_, count)| i64::from(*count)).sum()
}

/// Limits the pods of an application under each value of a label.
struct Limit {
    name: &'static str,
    key: &'static str,
    most: i64,
}

const FULL: u64 = 0;
const NOWHERE: u64 = 1;

fn limit(most: i64, count: Option<i64>) -> FilterResult {
    match count {
        None => Err(Refusal::unresolvable(NOWHERE)),
        Some(count) if count >= most => Err(Refusal::unschedulable(FULL)),
        Some(_) => Ok(()),
    }
}

struct Limited(SameApp, i64);

impl Domains for Limited {
    fn terms(&self) -> &[Term] {
        self.0.terms()
    }

    fn amounts(&self, class: &Class) -> Amounts {
        self.0.amounts(class)
    }
}

impl DomainFilter for Limited {
    fn judge(&self, sums: Sums<'_>) -> FilterResult {
        limit(self.1, sums.count(0))
    }

    fn reasons(&self, detail: u64) -> Vec<String> {
        vec![if detail == FULL { "domain is full" } else { "node is in no domain" }.to_owned()]
    }
}

impl Plugin for Limit {
    fn name(&self) -> &'static str {
        self.name
    }

    fn filter(&self, preparation: &mut Preparation<'_>) -> Option<Filter> {
        let counting = counting(preparation, self.key);
        Some(Filter::Domain(Box::new(Limited(counting, self.most))))
    }

    fn wakes(&self, event: ClusterEvent<'_>, class: &Class, _args: &Args) -> bool {
        matches!(event, ClusterEvent::PodRemoved(gone) if app_of(gone) == app_of(class))
    }
}

fn counting(preparation: &mut Preparation<'_>, key: &str) -> SameApp {
    SameApp { terms: [Term::over(preparation.symbols.number(key))], app: app_of(preparation.class).to_owned() }
}

/// Prefers the value of a label with the fewest pods of an application.
struct Fewest {
    name: &'static str,
    key: &'static str,
}

impl DomainScore for SameApp {
    fn score(&self, _weights: &[f64], sums: Sums<'_>) -> Option<i64> {
        Some(sums.count(0).unwrap_or(0))
    }
}

impl Plugin for Fewest {
    fn name(&self) -> &'static str {
        self.name
    }

    fn score(&self, preparation: &mut Preparation<'_>) -> Option<Score> {
        Some(Score::Domain(Box::new(counting(preparation, self.key))))
    }

    fn normalize(&self) -> Option<Normalize> {
        Some(normalize::reversed)
    }
}

const LIMITS: [Limit; 2] =
    [Limit { name: "ZoneLimit", key: "zone", most: 4 }, Limit { name: "SizeLimit", key: "size", most: 6 }];

const FEWEST: [Fewest; 2] =
    [Fewest { name: "FewestInZone", key: "zone" }, Fewest { name: "FewestOfSize", key: "size" }];

const TOYS: Registry = Registry::of(&[
    &NodeName,
    &NodeUnschedulable,
    &TaintToleration,
    &NodeAffinity,
    &NodePorts,
    &NodeResourcesFit,
    &NodeResourcesBalancedAllocation,
    &ImageLocality,
    &LIMITS[0],
    &LIMITS[1],
    &FEWEST[0],
    &FEWEST[1],
]);

/// Inserts the toys into a profile at these positions among filters and scores.
fn with_toys(profile: &mut Profile, toys: &[(usize, usize)]) {
    for (toy, &(filter, score)) in toys.iter().enumerate() {
        let filters = &mut profile.plugins.filter;
        filters.insert(filter.min(filters.len()), LIMITS[toy].name.to_owned());
        let scores = &mut profile.plugins.score;
        let weighted = WeightedPlugin { name: FEWEST[toy].name.to_owned(), weight: 2 + toy as i64 };
        scores.insert(score.min(scores.len()), weighted);
    }
}

struct ByHand {
    best: Option<(NodeId, i64)>,
    refused: BTreeMap<(u16, Refusal), u32>,
}

fn value_of(nodes: &mut Snapshot, key: &str, slot: Slot) -> Option<String> {
    let key = nodes.symbols.intern(key);
    let value = nodes.label(key, slot);
    (value != Symbol::NONE).then(|| nodes.symbols.text(value).to_owned())
}

/// For each node the number of the application's pods that share its value of a label; `None` if it lacks the label.
fn counts(world: &World, nodes: &mut Snapshot, key: &str) -> Vec<Option<i64>> {
    let slots: Vec<Slot> = nodes.live().collect();
    let values: Vec<Option<String>> = slots.iter().map(|&slot| value_of(nodes, key, slot)).collect();
    let own: Vec<i64> = slots.iter().map(|&slot| same_app(nodes, slot, app_of(&world.class))).collect();
    let sum = |value: &String| {
        let same = values.iter().zip(&own).filter(|(other, _)| other.as_ref() == Some(value));
        same.map(|(_, count)| count).sum()
    };
    values.iter().map(|value| value.as_ref().map(sum)).collect()
}

fn by_hand(world: &World, nodes: &mut Snapshot, prepared: &Prepared) -> ByHand {
    let plugins = &world.profile.plugins;
    let toys = LIMITS.iter().zip(&FEWEST).filter(|(limit, _)| plugins.filter.iter().any(|name| name == limit.name));
    let toys: Vec<_> = toys.map(|(limit, fewest)| (limit, fewest, counts(world, nodes, limit.key))).collect();
    let order = |name: &str| plugins.filter.iter().position(|known| known == name).map_or(0, |place| place as u16 + 1);
    let mut refused = BTreeMap::new();
    let mut feasible = Vec::new();
    for slot in nodes.live() {
        let local = match prepared.judge(nodes, slot) {
            NodeResult::Refused(order, refusal) => Err((order, refusal)),
            NodeResult::Feasible(feasible) => Ok(feasible),
        };
        let wide = toys.iter().filter_map(|(toy, _, counts)| {
            limit(toy.most, counts[slot as usize]).err().map(|refusal| (order(toy.name), refusal))
        });
        match local.as_ref().err().copied().into_iter().chain(wide).min_by_key(|(order, _)| *order) {
            Some(first) => *refused.entry(first).or_default() += 1,
            None => feasible.extend(local.ok().map(|known| (slot, known))),
        }
    }
    let column = |raws: Vec<i64>, weight: i64, normalize: Normalize| {
        let extremes =
            Extremes { min: raws.iter().min().copied().unwrap_or(0), max: raws.iter().max().copied().unwrap_or(0) };
        raws.into_iter().map(|raw| weight * normalize(raw, extremes)).collect::<Vec<_>>()
    };
    let mut totals: Vec<i64> = feasible.iter().map(|(_, known)| known.base).collect();
    let mut add = |scores: Vec<i64>| totals.iter_mut().zip(scores).for_each(|(total, score)| *total += score);
    let weight = |name: &str| plugins.score.iter().find(|known| known.name == name).map_or(0, |known| known.weight);
    let local =
        [(weight("TaintToleration"), normalize::reversed as Normalize), (weight("NodeAffinity"), normalize::scaled)];
    for (place, (weight, normalize)) in local.into_iter().enumerate() {
        if feasible.iter().all(|(_, known)| known.raws.len() > place) {
            add(column(feasible.iter().map(|(_, known)| known.raws[place]).collect(), weight, normalize));
        }
    }
    for (_, fewest, counts) in &toys {
        let raws = feasible.iter().map(|(slot, _)| counts[*slot as usize].unwrap_or(0)).collect();
        add(column(raws, weight(fewest.name), normalize::reversed));
    }
    let ranked = feasible.iter().zip(&totals).min_by_key(|((slot, _), total)| (Reverse(**total), nodes.rank(*slot)));
    let best = ranked.and_then(|((slot, _), total)| Some((nodes.id(*slot)?, *total)));
    ByHand { best, refused }
}

fn refusals(view: &View) -> BTreeMap<(u16, Refusal), u32> {
    let mut counts = BTreeMap::new();
    for group in view.refused() {
        *counts.entry((group.order, group.refusal)).or_default() += group.count;
    }
    counts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn sums_over_domains_give_the_same_best_node_and_refusals_however_nodes_are_split(
        mut world in any_world(20),
        owners in vec(0..7_usize, 20),
        shards in 1..=7_usize,
        toys in vec((0..8_usize, 0..8_usize), 1..=2),
        k in one_of(vec![1, 3, usize::MAX]),
    ) {
        with_toys(&mut world.profile, &toys);
        let mut nodes = world.whole();
        let prepared = world.prepare(TOYS, &mut nodes);
        prop_assume!(prepared.refusal().is_none());
        let by_hand = by_hand(&world, &mut nodes, &prepared);
        let whole = View::new(&prepared, vec![evaluate(&prepared, &nodes, k)]);
        prop_assert!(prepared.is_wide());
        prop_assert_eq!(&refusals(&whole), &by_hand.refused, "whole");
        let answers = world.answers(TOYS, &owners, shards, k);
        prop_assert_eq!(&refusals(&View::new(&prepared, answers.clone())), &by_hand.refused, "split");
        prop_assert_eq!(placed(select(&prepared, vec![evaluate(&prepared, &nodes, k)])), Ok(by_hand.best), "whole");
        prop_assert_eq!(placed(select(&prepared, answers)), Ok(by_hand.best), "split");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn an_account_over_domains_agrees_with_the_decision_however_nodes_are_split(
        mut world in any_world(20),
        owners in vec(0..7_usize, 20),
        shards in 1..=7_usize,
        toys in vec((0..8_usize, 0..8_usize), 1..=2),
        limit in 1..=7_usize,
    ) {
        with_toys(&mut world.profile, &toys);
        let mut nodes = world.whole();
        let prepared = world.prepare(TOYS, &mut nodes);
        prop_assume!(prepared.refusal().is_none());
        let by_hand = by_hand(&world, &mut nodes, &prepared);
        let whole = Explanation::new(&prepared, &world.profile, &pages(&prepared, &nodes, usize::MAX));
        let split = Explanation::new(&prepared, &world.profile, &world.pages(TOYS, &owners, shards, limit));
        prop_assert_eq!(&split, &whole);
        let total = by_hand.best.map(|(node, total)| (whole.best().contains(&node), total));
        let told = whole.best().first().and_then(|node| whole.nodes[node].total());
        prop_assert_eq!(total, told.map(|told| (true, told)));
        let mut refused: BTreeMap<(&str, Vec<String>), u32> = BTreeMap::new();
        for ((order, refusal), count) in &by_hand.refused {
            let plugin = prepared.plugin(*order).unwrap_or_default();
            *refused.entry((plugin, prepared.reasons(*order, refusal.detail))).or_default() += count;
        }
        for outcome in whole.nodes.values() {
            if let NodeExplanation::Refused { plugin, reasons, .. } = outcome {
                *refused.entry((plugin.unwrap_or_default(), reasons.to_vec())).or_default() -= 1;
            }
        }
        prop_assert!(refused.values().all(|&left| left == 0), "{:?}", refused);
    }
}

/// Three nodes in two zones, all too small or tainted; zone `a` is full.
fn crowded() -> World {
    let app = |name: &str| pod(name).label("app", "web").request("cpu", "0").build().class;
    World {
        nodes: vec![
            node("n0").label("zone", "a").taint("k", "", "NoSchedule").build(),
            node("n1").label("zone", "a").capacity("cpu", "1").build(),
            node("n2").label("zone", "b").capacity("cpu", "1").build(),
            node("n3").capacity("cpu", "1").build(),
        ],
        classes: vec![app("web")],
        standing: vec![vec![0, 0], vec![0, 0], vec![0], vec![]],
        class: Class::clone(&pod("p").label("app", "web").request("cpu", "2").build().class),
        profile: profile(),
        storage: Storage::default(),
        default_selector: DefaultSelector::default(),
    }
}

fn message(place: usize) -> String {
    let mut world = crowded();
    with_toys(&mut world.profile, &[(place, 0)]);
    let mut nodes = world.whole();
    let prepared = world.prepare(TOYS, &mut nodes);
    let answers = world.answers(TOYS, &[0, 1, 2, 3], 4, 1);
    let view = View::new(&prepared, answers);
    flotilla_framework::diagnosis::of_nodes(&prepared, view.refused(), view.covered() as usize).message
}

#[test]
fn whichever_filter_stands_first_in_the_profile_is_the_one_that_is_named() {
    let first = "0/4 nodes are available: 1 Insufficient cpu, 1 node is in no domain, 2 domain is full.";
    let between = "0/4 nodes are available: 1 Insufficient cpu, 1 domain is full, 1 node is in no domain, \
                   1 node(s) had untolerated taint(s).";
    let last = "0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 Insufficient cpu.";
    assert_eq!([message(0), message(3), message(6)], [first, between, last]);
}

#[test]
fn nodes_without_the_label_are_in_no_domain_and_count_in_none() {
    let mut world = crowded();
    with_toys(&mut world.profile, &[(0, 0)]);
    let mut nodes = world.whole();
    let prepared = world.prepare(TOYS, &mut nodes);
    let evaluation = evaluate(&prepared, &nodes, 1);
    let counted: BTreeSet<(String, i64)> =
        evaluation.tallies[0].0.iter().map(|((_, domain), count)| (domain.to_string(), *count)).collect();
    assert_eq!(counted, BTreeSet::from([("a".to_owned(), 4), ("b".to_owned(), 1)]));
}

#[test]
fn the_zone_with_the_fewest_wins() {
    let mut world = crowded();
    world.nodes = vec![
        node("full").label("zone", "a").build(),
        node("empty").label("zone", "a").build(),
        node("other").label("zone", "b").build(),
    ];
    world.standing = vec![vec![0, 0], vec![], vec![0]];
    with_toys(&mut world.profile, &[(0, 0)]);
    let mut nodes = world.whole();
    let prepared = world.prepare(TOYS, &mut nodes);
    for shards in 1..=3 {
        let best = select(&prepared, world.answers(TOYS, &[0, 1, 2], shards, 1));
        assert_eq!(placed(best).map(|placed| placed.map(|(node, _)| node)), Ok(Some(NodeId(2))), "{shards} shards");
    }
}
