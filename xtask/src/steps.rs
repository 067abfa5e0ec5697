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
            "flotilla-configuration",
            "-p",
            "flotilla-machine",
        ],
    ),
];

pub(crate) const UNIT: &[Step] =
    &[("unit tests", &["cargo", "test", "--quiet", "--workspace", "--exclude", "flotilla-integration-tests"])];

/// The tests of what the integration tests are made of. Those of other rooms that have modules of the same names run once more:
/// to choose the one crate would be to build its dependencies again, with other features.
pub(crate) const TOOLS: &[Step] = &[(
    "tests of the tests' own tools",
    &["cargo", "test", "--quiet", "--workspace", "--lib", "--", "census::", "e2e::", "go::", "node::", "rights::"],
)];

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

pub(crate) const DIFFERENTIAL: &[&str] =
    &["cargo", "test", "--quiet", "--workspace", "--test", "placements", "fresh", "--", "--nocapture"];

pub(crate) const E2E: &[&str] =
    &["cargo", "test", "--quiet", "--workspace", "--test", "e2e", "every_spec", "--", "--ignored", "--nocapture"];

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

    fn files(folder: &str) -> impl Iterator<Item = std::path::PathBuf> {
        let entries = std::fs::read_dir(crate::root().join(folder)).expect("the folder is there");
        entries.map(|entry| entry.expect("it can be read").path())
    }

    #[test]
    fn every_tool_of_the_integration_tests_that_has_tests_is_tested() {
        let has_tests = |file: &std::path::Path| {
            let module = file.with_extension("");
            let mut own = vec![file.to_owned()];
            if module.is_dir() {
                own.extend(std::fs::read_dir(&module).expect("it is there").flatten().map(|entry| entry.path()));
            }
            own.iter().filter_map(|file| std::fs::read_to_string(file).ok()).any(|text| text.contains("#[cfg(test)]"))
        };
        let mut tested: Vec<String> = files("integration-tests/src")
            .filter(|path| path.extension().is_some() && has_tests(path))
            .filter_map(|path| Some(format!("{}::", path.file_stem()?.to_str()?)))
            .collect();
        tested.sort();
        let chosen: Vec<&str> = TOOLS[0].1.iter().copied().filter(|word| word.ends_with("::")).collect();
        assert_eq!(chosen, tested);
    }

    #[test]
    fn every_integration_test_is_run_once_by_the_full_test() {
        let mut there: Vec<String> = files("integration-tests/tests")
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
