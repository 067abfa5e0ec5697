//! Pod groups: where Flotilla places one, and whether kube-scheduler's own cycle may place it so.
//!
//! Knows: how the two are asked. Must not know: what is in a cluster, or what makes two answers the same (that is the oracle's).

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
};

use anyhow::{Context as _, bail, ensure};
use flotilla_placements::Case;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{fleet, oracle};

/// How the message of a pod begins whose PreBind failed.
const PRE_BIND: &str = "running PreBind plugin ";

/// How many cases a process of the oracle compares. It keeps some 3 MB for each, as kube-scheduler's informers end with the process.
const MOST_AT_ONCE: usize = 400;

/// The comparison of one case.
#[derive(Debug, Deserialize)]
pub struct Comparison {
    /// The case.
    pub case: String,
    /// `agrees`, `differs`, or `unknown` where there are too many ways to choose among equal nodes.
    #[serde(default)]
    pub result: String,
    /// `placed`, `refused` or `gated`.
    #[serde(default)]
    pub outcome: String,
    /// What kube-scheduler does where it differs.
    #[serde(default)]
    pub found: Value,
    /// Why kube-scheduler was not asked.
    #[serde(default)]
    pub refused: String,
    /// What Flotilla does.
    #[serde(skip)]
    pub placements: Value,
}

// === impl Comparison ===

impl Comparison {
    /// Whether kube-scheduler gives another answer, or none. A pod whose PreBind failed was decided on, and for which node is not
    /// always known.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        let placements = self.placements.as_array().into_iter().flatten();
        let mut messages = placements.filter_map(|placed| placed["message"].as_str());
        !matches!(&*self.result, "agrees" | "unknown") && !messages.any(|message| message.starts_with(PRE_BIND))
    }
}

#[derive(Serialize)]
struct Told<'a> {
    case: &'a str,
    placements: &'a Value,
}

/// Has Flotilla place the group of each case of a folder, and kube-scheduler compare.
///
/// # Errors
/// Where one of them does not run.
pub fn compare(folder: &Path, workers: u16) -> anyhow::Result<Vec<Comparison>> {
    let names = Case::names(folder)?;
    let parts = names.chunks(MOST_AT_ONCE).map(|names| compare_some(folder, names, workers));
    Ok(parts.collect::<anyhow::Result<Vec<_>>>()?.into_iter().flatten().collect())
}

fn compare_some(folder: &Path, names: &[String], workers: u16) -> anyhow::Result<Vec<Comparison>> {
    let placements = all_placed(folder, names, workers)?;
    let mut lines = String::new();
    for (case, placements) in names.iter().zip(&placements) {
        lines.push_str(&serde_json::to_string(&Told { case, placements })?);
        lines.push('\n');
    }
    let told = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
    fs::write(told.path(), lines).with_context(|| format!("{}", told.path().display()))?;
    let arguments = [Path::new("--cases"), folder, Path::new("--groups"), told.path()];
    let mut comparisons = Vec::new();
    for (line, placements) in oracle::ask("decide", &arguments)?.lines().zip(placements) {
        let comparison: Comparison = serde_json::from_str(line).with_context(|| format!("{line:?} is not JSON"))?;
        comparisons.push(Comparison { placements, ..comparison });
    }
    ensure!(comparisons.len() == names.len(), "{} cases, {} comparisons", names.len(), comparisons.len());
    Ok(comparisons)
}

/// Half of the time of a run is spent waiting, so several run at once.
fn all_placed(folder: &Path, names: &[String], workers: u16) -> anyhow::Result<Vec<Value>> {
    const AT_ONCE: usize = 4;
    let place = |names: &[String]| -> anyhow::Result<Vec<Value>> {
        names.iter().map(|name| placed(folder, name, workers)).collect()
    };
    let parts: Vec<anyhow::Result<Vec<Value>>> = thread::scope(|scope| {
        let parts = names.chunks(names.len().div_ceil(AT_ONCE).max(1));
        let parts: Vec<_> = parts.map(|part| scope.spawn(move || place(part))).collect();
        parts.into_iter().map(|part| part.join().unwrap_or_else(|_| bail!("a thread panicked"))).collect()
    });
    Ok(parts.into_iter().collect::<anyhow::Result<Vec<_>>>()?.concat())
}

fn placed(folder: &Path, name: &str, workers: u16) -> anyhow::Result<Value> {
    let program = fleet::optimized()?;
    let output = Command::new(&program)
        .args(["simulate", "--feature-gates", "GenericWorkload=true", "-o", "json"])
        .args(["--workers", &workers.to_string(), "-f"])
        .arg(folder.join(format!("{name}.yaml")))
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name}: flotilla ended ({}): {said}", output.status);
    let mut answer: Value = serde_json::from_slice(&output.stdout).with_context(|| format!("{name}: no JSON"))?;
    let mut placements = answer["placements"].take();
    placements.as_array_mut().into_iter().flatten().for_each(decided);
    Ok(placements)
}

/// What the first attempt decided on a pod, as kube-scheduler's one cycle has it. Claims that are written wake the pods that were
/// refused. A pod whose PreBind failed was decided on.
fn decided(placed: &mut Value) {
    if let Some(first) = placed["firstMessage"].as_str().map(str::to_owned) {
        placed["node"] = "".into();
        placed["message"] = first.into();
    }
    let node = placed["message"].as_str().and_then(|message| {
        let (_, rest) = message.strip_prefix(PRE_BIND)?.split_once("node affinity doesn't match node \"")?;
        Some(rest.split_once('"')?.0.to_owned())
    });
    if let Some(node) = node {
        placed["node"] = node.into();
        placed["message"] = "".into();
    }
}
