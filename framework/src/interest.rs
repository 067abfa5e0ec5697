//! Which classes a class may count, told by labels, so that they can be looked up instead of looked through.
//!
//! Knows: which label a selector cannot match without. Must not know: any plugin, or which classes there are.

use std::sync::Arc;

use crate::{
    class::Class,
    labels::{LabelOperator, LabelSelector, Labels},
};

/// A label with its value.
pub type LabelPair = (Arc<str>, Arc<str>);

/// A set of classes that may be larger than what is meant by it, never smaller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interest {
    /// No label narrows it down.
    everyone: bool,
    labelled: Vec<LabelPair>,
    /// Classes with an affinity of any kind to pods with these labels.
    meaning: Vec<Arc<[LabelPair]>>,
}

/// What a selector cannot match without.
pub(crate) enum Pivot<'a> {
    /// It matches nothing.
    Nothing,
    /// One of these values of a label.
    Label(&'a Arc<str>, &'a [Arc<str>]),
    /// No single label.
    Anything,
}

/// What a selector cannot match without: the first label that it wants a value of.
pub(crate) fn pivot(selector: &LabelSelector) -> Pivot<'_> {
    let LabelSelector::Matching(requirements) = selector else { return Pivot::Nothing };
    let named = requirements.iter().find(|requirement| requirement.operator == LabelOperator::In);
    named.map_or(Pivot::Anything, |requirement| Pivot::Label(&requirement.key, &requirement.values))
}

// === impl Interest ===

impl Interest {
    /// All classes.
    #[must_use]
    pub fn everyone() -> Self {
        Self { everyone: true, ..Self::default() }
    }

    /// Adds the classes that a selector matches.
    pub fn select(&mut self, selector: &LabelSelector) {
        match pivot(selector) {
            Pivot::Nothing => {}
            Pivot::Anything => self.everyone = true,
            Pivot::Label(key, values) => {
                self.labelled.extend(values.iter().map(|value| (Arc::clone(key), Arc::clone(value))));
            }
        }
    }

    /// Adds the classes that have an affinity, of any kind, to pods of a class.
    pub fn select_those_who_mean(&mut self, class: &Class) {
        self.meaning.push(class.labels.as_slice().into());
    }

    /// Adds another set.
    pub fn join(&mut self, other: Self) {
        self.everyone |= other.everyone;
        self.labelled.extend(other.labelled);
        self.meaning.extend(other.meaning);
    }

    /// Whether it is all classes.
    #[must_use]
    pub const fn is_everyone(&self) -> bool {
        self.everyone
    }

    /// The labels of which a class must have one, unless it means one of [`Self::meaning`].
    pub(crate) fn labelled(&self) -> &[LabelPair] {
        &self.labelled
    }

    /// The labels of pods that a class must have an affinity to, unless it has one of [`Self::labelled`].
    pub(crate) fn meaning(&self) -> impl Iterator<Item = &Labels> {
        self.meaning.iter().map(AsRef::as_ref)
    }
}
