//! Counts and records at the end of attempts and evaluations.

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
    /// Counts an attempt that ended with a node, a refusal or an error. `subject`: the evaluated subject, and whether it found a node.
    pub(crate) fn count_attempt(&mut self, now_ms: TimeMs, uid: &Uid, subject: Option<(Subject, bool)>) {
        self.status.decisions += 1;
        let began_ms = self.pods.get(uid).and_then(|pod| pod.attempts.trial.began_ms).unwrap_or(now_ms);
        self.tally.decided.push(now_ms.saturating_sub(began_ms));
        self.pods
            .attempts_mut(uid)
            .into_iter()
            .for_each(|attempts| (attempts.count, attempts.from) = (attempts.count + 1, None));
        let Some((subject, is_placed)) = subject else { return };
        if let Some(state) = self.judge.states().get(subject) {
            let parts = state.prepared().parts();
            let parts = if is_placed { parts } else { parts.unscored() };
            *self.tally.attempts.entry((subject.0, parts)).or_insert(0) += 1;
        }
    }

    /// Attempts and evaluations that the last event ended.
    #[must_use]
    pub fn ended(&self) -> Ended<'_> {
        let Tally { decided, evaluated, groups, .. } = &self.tally;
        Ended { decided, evaluated, groups }
    }

    /// Counts an evaluation if this answer was its last, and records a slow one. `asked`: its subject, and the time of the request.
    pub(crate) fn count_evaluation(&mut self, worker: WorkerId, request: RequestId, asked: Option<(Subject, TimeMs)>) {
        let now_ms = self.tally.now_ms;
        let Some((subject, asked_ms)) = asked.filter(|_| self.judge.states().subject_of(request).is_none()) else {
            return;
        };
        let took_ms = now_ms.saturating_sub(asked_ms);
        self.tally.evaluated.push(took_ms);
        if !self.tally.recent.is_slow(now_ms, took_ms) {
            return;
        }
        // A request for a family names its head, which may have no pods.
        let head = |about: Subject| self.judge.states().get(about).and_then(|state| state.head());
        let is_meant = |about: Subject| about == subject || (about.0 == subject.0 && head(about) == Some(subject.1));
        let pod = self.queue.next_of(is_meant).and_then(|uid| self.pods.get(uid));
        // A class may have no namespace (the framework's `signature`).
        let none = Arc::default();
        let of_class = self.judge.cache().classes().get(subject.1).map_or(&none, |class| &class.namespace);
        let known = self.roster.workers.get(&worker).map(|worker| Arc::clone(&worker.name));
        let evaluation = SlowEvaluation {
            at_ms: now_ms,
            took_ms,
            namespace: pod.map_or(of_class, |pod| &pod.info.class.namespace).clone(),
            pod: pod.map(|pod| Arc::clone(&pod.info.name)),
            scheduler_name: self
                .settings
                .profile(subject.0)
                .map(|profile| Arc::clone(&profile.scheduler_name))
                .unwrap_or_default(),
            class: subject.1,
            last_worker: known.unwrap_or_default(),
        };
        self.tally.recent.remember(now_ms, evaluation);
    }
}
