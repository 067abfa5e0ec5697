//! Which attempts are traced, and when there is something to tell of them.
//!
//! Knows: what is worth telling. Must not know: any clock but the time of events, or who records spans. No decision looks at
//! any of it, and without tracing each door closes at one branch.

use std::sync::Arc;

use flotilla_framework::{
    select::View,
    shard::RequestId,
    trace::{Context, Sampling},
};

use crate::{
    action::{Action, Reason},
    event::TimeMs,
    machine::Machine,
    pods::Pod,
    subject::{Subject, Uid},
    trace::{Asker, Choice, Decided, Evaluated, Failed, Over, Part, Trace, Traced},
};

impl Machine {
    /// Traces attempts from now on: those that `sampling` takes, but for pods whose annotation says that their trace is not
    /// recorded.
    #[must_use]
    pub const fn traced_by(mut self, sampling: Sampling) -> Self {
        self.tracing = Some(sampling);
        self
    }

    /// Whether an attempt is traced, and as what.
    pub(crate) fn traced(&self, pod: &Pod, attempt: u32) -> Option<Traced> {
        let sampling = self.tracing?;
        let uid = &pod.info.uid;
        let (context, parent) = match pod.info.trace_parent.as_deref() {
            Some(parent) if !parent.is_recorded => return None,
            Some(parent) => (Context::of_attempt_within(parent.context, uid, attempt), Some(parent.context.span)),
            None => (Context::of_attempt(uid, attempt), None),
        };
        // The author of a pod chooses the name of its trace, but not the pod's UID: that decides.
        let is_taken = sampling.takes(Context::of_attempt(uid, attempt).trace);
        is_taken.then_some(Traced { context, parent, queued_ms: pod.trace.queued_ms, class: pod.class })
    }

    /// What is asked from now on is asked for this pod.
    pub(crate) fn ask_for_the_sake_of(&mut self, uid: &Uid) {
        if self.tracing.is_some() {
            self.cause = Some(Arc::clone(uid));
        }
    }

    /// What is asked from now on is asked for the first pod that waits with this subject.
    pub(crate) fn ask_ahead_for(&mut self, subject: Subject) {
        if self.tracing.is_some() {
            self.cause = self.queue.first_of(subject).map(Arc::clone);
        }
    }

    /// The span of an evaluation that is about to be asked for.
    pub(crate) fn asker(&self, request: RequestId) -> Option<Asker> {
        let pod = self.pods.get(self.cause.as_ref()?)?;
        let attempt = self.traced(pod, pod.attempts + 1)?;
        let within = if pod.attempt_from.is_some() { attempt.part(Part::Cycle) } else { attempt.context };
        Some(Asker { context: within.child("evaluate", request), parent: within.span })
    }

    /// Tells of the evaluations that have ended.
    pub(crate) fn tell_evaluations(&mut self) {
        if self.judge.states().over.is_empty() {
            return;
        }
        for over in std::mem::take(&mut self.judge.states_mut().over) {
            let Over { asker, subject, asked_ms, revision, workers, nodes, failure } = over;
            let Some(profile) = self.profile(subject.0).map(|profile| Arc::clone(&profile.scheduler_name)) else {
                continue;
            };
            let (Asker { context, parent }, class) = (asker, subject.1);
            let evaluated = Evaluated { context, parent, asked_ms, profile, class, revision, workers, nodes, failure };
            self.actions.push(Action::Trace(Box::new(Trace::Evaluated(evaluated))));
        }
    }

    /// The cycle of a pod's last attempt has ended: tells of it, if it is traced. Gives what the rest of the attempt is told
    /// by.
    pub(crate) fn trace_decision(&mut self, now_ms: TimeMs, uid: &Uid, choice: Option<Choice>) -> Option<Traced> {
        self.tracing?;
        let pod = self.pods.get(uid)?;
        let attempt = self.traced(pod, pod.attempts)?;
        if pod.trace.decided == pod.attempts {
            return Some(attempt);
        }
        let began_ms = pod.trial.began_ms.unwrap_or(now_ms);
        let profile = self.profile_index(&pod.info.scheduler_name);
        let state = profile.and_then(|profile| self.judge.states().get((profile, pod.class)));
        let answers = state.and_then(|state| state.own());
        let own = [attempt.context.span, attempt.part(Part::Cycle).span];
        let others = answers.and_then(|answers| answers.trace).filter(|asker| !own.contains(&asker.parent));
        let decided = Decided {
            attempt,
            began_ms,
            revision: self.judge.cache().revision(),
            nodes: self.judge.cache().nodes.len(),
            feasible: answers.map(|answers| feasible(&answers.view)),
            evaluation: others.map(|asker| asker.context),
            choice,
        };
        self.actions.push(Action::Trace(Box::new(Trace::Decided(decided))));
        let pod = self.pods.get_mut(uid)?;
        pod.trace.decided = pod.attempts;
        Some(attempt)
    }

    /// A pod's last attempt has come to no bind: tells of it, if it is traced and was not told of yet.
    pub(crate) fn trace_failure(&mut self, uid: &Uid, reason: Reason, message: &str) -> Option<Context> {
        self.tracing?;
        let attempt = self.trace_decision(self.tally.now_ms, uid, None)?;
        let pod = self.pods.get_mut(uid)?;
        if pod.trace.ended != pod.attempts {
            pod.trace.ended = pod.attempts;
            let (number, message) = (pod.attempts, message.to_owned());
            let (profile, pod) = (Arc::clone(&pod.info.scheduler_name), pod.name());
            let failed = Failed { attempt, pod, profile, number, reason, message };
            self.actions.push(Action::Trace(Box::new(Trace::Failed(failed))));
        }
        Some(attempt.context)
    }

    /// Who binds the pod tells of the end of its attempt.
    pub(crate) fn leave_trace_to_binder(&mut self, uid: &Uid) {
        if self.tracing.is_some()
            && let Some(pod) = self.pods.get_mut(uid)
        {
            pod.trace.ended = pod.attempts;
        }
    }
}

/// How many nodes would do when workers answered.
fn feasible(view: &View) -> u64 {
    let refused: u64 = view.refused().iter().map(|group| u64::from(group.count)).sum();
    u64::from(view.covered()).saturating_sub(refused)
}
