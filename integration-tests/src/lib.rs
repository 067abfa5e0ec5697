//! What the tests against a real control plane share: Flotilla's processes beside it.
//!
//! Knows: processes and the Kubernetes API. Must not know: anything inside Flotilla; its binaries are driven as its
//! users drive them.

pub mod census;
pub mod certificates;
pub mod chaos;
pub mod collector;
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
pub mod tutorial;
pub mod upstream;

use std::io::{self, Write as _};

use flotilla_go_programs::Programs;

/// Builds what is missing of these, and reports the progress at the standard error itself: what `eprintln!` prints is
/// captured by the test harness.
///
/// # Errors
/// Where Go is missing or too old, and where a build fails.
fn build(programs: &Programs) -> anyhow::Result<()> {
    programs.build(&mut |event| {
        if let Some(line) = flotilla_test_programs::line(&event) {
            _ = writeln!(io::stderr(), "go: {line}");
        }
    })
}
