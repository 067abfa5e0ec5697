//! Compares guests with the host of kube-scheduler-wasm-extension. Its answers are recorded in `upstream/answers.json`.
//!
//! `upstream/host.go` records them and documents its build. `FLOTILLA_UPSTREAM_HOST=PROGRAM` records them again in this test.

#![allow(missing_docs)]

#[path = "support/alone.rs"]
mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use flotilla_framework::testing::{NodeBuilder, PodBuilder, node, pod};
use serde::Deserialize;
use serde_json::{Value, json};
use support::{Alone, Came, guest};

const FILTER_ALL: &str = r#"(func (export "filter") (result i32) (i32.const 0))"#;
const BY_DIGIT: &str =
    r#"(func (export "score") (result i64) (i64.shl (i64.extend_i32_u (call $digit)) (i64.const 32)))"#;
const REASON: &str = "(call $reason (i32.const 0) (i32.const 8))";

/// The cluster in Kubernetes' form.
fn cluster() -> Value {
    let node = |name: &str| {
        let status = json!({ "allocatable": { "cpu": "4", "pods": "10" }, "capacity": { "cpu": "4", "pods": "10" } });
        json!({ "metadata": { "name": name, "labels": { "zone": name } }, "status": status })
    };
    let pod = json!({ "metadata": { "name": "p", "namespace": "default", "uid": "p" }, "spec": { "containers": [] } });
    let nodes = ["n1", "n2", "n3"].map(node);
    json!({ "pod": pod, "nodes": nodes, "config": "three" })
}

/// The cluster in the framework's form.
fn built() -> (PodBuilder, Vec<NodeBuilder>) {
    let node = |name| node(name).label("zone", name).capacity("cpu", "4").capacity("pods", "10");
    (pod("p"), ["n1", "n2", "n3"].map(node).to_vec())
}

