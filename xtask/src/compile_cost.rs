//! What the README's first command costs to compile, compared with a recorded value, so that it cannot grow unnoticed.
//!
//! Knows: the recorded value and how it is measured. Must not know: how a step is run.
//!
//! Machines differ, so the CPU time of the build is divided by that of a yardstick: a fixed file that is compiled just before.

use std::{collections::BTreeSet, path::Path, process::Command, time::Duration};

use anyhow::{Context as _, Result, bail};

/// The CPU time of the first command, in yardsticks. Measured in `cargo xtask test --all` on two cores, as in docs/benchmarks.md.
const YARDSTICKS: f64 = 25.0;

/// The crates that the first command compiles for itself, its build scripts among them.
const CRATES: usize = 201;

/// How much larger than recorded a value may be.
const GROWTH: f64 = 1.1;

/// Whether a build of the first command has everything left to compile.
pub(crate) fn is_cold(root: &Path) -> bool {
    !root.join("target/release/.fingerprint").exists()
}

/// Compares what was measured with what is recorded.
///
/// # Errors
/// Where it has grown by more than a tenth; with what to do.
pub(crate) fn check(root: &Path, build: Option<Duration>, yardstick: Option<Duration>) -> Result<()> {
    let crates = crates(root)?;
    let ratio = build.zip(yardstick).map(|(build, yardstick)| build.as_secs_f64() / yardstick.as_secs_f64());
    match ratio {
        Some(ratio) => eprintln!(
            "xtask: the first command compiles {crates} crates in {ratio:.1} times the CPU time of the yardstick; recorded: {CRATES} crates, {YARDSTICKS:.1} times"
        ),
        None => eprintln!("xtask: the first command compiles {crates} crates; recorded: {CRATES}"),
    }
    verdict(crates, ratio)
}

fn verdict(crates: usize, ratio: Option<f64>) -> Result<()> {
    let advice = "find what was added with `cargo build --release -p flotilla --timings` and `cargo tree -p flotilla`, and put it behind a \
        feature of `flotilla`; where the cost is worth it, record the new value in xtask/src/compile_cost.rs";
    if crates as f64 > CRATES as f64 * GROWTH {
        bail!("the README's first command compiles {crates} crates, more than a tenth above {CRATES}: {advice}");
    }
    match ratio {
        Some(ratio) if ratio > YARDSTICKS * GROWTH => bail!(
            "the README's first command takes {ratio:.1} times the CPU time of the yardstick, more than a tenth above {YARDSTICKS:.1}: {advice}"
        ),
        _ => Ok(()),
    }
}

/// The crates of the first command, as cargo resolves them.
fn crates(root: &Path) -> Result<usize> {
    let output = Command::new("cargo")
        .args(["tree", "--locked", "-p", "flotilla", "-e", "normal,build", "--prefix", "none", "--format", "{p}"])
        .current_dir(root)
        .output()
        .context("cargo cannot be started")?;
    let tree = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("cargo tree failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    let names: BTreeSet<&str> =
        tree.lines().map(|line| line.trim_end_matches(" (*)")).filter(|line| !line.is_empty()).collect();
    Ok(names.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::root;

    #[test]
    fn a_tenth_more_than_recorded_passes_and_more_fails() {
        for (crates, ratio, passes) in [
            (CRATES, Some(YARDSTICKS), true),
            (CRATES, Some(YARDSTICKS * 1.09), true),
            (CRATES, Some(YARDSTICKS * 1.11), false),
            (CRATES * 109 / 100, None, true),
            (CRATES * 112 / 100, None, false),
        ] {
            assert_eq!(verdict(crates, ratio).is_ok(), passes, "{crates} crates, {ratio:?}");
        }
    }

    #[test]
    fn the_first_command_compiles_no_more_than_a_tenth_more_crates_than_recorded() {
        check(root(), None, None).expect("few enough crates");
    }
}
