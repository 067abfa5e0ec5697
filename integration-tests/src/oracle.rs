//! The programs of `integration-tests/oracle`, which ask kube-scheduler's own code: built, and run.
//!
//! Knows: the Go module beside this crate, and how it is built. Must not know: what the answers mean.
//!
//! Go itself knows whether a program is up to date, so it is asked once in each process. The first build takes about three minutes
//! on two cores, or a quarter of one where the control plane was built before; the next ones a second.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
};

use anyhow::{Context as _, ensure};

use crate::go;

/// The programs that are built and up to date. Held while Go builds: a program cannot be started while it is written.
static BUILT: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Runs the program `name` of the oracle with some arguments, and gives what it wrote to standard output.
///
/// # Errors
///
/// Go is missing or too old, the program does not build, or it fails; the messages of both are in the error or above it.
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
    let repository =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("this crate is a folder of the repository")?;
    let folder = repository.join("target/oracle");
    fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}; is the target folder writable?", folder.display()))?;
    let program = folder.join(name);
    if built.contains(name) {
        return Ok(program);
    }
    let flags = ["build", "-trimpath", "-ldflags", "-s -w", "-o"].map(OsStr::new);
    let package = format!("./{name}");
    let arguments: Vec<&OsStr> = flags.into_iter().chain([program.as_os_str(), OsStr::new(&package)]).collect();
    go::run("oracle", &arguments)?;
    built.insert(name.to_owned());
    Ok(program)
}
