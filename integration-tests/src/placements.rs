//! Flotilla and kube-scheduler asked about the same clusters, fresh ones or recorded ones.
//!
//! Knows: how either is run over a folder of cases, and where a mismatch is left. Must not know: what counts as the same,
//! or how a case is made smaller (that is `flotilla_placements`).

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use anyhow::{Context as _, ensure};
use flotilla_placements::{Case, Difference, Outcome, differences, outcomes, shrunk};

use crate::{fleet, oracle};

pub mod groups;

/// With how many workers Flotilla is asked; its answers must be the same.
pub const WORKERS: [u16; 3] = [1, 2, 7];

/// Fresh cases to compare on.
#[derive(Debug, Clone)]
pub struct Run {
    /// The seed of the first case; the others follow.
    pub seed: i64,
    /// How many cases.
    pub count: u32,
    /// The generator's names for what is in them, by commas.
    pub features: String,
}

/// A case on which the two differ.
#[derive(Debug)]
pub struct Mismatch {
    /// The case as it was made.
    pub name: String,
    /// With how many workers Flotilla was asked.
    pub workers: u16,
    /// Where they differ.
    pub differences: Vec<Difference>,
}

/// What kube-scheduler makes of the cases of a folder.
///
/// # Errors
/// Where the oracle does not run.
pub fn asked_of_kube_scheduler(folder: &Path) -> anyhow::Result<BTreeMap<String, Outcome>> {
    outcomes(&oracle::ask("decide", &[Path::new("--cases"), folder])?)
}

/// What Flotilla makes of the cases of a folder. A case in which it ends or falls silent is one that it refused.
///
/// # Errors
/// Where it does not run.
pub fn asked_of_flotilla(folder: &Path, workers: u16) -> anyhow::Result<BTreeMap<String, Outcome>> {
    let program = fleet::optimized()?;
    let output = Command::new(&program)
        .args(["explain", "--workers", &workers.to_string(), "--cases"])
        .arg(folder)
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
        told.extend(culprit.map(|name| (name, Outcome::Refused(why))));
    }
    Ok(told)
}

/// Makes the cases of a run in a folder.
///
/// # Errors
/// Where the generator does not run, or makes a case that cannot be read.
pub fn make(run: &Run, folder: &Path) -> anyhow::Result<()> {
    let [seed, count] = [run.seed.to_string(), run.count.to_string()];
    let arguments = ["--seed", &seed, "--count", &count, "--features", &run.features, "--out"].map(Path::new);
    oracle::ask("generate", &[&arguments[..], &[folder]].concat())?;
    for name in Case::names(folder)? {
        if folder.join(format!("{name}.config.yaml")).exists() {
            let mut case = Case::read(folder, &name)?;
            if case.leave_unbuilt_out() {
                case.write(folder)?;
            }
        }
    }
    Ok(())
}

/// The cases of a folder on which the two differ, each with the fewest workers for which they do.
///
/// # Errors
/// Where one of them does not run.
pub fn mismatches(folder: &Path) -> anyhow::Result<Vec<Mismatch>> {
    let (expected, found) = both(folder)?;
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

type Outcomes = BTreeMap<String, Outcome>;

/// Both sides at the same time: one of them mostly waits.
fn both(folder: &Path) -> anyhow::Result<(Outcomes, Vec<(u16, Outcomes)>)> {
    // The oracle is built, and Flotilla too, before either runs.
    fleet::optimized()?;
    thread::scope(|scope| {
        let expected = scope.spawn(|| asked_of_kube_scheduler(folder));
        let found: anyhow::Result<Vec<_>> =
            WORKERS.into_iter().map(|workers| Ok((workers, asked_of_flotilla(folder, workers)?))).collect();
        let expected = expected.join().map_err(|_| anyhow::anyhow!("the thread of the oracle panicked"))?;
        Ok((expected?, found?))
    })
}

fn told(expected: &Outcomes, found: &Outcomes, name: &str) -> Vec<Difference> {
    let silent = Outcome::Refused("nothing was said of this case".to_owned());
    differences(expected.get(name).unwrap_or(&silent), found.get(name).unwrap_or(&silent))
}

/// Makes a mismatch as small as it gets while the same fields differ, writes it with both answers into
/// `target/mismatches`, and tells all that there is to know of it.
///
/// # Errors
/// Where one of the two does not run, or the folder cannot be written to.
pub fn report(mismatch: &Mismatch, folder: &Path) -> anyhow::Result<String> {
    let Mismatch { name, workers, differences } = mismatch;
    let fields: Vec<&str> = differences.iter().map(|difference| &*difference.field).collect();
    let holds = |cases: &[Case]| {
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let names: Vec<String> = (0..cases.len()).map(|place| format!("{place:04}")).collect();
        for (case, name) in cases.iter().zip(&names) {
            Case { name: name.clone(), ..case.clone() }.write(folder.path())?;
        }
        let (expected, found) = (asked_of_kube_scheduler(folder.path())?, asked_of_flotilla(folder.path(), *workers)?);
        let is_same = |name: &String| told(&expected, &found, name).iter().any(|other| fields.contains(&&*other.field));
        Ok(names.iter().map(is_same).collect())
    };
    let small = shrunk(&Case::read(folder, name)?, holds)?;
    let target = mismatch_folder()?.join(name);
    fs::create_dir_all(&target).with_context(|| format!("cannot create {}", target.display()))?;
    let path = small.write(&target)?;
    let answers = [asked_of_kube_scheduler(&target)?, asked_of_flotilla(&target, *workers)?];
    for (side, answers) in ["kube-scheduler", "flotilla"].iter().zip(&answers) {
        let text = match answers.get(name) {
            Some(Outcome::Answers(answers)) => serde_json::to_string_pretty(answers)?,
            Some(Outcome::Refused(why)) => why.clone(),
            None => String::new(),
        };
        fs::write(target.join(format!("{side}.txt")), text)?;
    }
    let mut text = format!("{name}, {workers} workers; made small: {}\n", path.display());
    for difference in told(&answers[0], &answers[1], name).iter().take(8) {
        writeln!(text, "{difference}")?;
    }
    let from = target.display();
    write!(
        text,
        "record it as a case, under a name that says what it shows:\n  cp {from}/{name}.yaml \
         cli/tests/placements/cases/WHAT-IT-SHOWS.yaml  # and {name}.config.yaml, where it is there\n  \
         FLOTILLA_RECORD=1 cargo test -p flotilla-integration-tests --test integration placements::recorded"
    )?;
    Ok(text)
}

fn mismatch_folder() -> anyhow::Result<PathBuf> {
    let this_crate = Path::new(env!("CARGO_MANIFEST_DIR"));
    let repository = this_crate.parent().context("this crate is a folder of the repository")?;
    Ok(repository.join("target/mismatches"))
}
