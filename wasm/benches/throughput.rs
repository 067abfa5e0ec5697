//! Cost per node: a filter and a score over 5,000 nodes, compiled in, in batches, and per node.
//!
//! The first two use the same rule: a node with a team accepts only its pods, and nodes with more CPU score higher. Per node it is
//! NodeAffinity with a node selector, on nodes with 20 labels. Each round uses a new class, so that all nodes are evaluated.

#![allow(missing_docs)]

use std::{path::Path, process::Command, sync::Arc, time::Duration};

use flotilla_framework::{
    class::Class,
    evaluate::{Columns, Scratch},
    extension::{
        Extremes, Facts, Filter, NodeFilter, NodeScore, Normalize, Plugin, PodField, Point, Preparation, Score,
    },
    modules::Modules as _,
    node::NodeId,
    prepared::Prepared,
    profile::{Args, Plugins, Profile, WeightedPlugin},
    registry::Registry,
    snapshot::{Slot, Snapshot},
    status::{FilterResult, Refusal},
    symbols::Symbol,
    testing::{NodeBuilder, node, pod},
};
use flotilla_wasm::Table;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

const NODES: u32 = 5_000;
const ROUNDS: u32 = 200;
/// Numbers of different scores and of rejected nodes: half of the nodes have another team.
const TEAM: [usize; 2] = [3, 2_500];
/// Half of the nodes have another disk, and nothing is preferred.
const AFFINITY: [usize; 2] = [1, 2_500];

struct Team;

struct OfTeam {
    key: Symbol,
    team: Option<Symbol>,
}

struct ByCpu;

impl Plugin for Team {
    fn name(&self) -> &'static str {
        "Team"
    }

    fn pod_fields(&self, _: &Args) -> Vec<PodField> {
        vec![PodField::label("team")]
    }

    fn filter(&self, preparation: &mut Preparation<'_>) -> Option<Filter> {
        let team = preparation.class.field(&PodField::label("team")).map(str::to_owned);
        let team = team.map(|team| preparation.symbols.number(&team));
        Some(Filter::Node(Box::new(OfTeam { key: preparation.symbols.number("example.com/team"), team })))
    }

    fn score(&self, _: &mut Preparation<'_>) -> Option<Score> {
        Some(Score::Node(Box::new(ByCpu)))
    }

    fn normalize(&self) -> Option<Normalize> {
        Some(|raw, Extremes { max, .. }| if max == 0 { 0 } else { raw * 100 / max })
    }
}

impl NodeFilter for OfTeam {
    fn filter(&self, nodes: &Snapshot, slot: Slot) -> FilterResult {
        let owner = nodes.label(self.key, slot);
        if owner == Symbol::NONE || self.team == Some(owner) { Ok(()) } else { Err(Refusal::unresolvable(0)) }
    }

    fn reasons(&self, _: u64) -> Vec<String> {
        vec!["node(s) belonged to another team".to_owned()]
    }
}

impl NodeScore for ByCpu {
    fn score(&self, nodes: &Snapshot, slot: Slot) -> i64 {
        nodes.accounts.allocatable_milli_cpu[slot as usize] / 1000
    }
}

fn guest(feature: &str) -> Vec<u8> {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/affinity");
    let target = std::env::temp_dir().join(format!("flotilla-bench-{feature}"));
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "--release", "--target", "wasm32-unknown-unknown"]);
    if !feature.is_empty() {
        cargo.args(["--features", feature]);
    }
    let status = cargo.current_dir(crate_root).env("CARGO_TARGET_DIR", &target).status();
    assert!(status.expect("cargo can be started").success(), "the guest is not built");
    std::fs::read(target.join("wasm32-unknown-unknown/release/affinity.wasm")).expect("built")
}

