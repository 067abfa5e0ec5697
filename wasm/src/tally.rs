//! What modules have failed at, and the texts of their refusals.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use crate::{error::FaultKind, words::Words};

/// The failures of each plugin by kind, and texts by number.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    failures: Mutex<BTreeMap<(&'static str, FaultKind), u64>>,
    words: Words,
}

impl Tally {
    /// Counts a failure.
    pub(crate) fn count(&self, plugin: &'static str, kind: FaultKind) {
        *self.failures.lock().unwrap_or_else(PoisonError::into_inner).entry((plugin, kind)).or_default() += 1;
    }

    /// The plugin, the kind and the number of all failures.
    pub(crate) fn failures(&self) -> Vec<(&'static str, &'static str, u64)> {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.iter().map(|(&(plugin, kind), &count)| (plugin, kind.name(), count)).collect()
    }

    /// The texts.
    pub(crate) const fn texts(&self) -> &Words {
        &self.words
    }
}
