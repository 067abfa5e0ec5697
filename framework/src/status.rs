//! How a plugin answers.
//!
//! Knows: kube-scheduler's closed set of codes and what the queue does with each. Must not know: any plugin.

use serde::{Deserialize, Serialize};

/// The verdict codes that a filter can give, with upstream's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Code {
    /// The pod cannot run there now; taking pods away may help.
    Unschedulable,
    /// The pod cannot run there, and taking pods away will not help.
    UnschedulableAndUnresolvable,
    /// It cannot be told. The attempt fails for that, whatever the other nodes are.
    Error,
}

/// Why a filter refused a node, small enough to be kept for each node: the plugin turns `detail` into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Refusal {
    /// Whether taking pods away could help.
    pub code: Code,
    /// Means something only to the plugin that made it.
    pub detail: u64,
}

impl Refusal {
    /// Taking pods away could help.
    #[must_use]
    pub const fn unschedulable(detail: u64) -> Self {
        Self { code: Code::Unschedulable, detail }
    }

    /// It cannot be told, and the attempt fails.
    #[must_use]
    pub const fn error(detail: u64) -> Self {
        Self { code: Code::Error, detail }
    }

    /// Taking pods away would not help.
    #[must_use]
    pub const fn unresolvable(detail: u64) -> Self {
        Self { code: Code::UnschedulableAndUnresolvable, detail }
    }
}

/// A filter's answer for one node.
pub type Verdict = Result<(), Refusal>;
