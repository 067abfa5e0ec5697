//! Results of the tests of one package.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// Result of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TestResult {
    /// Passed with Flotilla.
    Passed,
    /// Failed or unfinished.
    Failed,
    /// Not run, or run without Flotilla.
    Skipped,
}

/// A test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// Full name.
    pub name: String,
    /// Result.
    pub verdict: TestResult,
    /// Reason; empty if passed.
    pub why: String,
}

const WITHOUT_FLOTILLA: &str = "starts no scheduler: it tests the API server, or parts of kube-scheduler's process";

#[derive(Deserialize)]
struct Reported {
    test: String,
    event: String,
    why: String,
}

/// Results of the tests in `output` by name, and of those in `skipped` with their reasons. A test with subtests is listed only if it failed
/// without a failed subtest.
pub(super) fn read(output: &str, report: &str, skipped: &[(&str, &str)]) -> Vec<Test> {
    let printed = printed(output);
    let reported: Vec<Reported> = report.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let started: BTreeSet<&str> =
        reported.iter().filter(|line| line.event == "started").map(|line| line.test.as_str()).collect();
    let reasons: BTreeMap<&str, &str> = reported
        .iter()
        .filter(|line| line.event == "skipped")
        .map(|line| (line.test.as_str(), line.why.as_str()))
        .collect();
    let mut tests: Vec<Test> = skipped
        .iter()
        .map(|(name, why)| Test { name: (*name).to_owned(), verdict: TestResult::Skipped, why: (*why).to_owned() })
        .collect();
    for (&name, found) in &printed {
        let below: Vec<_> = printed.range(name..).skip(1).take_while(|(other, _)| other.starts_with(name)).collect();
        let below: Vec<_> = below.into_iter().filter(|(other, _)| is_below(other, name)).collect();
        let is_explained = below.iter().any(|(_, found)| found.verdict == TestResult::Failed);
        // A test without any remaining subtest has none in the output.
        let only_skipped = skipped.iter().any(|(test, _)| is_below(test, name)) && found.verdict == TestResult::Passed;
        if (!below.is_empty() || only_skipped) && (found.verdict != TestResult::Failed || is_explained) {
            continue;
        }
        let has_started = started.iter().any(|test| *test == name || is_below(test, name) || is_below(name, test));
        let (verdict, why) = match found.verdict {
            TestResult::Passed if !has_started => (TestResult::Skipped, WITHOUT_FLOTILLA),
            TestResult::Passed => (TestResult::Passed, ""),
            TestResult::Failed => (TestResult::Failed, found.line),
            TestResult::Skipped => (TestResult::Skipped, reasons.get(name).copied().unwrap_or(found.line)),
        };
        tests.push(Test { name: name.to_owned(), verdict, why: why.to_owned() });
    }
    tests.sort_by(|one, other| one.name.cmp(&other.name));
    tests
}

struct Printed<'a> {
    verdict: TestResult,
    /// Its last line before the result.
    line: &'a str,
}

/// Tests in an output. A test without a result counts as failed, because the program ended.
fn printed(output: &str) -> BTreeMap<&str, Printed<'_>> {
    const RESULTS: [(&str, TestResult); 3] =
        [("--- PASS: ", TestResult::Passed), ("--- FAIL: ", TestResult::Failed), ("--- SKIP: ", TestResult::Skipped)];
    let (mut found, mut last): (BTreeMap<&str, Printed<'_>>, &str) = (BTreeMap::new(), "");
    for line in output.lines() {
        if let Some(name) = line.strip_prefix("=== RUN ") {
            found.insert(name.trim(), Printed { verdict: TestResult::Failed, line: "it did not end" });
        } else if line.contains(".go:") {
            last = line.trim();
        }
        // The last output of a test may lack a line break.
        for (words, verdict) in RESULTS {
            let name = line.split_once(words).and_then(|(_, rest)| rest.split(" (").next());
            if let Some(name) = name.filter(|name| found.contains_key(name)) {
                let line = if verdict == TestResult::Passed { "" } else { last };
                found.insert(name, Printed { verdict, line });
            }
        }
    }
    found
}

fn is_below(test: &str, parent: &str) -> bool {
    test.strip_prefix(parent).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(output: &str, report: &str) -> Vec<(String, TestResult, String)> {
        let skipped = [("TestS/never", "reason")];
        read(output, report, &skipped).into_iter().map(|test| (test.name, test.verdict, test.why)).collect()
    }

    fn expected(tests: &[(&str, TestResult, &str)]) -> Vec<(String, TestResult, String)> {
        let one = |(name, verdict, why): &(&str, TestResult, &str)| ((*name).to_owned(), *verdict, (*why).to_owned());
        tests.iter().map(one).collect()
    }

    #[test]
    fn subtests_count_and_their_parents_do_not() {
        let output = "=== RUN   TestA\n=== RUN   TestA/b\n    a_test.go:3: not bound\n--- FAIL: TestA (2.00s)\n    --- FAIL: TestA/b (1.00s)\n\
            === RUN   TestAB\nlog without a break--- PASS: TestAB (0.10s)\n=== RUN   TestC\npanic: test timed out\n";
        let report = "{\"test\":\"TestA\",\"event\":\"started\",\"why\":\"\"}\n{\"test\":\"TestAB/x\",\"event\":\"started\",\"why\":\"\"}\n";
        assert_eq!(
            of(output, report),
            expected(&[
                ("TestA/b", TestResult::Failed, "a_test.go:3: not bound"),
                ("TestAB", TestResult::Passed, ""),
                ("TestC", TestResult::Failed, "it did not end"),
                ("TestS/never", TestResult::Skipped, "reason"),
            ])
        );
    }

    #[test]
    fn a_test_that_passes_without_flotilla_is_counted_as_skipped() {
        let output = "=== RUN   TestA\n--- PASS: TestA (0.10s)\n=== RUN   TestB\n    flotilla.go:1: plugin\n--- SKIP: TestB (0.00s)\n\
            === RUN   TestS\n--- PASS: TestS (0.00s)\n";
        let report = "{\"test\":\"TestB\",\"event\":\"skipped\",\"why\":\"registers a plugin\"}\n";
        assert_eq!(
            of(output, report),
            expected(&[
                ("TestA", TestResult::Skipped, WITHOUT_FLOTILLA),
                ("TestB", TestResult::Skipped, "registers a plugin"),
                ("TestS/never", TestResult::Skipped, "reason"),
            ])
        );
    }

    #[test]
    fn a_parent_that_fails_by_itself_counts() {
        let output = "=== RUN   TestA\n=== RUN   TestA/b\n    --- PASS: TestA/b (1.00s)\n    a_test.go:9: cleanup\n--- FAIL: TestA (2.00s)\n";
        let report = "{\"test\":\"TestA/b\",\"event\":\"started\",\"why\":\"\"}\n";
        let tests = of(output, report);
        assert_eq!(
            tests[..2],
            expected(&[("TestA", TestResult::Failed, "a_test.go:9: cleanup"), ("TestA/b", TestResult::Passed, "")])
        );
    }
}
