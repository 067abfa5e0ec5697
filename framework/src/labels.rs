//! Label selectors over the labels of pods and namespaces.
//!
//! Knows: the semantics of `metav1.LabelSelector`, and which spellings are errors. Must not know: whose selector it is,
//! or how nodes are selected ([`crate::selector`]).

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::selector::spelling::{self, Misspelt};

/// Labels, sorted by key, each key once.
pub type Labels = [(Arc<str>, Arc<str>)];

/// A selector that could be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LabelSelector {
    /// No selector: nothing matches.
    #[default]
    Nothing,
    /// All requirements must hold; without any, everything matches.
    Matching(Vec<LabelRequirement>),
}

/// One requirement on a label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LabelRequirement {
    /// The key of the label.
    pub key: Arc<str>,
    /// How its value is compared.
    pub operator: LabelOperator,
    /// The values, sorted, each once; none for the operators that take none.
    pub values: Vec<Arc<str>>,
}

/// How a requirement compares the value of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LabelOperator {
    /// It is one of the values.
    In,
    /// It is none of the values, or there is no such label.
    NotIn,
    /// There is such a label.
    Exists,
    /// There is no such label.
    DoesNotExist,
}

impl LabelOperator {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::In, Self::NotIn, Self::Exists, Self::DoesNotExist];

    /// The operator as Kubernetes writes it.
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

// === impl LabelSelector ===

impl LabelSelector {
    /// The selector that everything matches.
    pub const EVERYTHING: Self = Self::Matching(Vec::new());

    /// The selector of exactly these labels; everything for none of them.
    pub fn equal<'a>(labels: impl IntoIterator<Item = (&'a Arc<str>, &'a Arc<str>)>) -> Self {
        Self::Matching(labels.into_iter().map(|(key, value)| LabelRequirement::equal(key, value)).collect())
    }

    /// Whether everything matches.
    #[must_use]
    pub const fn is_everything(&self) -> bool {
        matches!(self, Self::Matching(requirements) if requirements.is_empty())
    }

    /// Whether the labels match.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        match self {
            Self::Nothing => false,
            Self::Matching(requirements) => requirements.iter().all(|requirement| requirement.holds(labels)),
        }
    }
}

// === impl LabelRequirement ===

impl LabelRequirement {
    /// The label has this value.
    #[must_use]
    pub fn equal(key: &Arc<str>, value: &Arc<str>) -> Self {
        Self { key: Arc::clone(key), operator: LabelOperator::In, values: vec![Arc::clone(value)] }
    }

    /// A requirement as it is written.
    ///
    /// # Errors
    /// What is wrong with it, in the words of apimachinery.
    ///
    /// Source: apimachinery `metav1.LabelSelectorAsSelector`, `labels.NewRequirement`.
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
