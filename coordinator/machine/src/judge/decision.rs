//! Input and result of a decision.

use std::sync::Arc;

use flotilla_framework::{
    class::PodInfo, diagnosis::Diagnosis, extender::Extender, extension::Facts, node::NodeId, objects::Reservation,
    select::Nominations, shard::Revision,
};

use super::cache::past::Unknowable;
use super::{
    cache::Charge,
    extender_answers::{ExtenderAnswers, Question},
};
use crate::{
    subject::{ProfileIndex, Subject},
    trace::Rivals,
};

/// The input of a decision, apart from the cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt<'a> {
    pub(crate) pod: &'a PodInfo,
    pub(crate) subject: Subject,
    /// The revision that the decision has to include.
    pub(crate) from: Revision,
    /// The coordinator evaluates missing results instead of waiting for workers.
    pub(crate) alone: bool,
    /// The pod is a member of a group that is being tried; the members before it are charged.
    pub(crate) is_member: bool,
    /// Extenders rejected the nominated node in this attempt.
    pub(crate) own_node_refused: bool,
    pub(crate) extenders: &'a [Arc<Extender>],
    /// Their answers about members in this attempt, and whether the attempt looks for victims.
    pub(crate) said: Option<(&'a ExtenderAnswers, bool)>,
    pub(crate) is_traced: bool,
    /// The limit of pods in PreBind is not reached.
    pub(crate) may_prepare: bool,
}

impl<'a> Attempt<'a> {
    /// An attempt at a pod alone, which asks workers but no extenders.
    pub(crate) const fn new(pod: &'a PodInfo, subject: Subject, from: Revision) -> Self {
        Self {
            pod,
            subject,
            from,
            alone: false,
            is_member: false,
            own_node_refused: false,
            extenders: &[],
            said: None,
            is_traced: false,
            may_prepare: false,
        }
    }
}

/// The result of an attempt at a pod, alone or as a member of a group.
#[derive(Debug)]
pub(crate) enum Decision {
    Place(Placement),
    Refuse(Diagnosis, PostFilter),
    /// The attempt failed with an error that is independent of the nodes.
    Fail(String),
}

/// The answers that a decision needs first.
#[derive(Debug)]
pub(crate) enum Need {
    Workers(Want),
    Extenders(Question),
}

impl Need {
    pub(crate) const fn offers(subject: Subject) -> Self {
        Self::Workers(Want::Offers(subject))
    }
}

pub(crate) type Decided = Result<Decision, Need>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PostFilter {
    /// It does not run, because there are no nodes.
    Skip,
    /// It runs; the nodes that only extenders rejected are candidates too.
    Run(Vec<NodeId>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    Offers(Subject),
    Whole(Subject),
}

#[derive(Debug)]
pub(crate) struct Placement {
    pub(crate) profile: ProfileIndex,
    pub(crate) charge: Charge,
    pub(crate) reservations: Vec<Reservation>,
    pub(crate) total: i64,
    /// The coordinator evaluated the node again.
    pub(crate) repaired: bool,
    pub(crate) revision: Revision,
    pub(crate) basis: Basis,
    /// The other feasible nodes, for a traced attempt.
    pub(crate) rivals: Option<Rivals>,
}

#[derive(Debug, Clone)]
pub(crate) struct Basis {
    pub(crate) facts: Arc<Facts>,
    pub(crate) fact_bytes: usize,
    pub(crate) class_bytes: usize,
    /// The nominations that concerned the pod, or the reason why they are not kept.
    pub(crate) nominations: Result<Option<Box<Nominations>>, Unknowable>,
    pub(crate) asked_extenders: bool,
}

impl Placement {
    pub(crate) const fn subject(&self) -> Subject {
        (self.profile, self.charge.class)
    }
}
