//! Input and results of an attempt at a group.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{
    pod_group::{PodGroup, UNSCHEDULABLE},
    shard::Revision,
};

use super::tree::Branch;
use crate::{
    judge::{
        decision::{Decision, Placement},
        extender_answers::Question,
    },
    subject::{ProfileIndex, Uid},
};

/// Why a group is not placed.
#[derive(Debug, Clone)]
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
    /// The results of the groups below a composite group, in order. Groups after them were not tried.
    pub(super) children: Vec<Self>,
    /// The lack of each rejected placement.
    pub(super) lacks: Vec<String>,
    /// The order of the placed pods that podGroupSearch found.
    pub(super) order: Option<String>,
}

/// A pod group with its result, after those of the groups above it.
pub(super) struct Leaf<'a> {
    pub(super) branch: &'a Branch,
    pub(super) tried: Tried,
    /// The number of groups that share the refusal. kube-scheduler appends the result of preemption to it once for each.
    pub(super) sharers: usize,
}

impl Tried {
    /// The result of a group that is rejected before any member is tried.
    pub(super) fn none(reason: String, branch: &Branch) -> Self {
        Self::refused(GroupRefusal::Rejected(reason), branch)
    }

    /// PlacementFeasible rejected the group before any member was tried.
    pub(super) fn never(reason: &str, branch: &Branch) -> Self {
        Self::none(format!("{UNSCHEDULABLE}, {reason}"), branch)
    }

    /// The result of a group of which no member is tried.
    pub(super) fn refused(refusal: GroupRefusal, branch: &Branch) -> Self {
        let untried = branch.members.clone();
        Self { untried, ..Self::of(Err(refusal), Vec::new()) }
    }

    /// The result of a group with these decisions on its members.
    pub(super) const fn of(outcome: Result<(), GroupRefusal>, decisions: Vec<(Uid, Decision)>) -> Self {
        Self { outcome, decisions, untried: Vec::new(), children: Vec::new(), lacks: Vec::new(), order: None }
    }

    /// The result of this group and of those below it, each before those below it.
    pub(super) fn all(&self) -> Vec<&Self> {
        std::iter::once(self).chain(self.children.iter().flat_map(Self::all)).collect()
    }

    /// The decisions on all members, in order.
    pub(super) fn decisions(&self) -> impl Iterator<Item = &(Uid, Decision)> {
        self.all().into_iter().flat_map(|tried| &tried.decisions)
    }

    /// The members that found a node, in order, those of rejected groups too.
    ///
    /// Source: `pgSchedulingFunc` in `podGroupCycle`, which proposes them to preemption.
    pub(super) fn found(&self) -> impl Iterator<Item = (&Uid, &Placement)> {
        self.decisions().filter_map(placed)
    }

    /// The members that found a node and are placed, in order: a group below a rejected one is not placed.
    ///
    /// Source: `successfulLeafResults`.
    pub(super) fn placed(&self) -> Vec<(&Uid, &Placement)> {
        if self.outcome.is_err() {
            return Vec::new();
        }
        let own = self.decisions.iter().filter_map(placed);
        own.chain(self.children.iter().flat_map(Self::placed)).collect()
    }

    /// The results of the pod groups of a tree. A group that was not tried, or that succeeded below a rejected one, has the refusal of the
    /// group above it.
    ///
    /// Source: `completeCompositePodGroupAlgorithmResultMap`.
    pub(super) fn complete(self, branch: &Branch) -> Vec<Leaf<'_>> {
        let (mut leaves, mut sharers) = (Vec::new(), Vec::new());
        spread(Some(self), branch, None, &mut sharers, &mut leaves);
        let leaf = |(branch, tried, owner): (_, _, usize)| Leaf { branch, tried, sharers: sharers[owner] };
        leaves.into_iter().map(leaf).collect()
    }
}

fn placed((uid, decision): &(Uid, Decision)) -> Option<(&Uid, &Placement)> {
    match decision {
        Decision::Place(placement) => Some((uid, placement)),
        Decision::Refuse(..) | Decision::Fail(_) => None,
    }
}

/// Adds the pod groups of a branch with their results. `above`: the refusal of the group above, and the index of the group that it is of in
/// `sharers`.
fn spread<'a>(
    mut tried: Option<Tried>,
    branch: &'a Branch,
    above: Option<(&GroupRefusal, usize)>,
    sharers: &mut Vec<usize>,
    leaves: &mut Vec<(&'a Branch, Tried, usize)>,
) {
    let is_own = |tried: &Tried| above.is_none() || tried.outcome.is_err();
    // A rejected group below one that succeeded keeps its own result.
    let mut children = tried.as_mut().map_or_else(Vec::new, |tried| std::mem::take(&mut tried.children)).into_iter();
    let (tried, owner) = match (tried.filter(is_own), above) {
        (None, Some((refusal, owner))) => (Tried::refused(refusal.clone(), branch), owner),
        (tried, _) => {
            sharers.push(0);
            (tried.unwrap_or_else(|| Tried::none(UNSCHEDULABLE.to_owned(), branch)), sharers.len() - 1)
        }
    };
    sharers[owner] += 1;
    if !branch.is_composite() {
        return leaves.push((branch, tried, owner));
    }
    let refusal = tried.outcome.as_ref().err().map(|refusal| (refusal, owner));
    for child in &branch.children {
        spread(children.next(), child, refusal, sharers, leaves);
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
    /// The root of the groups that are tried together.
    pub(super) branch: &'a Branch,
    /// Its object.
    pub(super) object: &'a PodGroup,
    pub(super) profile: ProfileIndex,
    /// All waiting members.
    pub(super) members: &'a [Uid],
    pub(super) from: Revision,
}

#[derive(Debug)]
pub(super) struct Asks {
    pub(super) uid: Uid,
    pub(super) question: Question,
}
