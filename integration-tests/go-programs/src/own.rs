//! What is built or taken of Go modules in place: the oracle and the client of the benchmark, which are Go code of ours, and the
//! definitions of Prometheus Operator.
//!
//! Knows: where the modules are. Must not know: what is asked of the oracle, or what the client does.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result, bail};
use flotilla_go_programs::{Go, Kind, Reaper, go_version};

use crate::{repository, target};

/// The programs of `integration-tests/oracle`.
pub const ORACLES: [&str; 7] = ["cel", "config", "decide", "devices", "generate", "lint", "translate"];

/// Builds a program of the oracle and gives its path. Go itself knows whether it is up to date.
///
/// The first build takes about three minutes on two cores, or a quarter of one where the control plane was built before;
/// the next ones a second.
///
/// # Errors
/// Where there is no such program, Go is missing or too old, or it does not build.
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

/// The folder of Prometheus Operator's module, which is fetched if it is not there yet.
///
/// # Errors
/// Go is missing, the module cannot be fetched or is not the one whose checksum is known.
pub fn prometheus_operator() -> Result<PathBuf> {
    in_place("integration-tests/monitoring", "monitoring", |go| {
        go.fetch("github.com/prometheus-operator/prometheus-operator").context("cannot fetch Prometheus Operator")
    })
}

/// Builds the client of the benchmark and gives its path. Go itself knows whether it is up to date.
///
/// The first build takes about two minutes on two cores, or some seconds where the control plane was built before.
///
/// # Errors
/// Where Go is missing or too old, or it does not build.
pub fn load() -> Result<PathBuf> {
    let program = target().join("perf").join("load");
    in_place("perf/load", "perf", |go| {
        go.build(Kind::Commands, ".", "-s -w", &program, &mut |_| ())
            .context("cannot build the client of the benchmark")
    })?;
    Ok(program)
}

/// Has `go` work in the module in this folder of the repository. What it needs only while it builds is in `target/<folder>`.
fn in_place<T>(module: &str, folder: &str, work: impl FnOnce(&Go<'_>) -> Result<T>) -> Result<T> {
    let module = repository().join(module);
    let temporary = target().join(folder).join("building");
    fs::create_dir_all(&temporary)
        .with_context(|| format!("cannot create {}; is the target folder writable?", temporary.display()))?;
    let reaper = Reaper::start()?;
    work(&Go { module: &module, temporary: &temporary, group: reaper.group(), wanted: &go_version()? })
}
