//! Common parts of the tests against a real control plane.
//!
//! Contains: Flotilla's processes, and clients of the Kubernetes API. Does not depend on: Flotilla's internals; tests run its binaries as
//! users do.

pub mod census;
pub mod certificates;
pub mod chaos;
pub mod clients;
pub mod collector;
pub mod container;
pub mod coscheduling;
pub mod crds;
pub mod deployed;
pub mod e2e;
pub mod extender;
pub mod fleet;
pub mod helm;
pub mod metrics;
pub mod node;
pub mod oracle;
pub mod person;
pub mod placements;
pub mod rights;
pub mod served;
pub mod tutorial;
pub mod upstream;

use std::io::{self, Write as _};

use anyhow::Context as _;
use flotilla_go_programs::Programs;
use tokio::task::spawn_blocking;

/// Builds missing programs. Writes progress directly to the standard error, because the test harness captures `eprintln!`.
fn build(programs: &Programs) -> anyhow::Result<()> {
    programs.build(&mut |event| {
        if let Some(line) = flotilla_test_programs::line(&event) {
            _ = writeln!(io::stderr(), "go: {line}");
        }
    })
}

/// Like [`build`], but on another thread. A test that joins two clusters runs both in one task, and a build in this task would use up the
/// other cluster's timeouts.
async fn build_on_another_thread(programs: Programs) -> anyhow::Result<Programs> {
    spawn_blocking(move || build(&programs).map(|()| programs)).await.context("the thread that builds has panicked")?
}
