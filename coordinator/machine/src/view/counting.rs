//! What is counted and remembered as attempts and evaluations end.
//!
//! Knows: when each ends. Must not know: what is made of the counts.

use std::sync::Arc;

use flotilla_framework::shard::RequestId;

use crate::{
    event::{TimeMs, WorkerId},
    machine::Machine,
    recent::SlowEvaluation,
    subject::{Subject, Uid},
    tally::{Ended, Tally},
};

impl Machine {
    /// An attempt has ended with a node, a refusal or an error. `subject`: what was judged, if it came to that, and whether
    /// a node was found.
    pub(crate) fn count_attempt(&mut self, now_ms: TimeMs, uid: &Uid, subject: Option<(Subject, bool)>) {
        let began_ms = self.pods.get(uid).and_then(|pod| pod.trial.began_ms).unwrap_or(now_ms);
        self.tally.decided.push(now_ms.saturating_sub(began_ms));
        let Some((subject, is_placed)) = subject else { return };
        if let Some(state) = self.judge.states().get(subject) {
            let parts = state.prepared.parts();
            let parts = if is_placed { parts } else { parts.unscored() };
            *self.tally.attempts.entry((subject.0, parts)).or_insert(0) += 1;
        }
    }

    /// When an evaluation was asked for that is under way.
    pub(crate) fn asked_ms(&self, request: RequestId) -> Option<TimeMs> {
        let subject = self.judge.states().subject_of(request)?;
        self.judge.states().get(subject)?.ask.as_ref().map(|ask| ask.asked_ms)
    }

    /// An answer was taken in. It was the last one if no pod waits for the evaluation any more.
    pub(crate) fn count_evaluation(&mut self, request: RequestId, asked_ms: Option<TimeMs>) {
        if let Some(asked_ms) = asked_ms.filter(|_| self.judge.states().subject_of(request).is_none()) {
            self.tally.evaluated.push(self.tally.now_ms.saturating_sub(asked_ms));
        }
    }

    /// What the last event brought to its end.
    #[must_use]
    pub fn ended(&self) -> Ended<'_> {
        let Tally { decided, evaluated, groups, .. } = &self.tally;
        Ended { decided, evaluated, groups }
    }

    /// A worker has answered. `asked`: what had been asked, and when. It was the last answer if no pod waits any more.
    pub(crate) fn remember_evaluation(
        &mut self,
        worker: WorkerId,
        request: RequestId,
        asked: Option<(Subject, TimeMs)>,
    ) {
        let now_ms = self.tally.now_ms;
        let Some((subject, asked_ms)) = asked.filter(|_| self.judge.states().subject_of(request).is_none()) else {
            return;
        };
        let took_ms = now_ms.saturating_sub(asked_ms);
        if !self.tally.recent.is_slow(now_ms, took_ms) {
            return;
        }
        // What is asked for a family is asked as its head, which no pod may be of.
        let head = |about: Subject| self.judge.states().get(about).and_then(|state| state.family.head());
        let is_meant = |about: Subject| about == subject || (about.0 == subject.0 && head(about) == Some(subject.1));
        let pod = self.queue.next_of(is_meant).and_then(|uid| self.pods.get(uid));
        // A class may have no namespace of its own (the framework's `signature`).
        let none = Arc::default();
        let of_class = self.judge.cache().classes.get(subject.1).map_or(&none, |class| &class.namespace);
        let known = self.roster.workers.get(&worker).map(|worker| Arc::clone(&worker.name));
        let evaluation = SlowEvaluation {
            at_ms: now_ms,
            took_ms,
            namespace: pod.map_or(of_class, |pod| &pod.info.class.namespace).clone(),
            pod: pod.map(|pod| Arc::clone(&pod.info.name)),
            scheduler_name: self
                .profile(subject.0)
                .map(|profile| Arc::clone(&profile.scheduler_name))
                .unwrap_or_default(),
            class: subject.1,
            last_worker: known.unwrap_or_default(),
        };
        self.tally.recent.remember(now_ms, evaluation);
    }
}
