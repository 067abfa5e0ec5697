//! Input and results of an attempt at a group.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{pod_group::PodGroup, shard::Revision};

use crate::{
    judge::{
        decision::{Decision, Placement},
        extender_answers::Question,
    },
    subject::{ProfileIndex, Uid},
};

/// Why a group is not placed.
#[derive(Debug)]
pub(super) enum GroupRefusal {
    /// Too few members fit.
    Rejected(String),
    Failed(String),
}

#[derive(Debug)]
pub(super) struct Tried {
    pub(super) outcome: Result<(), GroupRefusal>,
    /// The decision on each tried member, in order. A placed member is charged only during the attempt.
    pub(super) decisions: Vec<(Uid, Decision)>,
    pub(super) untried: Vec<Uid>,
}

impl Tried {
    /// The result of a group that is rejected before any member is tried.
    pub(super) fn none(reason: String, members: &[Uid]) -> Self {
        Self { outcome: Err(GroupRefusal::Rejected(reason)), decisions: Vec::new(), untried: members.to_vec() }
    }

    /// The placed members, in order.
    pub(super) fn placed(&self) -> impl Iterator<Item = (&Uid, &Placement)> {
        self.decisions.iter().filter_map(|(uid, decision)| match decision {
            Decision::Place(placement) => Some((uid, placement)),
            Decision::Refuse(..) | Decision::Fail(_) => None,
        })
    }
}

/// The nominated nodes of members; `None` removes a nomination.
pub(super) type MemberNominations = BTreeMap<Uid, Option<Arc<str>>>;

pub(super) enum GroupPreemption {
    /// No room, with the message.
    None(String),
    /// Victims are deleted, with the message.
    Coming(String, MemberNominations),
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