fn nodes() -> Snapshot {
    let mut nodes = Snapshot::new(0);
    for number in 0..NODES {
        let team = ["red", "red", "blue", "green"][number as usize % 4];
        let cpu = ["4", "8", "16"][number as usize % 3];
        let mut builder: NodeBuilder = node(&format!("node-{number}")).capacity("cpu", cpu).capacity("pods", "110");
        builder = builder.label("example.com/team", team).label("disk", ["ssd", "hdd"][number as usize % 2]);
        for label in 0..18 {
            builder = builder.label(&format!("example.com/label-{label}"), &format!("value-{}", number % (label + 2)));
        }
        nodes.upsert_node(NodeId(number), &builder.build());
    }
    nodes
}

fn on_processor() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn profile(name: &str, args: Args, points: &[Point]) -> Profile {
    let plugin = || vec![name.to_owned()];
    let at = |point: Point| if points.contains(&point) { plugin() } else { Vec::new() };
    let score = at(Point::Score).into_iter().map(|name| WeightedPlugin { name, weight: 1 }).collect();
    let plugins = Plugins { pre_filter: at(Point::PreFilter), filter: plugin(), score, ..Plugins::default() };
    Profile { scheduler_name: "bench".into(), percentage_of_nodes_to_score: None, plugins, args }
}

fn measure(
    what: &str,
    registry: Registry,
    profile: &Profile,
    nodes: &Snapshot,
    (rounds, expected): (u32, [usize; 2]),
) -> Duration {
    let shown = [PodField::label("team")];
    let class: Arc<Class> = Arc::new(
        Arc::new(pod("p").label("team", "red").node_selector("disk", "ssd").build())
            .showing(&shown)
            .class
            .as_ref()
            .clone(),
    );
    let mut scratch = Scratch::default();
    let mut took = Duration::ZERO;
    for round in 0..=rounds {
        let prepared = Prepared::new(registry, profile, &class, &Facts::default(), nodes);
        let mut columns = Columns::default();
        let begun = on_processor();
        columns.refresh(&prepared, nodes, &mut scratch);
        // The first round starts instances and allocates memory.
        if round > 0 {
            took += on_processor().saturating_sub(begun);
        }
        let answer = columns.answer_all(&prepared, nodes, 1, &mut scratch);
        let refused = answer.refused.iter().map(|refused| refused.count as usize).sum();
        assert_eq!((prepared.error(), [answer.strata.len(), refused]), (None, expected), "{what}");
    }
    let a_node = took / (rounds * NODES);
    let nodes_a_second = f64::from(rounds) * f64::from(NODES) / took.as_secs_f64();
    println!("{what:<40} {a_node:>8.1?} a node  {nodes_a_second:>12.0} nodes a second");
    a_node
}

fn main() {
    let nodes = nodes();
    let compiled = Registry::built_in().with([Box::new(Team) as Box<dyn Plugin>]).expect("a name of its own");
    measure(
        "compiled in: filter and score",
        compiled,
        &profile("Team", Args::default(), &[Point::Score]),
        &nodes,
        (ROUNDS, TEAM),
    );
    let batch = ("module in batches: filter and score", "team", json!({}), &[Point::Score][..], (ROUNDS, TEAM));
    let (affinity, both) = ((10, AFFINITY), [Point::PreFilter, Point::Score]);
    let single = [
        ("module node by node: filter", json!(null), &both[..1]),
        ("module node by node: filter and score", json!(null), &both[..]),
        ("the same, nodeFields with one label", json!(["metadata.labels['disk']"]), &both[..]),
    ];
    let single = single.map(|(what, node_fields, points)| {
        (what, "", json!({ "podFields": ["spec.nodeSelector"], "nodeFields": node_fields }), points, affinity)
    });
    for (what, feature, mut written, points, rounds) in [batch].into_iter().chain(single) {
        let table = Table::new();
        let digest = table.load(guest(feature).into()).expect("a sound guest");
        written["guestURL"] = json!("file:///guest.wasm");
        written["sha256"] = json!(digest.to_string());
        let mut args = Args::default();
        args.own.insert("Module".to_owned(), written);
        let profile = profile("Module", args, points);
        table.adopt(&profile).expect("a sound module");
        measure(what, Registry::built_in().and(table), &profile, &nodes, rounds);
    }
}
