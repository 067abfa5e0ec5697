//! Changes of the cluster that the scheduler observes.

use std::sync::Arc;

use flotilla_framework::{class::PodInfo, preemption::Budget, volumes::objects::Claim};

/// A change of the cluster that the scheduler observes.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A claim is created for the next pod.
    Claim(Box<Claim>),
    /// A pod without a node is created.
    Create(Arc<PodInfo>),
    /// A pod is deleted.
    Delete {
        /// The pod.
        pod: Arc<PodInfo>,
        /// Why.
        by: Deletion,
    },
    /// A budget allows another number of disruptions.
    Budget(Budget),
}

/// Why a pod is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deletion {
    /// A scheduler preempted it.
    Preempted,
    /// A drain evicted it.
    Evicted,
    /// Its controller has a new template.
    RolledOut,
}
