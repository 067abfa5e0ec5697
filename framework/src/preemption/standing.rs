//! A pod that stands on a node, as preemption sees it.
//!
//! Knows: which of two pods is the more important victim. Must not know: nodes, or budgets.

use std::{cmp::Ordering, sync::Arc};

use crate::class::{ClassId, PodInfo};

/// A pod on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.name`; the namespace is the class's.
    pub name: Arc<str>,
    /// What the plugins read of it.
    pub class: ClassId,
    /// `spec.priority`, 0 where absent.
    pub priority: i32,
    /// `status.startTime`, in nanoseconds since 1970; `None` for a pod that has not started, which is taken to start now.
    pub started_ns: Option<i64>,
    /// It is being deleted because a scheduler preempted it.
    pub is_preempted: bool,
}

// === impl Standing ===

impl Standing {
    /// A pod of a class with this number.
    #[must_use]
    pub fn of(pod: &PodInfo, class: ClassId) -> Self {
        Self {
            uid: Arc::clone(&pod.uid),
            name: Arc::clone(&pod.name),
            class,
            priority: pod.priority,
            started_ns: pod.started_ns,
            is_preempted: pod.is_preempted,
        }
    }

    /// When it started; `now_ns` for a pod that has not.
    #[must_use]
    pub fn started_or(&self, now_ns: i64) -> i64 {
        self.started_ns.unwrap_or(now_ns)
    }

    /// `Less` where the pod is the more important one of the two and so is spared first: of higher priority, then
    /// started earlier. Upstream leaves the order of pods open that are alike in both; here name and UID decide.
    ///
    /// Source: `preemption.MoreImportantVictim`.
    #[must_use]
    pub fn importance(&self, other: &Self, now_ns: i64) -> Ordering {
        let started = self.started_or(now_ns).cmp(&other.started_or(now_ns));
        let named = || self.name.cmp(&other.name).then_with(|| self.uid.cmp(&other.uid));
        other.priority.cmp(&self.priority).then(started).then_with(named)
    }
}
