//! Pods that are too large to be tried, so that they do not delay other pods.
//!
//! The machine measures a pod when it is added ([`flotilla_framework::excess`]), and in relation to the number of namespaces. A pod that is
//! too large waits outside the queue. The machine measures it again when the pod or the namespaces change.

use flotilla_framework::admission;

use crate::{
    action::Reason,
    event::TimeMs,
    machine::Machine,
    pods::PodStage,
    queue::incoming::CONFIGURED,
    subject::{ProfileIndex, Uid},
};

impl Machine {
    pub(crate) fn excess(&self, uid: &Uid) -> Option<String> {
        admission::excess(&self.pods.get(uid)?.info, self.judge.cache().directory.namespaces())
    }

    /// Gates a pod that cannot be tried, and reports the reason.
    pub(crate) fn leave_untried(&mut self, now_ms: TimeMs, uid: &Uid, profile: ProfileIndex, message: String) {
        self.hold_back(now_ms, uid, profile, None);
        self.report(uid, Reason::SchedulerError, message, true);
    }

    /// Gates a pod that became too large since it was queued. `false`: it is not too large.
    pub(crate) fn is_left_untried(&mut self, now_ms: TimeMs, uid: &Uid) -> bool {
        let Some(pod) = self.pods.get(uid) else { return false };
        let PodStage::Queued(profile) = pod.stage else { return false };
        if !self.judge.cache().has_excess(pod.class) {
            return false;
        }
        let Some(message) = self.excess(uid) else { return false };
        self.leave_untried(now_ms, uid, profile, message);
        true
    }

    /// Namespaces changed: admits the pods that are no longer too large.
    pub(crate) fn admit_those_that_fit(&mut self, now_ms: TimeMs, label: &'static str) {
        let fits = |uid: &&Uid| match self.pods.get(uid).map(|pod| pod.stage) {
            Some(PodStage::Gated(_)) => self.excess(uid).is_none(),
            _ => false,
        };
        let fitting: Vec<Uid> = self.gates.untried().filter(fits).cloned().collect();
        for uid in fitting {
            self.admit_by(now_ms, &uid, label);
        }
    }

    /// Reports all untried pods when leadership begins, because a follower reports nothing.
    pub(crate) fn report_untried(&mut self, now_ms: TimeMs) {
        let untried: Vec<Uid> = self.gates.untried().cloned().collect();
        for uid in untried {
            self.admit_by(now_ms, &uid, CONFIGURED);
        }
    }

    /// The number of pods that are too large: those not tried, and placed pods with ignored affinities.
    pub(crate) fn count_too_large(&self) -> u64 {
        let by_namespaces = |uid: &&Uid| {
            let pod = self.pods.get(uid);
            pod.is_some_and(|pod| pod.info.excess.is_none() && self.judge.cache().has_excess(pod.class))
        };
        (self.too_large.len() + self.gates.untried().filter(by_namespaces).count()) as u64
    }
}
