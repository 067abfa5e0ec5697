//! Tracing: sampled attempts and the records of their spans. No decision reads it; without tracing each call is one branch.

use std::sync::Arc;

use flotilla_framework::{
    select::View,
    trace::{Context, Sampling},
};

use crate::{
    action::{Action, Reason},
    event::TimeMs,
    machine::Machine,
    pods::Pod,
    subject::Uid,
    trace::{Asker, Choice, Decided, Evaluated, Failed, Over, Part, Trace, Traced},
};

impl Pod {
    /// The trace of an attempt, if it is sampled.
    pub(crate) fn traced(&self, sampling: Option<Sampling>, attempt: u32) -> Option<Traced> {
        let sampling = sampling?;
        let uid = &self.info.uid;
        let (context, parent) = match self.info.trace_parent.as_deref() {
            Some(parent) if !parent.is_recorded => return None,
            Some(parent) => (Context::of_attempt_within(parent.context, uid, attempt), Some(parent.context.span)),
            None => (Context::of_attempt(uid, attempt), None),
        };
        // The pod's author chooses its trace ID, but not its UID, so the UID decides.
        let is_taken = sampling.takes(Context::of_attempt(uid, attempt).trace);
        is_taken.then_some(Traced { context, parent, queued_ms: self.attempts.trace.queued_ms, class: self.class })
    }
}

impl Machine {
    /// Traces the attempts that `sampling` takes, except for pods with an annotation that disables recording.
    #[must_use]
    pub const fn traced_by(mut self, sampling: Sampling) -> Self {
        self.tracing = Some(sampling);
        self
    }

    /// Emits records of completed evaluations.
    pub(crate) fn record_evaluations(&mut self) {
        for over in self.judge.take_ended() {
            let Over { asker, subject, asked_ms, revision, workers, nodes, failure } = over;
            let Some(profile) = self.settings.profile(subject.0).map(|profile| Arc::clone(&profile.scheduler_name))
            else {
                continue;
            };
            let (Asker { context, parent }, class) = (asker, subject.1);
            let evaluated = Evaluated { context, parent, asked_ms, profile, class, revision, workers, nodes, failure };
            self.actions.push(Action::Trace(Box::new(Trace::Evaluated(evaluated))));
        }
    }

    /// Records the end of a pod's cycle, if it is traced. Returns the trace for the rest of the attempt.
    pub(crate) fn trace_decision(&mut self, now_ms: TimeMs, uid: &Uid, choice: Option<Choice>) -> Option<Traced> {
        self.tracing?;
        let pod = self.pods.get(uid)?;
        let attempt = pod.traced(self.tracing, pod.attempts.count)?;
        if pod.attempts.trace.decided == pod.attempts.count {
            return Some(attempt);
        }
        let began_ms = pod.attempts.trial.began_ms.unwrap_or(now_ms);
        let profile = self.settings.profile_index(&pod.info.scheduler_name);
        let state = profile.and_then(|profile| self.judge.states().get((profile, pod.class)));
        let answers = state.and_then(|state| state.own());
        let own = [attempt.context.span, attempt.part(Part::Cycle).span];
        let others = answers.and_then(|answers| answers.trace).filter(|asker| !own.contains(&asker.parent));
        let decided = Decided {
            attempt,
            began_ms,
            revision: self.judge.cache().revision(),
            nodes: self.judge.cache().nodes().len(),
            feasible: answers.map(|answers| feasible(&answers.view)),
            evaluation: others.map(|asker| asker.context),
            choice,
        };
        self.actions.push(Action::Trace(Box::new(Trace::Decided(decided))));
        let attempts = self.pods.attempts_mut(uid)?;
        attempts.trace.decided = attempts.count;
        Some(attempt)
    }

    /// Records an attempt without a bind, unless it is recorded already.
    pub(crate) fn trace_failure(&mut self, uid: &Uid, reason: Reason, message: &str) -> Option<Context> {
        self.tracing?;
        let attempt = self.trace_decision(self.tally.now_ms, uid, None)?;
        let attempts = self.pods.attempts_mut(uid)?;
        let number = attempts.count;
        if std::mem::replace(&mut attempts.trace.ended, number) != number {
            let (pod, message) = (self.pods.get(uid)?, message.to_owned());
            let (profile, pod) = (Arc::clone(&pod.info.scheduler_name), pod.name());
            let failed = Failed { attempt, pod, profile, number, reason, message };
            self.actions.push(Action::Trace(Box::new(Trace::Failed(failed))));
        }
        Some(attempt.context)
    }
}

/// The number of feasible nodes in the workers' answers.
fn feasible(view: &View) -> u64 {
    let refused: u64 = view.refused().iter().map(|group| u64::from(group.count)).sum();
    u64::from(view.covered()).saturating_sub(refused)
}
