//! The answers of `flotilla simulate` and `flotilla whatif` about files.

use std::{collections::BTreeMap, path::Path, process::Command};

use anyhow::{Context as _, bail};
use flotilla_integration_tests::fleet::binary;
use serde_json::Value;

use super::outcome::{Ends, Outcome, State, drained};

fn ask(arguments: &[&str]) -> anyhow::Result<Value> {
    let output = Command::new(binary("flotilla")?).args(arguments).args(["-o", "json"]).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("flotilla {}: {}\n{errors}", arguments.join(" "), output.status);
    }
    serde_json::from_slice(&output.stdout).with_context(|| format!("flotilla {}: {errors}", arguments.join(" ")))
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn add(outcome: &mut Outcome, pod: &str, state: State) {
    let (namespace, name) = pod.split_once('/').unwrap_or_default();
    outcome.add(namespace, name, state);
}

/// The end of a simulation of a file.
pub(crate) fn simulate(file: &Path) -> anyhow::Result<Outcome> {
    let answer = ask(&["simulate", "-f", &file.display().to_string()])?;
    let mut outcome = Outcome::default();
    for row in answer["placements"].as_array().context("no placements")? {
        add(&mut outcome, text(row, "pod"), state(row));
    }
    Ok(outcome)
}

/// The end of a simulation of a cluster and of new objects. `dump`: the objects of the cluster.
pub(crate) fn simulate_more(cluster: &Path, dump: &Value, more: &Path) -> anyhow::Result<Outcome> {
    let files = [cluster, more].map(|path| path.display().to_string());
    let answer = ask(&["simulate", "-f", &files[0], "-f", &files[1]])?;
    let mut pods = BTreeMap::new();
    for (name, is_placed) in pods_of(dump) {
        if is_placed {
            pods.insert(name, State::Placed);
        }
    }
    for row in answer["preemptions"].as_array().into_iter().flatten() {
        pods.remove(text(row, "pod"));
    }
    for row in answer["placements"].as_array().context("no placements")? {
        pods.insert(text(row, "pod").to_owned(), state(row));
    }
    let mut outcome = Outcome::default();
    pods.into_iter().for_each(|(pod, state)| add(&mut outcome, &pod, state));
    Ok(outcome)
}

fn state(placement: &Value) -> State {
    match text(placement, "node") {
        "" => State::Pending(Some(text(placement, "message").to_owned())),
        _ => State::Placed,
    }
}

/// The names of a cluster's pods, and whether they are on a node.
fn pods_of(dump: &Value) -> impl Iterator<Item = (String, bool)> {
    let pods = dump["items"].as_array().into_iter().flatten().filter(|object| object["kind"] == "Pod");
    pods.map(|pod| {
        let name = format!("{}/{}", text(&pod["metadata"], "namespace"), text(&pod["metadata"], "name"));
        (name, pod.pointer("/spec/nodeName").is_some())
    })
}

/// The answer of `whatif`.
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    pub(crate) ends: Ends,
    /// Contradictions in the answer.
    pub(crate) problems: Vec<String>,
}

/// The cluster of a file after a change. `dump`: the objects in the file.
pub(crate) fn whatif(file: &Path, dump: &Value, change: &[&str]) -> anyhow::Result<Answer> {
    let file = file.display().to_string();
    let answer = ask(&[&["whatif", "-f", &file], change].concat())?;
    let mut pods = BTreeMap::new();
    for (name, is_placed) in pods_of(dump) {
        pods.insert(name, if is_placed { State::Placed } else { State::Pending(None) });
    }
    for row in answer["pods"].as_array().context("no pods")? {
        let name = text(row, "pod").to_owned();
        match text(row, "change") {
            "gone" => _ = pods.remove(&name),
            "pending" | "waiting" => _ = pods.insert(name, State::Pending(Some(text(row, "message").to_owned()))),
            _ => _ = pods.insert(name, State::Placed),
        }
    }
    let mut outcome = Outcome::default();
    pods.into_iter().for_each(|(pod, state)| add(&mut outcome, &pod, state));
    let total = |name: &str| answer["after"][name].as_u64().unwrap_or_default();
    let counted = (outcome.pods() as u64, outcome.pending() as u64);
    let mut problems = Vec::new();
    if counted != (total("pods"), total("pending")) {
        let (pods, pending) = (total("pods"), total("pending"));
        let (listed, listed_pending) = counted;
        problems.push(format!(
            "whatif: lists {listed} pods, {listed_pending} pending, and counts {pods} pods, {pending} pending"
        ));
    }
    Ok(Answer { outcome, ends: ends(&answer), problems })
}

fn ends(answer: &Value) -> Ends {
    let list = |name: &str| answer[name].as_array().cloned().unwrap_or_default();
    let drains = list("drains").into_iter().map(|drain| {
        let blocked = drain["blocked"].as_array().into_iter().flatten();
        let end = drained(blocked.filter_map(|blocked| text(blocked, "pod").split_once('/')));
        (format!("drain {}", text(&drain, "node")), end)
    });
    let rollouts = list("rollouts").into_iter();
    let rollouts = rollouts.map(|rollout| (text(&rollout, "workload").to_owned(), text(&rollout, "state").to_owned()));
    drains.chain(rollouts).collect()
}
