//! A module with the rules of NodeAffinity, per node and in batches, yields NodeAffinity's results on random clusters and pods.

#![allow(missing_docs)]

#[path = "support/alone.rs"]
mod support;

use std::{path::Path, process::Command};

use flotilla_framework::testing::{NodeBuilder, PodBuilder, node, pod};
use serde_json::json;
use support::{Alone, Came};

const CLUSTERS: u64 = 1_000;

/// Builds the guest for its target.
fn build(features: &[&str]) -> Vec<u8> {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/affinity");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("affinity{}", features.concat()));
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--release", "--target", "wasm32-unknown-unknown"]).args(features);
    // The cargo variables of this test do not apply to the guest.
    let status = cargo.current_dir(&crate_root).env("CARGO_TARGET_DIR", &target).env_remove("RUSTFLAGS").status();
    assert!(status.expect("cargo can be started").success(), "the guest is not built");
    std::fs::read(target.join("wasm32-unknown-unknown/release/affinity.wasm")).expect("built")
}

/// Pseudorandom numbers.
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }

    fn of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[usize::try_from(self.below(list.len() as u64)).unwrap_or(0)]
    }
}

const KEYS: [&str; 4] = ["zone", "disk", "size", "gpu"];
const VALUES: [&str; 6] = ["a", "b", "1", "2", "30", ""];
const OPERATORS: [&str; 6] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];

fn cluster(seed: u64) -> (PodBuilder, Vec<NodeBuilder>) {
    let mut draw = Draw(seed * 0x9e37_79b9 + 1);
    let nodes = (0..1 + draw.below(12)).map(|number| {
        let labelled = |node: NodeBuilder, key: &&str| match draw.below(3) {
            0 => node,
            _ => node.label(key, draw.of(&VALUES)),
        };
        KEYS.iter().fold(node(&format!("n{number}")).capacity("pods", "10"), labelled)
    });
    let nodes: Vec<NodeBuilder> = nodes.collect();
    let mut wants = pod("p");
    if draw.below(4) == 0 {
        wants = wants.node_selector(draw.of(&KEYS), draw.of(&VALUES));
    }
    for _ in 0..draw.below(3) {
        let (key, operator) = (draw.of(&KEYS), draw.of(&OPERATORS));
        let one = [draw.of(&VALUES)];
        let several = [draw.of(&VALUES), draw.of(&VALUES)];
        let values: &[&str] = match operator {
            "In" | "NotIn" => &several,
            "Gt" | "Lt" => &one,
            _ => &[],
        };
        wants = wants.require(key, operator, values);
    }
    for _ in 0..draw.below(4) {
        let weight = i32::try_from(1 + draw.below(100)).unwrap_or(1);
        let (key, operator) = (draw.of(&KEYS), draw.of(&["In", "NotIn", "Exists"]));
        let value = [draw.of(&VALUES)];
        // Values for an operator without values are an error of the pod.
        wants = wants.prefer(weight, key, operator, if operator == "Exists" { &[] } else { &value });
    }
    (wants, nodes)
}

/// The feasible nodes with their scores.
fn shown(came: Came) -> Vec<(String, i64)> {
    match came {
        Came::Placed(_, totals) => totals,
        Came::Refused(_) => Vec::new(),
        Came::Failed(error) => panic!("{error}"),
    }
}

#[test]
fn a_module_that_does_what_node_affinity_does_gives_what_it_gives() {
    let args = json!({ "podFields": ["spec.nodeSelector", "spec.affinity.nodeAffinity"] });
    let single = Alone::try_new(&build(&[]), &args).expect("a sound guest");
    let batch = Alone::try_new(&build(&["--features", "batch"]), &args).expect("a sound guest");
    let own = single.of("NodeAffinity");
    let mut placed = 0;
    for seed in 1..=CLUSTERS {
        let (pod, nodes) = cluster(seed);
        let wanted = shown(own.place(&pod, &nodes));
        placed += u64::from(!wanted.is_empty());
        assert_eq!(shown(single.place(&pod, &nodes)), wanted, "node by node, seed {seed}: {pod:?} {nodes:?}");
        assert_eq!(shown(batch.place(&pod, &nodes)), wanted, "in batches, seed {seed}: {pod:?} {nodes:?}");
    }
    assert!((CLUSTERS / 4..CLUSTERS).contains(&placed), "{placed} of {CLUSTERS} pods found a node: a poor sample");
}
