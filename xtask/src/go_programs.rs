//! The Go programs of the tests.

use std::time::Duration;

use anyhow::Result;
use flotilla_test_programs::{ORACLES, Programs, common, line, load, oracle, prometheus_operator, special};

use crate::args::Part;

/// Time to build the oracles and the client of the benchmark once the control plane is built.
const ORACLES_EXPECTED: Duration = Duration::from_secs(15);

pub(crate) fn build(part: Option<Part>) -> Result<()> {
    if part != Some(Part::Special) {
        build_common()?;
    }
    let special = if part == Some(Part::Common) { Vec::new() } else { special()? };
    special.iter().try_for_each(build_one)
}

fn build_common() -> Result<()> {
    common()?.iter().try_for_each(build_one)?;
    for name in ORACLES {
        eprintln!("go: building the oracle {name}");
        oracle(name)?;
    }
    eprintln!("go: building the client of the benchmark");
    load()?;
    eprintln!("go: fetching the definitions of Prometheus Operator");
    prometheus_operator().map(drop)
}

fn build_one(programs: &Programs) -> Result<()> {
    programs.build(&mut |event| line(&event).into_iter().for_each(|line| eprintln!("go: {line}")))
}

pub(crate) fn check() -> Result<()> {
    common()?.first().map_or(Ok(()), |programs| programs.check_go())
}

/// Expected build time of the common programs on two idle cores.
pub(crate) fn expected() -> Duration {
    let missing = common().unwrap_or_default().iter().map(|programs| programs.first_build()).sum::<Duration>();
    missing + ORACLES_EXPECTED
}
