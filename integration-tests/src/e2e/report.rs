//! Ginkgo's report of a run.

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

/// Result of a spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SpecVerdict {
    /// Passed.
    Passed,
    /// Failed or timed out.
    Failed,
    /// The spec skipped itself.
    Skipped,
}

impl SpecVerdict {
    /// Name in tables and in the record.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// Result of one spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecResult {
    /// Full name, as `--ginkgo.focus` matches it.
    pub spec: String,
    /// Verdict.
    pub verdict: SpecVerdict,
    /// Duration in seconds.
    pub seconds: u64,
    /// Reason; empty if passed.
    pub message: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Suite {
    #[serde(default)]
    spec_reports: Option<Vec<Spec>>,
    #[serde(default)]
    special_suite_failure_reasons: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Spec {
    #[serde(default)]
    container_hierarchy_texts: Option<Vec<String>>,
    leaf_node_type: String,
    #[serde(default)]
    leaf_node_text: String,
    state: String,
    /// In nanoseconds.
    run_time: u64,
    #[serde(default)]
    failure: Option<Failure>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    #[serde(default)]
    message: String,
}

/// Reads the specs of a report, without unselected ones.
///
/// # Errors
/// The format is not Ginkgo's, or the suite's setup failed, so that no spec ran.
pub(super) fn read(text: &str) -> anyhow::Result<Vec<SpecResult>> {
    let suites: Vec<Suite> = serde_json::from_str(text).context("the report is not the JSON of Ginkgo")?;
    let mut outcomes = Vec::new();
    for suite in suites {
        for spec in suite.spec_reports.into_iter().flatten() {
            let message = spec.failure.map(|failure| failure.message).unwrap_or_default();
            if spec.leaf_node_type != "It" {
                ensure!(spec.state == "passed", "{} of all specs {}: {message}", spec.leaf_node_type, spec.state);
                continue;
            }
            let verdict = match &*spec.state {
                "passed" => SpecVerdict::Passed,
                // Skipped without a reason: unselected.
                "skipped" if message.is_empty() => continue,
                "skipped" => SpecVerdict::Skipped,
                "pending" => continue,
                _ => SpecVerdict::Failed,
            };
            let texts = spec.container_hierarchy_texts.into_iter().flatten().chain([spec.leaf_node_text]);
            let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
            let seconds = spec.run_time.div_ceil(1_000_000_000);
            outcomes.push(SpecResult { spec: texts.join(" "), verdict, seconds, message });
        }
        let reasons = suite.special_suite_failure_reasons.unwrap_or_default();
        ensure!(!outcomes.is_empty(), "no spec was run: {}", reasons.join("; "));
    }
    outcomes.sort_by(|one, other| one.spec.cmp(&other.spec));
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn spec(text: &str, state: &str, message: Option<&str>) -> Value {
        let mut spec = json!({
            "ContainerHierarchyTexts": ["[sig-scheduling] Predicates", ""],
            "LeafNodeType": "It",
            "LeafNodeText": text,
            "State": state,
            "RunTime": 1_500_000_000,
        });
        if let Some(message) = message {
            spec["Failure"] = json!({ "Message": message });
        }
        spec
    }

    fn report(specs: &[Value]) -> String {
        json!([{ "SpecReports": specs, "SpecialSuiteFailureReasons": null }]).to_string()
    }

    #[test]
    fn specs_are_reported_by_their_full_name_and_those_that_were_not_selected_are_left_out() {
        let outcomes = read(&report(&[
            spec("waits", "timedout", Some("A spec timeout occurred")),
            spec("fits", "passed", None),
            spec("needs zones", "skipped", Some("only one zone")),
            spec("of another sig", "skipped", None),
        ]))
        .expect("a report");
        let told: Vec<(&str, SpecVerdict, u64)> =
            outcomes.iter().map(|outcome| (&*outcome.spec, outcome.verdict, outcome.seconds)).collect();
        assert_eq!(
            told,
            [
                ("[sig-scheduling] Predicates fits", SpecVerdict::Passed, 2),
                ("[sig-scheduling] Predicates needs zones", SpecVerdict::Skipped, 2),
                ("[sig-scheduling] Predicates waits", SpecVerdict::Failed, 2),
            ]
        );
        assert_eq!(outcomes[1].message, "only one zone");
    }

    #[test]
    fn a_suite_that_fails_before_its_specs_is_an_error_that_says_so() {
        let before = json!({
            "LeafNodeType": "SynchronizedBeforeSuite",
            "State": "failed",
            "RunTime": 1,
            "Failure": { "Message": "no node is ready" },
        });
        let error = read(&report(&[before, spec("fits", "skipped", None)])).expect_err("nothing was run");
        assert!(error.to_string().contains("no node is ready"), "{error}");
        assert!(read(&report(&[spec("fits", "skipped", None)])).is_err());
        assert!(read("no json").is_err());
    }
}
