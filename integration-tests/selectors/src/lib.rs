//! Compares evaluation of selectors on devices between upstream's code (`integration-tests/oracle/cel`) and Flotilla.
//!
//! Contains: the oracle's lines, and intended differences. Does not depend on: how either side evaluates.

mod generate;

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context as _, Result};
use flotilla_cel::{Attribute, Device, Expression, MAX_COST};
use serde::{Deserialize, Serialize};

pub use generate::Generator;

/// A device in the API's format.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeviceObject {
    /// Driver.
    pub driver: String,
    /// `allowMultipleAllocations`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_multiple_allocations: Option<bool>,
    /// By qualified name.
    #[serde(default)]
    pub attributes: BTreeMap<String, AttributeObject>,
    /// By qualified name.
    #[serde(default)]
    pub capacity: BTreeMap<String, CapacityObject>,
}

/// An attribute in the API's format: exactly one field is set.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct AttributeObject {
    /// An integer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub int: Option<i64>,
    /// A boolean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bool: Option<bool>,
    /// A string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub string: Option<String>,
    /// A semantic version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Integers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ints: Option<Vec<i64>>,
    /// Booleans.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bools: Option<Vec<bool>>,
    /// Strings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strings: Option<Vec<String>>,
    /// Semantic versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub versions: Option<Vec<String>>,
}

/// A capacity in the API's format.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct CapacityObject {
    /// A quantity.
    pub value: String,
}

impl AttributeObject {
    /// The value, by upstream's order of the fields.
    pub fn attribute(&self) -> Attribute {
        let text = |text: &String| Arc::<str>::from(text.as_str());
        let texts = |all: &Vec<String>| all.iter().map(text).collect();
        let lists = self.ints.clone().map(Attribute::Ints);
        let lists = lists.or_else(|| self.bools.clone().map(Attribute::Bools));
        let lists = lists.or_else(|| self.strings.as_ref().map(|all| Attribute::Strings(texts(all))));
        let lists = lists.or_else(|| self.versions.as_ref().map(|all| Attribute::Versions(texts(all))));
        lists
            .or_else(|| self.int.map(Attribute::Int))
            .or_else(|| self.bool.map(Attribute::Bool))
            .or_else(|| self.string.as_ref().map(|one| Attribute::String(text(one))))
            .or_else(|| self.version.as_ref().map(|one| Attribute::Version(text(one))))
            .unwrap_or(Attribute::Unknown)
    }
}

impl DeviceObject {
    /// The device for expressions.
    ///
    /// # Errors
    /// A capacity is invalid.
    pub fn device(&self) -> Result<Device> {
        let attributes = self.attributes.iter().map(|(name, attribute)| (name.as_str(), attribute.attribute()));
        let capacity = self.capacity.iter().map(|(name, capacity)| (name.as_str(), capacity.value.as_str()));
        Ok(Device::new(&self.driver, self.allow_multiple_allocations.unwrap_or(false), attributes, capacity)?)
    }
}

/// A case for both sides. In recorded cases the device is a name.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
pub struct Case<D> {
    /// Selector.
    pub expression: String,
    /// Device.
    pub device: D,
}

/// Result of a case.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub struct Answer {
    /// `true`, `false`, `compile`, `runtime` or `panic`.
    pub verdict: String,
    /// Error text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Cost of the evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
}

/// Evaluates a case with Flotilla.
///
/// # Errors
/// The device is invalid.
pub fn answer(case: &Case<DeviceObject>) -> Result<Answer> {
    let device = case.device.device()?;
    let expression = match Expression::compile(&case.expression) {
        Ok(expression) => expression,
        Err(refused) => {
            return Ok(Answer { verdict: "compile".to_owned(), text: refused.to_string(), cost: None });
        }
    };
    let (verdict, cost) = expression.matches_at_cost(&device, MAX_COST);
    Ok(match verdict {
        Ok(verdict) => Answer { verdict: verdict.to_string(), text: String::new(), cost: Some(cost) },
        Err(failed) => Answer { verdict: "runtime".to_owned(), text: failed.to_string(), cost: Some(cost) },
    })
}

/// Parses JSON objects, one a line.
///
/// # Errors
/// A line is invalid.
pub fn lines<T: for<'text> Deserialize<'text>>(text: &str) -> Result<Vec<T>> {
    let line = |(at, line)| serde_json::from_str(line).with_context(|| format!("line {}: {line}", at + 1));
    text.lines().enumerate().map(line).collect()
}

/// Difference between two answers; `None` if they are equal, or the difference is listed in `docs/reference/compatibility.md`.
pub fn difference(upstream: &Answer, ours: &Answer) -> Option<String> {
    if upstream.verdict == "panic" {
        // Upstream's process panics; here the expression does not compile, or the evaluation fails.
        return (!matches!(ours.verdict.as_str(), "compile" | "runtime")).then(|| "panic".to_owned());
    }
    if upstream.verdict != ours.verdict {
        return Some(format!("{} is {}", upstream.verdict, ours.verdict));
    }
    if upstream.text != ours.text && !is_listed(&upstream.text, &ours.text) {
        return Some("text".to_owned());
    }
    if upstream.cost.is_some() && upstream.cost != ours.cost && !upstream.text.contains("attribute ") {
        return Some(format!("cost {:?} is {:?}", upstream.cost, ours.cost));
    }
    None
}

/// Intended differences of texts.
fn is_listed(upstream: &str, ours: &str) -> bool {
    // Messages of syntax errors are from upstream's parser generator.
    let is_syntax = |text: &str| text.contains("Syntax error:") || text.contains("unable to unescape");
    // Those of regular expressions in part.
    let is_regex = |text: &str| text.contains("error parsing regexp");
    (is_syntax(upstream) && is_syntax(ours)) || (is_regex(upstream) && is_regex(ours))
}
