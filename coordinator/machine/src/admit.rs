//! Admission: in which stage a pod without a node waits.

use std::sync::Arc;

use crate::{
    action::{Nomination, Reason},
    event::TimeMs,
    gates::Gate,
    machine::Machine,
    pods::{Pod, PodStage},
    queue::incoming::UNSCHEDULED_POD_ADD,
    subject::{GroupKey, ProfileIndex, Uid},
    wake::Strategy,
};

impl Machine {
    /// Determines the stage of a pod without a node, or with a deferred resize, and moves it there.
    pub(crate) fn admit(&mut self, now_ms: TimeMs, uid: &Uid) {
        self.admit_by(now_ms, uid, UNSCHEDULED_POD_ADD);
    }

    pub(crate) fn admit_by(&mut self, now_ms: TimeMs, uid: &Uid, label: &'static str) {
        let Some(pod) = self.pods.get(uid) else { return };
        let info = Arc::clone(&pod.info);
        let profile = self.settings.profile_index(&info.scheduler_name);
        let is_tried = !info.finished && (info.node_name.is_none() || info.class.resize_deferred);
        let Some(profile) = profile.filter(|_| is_tried) else {
            return self.edit(now_ms, uid, Pod::rest);
        };
        if self.binding.contains(uid) && info.node_name.is_none() {
            // The pod was deleted and added again. Two binds of one pod cannot be distinguished, so it waits for the answer of the
            // first.
            self.edit(now_ms, uid, |pod| pod.enter(PodStage::Foreign));
        } else if info.deleting {
            let message = format!("skip schedule deleting pod: {}", info.key());
            // kube-scheduler reports this only for a pod that is popped; gated and parked pods are not.
            if self.queue.is_active(uid) || pod.stage.is_member() {
                self.report_with(uid, Reason::SchedulerError, message, false, Nomination::Keep);
            }
            self.edit(now_ms, uid, Pod::rest);
        } else if let Some(group) = self.settings.waits_with(&info) {
            self.join_group(now_ms, uid, profile, &group);
        } else {
            // A pod is stamped once, when it is first seen: a gated pod keeps that place in the queue.
            if let Some(attempts) = self.pods.attempts_mut(uid).filter(|attempts| attempts.queued.1 == 0) {
                attempts.queued = self.queue.stamp(now_ms);
            }
            let gate = self.pods.get(uid).and_then(|pod| pod.gate((&self.settings, &self.judge), profile));
            if let Some((plugin, _)) = gate {
                self.hold_back(now_ms, uid, profile, Some(plugin));
            } else if let Some(message) = self.pods.get(uid).and_then(|pod| pod.excess(&self.judge)) {
                self.leave_untried(now_ms, uid, profile, message);
            } else {
                self.edit(now_ms, uid, |pod| pod.enter(PodStage::Queued(profile)));
                self.requeue(now_ms, uid, Strategy::AfterBackoff, label);
            }
        }
    }

    pub(crate) fn join_group(&mut self, now_ms: TimeMs, uid: &Uid, profile: ProfileIndex, key: &GroupKey) {
        let Some(pod) = self.pods.get(uid) else { return };
        if let Some(message) = pod.excess(&self.judge) {
            return self.leave_untried(now_ms, uid, profile, message);
        }
        let is_gated = pod.gate((&self.settings, &self.judge), profile).is_some();
        self.edit(now_ms, uid, |pod| {
            pod.enter(PodStage::Member { profile, is_gated });
            pod.attempts.first_queued_ms.get_or_insert(now_ms);
        });
        // The configuration or the group's object may have changed instead of the pod.
        self.groups.changed.insert(key.clone());
    }

    /// Gates a pod: a plugin gates it, or it is not tried (`None`).
    pub(crate) fn hold_back(&mut self, now_ms: TimeMs, uid: &Uid, profile: ProfileIndex, plugin: Option<&'static str>) {
        let gate = Gate { profile, plugin, asked_ms: now_ms };
        self.edit(now_ms, uid, |pod| pod.enter(PodStage::Gated(gate)));
    }

    /// Gates a pod that cannot be tried, and reports the reason.
    pub(crate) fn leave_untried(&mut self, now_ms: TimeMs, uid: &Uid, profile: ProfileIndex, message: String) {
        self.hold_back(now_ms, uid, profile, None);
        self.report_with(uid, Reason::SchedulerError, message, true, Nomination::Keep);
    }

    /// Gates a pod that became too large since it was queued. `false`: it is not too large.
    pub(crate) fn is_left_untried(&mut self, now_ms: TimeMs, uid: &Uid) -> bool {
        let Some(pod) = self.pods.get(uid) else { return false };
        let PodStage::Queued(profile) = pod.stage else { return false };
        if !self.judge.cache().has_excess(pod.class) {
            return false;
        }
        let Some(message) = pod.excess(&self.judge) else { return false };
        self.leave_untried(now_ms, uid, profile, message);
        true
    }

    /// Runs PreEnqueue for a pod that woke with its group, because waking a group does not. `true`: the pod is gated.
    pub(crate) fn is_kept_out(&mut self, now_ms: TimeMs, uid: &Uid) -> bool {
        let Some(pod) = self.pods.get(uid) else { return false };
        let PodStage::Queued(profile) = pod.stage else { return false };
        let Some((plugin, _)) = pod.gate((&self.settings, &self.judge), profile) else { return false };
        self.hold_back(now_ms, uid, profile, Some(plugin));
        true
    }

    /// Tries held pods again.
    pub(crate) fn release(&mut self, now_ms: TimeMs, uids: Vec<Uid>, label: &'static str) {
        for uid in uids {
            self.held.forget(&uid);
            if self.pods.get(&uid).is_some_and(|pod| matches!(pod.stage, PodStage::Gated(_))) {
                self.admit_by(now_ms, &uid, label);
            }
        }
    }
}
