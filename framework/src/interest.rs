//! Sets of classes described by labels, so that they can be looked up instead of scanned.

use std::sync::Arc;

use crate::{
    class::Class,
    labels::{LabelOperator, LabelSelector, Labels},
};

/// A label with its value.
pub type LabelPair = (Arc<str>, Arc<str>);

/// A set of classes; it may contain more than intended, never fewer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interest {
    everyone: bool,
    labelled: Vec<LabelPair>,
    meaning: Vec<Arc<[LabelPair]>>,
}

pub(crate) enum Pivot<'a> {
    Nothing,
    Label(&'a Arc<str>, &'a [Arc<str>]),
    Anything,
}

/// A necessary condition of a selector: the first label that must have a certain value.
pub(crate) fn pivot(selector: &LabelSelector) -> Pivot<'_> {
    let LabelSelector::Matching(requirements) = selector else { return Pivot::Nothing };
    let named = requirements.iter().find(|requirement| requirement.operator == LabelOperator::In);
    named.map_or(Pivot::Anything, |requirement| Pivot::Label(&requirement.key, &requirement.values))
}

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

    /// Adds the classes with an affinity term about pods of a class.
    pub fn select_interested(&mut self, class: &Class) {
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

    /// A class needs one of these labels, unless it is about one of [`Self::meaning`].
    pub(crate) fn labelled(&self) -> &[LabelPair] {
        &self.labelled
    }

    /// A class needs an affinity term about pods with these labels, unless it has one of [`Self::labelled`].
    pub(crate) fn meaning(&self) -> impl Iterator<Item = &Labels> {
        self.meaning.iter().map(AsRef::as_ref)
    }
}
