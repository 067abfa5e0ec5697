//! Pods that are too large to be tried, so that they cost the others nothing.
//!
//! A pod is measured before anything is prepared for it: by its own lists when it is read
//! ([`flotilla_framework::excess`]), and by what they come to with the namespaces that there are. One that is too large
//! waits outside the queue. It is measured again when it changes, and when namespaces do.
//!
//! Knows: when a pod is measured, and who is told. Must not know: what is measured.

use std::sync::Arc;

use flotilla_framework::{admission, class::PodInfo};

use crate::{
    action::Reason,
    event::TimeMs,
    machine::Machine,
    pods::Stage,
    queue::incoming::CONFIGURED,
    subject::{ProfileIndex, Uid},
};

impl Machine {
    /// What is too large about a pod, which is not tried for it, whatever the nodes are.
    pub(crate) fn excess(&self, uid: &Uid) -> Option<String> {
        admission::excess(&self.pods.get(uid)?.info, self.judge.cache().directory.namespaces())
    }

    /// Keeps a pod out of the queue that is not tried, and says why.
    pub(crate) fn leave_untried(&mut self, now_ms: TimeMs, uid: &Uid, profile: ProfileIndex, message: String) {
        self.hold_back(now_ms, uid, profile, None);
        self.report(uid, Reason::SchedulerError, message, true);
    }

    /// Keeps a pod out of the queue that had its turn and has become too large since it came in. `false`: it is not.
    pub(crate) fn is_left_untried(&mut self, now_ms: TimeMs, uid: &Uid) -> bool {
        let Some(pod) = self.pods.get(uid) else { return false };
        let Stage::Queued(profile) = pod.stage else { return false };
        if !self.judge.cache().has_excess(pod.class) {
            return false;
        }
        let Some(message) = self.excess(uid) else { return false };
        self.leave_untried(now_ms, uid, profile, message);
        true
    }

    /// Namespaces have changed: the pods that are not too large any more may be tried.
    pub(crate) fn admit_those_that_fit(&mut self, now_ms: TimeMs, label: &'static str) {
        let fits = |uid: &&Uid| match self.pods.get(*uid).map(|pod| pod.stage) {
            Some(Stage::Gated(_)) => self.excess(uid).is_none(),
            _ => false,
        };
        let fitting: Vec<Uid> = self.gates.untried().filter(fits).cloned().collect();
        for uid in fitting {
            self.admit_by(now_ms, &uid, label);
        }
    }

    /// Says of all that are not tried why: what a follower finds is not told.
    pub(crate) fn report_untried(&mut self, now_ms: TimeMs) {
        let untried: Vec<Uid> = self.gates.untried().cloned().collect();
        for uid in untried {
            self.admit_by(now_ms, &uid, CONFIGURED);
        }
    }

    /// Takes note of a pod that is there: whether it is too large by itself.
    pub(crate) fn note_excess(&mut self, uid: &Uid, info: &PodInfo) {
        if info.excess.is_some() {
            self.too_large.insert(Arc::clone(uid));
        } else {
            self.too_large.remove(uid);
        }
    }

    /// How many pods are too large: those that are not tried for it, and those that stand on a node and whose wishes do not
    /// count.
    pub(crate) fn count_too_large(&self) -> u64 {
        let by_namespaces = |uid: &&Uid| {
            let pod = self.pods.get(*uid);
            pod.is_some_and(|pod| pod.info.excess.is_none() && self.judge.cache().has_excess(pod.class))
        };
        (self.too_large.len() + self.gates.untried().filter(by_namespaces).count()) as u64
    }
}
