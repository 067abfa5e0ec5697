//! Input and results of an attempt at a group.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{diagnosis::Diagnosis, pod_group::PodGroup, shard::Revision};

use crate::{
    judge::{decision::Placement, extender_answers::Question, nominator::Nominated},
    subject::{ProfileIndex, Subject, Uid},
};

/// The result of a member. A placed member is charged only during the attempt.
#[derive(Debug)]
pub(super) enum MemberResult {
    Placed(Placed),
    Refused(Diagnosis),
    Failed(String),
}

/// A node for a member.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) uid: Uid,
    pub(super) subject: Subject,
    pub(super) placement: Placement,
    /// The nomination that the attempt withholds.
    pub(super) nominated: Option<Nominated>,
}

impl Placed {
    pub(super) fn nomination(&self) -> (Uid, Option<Arc<str>>) {
        (Arc::clone(&self.uid), Some(Arc::clone(&self.placement.charge.node)))
    }
}

#[derive(Debug)]
pub(super) enum GroupOutcome {
    Met,
    Rejected(String),
    Failed(String),
}

#[derive(Debug)]
pub(super) struct Tried {
    pub(super) outcome: GroupOutcome,
    /// The result of each tried member, in order.
    pub(super) verdicts: Vec<(Uid, MemberResult)>,
    pub(super) untried: Vec<Uid>,
}

impl Tried {
    /// The placed members, in order.
    pub(super) fn placed(&self) -> impl Iterator<Item = &Placed> {
        self.verdicts.iter().filter_map(|(_, verdict)| match verdict {
            MemberResult::Placed(placed) => Some(placed),
            MemberResult::Refused(_) | MemberResult::Failed(_) => None,
        })
    }
}

pub(super) enum GroupPreemption {
    /// No room, with the message.
    None(String),
    /// Victims are deleted: the message, and the nominations of members; `None` removes a nomination.
    Coming(String, BTreeMap<Uid, Option<Arc<str>>>),
    Failed(String),
}

pub(super) struct Seeker<'a> {
    pub(super) object: &'a PodGroup,
    pub(super) profile: ProfileIndex,
    pub(super) members: &'a [Uid],
    pub(super) scheduled: usize,
    pub(super) from: Revision,
}

#[derive(Debug)]
pub(super) struct Asks {
    pub(super) uid: Uid,
    pub(super) question: Question,
}
