//! What is decided on, and what a decision can be.
//!
//! Must not know: how a decision is made, or carried out.

use std::sync::Arc;

use flotilla_framework::{
    class::PodInfo, diagnosis::Diagnosis, extender::Extender, extension::Facts, node::NodeId, objects::Reservation,
    select::Nominations, shard::Revision,
};

use super::past::Unknowable;
use super::{
    cache::Charge,
    said::{Heard, Question},
};
use crate::{
    subject::{Subject, Uid},
    trace::Rivals,
};

/// What is decided on, and all of it that is not the cluster's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt<'a> {
    pub(crate) uid: &'a Uid,
    pub(crate) pod: &'a PodInfo,
    pub(crate) subject: Subject,
    pub(crate) priority: i32,
    /// The state of the cluster that the decision has to know of.
    pub(crate) from: Revision,
    /// Workers are not waited for: what is missing is evaluated here.
    pub(crate) alone: bool,
    /// The pod is decided on beside others of its group, which have their places for as long as that takes.
    pub(crate) is_member: bool,
    /// Extenders turned down the node that the pod is nominated to, in this attempt.
    pub(crate) own_node_refused: bool,
    /// The extenders that filter or score nodes for the pod, in their order.
    pub(crate) extenders: &'a [Arc<Extender>],
    /// What they have said of members of the pod's group in this attempt, and whether room is being looked for the group.
    pub(crate) said: Option<(&'a Heard, bool)>,
    /// It is traced, so that the runner-up is looked for.
    pub(crate) is_traced: bool,
    /// There is room for one pod more that PreBind has to wait for.
    pub(crate) may_prepare: bool,
}

/// What is to be done with a pod.
#[derive(Debug)]
pub(crate) enum Decision {
    /// It goes there.
    Place(Placement),
    /// No node is feasible, and whether PostFilter runs.
    Refuse(Diagnosis, PostFilter),
    /// Something went wrong that says nothing about the nodes.
    Fail(String),
    /// Workers have to be asked first.
    Ask(Want),
    /// Extenders have to be asked first.
    AskExtenders(Question),
}

/// Whether PostFilter runs for a pod that no node will take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PostFilter {
    /// It does not run: there are no nodes.
    Skip,
    /// It runs; these nodes, which only extenders refused, are candidates too.
    Run(Vec<NodeId>),
}

/// What workers have to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// The best nodes for a subject.
    Offers(Subject),
    /// All nodes for the head of a family.
    Whole(Subject),
}

/// Where a pod goes by a decision.
#[derive(Debug)]
pub(crate) struct Placement {
    /// What is charged.
    pub(crate) charge: Charge,
    /// What Reserve has to do, in the order of its plugins.
    pub(crate) reservations: Vec<Reservation>,
    /// The weighted score.
    pub(crate) total: i64,
    /// The node was judged anew here.
    pub(crate) repaired: bool,
    /// The state that the decision was made on.
    pub(crate) revision: Revision,
    /// What beside the nodes it was made by.
    pub(crate) basis: Basis,
    /// The other nodes that would have done, of an attempt that is traced.
    pub(crate) rivals: Option<Rivals>,
}

/// What a decision is made by beside the nodes.
#[derive(Debug, Clone)]
pub(crate) struct Basis {
    /// What the whole cluster said about the class.
    pub(crate) facts: Arc<Facts>,
    /// What the facts take, in bytes.
    pub(crate) fact_bytes: usize,
    /// What the class takes, in bytes.
    pub(crate) class_bytes: usize,
    /// The nominations that concerned the pod, if any did; or that there were too many to keep.
    pub(crate) nominations: Result<Option<Box<Nominations>>, Unknowable>,
    /// Extenders filter or score nodes for the pod.
    pub(crate) asked_extenders: bool,
}

// === impl Decision ===

impl Decision {
    /// The same, with the nodes that were beside the chosen one.
    pub(crate) fn beside(self, rivals: Option<Rivals>) -> Self {
        match self {
            Self::Place(placement) => Self::Place(Placement { rivals, ..placement }),
            other => other,
        }
    }
}
