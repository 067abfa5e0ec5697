//! The work limit of an attempt, and claims at high indices.

use std::collections::BTreeSet;

use super::*;
use crate::{
    class::NodeTerm,
    devices::{
        inventory::Inventory,
        model::{
            class::DeviceClass,
            request::{AllocationMode, Ask, ClaimSpec, Request},
            slice::{Attribute, Device, Nodes, Slice},
        },
        node::LocalPools,
        pools::NodePools,
        work::MAX_WORK,
    },
    node::{NodeId, NodeInfo},
    testing::node,
};

const NODES: u32 = 1_000;
const DEVICES: u32 = 8;

/// Nodes with eight devices each, with different UUIDs.
fn nodes(count: u32) -> Snapshot {
    let mut inventory = Inventory::default();
    let mut snapshot = Snapshot::new(1);
    for number in 0..count {
        let name: Arc<str> = format!("node-{number}").into();
        let device = |index: u32| Device {
            name: format!("gpu-{index}").into(),
            attributes: vec![
                ("model".into(), Attribute::Text("H100".into())),
                ("uuid".into(), Attribute::Text(format!("GPU-{number}-{index}").into())),
            ],
            ..Device::default()
        };
        inventory.apply(Arc::new(Slice {
            name: Arc::clone(&name),
            driver: "gpu.example.com".into(),
            pool: Arc::clone(&name),
            generation: 1,
            slice_count: 1,
            nodes: Nodes { name: Some(name), ..Nodes::default() },
            devices: (0..DEVICES).map(device).collect(),
            ..Slice::default()
        }));
    }
    for number in 0..count {
        let info = node(&format!("node-{number}")).build();
        let pools = LocalPools::of(NodePools::of(&info, &inventory));
        let devices = Some(Arc::new(pools.with(&crate::devices::allocated::Allocated::default())));
        snapshot.upsert_node(NodeId(number), &Arc::new(NodeInfo { devices, ..info }));
    }
    snapshot
}

/// A search for a claim with requests by count and selectors.
fn search(nodes: &Snapshot, requests: &[(i64, Vec<String>)]) -> Search {
    let class = DeviceClass {
        name: "gpu".into(),
        selectors: vec![Some("device.driver == 'gpu.example.com'".into())],
        ..DeviceClass::default()
    };
    let request = |(at, (count, selectors)): (usize, &(i64, Vec<String>))| Request {
        name: format!("r{at}").into(),
        kind: RequestKind::Exactly(Ask {
            class: "gpu".into(),
            selectors: selectors.iter().map(|selector| Some(selector.as_str().into())).collect(),
            mode: AllocationMode::Count(*count),
            ..Ask::default()
        }),
    };
    let requests = requests.iter().enumerate().map(request).collect();
    let spec = Arc::new(ClaimSpec { requests, ..ClaimSpec::default() });
    let claim = ClaimFact::Unallocated { label: "default/c".into(), spec };
    search_for(nodes, vec![claim], vec![Arc::new(class)])
}

fn search_for(nodes: &Snapshot, claims: Vec<ClaimFact>, classes: Vec<Arc<DeviceClass>>) -> Search {
    let claims = Arc::new(Claims { claims, classes, ..Claims::default() });
    let (table, _) = nodes.tables();
    Search::new(&claims, &mut Lookup::of(table))
}

fn limit(search: &Search, work: u64) {
    search.kept.lock().unwrap_or_else(PoisonError::into_inner).verdicts.replace_work(Work::of(work));
}

fn work(search: &Search) -> u64 {
    search.kept.lock().unwrap_or_else(PoisonError::into_inner).verdicts.work().done()
}

fn outcomes(search: &Search, nodes: &Snapshot) -> Vec<FilterResult> {
    nodes.live().map(|slot| search.filter(nodes, slot)).collect()
}

const MODEL: &str = "device.attributes['gpu.example.com'].model == 'H100'";
const UUID: &str = "device.attributes['gpu.example.com'].uuid.startsWith('GPU-')";

