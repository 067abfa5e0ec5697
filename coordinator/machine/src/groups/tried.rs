//! What an attempt at a group is about, and what came of it.
//!
//! Must not know: how a group is tried, or what follows.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{diagnosis::Diagnosis, pod_group::PodGroup, shard::Revision};

use crate::{
    judge::{decision::Placement, nominator::Nominated, said::Question},
    subject::{ProfileIndex, Subject, Uid},
};

/// What came of one member.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It has a place.
    Placed,
    /// No node would take it.
    Refused(Diagnosis),
    /// Something went wrong that says nothing about the nodes.
    Failed(String),
}

/// A member that has a place for now.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) uid: Uid,
    pub(super) subject: Subject,
    pub(super) placement: Placement,
    /// What it is nominated to while it has none.
    pub(super) nominated: Option<Nominated>,
}

/// What became of a group.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Enough members have a place.
    Met,
    /// Too few have, for this reason.
    Rejected(String),
    /// Something went wrong.
    Failed(String),
}

/// A group whose members were tried.
#[derive(Debug)]
pub(super) struct Tried {
    pub(super) outcome: Outcome,
    /// What came of each member that was tried, in order.
    pub(super) verdicts: Vec<(Uid, Verdict)>,
    /// The members that were not tried.
    pub(super) untried: Vec<Uid>,
    /// Those that have a place, in order. They are charged nowhere any more.
    pub(super) placed: Vec<Placed>,
}

/// What came of looking for room.
pub(super) enum Room {
    /// There is none, and this is told of it.
    None(String),
    /// There will be: where members are nominated to meanwhile, `None` taking back what they are nominated to.
    Coming(String, BTreeMap<Uid, Option<Arc<str>>>),
    /// Something went wrong.
    Failed(String),
}

/// The group that room is looked for.
pub(super) struct Seeker<'a> {
    pub(super) object: &'a PodGroup,
    pub(super) profile: ProfileIndex,
    /// Its members that have no place.
    pub(super) members: &'a [Uid],
    /// How many have one.
    pub(super) scheduled: usize,
    pub(super) from: Revision,
}

/// What extenders have to be asked before a group can be decided on.
#[derive(Debug)]
pub(super) struct Asks {
    pub(super) uid: Uid,
    pub(super) question: Question,
}
