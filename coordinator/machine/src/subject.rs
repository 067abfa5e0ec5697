//! What a decision is about, and by which names it is told of.
//!
//! Must not know: who waits for it, or how it is made.

use std::sync::Arc;

use flotilla_framework::class::ClassId;

/// A pod's UID.
pub(crate) type Uid = Arc<str>;

/// The place of a profile in the configuration.
pub(crate) type ProfileIndex = usize;

/// What a decision is made for: all pods of a class under a profile get the same one.
pub(crate) type Subject = (ProfileIndex, ClassId);

/// Namespace and name of a pod group.
pub(crate) type GroupKey = (Arc<str>, Arc<str>);

/// A pod by all its names.
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
    /// Every node was judged and none would do. Autoscalers buy machines on this word.
    Unschedulable,
    /// Something went wrong that says nothing about the nodes.
    SchedulerError,
}

impl Reason {
    /// The word in the condition.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unschedulable => "Unschedulable",
            Self::SchedulerError => "SchedulerError",
        }
    }
}
