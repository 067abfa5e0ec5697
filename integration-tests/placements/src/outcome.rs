//! What one side makes of a case.
//!
//! Knows: the lines of a run over a folder of cases. Must not know: which side wrote them.

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde_json::Value;

/// What came of a case.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The input was not accepted, as this says.
    Refused(String),
    /// One object per pending pod.
    Answers(Vec<Value>),
}

/// Reads lines such as `{"case":"a","answers":[...]}` and `{"case":"b","refused":"..."}`.
///
/// # Errors
/// A line is neither.
pub fn outcomes(lines: &str) -> anyhow::Result<BTreeMap<String, Outcome>> {
    let outcome = |line: &str| {
        let mut value: Value = serde_json::from_str(line)?;
        let name = value["case"].as_str().context("no case is named")?.to_owned();
        let outcome = match (value["refused"].take(), value["answers"].take()) {
            (Value::String(refused), _) => Outcome::Refused(refused),
            (_, Value::Array(answers)) => Outcome::Answers(answers),
            // A case without pending pods.
            (Value::Null, Value::Null) => Outcome::Answers(Vec::new()),
            _ => anyhow::bail!("neither answers nor a refusal"),
        };
        Ok((name, outcome))
    };
    lines.lines().map(|line| outcome(line).with_context(|| format!("this line is not valid: {line:.200}"))).collect()
}
