//! Pods on nodes, as preemption reads them, and their importance.

use std::{cmp::Ordering, sync::Arc};

use crate::class::{ClassId, PodInfo};

/// A pod on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedPod {
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.name`; the namespace is in the class.
    pub name: Arc<str>,
    /// Its class.
    pub class: ClassId,
    /// `spec.priority`, 0 where absent.
    pub priority: i32,
    /// `status.startTime`, in nanoseconds since 1970; `None` for a pod that has not started, which counts as starting now.
    pub started_ns: Option<i64>,
    /// The pod is being deleted because a scheduler preempted it.
    pub is_preempted: bool,
}

impl PlacedPod {
    /// A pod; `class` is the number of its class.
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

    /// The start time; `now_ns` for a pod that has not started.
    #[must_use]
    pub fn started_or(&self, now_ns: i64) -> i64 {
        self.started_ns.unwrap_or(now_ns)
    }

    /// `Less` if this pod is more important and is reprieved first: of higher priority, then started earlier. kube-scheduler leaves the
    /// order of equal pods open; here name and UID decide. Source: `preemption.MoreImportantVictim`.
    #[must_use]
    pub fn importance(&self, other: &Self, now_ns: i64) -> Ordering {
        let started = self.started_or(now_ns).cmp(&other.started_or(now_ns));
        let named = || self.name.cmp(&other.name).then_with(|| self.uid.cmp(&other.uid));
        other.priority.cmp(&self.priority).then(started).then_with(named)
    }
}
