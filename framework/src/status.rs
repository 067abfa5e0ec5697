//! The results of filters: kube-scheduler's codes and refusals.

use serde::{Deserialize, Serialize};

/// The codes of a refusal, with kube-scheduler's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Code {
    /// The pod does not fit now; preemption may help.
    Unschedulable,
    /// The pod does not fit, and preemption will not help.
    UnschedulableAndUnresolvable,
    /// The node cannot be evaluated. The attempt fails, whatever the other nodes are.
    Error,
}

/// A filter's refusal of a node, small enough to store per node: the plugin converts `detail` to messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Refusal {
    /// Whether preemption could help.
    pub code: Code,
    /// Defined by the plugin that refused.
    pub detail: u64,
}

impl Refusal {
    /// Preemption could help.
    #[must_use]
    pub const fn unschedulable(detail: u64) -> Self {
        Self { code: Code::Unschedulable, detail }
    }

    /// The node cannot be evaluated, and the attempt fails.
    #[must_use]
    pub const fn error(detail: u64) -> Self {
        Self { code: Code::Error, detail }
    }

    /// Preemption would not help.
    #[must_use]
    pub const fn unresolvable(detail: u64) -> Self {
        Self { code: Code::UnschedulableAndUnresolvable, detail }
    }
}

/// A filter's result for one node.
pub type FilterResult = Result<(), Refusal>;
