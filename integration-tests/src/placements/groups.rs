//! Pod groups: Flotilla's placement, and whether kube-scheduler's cycle allows it.

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

/// Prefix of the message after a failed PreBind.
const PRE_BIND: &str = "running PreBind plugin ";

/// Cases per oracle process. Each leaks some 3 MB, because kube-scheduler's informers end with the process.
const MOST_AT_ONCE: usize = 400;

/// Comparison of one case.
#[derive(Debug, Deserialize)]
pub struct Comparison {
    /// Case.
    pub case: String,
    /// `agrees`, `differs`, or `unknown` if there are too many ways to choose among equal nodes.
    #[serde(default)]
    pub result: String,
    /// `placed`, `refused` or `gated`.
    #[serde(default)]
    pub outcome: String,
    /// kube-scheduler's result if it differs.
    #[serde(default)]
    pub found: Value,
    /// Reason why kube-scheduler did not run.
    #[serde(default)]
    pub refused: String,
    /// kube-scheduler's victims if the result differs.
    #[serde(default)]
    pub victims: Vec<String>,
    /// Flotilla's result.
    #[serde(skip)]
    pub placements: Value,
    /// Flotilla's victims.
    #[serde(skip)]
    pub preemptions: Value,
}

impl Comparison {
    /// Whether kube-scheduler's result differs or is missing. After a failed PreBind the decided node is not always known.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        let placements = self.placements.as_array().into_iter().flatten();
        let mut messages = placements.filter_map(|placed| placed["message"].as_str());
        !matches!(&*self.result, "agrees" | "unknown") && !messages.any(|message| message.starts_with(PRE_BIND))
    }
}

#[derive(Serialize)]
struct GroupCase<'a> {
    case: &'a str,
    placements: &'a Value,
    preemptions: &'a Value,
}

/// How groups are compared.
#[derive(Debug, Clone, Copy)]
pub struct Comparing<'a> {
    /// Number of workers.
    pub workers: u16,
    /// Feature gates of both schedulers.
    pub gates: &'a str,
    /// Whether groups may preempt pods. The oracle needs the gate SchedulerAsyncPreemption off.
    pub preempts: bool,
}

/// Lets Flotilla place the group of each case, and compares with kube-scheduler.
///
/// # Errors
/// Flotilla or kube-scheduler does not run.
pub fn compare(folder: &Path, how: Comparing<'_>) -> anyhow::Result<Vec<Comparison>> {
    let names = Case::names(folder)?;
    let parts = names.chunks(MOST_AT_ONCE).map(|names| compare_some(folder, names, how));
    Ok(parts.collect::<anyhow::Result<Vec<_>>>()?.into_iter().flatten().collect())
}

fn compare_some(folder: &Path, names: &[String], how: Comparing<'_>) -> anyhow::Result<Vec<Comparison>> {
    let answers = all_placed(folder, names, how)?;
    let mut lines = String::new();
    for (case, (placements, preemptions)) in names.iter().zip(&answers) {
        lines.push_str(&serde_json::to_string(&GroupCase { case, placements, preemptions })?);
        lines.push('\n');
    }
    let told = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
    fs::write(told.path(), lines).with_context(|| format!("{}", told.path().display()))?;
    let arguments = [Path::new("--cases"), folder, Path::new("--groups"), told.path(), Path::new("--feature-gates")];
    let preemption = how.preempts.then_some(Path::new("--preemption"));
    let arguments = [&arguments[..], &[Path::new(how.gates)], preemption.as_slice()].concat();
    let mut comparisons = Vec::new();
    for (line, (placements, preemptions)) in oracle::ask("decide", &arguments)?.lines().zip(answers) {
        let comparison: Comparison = serde_json::from_str(line).with_context(|| format!("{line:?} is not JSON"))?;
        comparisons.push(Comparison { placements, preemptions, ..comparison });
    }
    ensure!(comparisons.len() == names.len(), "{} cases, {} comparisons", names.len(), comparisons.len());
    Ok(comparisons)
}

/// Runs are parallel, because they wait half of the time.
fn all_placed(folder: &Path, names: &[String], how: Comparing<'_>) -> anyhow::Result<Vec<(Value, Value)>> {
    const AT_ONCE: usize = 4;
    let place = |names: &[String]| -> anyhow::Result<Vec<(Value, Value)>> {
        names.iter().map(|name| placed(folder, name, how)).collect()
    };
    let parts: Vec<anyhow::Result<Vec<(Value, Value)>>> = thread::scope(|scope| {
        let parts = names.chunks(names.len().div_ceil(AT_ONCE).max(1));
        let parts: Vec<_> = parts.map(|part| scope.spawn(move || place(part))).collect();
        parts.into_iter().map(|part| part.join().unwrap_or_else(|_| bail!("a thread panicked"))).collect()
    });
    Ok(parts.into_iter().collect::<anyhow::Result<Vec<_>>>()?.concat())
}

/// The placements and the preemptions.
fn placed(folder: &Path, name: &str, how: Comparing<'_>) -> anyhow::Result<(Value, Value)> {
    let program = fleet::optimized()?;
    let output = Command::new(&program)
        .args(["simulate", "--once", "--feature-gates", how.gates, "-o", "json"])
        .args((!how.preempts).then_some("--no-preemption"))
        .args(["--workers", &how.workers.to_string(), "-f"])
        .arg(folder.join(format!("{name}.yaml")))
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name}: flotilla ended ({}): {said}", output.status);
    let mut answer: Value = serde_json::from_slice(&output.stdout).with_context(|| format!("{name}: no JSON"))?;
    let mut placements = answer["placements"].take();
    placements.as_array_mut().into_iter().flatten().for_each(decided);
    Ok((placements, answer["preemptions"].take()))
}

/// Keeps the result of the first attempt at each pod, like kube-scheduler's single cycle. Written claims wake refused pods later. A pod
/// with a failed PreBind counts as decided.
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
