//! Results of an attempt at a pod group: binds, reports, the group's condition, and its next turn.
//!
//! Permit is not needed: GangScheduling allows a pod once enough pods of its group are placed. A group is placed within one event, so no
//! pod ever waits.
//!
//! Source: `submitPodGroupAlgorithmResult`, `updatePodGroupCondition` and `AddAttemptedPodGroupIfNeeded`.

use std::sync::Arc;

use flotilla_framework::pod_group::{PodGroup, UNSCHEDULABLE};

use super::tried::{GroupPreemption, GroupRefusal, Tried};
use crate::{
    action::{Action, GroupReport, Nomination, Reason},
    event::TimeMs,
    judge::decision::Decision,
    machine::Machine,
    subject::{GroupKey, Uid},
};

const SCHEDULED: &str = "Scheduled";

impl Machine {
    pub(super) fn conclude_group(
        &mut self,
        now_ms: TimeMs,
        key: &GroupKey,
        object: &Arc<PodGroup>,
        tried: Tried,
        room: Option<GroupPreemption>,
    ) {
        let Tried { outcome, decisions, untried } = tried;
        match (outcome, room) {
            (Ok(()), _) => self.place_group(now_ms, key, object, decisions),
            (Err(GroupRefusal::Failed(error)), _)
            | (Err(GroupRefusal::Rejected(_)), Some(GroupPreemption::Failed(error))) => {
                let members = decisions.into_iter().map(|(uid, decision)| match decision {
                    Decision::Fail(own) => (uid, own),
                    Decision::Place(_) | Decision::Refuse(..) => (uid, error.clone()),
                });
                let members = members.chain(untried.into_iter().map(|uid| (uid, error.clone()))).collect();
                let fails_for_good = self.fails_for_good(key);
                self.fail_members(now_ms, key, object, members, &error);
                if fails_for_good {
                    self.hold_group(now_ms, key, error);
                    self.review_groups(now_ms);
                }
            }
            (Err(GroupRefusal::Rejected(reason)), room) => {
                self.status.groups_refused += 1;
                let whole = self.reject_members(now_ms, &reason, decisions, untried, room);
                self.report_group(key, object, false, Reason::Unschedulable.as_str(), whole);
                if let Some(group) = self.groups.known.get_mut(key) {
                    let is_due = group.popped.is_none();
                    (group.refusals, group.errors) = (group.refusals + u32::from(is_due), 0);
                }
                self.set_backoff(now_ms, key);
                self.review_groups(now_ms);
            }
        }
    }

    /// Too few members fit: reports each member's own reason, and its nomination if preemption makes room. Returns the group's message.
    fn reject_members(
        &mut self,
        now_ms: TimeMs,
        reason: &str,
        decisions: Vec<(Uid, Decision)>,
        untried: Vec<Uid>,
        room: Option<GroupPreemption>,
    ) -> String {
        let (told, nominations) = match room {
            Some(GroupPreemption::None(told) | GroupPreemption::Failed(told)) => (Some(told), None),
            Some(GroupPreemption::Coming(told, nominations)) => (Some(told), Some(nominations)),
            None => (None, None),
        };
        let whole = told.map_or_else(|| reason.to_owned(), |told| format!("{reason}, {told}"));
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
            let nomination = match nominations.as_ref().and_then(|nominations| nominations.get(&uid)) {
                Some(node) => self.nominate_local(now_ms, &uid, node.clone()),
                None if gives_up => self.nominate_local(now_ms, &uid, None),
                None => Nomination::Keep,
            };
            self.refuse_member(&uid, message, nomination);
        }
        whole
    }

    pub(super) fn fail_group(
        &mut self,
        now_ms: TimeMs,
        key: &GroupKey,
        object: &Arc<PodGroup>,
        members: Vec<Uid>,
        error: &str,
    ) {
        let members = members.into_iter().map(|uid| (uid, error.to_owned())).collect();
        self.fail_members(now_ms, key, object, members, error);
    }

    fn fail_members(
        &mut self,
        now_ms: TimeMs,
        key: &GroupKey,
        object: &Arc<PodGroup>,
        members: Vec<(Uid, String)>,
        error: &str,
    ) {
        for (uid, error) in members {
            self.fail_member(now_ms, &uid, error);
        }
        self.report_group(key, object, false, Reason::SchedulerError.as_str(), error.to_owned());
        if let Some(group) = self.groups.known.get_mut(key) {
            (group.errors, group.popped) = (group.errors + 1, None);
        }
        self.set_backoff(now_ms, key);
        self.review_groups(now_ms);
    }

    /// Enough members fit: commits them. The others are tried again at once in the same turn; the group backs off if none of them fits.
    fn place_group(&mut self, now_ms: TimeMs, key: &GroupKey, object: &Arc<PodGroup>, decisions: Vec<(Uid, Decision)>) {
        self.status.groups_placed += 1;
        if let Some(group) = self.groups.known.get_mut(key) {
            (group.refusals, group.errors, group.until_ms, group.popped) = (0, 0, 0, None);
            group.forget_attempt();
        }
        for (uid, decision) in decisions {
            match decision {
                Decision::Place(placement) => self.commit(now_ms, &uid, placement),
                Decision::Refuse(diagnosis, _) => self.refuse_member(&uid, diagnosis.message, Nomination::Keep),
                Decision::Fail(error) => self.fail_member(now_ms, &uid, error),
            }
        }
        self.report_group(key, object, true, SCHEDULED, String::new());
        self.groups.changed.insert(key.clone());
        self.review_groups(now_ms);
    }

    fn refuse_member(&mut self, uid: &Uid, message: String, nomination: Nomination) {
        self.count_member(uid);
        self.status.unschedulable += 1;
        self.report_with(uid, Reason::Unschedulable, message, true, nomination);
    }

    fn fail_member(&mut self, now_ms: TimeMs, uid: &Uid, error: String) {
        self.count_member(uid);
        self.report_failure(now_ms, uid, error);
    }

    fn count_member(&mut self, uid: &Uid) {
        self.status.decisions += 1;
        self.count_attempt(self.tally.now_ms, uid, None);
        if let Some(attempts) = self.pods.attempts_mut(uid) {
            attempts.count += 1;
            attempts.from = None;
        }
    }

    /// Writes the group's condition if it changed. A condition with status `True` stays.
    fn report_group(
        &mut self,
        key: &GroupKey,
        object: &Arc<PodGroup>,
        status: bool,
        reason: &'static str,
        message: String,
    ) {
        if self.leading.is_none() {
            return;
        }
        let Some(group) = self.groups.known.get_mut(key) else { return };
        let shown = object.condition.as_ref().map(|shown| shown.status);
        let before = group.told.as_ref().map(|told| told.0).or(shown);
        if !status && (before == Some(true) || shown == Some(true)) {
            return;
        }
        let now = (status, reason, message.clone(), object.generation);
        let is_shown = object.condition.as_ref().is_some_and(|shown| {
            let shown = (shown.status, &*shown.reason, &*shown.message, shown.observed_generation);
            shown == (status, reason, &*message, object.generation)
        });
        let is_told = group.told.as_ref() == Some(&now);
        group.told = Some(now);
        if is_told || is_shown {
            return;
        }
        self.actions.push(Action::ReportGroup(GroupReport {
            namespace: Arc::clone(&object.namespace),
            name: Arc::clone(&object.name),
            api: object.api,
            uid: Arc::clone(&object.uid),
            generation: object.generation,
            status,
            reason,
            message,
            begins: before != Some(status),
        }));
    }
}
