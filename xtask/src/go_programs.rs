//! The Go programs that the tests start.

use std::time::Duration;

use anyhow::Result;
use flotilla_test_programs::{ORACLES, all, line, load, oracle, prometheus_operator};

/// The oracles and the client of the benchmark, when the control plane is built.
const ORACLES_EXPECTED: Duration = Duration::from_secs(15);

/// Builds all that is missing, here and now.
pub(crate) fn build() -> Result<()> {
    for programs in all()? {
        programs.build(&mut |event| line(&event).into_iter().for_each(|line| eprintln!("go: {line}")))?;
    }
    for name in ORACLES {
        eprintln!("go: building the oracle {name}");
        oracle(name)?;
    }
    eprintln!("go: building the client of the benchmark");
    load()?;
    eprintln!("go: fetching the definitions of Prometheus Operator");
    prometheus_operator().map(drop)
}

/// Whether there is a Go that will do.
pub(crate) fn check() -> Result<()> {
    all()?.first().map_or(Ok(()), |programs| programs.check_go())
}

/// How long the build is expected to take on two cores that do nothing else.
pub(crate) fn expected() -> Duration {
    let missing = all().unwrap_or_default().iter().map(|programs| programs.first_build()).sum::<Duration>();
    missing + ORACLES_EXPECTED
}
