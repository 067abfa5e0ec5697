//! What came out of a check.
//!
//! Knows: the three ways it can come out. Must not know: what is checked.

use serde::Serialize;

/// How it came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Verdict {
    /// As it should be.
    Passed,
    /// Flotilla would not work, or not as it should.
    Failed,
    /// It could not be found out.
    Unknown,
}

impl Verdict {
    /// What stands before the line.
    pub(super) fn sign(self) -> char {
        match self {
            Self::Passed => '✓',
            Self::Failed => '✗',
            Self::Unknown => '–',
        }
    }
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Check {
    /// What was checked.
    pub(super) name: &'static str,
    /// How it came out.
    pub(super) verdict: Verdict,
    /// What was found.
    pub(super) what: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

impl Check {
    /// As it should be.
    pub(super) fn passed(name: &'static str, what: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Passed, what: what.into(), next: None }
    }

    /// Not as it should be.
    pub(super) fn failed(name: &'static str, what: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Failed, what: what.into(), next: None }
    }

    /// It cannot be determined.
    pub(super) fn unknown(name: &'static str, what: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Unknown, what: what.into(), next: None }
    }

    /// It cannot be determined, because the API server does not say.
    pub(super) fn unanswered(name: &'static str, error: &kube::Error) -> Self {
        let what = match error {
            kube::Error::Api(status) => status.message.trim().to_owned(),
            error => error.to_string(),
        };
        Self::unknown(name, format!("could not be checked: {what}"))
    }

    /// With the next step.
    pub(super) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}
