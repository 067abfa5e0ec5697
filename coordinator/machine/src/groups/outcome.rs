//! Results of an attempt at a pod group: binds, reports, the group's condition, and its next turn.
//!
//! Permit is not needed: GangScheduling allows a pod once enough pods of its group are placed. A group is placed within one event, so no
//! pod ever waits.
//!
//! Source: `submitPodGroupAlgorithmResult`, `updatePodGroupCondition` and `AddAttemptedPodGroupIfNeeded`.

use std::sync::Arc;

use flotilla_framework::pod_group::UNSCHEDULABLE;

use super::{
    Group, Groups,
    tree::Branch,
    tried::{GroupPreemption, GroupRefusal, Leaf, Tried},
};
use crate::{
    action::{Action, GroupReport, Nomination, Reason},
    event::TimeMs,
    judge::decision::Decision,
    machine::Machine,
    subject::Uid,
};

const SCHEDULED: &str = "Scheduled";

/// The result of an attempt for the queue.
enum End {
    Placed,
    Rejected,
    Failed(String),
}

impl Machine {
    pub(super) fn conclude_group(
        &mut self,
        now_ms: TimeMs,
        branch: &Branch,
        mut tried: Tried,
        room: Option<GroupPreemption>,
    ) {
        self.groups.note_lacks(branch, &mut tried);
        let order = tried.order.take().unwrap_or_default();
        let (key, room) = (&branch.key, room.as_ref());
        let end = match (&tried.outcome, room) {
            (Ok(()), _) => End::Placed,
            (Err(GroupRefusal::Failed(error)), _)
            | (Err(GroupRefusal::Rejected(_)), Some(GroupPreemption::Failed(error))) => End::Failed(error.clone()),
            (Err(GroupRefusal::Rejected(_)), _) => End::Rejected,
        };
        let fails_for_good = matches!(end, End::Failed(_)) && self.turns().fails_for_good(key);
        tried.complete(branch).into_iter().for_each(|leaf| self.conclude_leaf(now_ms, leaf, room, &order));
        match end {
            End::Placed => {
                self.status.groups_placed += 1;
                self.groups.known.get_mut(key).into_iter().for_each(Group::succeed);
                // The others are tried again at once in the same turn; the group backs off if none of them fits.
                self.groups.touch(key);
            }
            End::Rejected => {
                self.status.groups_refused += 1;
                if let Some(group) = self.groups.known.get_mut(key) {
                    let is_due = group.popped.is_none();
                    (group.refusals, group.errors) = (group.refusals + u32::from(is_due), 0);
                }
                self.turns().set_backoff(now_ms, key);
            }
            End::Failed(error) => {
                self.turns().fail(now_ms, key);
                self.turns().review_groups(now_ms);
                if fails_for_good {
                    self.turns().hold(now_ms, key, error);
                }
            }
        }
        self.turns().review_groups(now_ms);
    }

    /// Carries out the result of a pod group. `order`: the message about the order that podGroupSearch found.
    fn conclude_leaf(&mut self, now_ms: TimeMs, leaf: Leaf<'_>, room: Option<&GroupPreemption>, order: &str) {
        let Leaf { branch, tried, sharers } = leaf;
        let Tried { outcome, decisions, untried, .. } = tried;
        match (outcome, room) {
            (Ok(()), _) => {
                for (uid, decision) in decisions {
                    match decision {
                        Decision::Place(placement) => self.commit(now_ms, &uid, placement),
                        Decision::Refuse(diagnosis, _) => self.refuse_member(&uid, diagnosis.message, Nomination::Keep),
                        Decision::Fail(error) => self.fail_member(now_ms, &uid, error),
                    }
                }
                self.report_group(branch, true, SCHEDULED, order.to_owned());
            }
            (Err(GroupRefusal::Failed(error)), _) => self.fail_leaf(now_ms, branch, (decisions, untried), &error),
            (Err(GroupRefusal::Rejected(_)), Some(GroupPreemption::Failed(error))) => {
                self.fail_leaf(now_ms, branch, (decisions, untried), error);
            }
            (Err(GroupRefusal::Rejected(reason)), room) => {
                let whole = self.reject_members(now_ms, (&reason, sharers), decisions, untried, room);
                self.report_group(branch, false, Reason::Unschedulable.as_str(), whole);
            }
        }
    }

