//! Names of pods, groups and subjects.

use std::sync::Arc;

use flotilla_framework::class::ClassId;

pub(crate) use flotilla_framework::pod_group::GroupKey;

pub(crate) type Uid = Arc<str>;

/// Index of a profile in the configuration.
pub(crate) type ProfileIndex = usize;

pub(crate) type Subject = (ProfileIndex, ClassId);

/// The names of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodName {
    /// Its UID.
    pub uid: Arc<str>,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// The reason of a `PodScheduled` condition that is `False`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Every node was evaluated and none is feasible. Cluster autoscalers add nodes because of this reason.
    Unschedulable,
    /// An error that is independent of the nodes.
    SchedulerError,
}

impl Reason {
    /// The reason in the condition.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unschedulable => "Unschedulable",
            Self::SchedulerError => "SchedulerError",
        }
    }
}
