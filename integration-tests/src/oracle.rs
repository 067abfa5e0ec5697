//! Builds and runs the programs of `integration-tests/oracle`, which call kube-scheduler's code. Go checks whether a program is up to date,
//! once per process.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
};

use anyhow::{Context as _, ensure};

/// Current programs. Locked during builds: a program cannot be started while it is written.
static BUILT: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());

/// Runs the oracle program `name`, and returns its standard output.
///
/// # Errors
/// Go is missing or too old, the build fails, or the program fails; the messages are in the error or printed before.
pub fn ask(name: &str, arguments: &[&Path]) -> anyhow::Result<String> {
    let program = build(name)?;
    let output = Command::new(&program)
        .args(arguments)
        .output()
        .with_context(|| format!("cannot run {}; is the target folder mounted noexec?", program.display()))?;
    ensure!(
        output.status.success(),
        "the oracle {name} failed ({}): {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).with_context(|| format!("the oracle {name} wrote something that is not UTF-8"))
}

fn build(name: &str) -> anyhow::Result<PathBuf> {
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(program) = built.get(name) {
        return Ok(program.clone());
    }
    let program = flotilla_test_programs::oracle(name)?;
    built.insert(name.to_owned(), program.clone());
    Ok(program)
}