#[test]
fn what_attempts_need_is_far_below_what_they_may_do() {
    let nodes = nodes(NODES);
    let ordinary = search(&nodes, &[(4, vec![MODEL.to_owned()]), (2, vec![MODEL.to_owned()])]);
    assert!(outcomes(&ordinary, &nodes).iter().all(Result::is_ok));
    // 5,000 nodes take five times as much.
    assert!(work(&ordinary) * 5 < MAX_WORK / 10, "{}", work(&ordinary));
    let unequal = search(&nodes, &[(8, vec![MODEL.to_owned(), UUID.to_owned()])]);
    assert!(outcomes(&unequal, &nodes).iter().all(Result::is_ok));
    assert!(work(&unequal) * 5 < MAX_WORK / 2, "{}", work(&unequal));
}

#[test]
fn a_search_over_all_nodes_ends_where_the_work_does() {
    let nodes = nodes(NODES);
    let trivial = |of: &str, count: usize| (0..count).map(|at| format!("device.driver != '{of}{at}'")).collect();
    let never = (1, vec!["device.driver == 'never'".to_owned()]);
    let rounds = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]";
    let nested = format!("{rounds}.all(a, {rounds}.all(b, {UUID} || a == b))");
    let pattern =
        |at: usize| format!("device.driver.matches('\\\\pL{{3}}{at}|' + {})", UUID.replace(".startsWith('GPU-')", ""));
    let hostile = [
        ("steps", vec![(4, trivial("x", 32)), (2, trivial("y", 32)), (1, Vec::new()), never]),
        ("comprehensions", vec![(8, (0..32).map(|at| format!("{nested} && {at} >= 0")).collect())]),
        ("patterns", vec![(1, (0..32).map(pattern).collect())]),
        (
            "expressions",
            vec![(
                1,
                (0..32).map(|at| [trivial("z", 400), vec![at.to_string() + " >= 0"]].concat().join(" && ")).collect(),
            )],
        ),
    ];
    for (what, requests) in hostile {
        let search = search(&nodes, &requests);
        limit(&search, 300_000);
        let outcomes = outcomes(&search, &nodes);
        assert!(search.is_exhausted(), "{what}: {} units", work(&search));
        let errors: BTreeSet<&Refusal> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
        let refusal = outcomes.last().expect("a node").expect_err("an error");
        assert_eq!(refusal.code, crate::status::Code::Error, "{what}");
        assert!(errors.contains(&refusal) && errors.len() <= 2, "{what}: {errors:?}");
        let words = search.reasons(refusal.detail);
        assert!(words[0].ends_with(": timed out trying to allocate devices"), "{what}: {words:?}");
        // Neither this attempt nor the next does further work.
        let done = work(&search);
        assert_eq!(search.filter(&nodes, 0), Err(refusal));
        search.begin();
        assert_eq!(search.filter(&nodes, 0), Err(refusal));
        assert_eq!(work(&search), 0, "{what}: {done} units before");
    }
}

#[test]
fn the_work_of_an_attempt_is_the_same_whoever_counts_it() {
    let nodes = nodes(50);
    let count = || {
        let search = search(&nodes, &[(8, vec![MODEL.to_owned(), UUID.to_owned()])]);
        outcomes(&search, &nodes);
        work(&search)
    };
    assert_eq!(count(), count());
}

#[test]
fn a_search_keeps_count_of_what_it_keeps() {
    let nodes = nodes(50);
    let search = search(&nodes, &[(8, vec![UUID.to_owned()])]);
    let before = search.bytes();
    outcomes(&search, &nodes);
    assert!(search.bytes() >= before + 50 * 8 * 100, "{} and {before}", search.bytes());
}

#[test]
fn claims_behind_the_64th_are_not_available_either() {
    let nodes = nodes(1);
    let claim = |is_here: bool| ClaimFact::Allocated {
        skips_operations: false,
        nodes: (!is_here).then(Vec::<NodeTerm>::new),
        has_failed: false,
        score: 0,
        devices: None,
    };
    for place in [0, 30, 31, 32, 63, 64, 100] {
        let claims = (0..=100).map(|at| claim(at != place)).collect();
        let search = search_for(&nodes, claims, Vec::new());
        let refusal = search.filter(&nodes, 0).expect_err("a claim is elsewhere");
        assert_eq!(refusal.detail, UNAVAILABLE | 1 << place.min(LAST_MARK), "claim {place}");
        let lacks = search.lacks(&nodes, 0).unwrap_or_default();
        let is_it = |lack: &Lack| matches!(lack, Lack::Devices(DeviceLack::Allocated { claim, .. }) if *claim == place);
        assert!(lacks.iter().any(is_it) && lacks.len() == 1, "claim {place}: {lacks:?}");
    }
}
