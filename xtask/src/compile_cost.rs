//! Compares the compile cost of the README's first command with a recorded value.
//!
//! Machines differ, so the CPU time of the build is divided by that of a yardstick: a fixed file compiled just before.

use std::{collections::BTreeSet, path::Path, process::Command, time::Duration};

use anyhow::{Context as _, Result, bail};

/// CPU time of the first command in yardsticks. Measured in `cargo xtask test --all` on two cores, as in docs/reference/benchmarks.md.
const YARDSTICKS: f64 = 27.7;

/// Crates that the first command compiles, including build scripts.
const CRATES: usize = 167;

/// Allowed growth over the recorded value.
const GROWTH: f64 = 1.1;

/// Whether nothing of the first command is compiled yet.
pub(crate) fn is_cold(root: &Path) -> bool {
    !root.join("target/release/.fingerprint").exists()
}

/// Fails if the cost has grown by more than a tenth.
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
    let advice = "find the added crates with `cargo build --release -p flotilla --timings` and `cargo tree -p flotilla`, and put them behind a \
        feature of `flotilla`; if the cost is justified, record the new value in xtask/src/compile_cost.rs";
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
