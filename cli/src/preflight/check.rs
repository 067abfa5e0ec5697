//! The result of a check.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum CheckResult {
    Passed,
    Failed,
    /// The check could not be completed.
    Unknown,
}

impl CheckResult {
    pub(super) fn sign(self) -> char {
        match self {
            Self::Passed => '✓',
            Self::Failed => '✗',
            Self::Unknown => '–',
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) verdict: CheckResult,
    pub(super) what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

impl Check {
    pub(super) fn passed(name: &'static str, what: impl Into<String>) -> Self {
        Self { name, verdict: CheckResult::Passed, what: what.into(), next: None }
    }

    pub(super) fn failed(name: &'static str, what: impl Into<String>) -> Self {
        Self { name, verdict: CheckResult::Failed, what: what.into(), next: None }
    }

    pub(super) fn unknown(name: &'static str, what: impl Into<String>) -> Self {
        Self { name, verdict: CheckResult::Unknown, what: what.into(), next: None }
    }

    /// The API server did not answer.
    pub(super) fn unanswered(name: &'static str, error: &kube::Error) -> Self {
        let what = match error {
            kube::Error::Api(status) => status.message.trim().to_owned(),
            error => error.to_string(),
        };
        Self::unknown(name, format!("could not be checked: {what}"))
    }

    pub(super) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}
