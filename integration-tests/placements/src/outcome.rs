//! Outcome of a case on one side.

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde_json::Value;

/// Outcome of a case.
#[derive(Debug, Clone, PartialEq)]
pub enum CaseOutcome {
    /// The input was rejected with this message.
    Refused(String),
    /// One object per pending pod.
    Answers(Vec<Value>),
}

/// Parses lines such as `{"case":"a","answers":[...]}` and `{"case":"b","refused":"..."}`.
///
/// # Errors
/// A line is invalid.
pub fn outcomes(lines: &str) -> anyhow::Result<BTreeMap<String, CaseOutcome>> {
    let outcome = |line: &str| {
        let mut value: Value = serde_json::from_str(line)?;
        let name = value["case"].as_str().context("no case is named")?.to_owned();
        let outcome = match (value["refused"].take(), value["answers"].take()) {
            (Value::String(refused), _) => CaseOutcome::Refused(refused),
            (_, Value::Array(answers)) => CaseOutcome::Answers(answers),
            // A case without pending pods.
            (Value::Null, Value::Null) => CaseOutcome::Answers(Vec::new()),
            _ => anyhow::bail!("neither answers nor a refusal"),
        };
        Ok((name, outcome))
    };
    lines.lines().map(|line| outcome(line).with_context(|| format!("this line is not valid: {line:.200}"))).collect()
}
