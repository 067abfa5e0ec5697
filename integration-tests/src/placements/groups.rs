//! Pod groups: where Flotilla places one, and whether kube-scheduler's own cycle may place it so.
//!
//! Knows: how the two are asked. Must not know: what is in a cluster, or what makes two answers the same (that is the oracle's).

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, ensure};
use flotilla_placements::Case;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{fleet, oracle};

/// What Flotilla says of a pod that names a claim which an earlier pod of its group allocates: a known difference
/// (docs/compatibility.md).
const SHARED_CLAIM: &str = "is in the process of being allocated.";

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
    /// Whether kube-scheduler gives another answer, or none, and that is not a known difference.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        let placements = self.placements.as_array().into_iter().flatten();
        let mut messages = placements.filter_map(|placed| placed["message"].as_str());
        !matches!(&*self.result, "agrees" | "unknown") && !messages.any(|message| message.ends_with(SHARED_CLAIM))
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
    let placements: Vec<Value> =
        names.iter().map(|name| placed(folder, name, workers)).collect::<anyhow::Result<_>>()?;
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
    Ok(answer["placements"].take())
}
