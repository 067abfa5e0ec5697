//! PodDisruptionBudgets, as preemption reads them ([`crate::ingest::budgets`]).

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::{class::Class, labels::LabelSelector};

/// A PodDisruptionBudget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `spec.selector`; an invalid one selects nothing.
    pub selector: LabelSelector,
    /// `status.disruptionsAllowed`.
    pub disruptions_allowed: i32,
    /// The names in `status.disruptedPods`, sorted: pods with an eviction in progress, which no longer count.
    pub disrupted: Vec<Arc<str>>,
}

impl Budget {
    /// Whether evicting the pod of this class and name uses the budget. A selector of everything counts as one of nothing, and no budget
    /// covers a pod without labels. Source: `preemption.FilterVictimsWithPDBViolation`.
    #[must_use]
    pub fn covers(&self, class: &Class, name: &Arc<str>) -> bool {
        self.namespace == class.namespace
            && !class.labels.is_empty()
            && !self.selector.is_everything()
            && self.selector.matches(&class.labels)
            && self.disrupted.binary_search(name).is_err()
    }
}
