//! A PodDisruptionBudget, as preemption reads it.
//!
//! Knows: which pods a budget is about. Must not know: the Kubernetes object it comes from
//! ([`crate::ingest::budgets`]), or who counts.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::{class::Class, labels::LabelSelector};

/// How many pods of a kind may be taken away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `spec.selector`; one that cannot be read selects nothing.
    pub selector: LabelSelector,
    /// `status.disruptionsAllowed`: how many more pods may go.
    pub disruptions_allowed: i32,
    /// The names in `status.disruptedPods`, sorted: pods whose eviction is under way, which count no more.
    pub disrupted: Vec<Arc<str>>,
}

// === impl Budget ===

impl Budget {
    /// Whether taking away the pod of this class and name uses the budget. A selector that selects everything is taken
    /// for one that selects nothing, and a pod without labels is in no budget.
    ///
    /// Source: `preemption.FilterVictimsWithPDBViolation`.
    #[must_use]
    pub fn covers(&self, class: &Class, name: &Arc<str>) -> bool {
        self.namespace == class.namespace
            && !class.labels.is_empty()
            && !self.selector.is_everything()
            && self.selector.matches(&class.labels)
            && self.disrupted.binary_search(name).is_err()
    }
}
