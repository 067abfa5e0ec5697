//! Go modules that are built or used in place: the oracle, the benchmark's client, and Prometheus Operator's definitions.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result, bail};
use flotilla_go_programs::{Go, Kind, Reaper, go_version};

use crate::{repository, target};

/// Programs of `integration-tests/oracle`.
pub const ORACLES: [&str; 7] = ["cel", "config", "decide", "devices", "generate", "lint", "translate"];

/// Builds a program of the oracle, unless Go finds it up to date, and returns its path. The first build takes about three minutes on two
/// cores, or a quarter of one after the control plane's; later ones take a second.
///
/// # Errors
/// The program is unknown, Go is missing or too old, or the build fails.
pub fn oracle(name: &str) -> Result<PathBuf> {
    if !ORACLES.contains(&name) {
        bail!("no oracle is called {name}; there are: {}", ORACLES.join(", "));
    }
    let program = target().join("oracle").join(name);
    in_place("integration-tests/oracle", "oracle", |go| {
        go.build(Kind::Commands, &format!("./{name}"), "-s -w", &program, &mut |_| ())
            .with_context(|| format!("cannot build the oracle {name}"))
    })?;
    Ok(program)
}

/// Folder of Prometheus Operator's module, downloaded if it is missing.
///
/// # Errors
/// Go is missing, the download fails, or the checksum differs.
pub fn prometheus_operator() -> Result<PathBuf> {
    in_place("integration-tests/monitoring", "monitoring", |go| {
        go.fetch("github.com/prometheus-operator/prometheus-operator").context("cannot fetch Prometheus Operator")
    })
}

/// Builds the benchmark's client, unless Go finds it up to date, and returns its path. The first build takes about two minutes on two
/// cores, or some seconds after the control plane's.
///
/// # Errors
/// Go is missing or too old, or the build fails.
pub fn load() -> Result<PathBuf> {
    let program = target().join("perf").join("load");
    in_place("perf/load", "perf", |go| {
        go.build(Kind::Commands, ".", "-s -w", &program, &mut |_| ())
            .context("cannot build the client of the benchmark")
    })?;
    Ok(program)
}

/// Runs `go` in a module's folder of the repository, with temporary files in `target/<folder>`.
pub(crate) fn in_place<T>(module: &str, folder: &str, work: impl FnOnce(&Go<'_>) -> Result<T>) -> Result<T> {
    let module = repository().join(module);
    let temporary = target().join(folder).join("building");
    fs::create_dir_all(&temporary)
        .with_context(|| format!("cannot create {}; is the target folder writable?", temporary.display()))?;
    let reaper = Reaper::start()?;
    work(&Go { module: &module, temporary: &temporary, group: reaper.group(), wanted: &go_version()? })
}