    /// Too few members fit: reports each member's own reason, and its nomination if preemption makes room. Returns the group's message.
    fn reject_members(
        &mut self,
        now_ms: TimeMs,
        (reason, sharers): (&str, usize),
        decisions: Vec<(Uid, Decision)>,
        untried: Vec<Uid>,
        room: Option<&GroupPreemption>,
    ) -> String {
        let (told, nominations) = match room {
            Some(GroupPreemption::None(told) | GroupPreemption::Failed(told)) => (Some(told), None),
            Some(GroupPreemption::Coming(told, nominations)) => (Some(told), Some(nominations)),
            None => (None, None),
        };
        let told = told.into_iter().flat_map(|told| std::iter::repeat_n(&**told, sharers));
        let whole = std::iter::once(reason).chain(told).collect::<Vec<_>>().join(", ");
        let of_placed = match nominations {
            Some(_) => whole.clone(),
            None => format!("{UNSCHEDULABLE}, {whole}"),
        };
        let untried = untried.into_iter().map(|uid| (uid, reason.to_owned(), false));
        let tried = decisions.into_iter().map(|(uid, decision)| match decision {
            Decision::Refuse(diagnosis, _) => (uid, diagnosis.message, false),
            Decision::Place(_) | Decision::Fail(_) => (uid, of_placed.clone(), nominations.is_none()),
        });
        for (uid, message, gives_up) in tried.chain(untried) {
            let nomination = match nominations.and_then(|nominations| nominations.get(&uid)) {
                Some(node) => self.nominate_local(now_ms, &uid, node.clone()),
                None if gives_up => self.nominate_local(now_ms, &uid, None),
                None => Nomination::Keep,
            };
            self.refuse_member(&uid, message, nomination);
        }
        whole
    }

    /// The group cannot be tried.
    pub(super) fn fail_group(&mut self, now_ms: TimeMs, branch: &Branch, error: String) {
        let tried = Tried::refused(GroupRefusal::Failed(error), branch);
        tried.complete(branch).into_iter().for_each(|leaf| self.conclude_leaf(now_ms, leaf, None, ""));
        self.turns().fail(now_ms, &branch.key);
        self.turns().review_groups(now_ms);
    }

    fn fail_leaf(
        &mut self,
        now_ms: TimeMs,
        branch: &Branch,
        (decisions, untried): (Vec<(Uid, Decision)>, Vec<Uid>),
        error: &str,
    ) {
        for (uid, decision) in decisions {
            let own = if let Decision::Fail(own) = decision { own } else { error.to_owned() };
            self.fail_member(now_ms, &uid, own);
        }
        untried.iter().for_each(|uid| self.fail_member(now_ms, uid, error.to_owned()));
        self.report_group(branch, false, Reason::SchedulerError.as_str(), error.to_owned());
    }

    fn refuse_member(&mut self, uid: &Uid, message: String, nomination: Nomination) {
        self.count_attempt(self.tally.now_ms, uid, None);
        self.status.unschedulable += 1;
        self.report_with(uid, Reason::Unschedulable, message, true, nomination);
    }

    fn fail_member(&mut self, now_ms: TimeMs, uid: &Uid, error: String) {
        self.count_attempt(now_ms, uid, None);
        self.report_failure(now_ms, uid, error);
    }

    fn report_group(&mut self, branch: &Branch, status: bool, reason: &'static str, message: String) {
        if self.leading.is_some() {
            self.actions.extend(self.groups.report(branch, status, reason, message));
        }
    }
}

impl Groups {
    /// The write of the group's condition, if it changed. A condition with status `True` stays.
    fn report(&mut self, branch: &Branch, status: bool, reason: &'static str, message: String) -> Option<Action> {
        let Branch { key, object, .. } = branch;
        let group = self.known.get_mut(key)?;
        let shown = object.condition.as_ref().map(|shown| shown.status);
        let before = group.told.as_ref().map(|told| told.0).or(shown);
        if !status && (before == Some(true) || shown == Some(true)) {
            return None;
        }
        let now = (status, reason, message.clone(), object.generation);
        let is_shown = object.condition.as_ref().is_some_and(|shown| {
            let shown = (shown.status, &*shown.reason, &*shown.message, shown.observed_generation);
            shown == (status, reason, &*message, object.generation)
        });
        let is_told = group.told.as_ref() == Some(&now);
        group.told = Some(now);
        if is_told || is_shown {
            return None;
        }
        Some(Action::ReportGroup(GroupReport {
            namespace: Arc::clone(&object.namespace),
            name: Arc::clone(&object.name),
            api: object.api,
            uid: Arc::clone(&object.uid),
            generation: object.generation,
            status,
            reason,
            message,
            begins: before != Some(status),
        }))
    }
}
