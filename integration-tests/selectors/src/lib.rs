//! Selectors and devices, what upstream's code answers about them (`integration-tests/oracle/cel`), what Flotilla answers, and
//! where the two differ.
//!
//! Knows: the oracle's lines, and which differences are meant. Must not know: how either answer is computed.

mod generate;

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context as _, Result};
use flotilla_cel::{Attribute, Device, Expression, MAX_COST};
use serde::{Deserialize, Serialize};

pub use generate::Generator;

/// A device as the API writes it.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeviceObject {
    /// The driver.
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

/// An attribute as the API writes it: one of the fields is set.
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

/// A capacity as the API writes it.
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
    /// The device that expressions see.
    ///
    /// # Errors
    /// A capacity is no quantity.
    pub fn device(&self) -> Result<Device> {
        let attributes = self.attributes.iter().map(|(name, attribute)| (name.as_str(), attribute.attribute()));
        let capacity = self.capacity.iter().map(|(name, capacity)| (name.as_str(), capacity.value.as_str()));
        Ok(Device::new(&self.driver, self.allow_multiple_allocations.unwrap_or(false), attributes, capacity)?)
    }
}

/// A question to both sides. In recorded cases the device is a name.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
pub struct Case<D> {
    /// The selector.
    pub expression: String,
    /// The device.
    pub device: D,
}

/// An answer.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub struct Answer {
    /// `true`, `false`, `compile`, `runtime` or `panic`.
    pub verdict: String,
    /// The error's text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The cost of the evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
}

/// What Flotilla answers.
///
/// # Errors
/// The device is none.
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

/// Reads JSON objects, one a line.
///
/// # Errors
/// A line is none.
pub fn lines<T: for<'text> Deserialize<'text>>(text: &str) -> Result<Vec<T>> {
    let line = |(at, line)| serde_json::from_str(line).with_context(|| format!("line {}: {line}", at + 1));
    text.lines().enumerate().map(line).collect()
}

/// How two answers differ; nothing where they are the same, or differ as is listed in `docs/compatibility.md`.
pub fn difference(upstream: &Answer, ours: &Answer) -> Option<String> {
    if upstream.verdict == "panic" {
        // Upstream's process ends; here the expression does not compile, or the evaluation fails.
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

/// Texts that are meant to differ.
fn is_listed(upstream: &str, ours: &str) -> bool {
    // The words on what cannot be read are those of upstream's parser generator.
    let is_syntax = |text: &str| text.contains("Syntax error:") || text.contains("unable to unescape");
    // So are those on regular expressions, in part.
    let is_regex = |text: &str| text.contains("error parsing regexp");
    (is_syntax(upstream) && is_syntax(ours)) || (is_regex(upstream) && is_regex(ours))
}