/// Guests by name: results, reads and errors of each function that is run.
fn guests() -> BTreeMap<String, String> {
    let mut guests = BTreeMap::new();
    let mut add = |name: &str, functions: String| guests.insert(name.to_owned(), functions);
    for code in [0, 1, 2, 3, 4, 5, 6, 77] {
        let filter = format!(r#"(func (export "filter") (result i32) {REASON} (i32.const {code}))"#);
        add(&format!("filter-status-{code}"), format!("{filter} {BY_DIGIT}"));
        let pre_filter = format!(r#"(func (export "prefilter") (result i32) {REASON} (i32.const {code}))"#);
        add(&format!("prefilter-status-{code}"), format!("{pre_filter} {FILTER_ALL} {BY_DIGIT}"));
        let pre_score = format!(r#"(func (export "prescore") (result i32) {REASON} (i32.const {code}))"#);
        add(&format!("prescore-status-{code}"), format!("{pre_score} {BY_DIGIT}"));
        let score = format!(r#"(func (export "score") (result i64) {REASON} (i64.const {code}))"#);
        add(&format!("score-status-{code}"), score);
        let normalize = format!(r#"(func (export "normalizescore") (result i32) {REASON} (i32.const {code}))"#);
        add(&format!("normalizescore-status-{code}"), format!("{normalize} {BY_DIGIT}"));
    }
    for (name, body) in [
        ("without-reason", "(i32.const 2)"),
        ("only-n2", "(i32.mul (i32.const 2) (i32.ne (call $digit) (i32.const 2)))"),
        ("reads-config", "(i32.mul (i32.const 2) (i32.ne (call $config (i32.const 200) (i32.const 9)) (i32.const 5)))"),
        ("small-buffer", SMALL_BUFFER),
        ("severity", "(i32.mul (i32.const 2) (i32.ne (call $severity) (i32.const 0)))"),
        ("pod-is-there", "(i32.mul (i32.const 2) (i32.eqz (call $pod (i32.const 200) (i32.const 0))))"),
        ("traps", "unreachable"),
        ("divides-by-zero", "(i32.div_u (i32.const 1) (i32.const 0))"),
        ("reads-outside", "(i32.load (i32.const 999999))"),
        ("exits", "(call $exit (i32.const 3)) (i32.const 0)"),
    ] {
        add(&format!("filter-{name}"), format!(r#"(func (export "filter") (result i32) {body}) {BY_DIGIT}"#));
    }
    let names = r#"(func (export "prefilter") (result i32) (call $names (i32.const 16) (i32.const 6)) (i32.const 0))"#;
    add("prefilter-names", format!("{names} {FILTER_ALL} {BY_DIGIT}"));
    for (export, result, rest) in
        [("prefilter", "i32", FILTER_ALL), ("prescore", "i32", BY_DIGIT), ("score", "i64", FILTER_ALL)]
    {
        add(&format!("{export}-traps"), format!(r#"(func (export "{export}") (result {result}) unreachable) {rest}"#));
    }
    add("score-too-high", r#"(func (export "score") (result i64) (i64.const 433791696896))"#.to_owned());
    add("normalizescore-changes", format!("{CHANGES} {BY_DIGIT}"));
    add("state-from-prefilter", format!("{STATE} {FILTER_ALL}"));
    add("start-traps", format!(r#"(func (export "_start") unreachable) {BY_DIGIT}"#));
    guests
}

/// Writes 9 over the value of the first entry: {"n1":1,...
const CHANGES: &str = r#"(func (export "normalizescore") (result i32) (local $len i32)
    (local.set $len (call $scores (i32.const 2000) (i32.const 4096)))
    (i32.store8 (i32.add (i32.const 2000) (call $value (local.get $len))) (i32.const 57))
    (call $normalized (i32.const 2000) (local.get $len)) (i32.const 0))
    (func $value (param $len i32) (result i32) (local $at i32)
      (loop $next
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br_if $next (i32.ne (i32.load8_u (i32.add (i32.const 2000) (local.get $at))) (i32.const 58))))
      (i32.add (local.get $at) (i32.const 1)))"#;

/// Returns the length and writes nothing.
const SMALL_BUFFER: &str = "(i32.store (i32.const 200) (i32.const 77))
    (if (i32.ne (call $node_name (i32.const 200) (i32.const 1)) (i32.const 2)) (then (return (i32.const 2))))
    (i32.mul (i32.const 2) (i32.ne (i32.load (i32.const 200)) (i32.const 77)))";

/// prescore and score see the state of prefilter.
const STATE: &str = r#"(global $state (mut i32) (i32.const 0))
    (func (export "prefilter") (result i32) (global.set $state (i32.const 40)) (i32.const 0))
    (func (export "prescore") (result i32)
      (global.set $state (i32.add (global.get $state) (i32.const 2))) (i32.const 0))
    (func (export "score") (result i64) (i64.shl (i64.extend_i32_u (global.get $state)) (i64.const 32)))"#;

#[derive(Debug, Deserialize)]
struct Status {
    code: String,
    #[serde(default)]
    reason: String,
}

#[derive(Debug, Deserialize)]
struct Score {
    score: i64,
    status: Option<Status>,
}

/// The answers of upstream's host for a guest.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Answers {
    error: Option<String>,
    pre_filter: Option<Status>,
    only: Option<BTreeSet<String>>,
    filter: Option<BTreeMap<String, Status>>,
    pre_score: Option<Status>,
    score: Option<BTreeMap<String, Score>>,
    normalize: Option<Status>,
    normalized: Option<BTreeMap<String, i64>>,
}

impl Status {
    fn is_success(&self) -> bool {
        self.code == "Success"
    }

    fn refuses(&self) -> bool {
        ["Unschedulable", "UnschedulableAndUnresolvable", "Pending"].contains(&&*self.code)
    }
}

impl Answers {
    /// kube-scheduler's result for these answers.
    ///
    /// Source: `RunPreFilterPlugins`, `RunFilterPlugins`, `RunPreScorePlugins` and `RunScorePlugins` in
    /// `pkg/scheduler/framework/runtime/framework.go`.
    fn came(&self) -> Came {
        if let Some(status) = &self.pre_filter {
            match &*status.code {
                "Success" | "Skip" => {}
                _ if status.refuses() => return Came::Refused(status.reason.clone()),
                _ => return Came::Failed(format!("running PreFilter plugin \"Guest\": {}", status.reason)),
            }
        }
        let all: BTreeSet<String> = ["n1", "n2", "n3"].map(str::to_owned).into();
        let mut feasible = self.only.clone().unwrap_or_else(|| all.clone());
        if let Some(filter) = &self.filter {
            let failed = filter.values().find(|status| !status.is_success() && !status.refuses());
            if let Some(status) = failed {
                return Came::Failed(format!("running \"Guest\" filter plugin: {}", status.reason));
            }
            feasible.retain(|node| filter[node].is_success());
            if let (true, Some(status)) = (feasible.is_empty(), filter.values().next()) {
                return Came::Refused(format!("0/3 nodes are available: 3 {}.", status.reason));
            }
        }
        // A single node is not scored.
        if feasible.len() > 1
            && let Some(failed) = self.score_error()
        {
            return Came::Failed(failed);
        }
        // Without scoring plugins every node has the same total; if one skips, it has none.
        let unscored = i64::from(self.pre_score.as_ref().is_none_or(|status| status.code != "Skip"));
        let raw = |node: &str| self.score.as_ref().map_or(unscored, |scores| scores[node].score);
        let total = |node: &String| self.normalized.as_ref().map_or_else(|| raw(node), |scores| scores[node]);
        let totals: Vec<(String, i64)> = feasible.iter().map(|node| (node.clone(), total(node))).collect();
        let best = totals.iter().max_by_key(|(_, total)| *total).map(|(node, _)| node.clone());
        Came::Placed(best.unwrap_or_default(), totals)
    }

    fn score_error(&self) -> Option<String> {
        if let Some(status) = self.pre_score.as_ref().filter(|status| !status.is_success() && status.code != "Skip") {
            return Some(format!("running PreScore plugin \"Guest\": {}", status.reason));
        }
        let plugin = "plugin \"Guest\" failed with";
        let scores = self.score.as_ref()?;
        if let Some(status) = scores.values().find_map(|score| score.status.as_ref()) {
            return Some(format!("running Score plugins: {plugin}: {}", status.reason));
        }
        if let Some(status) = self.normalize.as_ref().filter(|status| !status.is_success()) {
            return Some(format!("running Normalize on Score plugins: {plugin}: {}", status.reason));
        }
        let totals = |node: &String| self.normalized.as_ref().map_or(scores[node].score, |scores| scores[node]);
        let invalid = scores.keys().map(totals).find(|total| !(0..=100).contains(total))?;
        Some(format!(
            "applying score defaultWeights on Score plugins: plugin \"Guest\" returns an invalid score {invalid}, it should \
             in the range of [0, 100] after normalizing"
        ))
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstream")
}

fn record(program: &OsStr, guests: &BTreeMap<String, String>) {
    let place = env::temp_dir().join(format!("flotilla-upstream-{}", std::process::id()));
    fs::create_dir_all(&place).expect("a folder");
    fs::write(place.join("cluster.json"), cluster().to_string()).expect("written");
    let mut command = Command::new(program);
    command.arg(place.join("cluster.json"));
    for (name, functions) in guests {
        let file = place.join(format!("{name}.wasm"));
        fs::write(&file, guest(functions)).expect("written");
        command.arg(file);
    }
    let output = command.output().expect("upstream's host can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::write(folder().join("answers.json"), output.stdout).expect("written");
    fs::remove_dir_all(place).expect("removed");
}

#[test]
fn a_guest_has_the_answers_that_it_has_in_upstreams_host() {
    let guests = guests();
    if let Some(program) = env::var_os("FLOTILLA_UPSTREAM_HOST") {
        record(&program, &guests);
    }
    let text = fs::read(folder().join("answers.json")).expect("it is recorded");
    let answers: BTreeMap<String, Answers> = serde_json::from_slice(&text).expect("as it was recorded");
    assert!(guests.keys().eq(answers.keys()), "record it again");
    let (pod, nodes) = built();
    let mut differences = Vec::new();
    for (name, functions) in &guests {
        let wanted = match &answers[name].error {
            Some(error) => Err(error.clone()),
            None => Ok(answers[name].came()),
        };
        let alone = Alone::try_new(&guest(functions), &json!({ "guestConfig": "three" }));
        let came = alone.map(|alone| alone.place(&pod, &nodes));
        let is_same = match (&came, &wanted) {
            // Ties are broken differently.
            (Ok(Came::Placed(node, totals)), Ok(Came::Placed(_, wanted))) => {
                let best = totals.iter().map(|(_, total)| *total).max();
                totals == wanted && totals.iter().any(|(name, total)| name == node && Some(*total) == best)
            }
            // Both reject a guest that cannot be started, with other messages.
            (Err(_), Err(_)) => true,
            _ => came == wanted,
        };
        if !is_same {
            differences.push(format!("{name}: here {came:?}, upstream {wanted:?}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
