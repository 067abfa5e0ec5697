//! Table of results by package.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{Package, TestResult};

const REASON_LENGTH: usize = 300;

/// One line per package, then failed tests, and skipped tests by reason.
#[must_use]
pub fn table(packages: &[Package]) -> String {
    let mut text = String::from("| package | passed | failed | skipped | seconds |\n|---|---|---|---|---|\n");
    let mut sums = [0; 3];
    for package in packages {
        let counts = [TestResult::Passed, TestResult::Failed, TestResult::Skipped]
            .map(|verdict| package.tests.iter().filter(|test| test.verdict == verdict).count());
        sums = [0, 1, 2].map(|index| sums[index] + counts[index]);
        let [passed, failed, skipped] = counts;
        let seconds = package.took.as_secs();
        _ = writeln!(text, "| {} | {passed} | {failed} | {skipped} | {seconds} |", package.name);
    }
    let [passed, failed, skipped] = sums;
    _ = writeln!(text, "| all | {passed} | {failed} | {skipped} | |");
    for package in packages {
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for test in package.tests.iter().filter(|test| test.verdict == TestResult::Skipped) {
            reasons.entry(&test.why).or_default().push(&test.name);
        }
        for (why, tests) in reasons {
            _ = write!(text, "\n{}: skipped: {}:\n    {}\n", package.name, shortened(why), tests.join("\n    "));
        }
    }
    for package in packages.iter().filter(|package| !package.has_passed()) {
        if let Some(failure) = &package.failure {
            _ = write!(text, "\n{}: {failure}", package.name);
        }
        for test in package.tests.iter().filter(|test| test.verdict == TestResult::Failed) {
            _ = write!(text, "\n{}: FAILED: {}: {}", package.name, test.name, shortened(&test.why));
        }
        _ = writeln!(text, "\n{}: logs: {}", package.name, package.logs.display());
    }
    text
}

fn shortened(text: &str) -> String {
    text.chars().take(REASON_LENGTH).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::upstream::Test;

    #[test]
    fn packages_are_counted_and_failures_and_reasons_are_listed() {
        let test = |name: &str, verdict, why: &str| Test { name: name.to_owned(), verdict, why: why.to_owned() };
        let package = Package {
            name: "scheduler/taint".to_owned(),
            tests: vec![
                test("TestA", TestResult::Passed, ""),
                test("TestB", TestResult::Failed, "not bound"),
                test("TestC", TestResult::Skipped, "own plugin"),
                test("TestD", TestResult::Skipped, "own plugin"),
            ],
            failure: None,
            took: Duration::from_secs(7),
            logs: "logs".into(),
        };
        let expected = "\
            | package | passed | failed | skipped | seconds |\n\
            |---|---|---|---|---|\n\
            | scheduler/taint | 1 | 1 | 2 | 7 |\n\
            | all | 1 | 1 | 2 | |\n\
            \nscheduler/taint: skipped: own plugin:\n    TestC\n    TestD\n\
            \nscheduler/taint: FAILED: TestB: not bound\
            \nscheduler/taint: logs: logs\n";
        assert_eq!(table(&[package]), expected);
    }
}
