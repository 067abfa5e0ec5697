//! Which commands make up each check, in which order.
//!
//! Knows: their names and arguments. Must not know: how they are run, or what any of them checks.

/// One command: its name in the log, the program and its arguments.
pub(crate) type Step = (&'static str, &'static [&'static str]);

pub(crate) const CHECK: &[Step] = &[
    ("format", &["cargo", "fmt", "--all", "--check"]),
    ("clippy", &["cargo", "clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    (
        "pure crates for wasm32",
        &[
            "cargo",
            "check",
            "--quiet",
            "--target",
            "wasm32-unknown-unknown",
            "-p",
            "flotilla-framework",
            "-p",
            "flotilla-machine",
        ],
    ),
];

pub(crate) const UNIT: &[Step] =
    &[("unit tests", &["cargo", "test", "--quiet", "--workspace", "--exclude", "flotilla-integration-tests"])];

/// What the other tests start beside Flotilla, which is built here, and what takes both cores by itself: one after the other,
/// before the others.
pub(crate) const FIRST: &[&str] = &["programs", "placements"];

/// These mostly wait: two at a time. Those that take longest come first, so that no side is idle at the end.
pub(crate) const SIDE_BY_SIDE: &[&str] = &[
    "e2e",
    "takeover",
    "restarts",
    "rights",
    "transport",
    "volumes",
    "up",
    "schedule",
    "manifests",
    "explain_live",
    "gangs",
    "scale",
    "failover",
    "preemption",
    "extenders",
    "tracing",
    "jaeger",
    "chart",
    "neighbours",
    "reload",
    "metrics",
    "conditions",
    "status",
    "preflight",
    "oracle",
    "docs",
    "tidy",
];

pub(crate) const DIFFERENTIAL: &[&str] = &[
    "cargo",
    "test",
    "--quiet",
    "--package",
    "flotilla-integration-tests",
    "--test",
    "placements",
    "fresh",
    "--",
    "--nocapture",
];

pub(crate) const E2E: &[&str] = &[
    "cargo",
    "test",
    "--quiet",
    "--package",
    "flotilla-integration-tests",
    "--test",
    "e2e",
    "every_spec",
    "--",
    "--ignored",
    "--nocapture",
];

pub(crate) const IMAGE: &[&str] = &["cargo", "run", "--quiet", "--package", "flotilla-image", "--"];

/// What the image holds: the integration tests run that, and the real node's image is made of it.
pub(crate) const PROGRAMS: &[Step] =
    &[("the programs of the image", &["cargo", "run", "--quiet", "--package", "flotilla-image", "--", "--programs"])];

pub(crate) const REAL_NODE: &[Step] =
    &[("real node", &["cargo", "test", "--workspace", "--test", "real_node", "--", "--test-threads=1"])];

pub(crate) const BENCH: &[Step] = &[
    ("criterion", &["cargo", "bench", "-p", "flotilla-framework", "--bench", "evaluate"]),
    ("release binaries", &["cargo", "build", "--quiet", "--release", "--bin", "flotilla"]),
    ("basic", &["target/release/flotilla", "simulate", "--generate", "nodes=5000,pods=10000,shape=basic"]),
    ("mixed", &["target/release/flotilla", "simulate", "--generate", "nodes=5000,pods=10000,shape=mixed"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_integration_test_is_run_once_by_the_full_test() {
        let folder = crate::root().join("integration-tests/tests");
        let mut there: Vec<String> = std::fs::read_dir(&folder)
            .expect("the integration tests are there")
            .map(|entry| entry.expect("it can be read").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
            .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
            .filter(|name| name != "real_node")
            .collect();
        let mut run: Vec<&str> = FIRST.iter().chain(SIDE_BY_SIDE).copied().collect();
        there.sort();
        run.sort_unstable();
        assert_eq!(run, there);
    }
}
