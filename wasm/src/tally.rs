//! Failures and rejection messages of modules.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use crate::{error::FaultKind, reasons::Reasons};

/// Failures of plugins by kind, and messages by number.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    failures: Mutex<BTreeMap<(&'static str, FaultKind), u64>>,
    words: Reasons,
}

impl Tally {
    pub(crate) fn count(&self, plugin: &'static str, kind: FaultKind) {
        *self.failures.lock().unwrap_or_else(PoisonError::into_inner).entry((plugin, kind)).or_default() += 1;
    }

    /// Plugin, kind and count.
    pub(crate) fn failures(&self) -> Vec<(&'static str, &'static str, u64)> {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.iter().map(|(&(plugin, kind), &count)| (plugin, kind.name(), count)).collect()
    }

    pub(crate) const fn texts(&self) -> &Reasons {
        &self.words
    }
}
