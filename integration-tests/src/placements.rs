//! Compares Flotilla and kube-scheduler on generated or recorded clusters.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use anyhow::{Context as _, ensure};
use flotilla_placements::{Case, CaseOutcome, Difference, differences, outcomes, shrunk};

use crate::{fleet, oracle};

pub mod groups;

/// Numbers of Flotilla's workers; the results must be equal.
pub const WORKERS: [u16; 3] = [1, 2, 7];

/// Generated cases.
#[derive(Debug, Clone)]
pub struct Run {
    /// Seed of the first case; the others follow.
    pub seed: i64,
    /// Number of cases.
    pub count: u32,
    /// Comma-separated features of the generator.
    pub features: String,
}

/// Flag of both programs for these feature gates; none for the defaults.
fn gates_flag(gates: &str) -> Option<String> {
    (!gates.is_empty()).then(|| format!("--feature-gates={gates}"))
}

/// A case with different results.
#[derive(Debug)]
pub struct Mismatch {
    /// Original case.
    pub name: String,
    /// Number of Flotilla's workers.
    pub workers: u16,
    /// Differences.
    pub differences: Vec<Difference>,
}

/// kube-scheduler's outcomes of the cases in a folder, with these feature gates.
///
/// # Errors
/// The oracle fails.
pub fn asked_of_kube_scheduler(folder: &Path, gates: &str) -> anyhow::Result<BTreeMap<String, CaseOutcome>> {
    let gates = gates_flag(gates);
    let gates = gates.iter().map(Path::new);
    outcomes(&oracle::ask("decide", &gates.chain([Path::new("--cases"), folder]).collect::<Vec<_>>())?)
}

/// Flotilla's outcomes of the cases in a folder, with these feature gates. A crash or hang counts as a refusal of the case.
///
/// # Errors
/// Flotilla does not run.
pub fn asked_of_flotilla(folder: &Path, workers: u16, gates: &str) -> anyhow::Result<BTreeMap<String, CaseOutcome>> {
    let program = fleet::optimized()?;
    let output = Command::new(&program)
        .args(["explain", "--workers", &workers.to_string(), "--cases"])
        .arg(folder)
        .args(gates_flag(gates))
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let mut told = outcomes(&String::from_utf8(output.stdout).context("Flotilla wrote something that is not UTF-8")?)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last: Vec<&str> = said.lines().rev().take(5).collect();
        let why = format!("flotilla ended ({}): {}", output.status, last.join(" / "));
        ensure!(!told.is_empty() || Case::names(folder)?.len() == 1, "{why}");
        let culprit = Case::names(folder)?.into_iter().find(|name| !told.contains_key(name));
        told.extend(culprit.map(|name| (name, CaseOutcome::Refused(why))));
    }
    Ok(told)
}

/// Generates the cases of a run.
///
/// # Errors
/// The generator fails, or writes an invalid case.
pub fn make(run: &Run, folder: &Path) -> anyhow::Result<()> {
    let [seed, count] = [run.seed.to_string(), run.count.to_string()];
    let arguments = ["--seed", &seed, "--count", &count, "--features", &run.features, "--out"].map(Path::new);
    oracle::ask("generate", &[&arguments[..], &[folder]].concat())?;
    Ok(())
}

/// Cases with different results with these feature gates, each with the smallest such number of workers.
///
/// # Errors
/// Flotilla or kube-scheduler does not run.
pub fn mismatches(folder: &Path, gates: &str) -> anyhow::Result<Vec<Mismatch>> {
    let (expected, found) = both(folder, gates)?;
    let names = Case::names(folder)?.into_iter();
    let mismatch = |name: String| {
        let wrong = found.iter().find_map(|(workers, found)| {
            let differences = told(&expected, found, &name);
            (!differences.is_empty()).then_some((*workers, differences))
        });
        wrong.map(|(workers, differences)| Mismatch { name, workers, differences })
    };
    Ok(names.filter_map(mismatch).collect())
}

type Outcomes = BTreeMap<String, CaseOutcome>;

/// Runs both in parallel, because one mostly waits.
fn both(folder: &Path, gates: &str) -> anyhow::Result<(Outcomes, Vec<(u16, Outcomes)>)> {
    // Built before the oracle runs.
    fleet::optimized()?;
    thread::scope(|scope| {
        let expected = scope.spawn(|| asked_of_kube_scheduler(folder, gates));
        let found: anyhow::Result<Vec<_>> =
            WORKERS.into_iter().map(|workers| Ok((workers, asked_of_flotilla(folder, workers, gates)?))).collect();
        let expected = expected.join().map_err(|_| anyhow::anyhow!("the thread of the oracle panicked"))?;
        Ok((expected?, found?))
    })
}

fn told(expected: &Outcomes, found: &Outcomes, name: &str) -> Vec<Difference> {
    let silent = CaseOutcome::Refused("no answer for this case".to_owned());
    differences(expected.get(name).unwrap_or(&silent), found.get(name).unwrap_or(&silent))
}

/// Minimises a mismatch while the same fields differ, writes it with both outcomes to `target/mismatches`, and describes it.
///
/// # Errors
/// Flotilla or kube-scheduler does not run, or the folder is not writable.
pub fn report(mismatch: &Mismatch, folder: &Path, gates: &str) -> anyhow::Result<String> {
    let Mismatch { name, workers, differences } = mismatch;
    let fields: Vec<&str> = differences.iter().map(|difference| &*difference.field).collect();
    let holds = |cases: &[Case]| {
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let names: Vec<String> = (0..cases.len()).map(|place| format!("{place:04}")).collect();
        for (case, name) in cases.iter().zip(&names) {
            Case { name: name.clone(), ..case.clone() }.write(folder.path())?;
        }
        let (expected, found) =
            (asked_of_kube_scheduler(folder.path(), gates)?, asked_of_flotilla(folder.path(), *workers, gates)?);
        let is_same = |name: &String| told(&expected, &found, name).iter().any(|other| fields.contains(&&*other.field));
        Ok(names.iter().map(is_same).collect())
    };
    let small = shrunk(&Case::read(folder, name)?, holds)?;
    let target = mismatch_folder()?.join(name);
    fs::create_dir_all(&target).with_context(|| format!("cannot create {}", target.display()))?;
    let path = small.write(&target)?;
    let answers = [asked_of_kube_scheduler(&target, gates)?, asked_of_flotilla(&target, *workers, gates)?];
    for (side, answers) in ["kube-scheduler", "flotilla"].iter().zip(&answers) {
        let text = match answers.get(name) {
            Some(CaseOutcome::Answers(answers)) => serde_json::to_string_pretty(answers)?,
            Some(CaseOutcome::Refused(why)) => why.clone(),
            None => String::new(),
        };
        fs::write(target.join(format!("{side}.txt")), text)?;
    }
    let mut text = format!("{name}, {workers} workers; minimised: {}\n", path.display());
    for difference in told(&answers[0], &answers[1], name).iter().take(8) {
        writeln!(text, "{difference}")?;
    }
    let from = target.display();
    write!(
        text,
        "record it as a case with a descriptive name:\n  cp {from}/{name}.yaml \
         cli/tests/placements/cases/NAME.yaml  # and {name}.config.yaml, if it exists\n  \
         FLOTILLA_RECORD=1 cargo test -p flotilla-integration-tests --test integration placements::recorded"
    )?;
    Ok(text)
}

fn mismatch_folder() -> anyhow::Result<PathBuf> {
    let this_crate = Path::new(env!("CARGO_MANIFEST_DIR"));
    let repository = this_crate.parent().context("this crate is a folder of the repository")?;
    Ok(repository.join("target/mismatches"))
}
