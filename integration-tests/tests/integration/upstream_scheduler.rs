//! Kubernetes' integration tests of the scheduler pass with Flotilla as the scheduler. `cargo xtask upstream` runs the ignored test;
//! `FLOTILLA_UPSTREAM_PACKAGES` and `FLOTILLA_UPSTREAM_RUN` select the tests, `FLOTILLA_UPSTREAM_WORKERS` the number of workers, and
//! `FLOTILLA_UPSTREAM_API_SERVER` the version of the API server.

use std::env;

use flotilla_integration_tests::upstream::{self, Package, Request, TestResult, table};
use flotilla_test_programs::upstream_quick;

fn check(request: &Request) -> anyhow::Result<()> {
    let packages = upstream::run(request)?;
    println!("{}", table(&packages));
    let failed: Vec<&str> =
        packages.iter().filter(|package| !package.has_passed()).map(|package| package.name.as_str()).collect();
    anyhow::ensure!(failed.is_empty(), "tests failed in {}; the table above lists them", failed.join(", "));
    // Without this check, a change that skips every test would pass.
    let passes = |package: &Package| package.tests.iter().any(|test| test.verdict == TestResult::Passed);
    anyhow::ensure!(request.run.is_some() || packages.iter().any(passes), "no test ran with Flotilla");
    Ok(())
}

#[test]
fn the_quick_packages_pass_with_flotilla() -> anyhow::Result<()> {
    let programs = upstream_quick()?.list.iter();
    let packages = programs.map(|program| program.package().trim_start_matches("./").to_owned()).collect();
    check(&Request { packages, ..Request::default() })
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

#[test]
#[ignore = "takes ten minutes; cargo xtask upstream runs it"]
fn every_package_passes_with_flotilla() -> anyhow::Result<()> {
    let packages = variable("FLOTILLA_UPSTREAM_PACKAGES");
    let workers = variable("FLOTILLA_UPSTREAM_WORKERS");
    check(&Request {
        packages: packages.iter().flat_map(|packages| packages.split(',')).map(str::to_owned).collect(),
        run: variable("FLOTILLA_UPSTREAM_RUN"),
        workers: workers.map_or(Ok(0), |workers| workers.parse())?,
        api_server: variable("FLOTILLA_UPSTREAM_API_SERVER"),
    })
}
