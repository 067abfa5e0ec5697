//! Label selectors for pods and namespaces: the semantics of `metav1.LabelSelector`. `crate::selector` selects nodes.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::selector::spelling::{self, Misspelt};

/// Labels, sorted by key, each key once.
pub type Labels = [(Arc<str>, Arc<str>)];

/// A valid selector.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LabelSelector {
    /// No selector: nothing matches.
    #[default]
    Nothing,
    /// All requirements must match; without requirements, everything matches.
    Matching(Vec<LabelRequirement>),
}

/// One requirement on a label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LabelRequirement {
    /// The key of the label.
    pub key: Arc<str>,
    /// The comparison with its value.
    pub operator: LabelOperator,
    /// The values, sorted and unique; empty for `Exists` and `DoesNotExist`.
    pub values: Vec<Arc<str>>,
}

/// The operator of a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LabelOperator {
    /// The value is one of the listed values.
    In,
    /// The value is not listed, or the label is missing.
    NotIn,
    /// The label exists.
    Exists,
    /// The label is missing.
    DoesNotExist,
}

impl LabelOperator {
    /// All operators.
    pub const ALL: [Self; 4] = [Self::In, Self::NotIn, Self::Exists, Self::DoesNotExist];

    /// The operator as in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
        }
    }
}

/// The value of a label.
#[must_use]
pub fn value<'a>(labels: &'a Labels, key: &str) -> Option<&'a Arc<str>> {
    let index = labels.binary_search_by(|(known, _)| known.as_ref().cmp(key)).ok()?;
    Some(&labels[index].1)
}

impl LabelSelector {
    /// The selector that matches everything.
    pub const EVERYTHING: Self = Self::Matching(Vec::new());

    /// The selector of exactly these labels; everything if there are none.
    pub fn equal<'a>(labels: impl IntoIterator<Item = (&'a Arc<str>, &'a Arc<str>)>) -> Self {
        Self::Matching(labels.into_iter().map(|(key, value)| LabelRequirement::equal(key, value)).collect())
    }

    /// Whether the selector matches everything.
    #[must_use]
    pub const fn is_everything(&self) -> bool {
        matches!(self, Self::Matching(requirements) if requirements.is_empty())
    }

    /// Whether the selector matches the labels.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        match self {
            Self::Nothing => false,
            Self::Matching(requirements) => requirements.iter().all(|requirement| requirement.holds(labels)),
        }
    }
}

impl LabelRequirement {
    /// Requires this value of the label.
    #[must_use]
    pub fn equal(key: &Arc<str>, value: &Arc<str>) -> Self {
        Self { key: Arc::clone(key), operator: LabelOperator::In, values: vec![Arc::clone(value)] }
    }

    /// Reads a requirement. Source: apimachinery `metav1.LabelSelectorAsSelector`, `labels.NewRequirement`.
    ///
    /// # Errors
    /// The problem, in apimachinery's format.
    pub fn read(key: &str, operator: &str, values: &[String]) -> Result<Self, String> {
        let known = LabelOperator::ALL.into_iter().find(|known| known.as_str() == operator);
        let operator = known.ok_or_else(|| format!("{operator:?} is not a valid label selector operator"))?;
        let mut errors: Vec<String> = Vec::new();
        if let Some(Misspelt(problems)) = spelling::misspelt_key(key) {
            errors.push(format!("key: Invalid value: {key:?}: {problems}"));
        }
        match operator {
            LabelOperator::In | LabelOperator::NotIn if values.is_empty() => errors
                .push("values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty".to_owned()),
            LabelOperator::Exists | LabelOperator::DoesNotExist if !values.is_empty() => {
                let list: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
                errors.push(format!(
                    "values: Invalid value: [{}]: values set must be empty for exists and does not exist",
                    list.join(",")
                ));
            }
            _ => {}
        }
        for (index, value) in values.iter().enumerate() {
            if let Some(Misspelt(problems)) = spelling::misspelt_value(value) {
                errors.push(format!("values[{index}][{key}]: Invalid value: {value:?}: {problems}"));
            }
        }
        match errors.as_slice() {
            [] => {
                let mut values: Vec<Arc<str>> = values.iter().map(|value| value.as_str().into()).collect();
                values.sort_unstable();
                values.dedup();
                Ok(Self { key: key.into(), operator, values })
            }
            [one] => Err(one.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }

    fn holds(&self, labels: &Labels) -> bool {
        let found = value(labels, &self.key);
        match self.operator {
            LabelOperator::In => found.is_some_and(|found| self.values.contains(found)),
            LabelOperator::NotIn => !found.is_some_and(|found| self.values.contains(found)),
            LabelOperator::Exists => found.is_some(),
            LabelOperator::DoesNotExist => found.is_none(),
        }
    }
}

#[cfg(test)]
mod tests;
