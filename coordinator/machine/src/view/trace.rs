//! Which attempts are traced, and what there is to tell of them.
//!
//! Knows: the names of an attempt's spans, and what is worth telling. Must not know: any clock but the time of events, or
//! who records spans. Nothing here is looked at by a decision, and without tracing each door closes at one branch.
//!
//! An evaluation serves many pods. It is part of the attempt that caused it: that of the pod at the head of the queue, or
//! the first of its class further back. The other attempts that use it name it, so that they can be linked to it.

use std::sync::Arc;

use flotilla_framework::{
    class::ClassId,
    select::Book,
    shard::{RequestId, Revision},
    trace::{Context, Sampling},
};

use crate::{
    action::{Action, PodName, Reason},
    event::TimeMs,
    judge::class_states::{Ask, ClassStates},
    machine::Machine,
    pods::Pod,
    subject::{Subject, Uid},
};

/// An attempt that is traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traced {
    /// The span of the whole attempt.
    pub context: Context,
    /// The span of whoever made the pod, where the attempt is part of its trace.
    pub parent: Option<u64>,
    /// When the pod came into the queue, or came back from the attempt before.
    pub queued_ms: TimeMs,
    /// The pod's class.
    pub class: ClassId,
}

/// A part of an attempt that has a span of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// In the queue.
    Queue,
    /// From the head of the queue to a node, or to none.
    Cycle,
    /// Merging what is known of the nodes, and choosing.
    Select,
    /// From the choice until the pod is bound.
    Binding,
    /// The request that binds it.
    Bind,
}

/// What is worth spans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trace {
    /// An evaluation has ended; what each worker did for it is told by who asked them.
    Evaluated(Evaluated),
    /// The cycle of an attempt has ended, with a node or without one.
    Decided(Decided),
    /// An attempt has ended that came to no bind; of those that do, [`crate::action::Action::Bind`] carries the trace.
    Failed(Failed),
}

/// An evaluation that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evaluated {
    /// Its span, which [`flotilla_framework::shard::Command::Evaluate`] named.
    pub context: Context,
    /// The span that it is part of.
    pub parent: u64,
    /// When workers were asked.
    pub asked_ms: TimeMs,
    /// The profile's `schedulerName`.
    pub profile: Arc<str>,
    /// The class.
    pub class: ClassId,
    /// The state of the cluster that was asked about.
    pub revision: Revision,
    /// How many workers have answered.
    pub workers: usize,
    /// How many nodes those judged.
    pub nodes: u64,
    /// Why it came to nothing.
    pub failure: Option<&'static str>,
}

/// A cycle that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// The attempt.
    pub attempt: Traced,
    /// When the pod got to the head of the queue.
    pub began_ms: TimeMs,
    /// The state of the cluster that the decision was made on.
    pub revision: Revision,
    /// How many nodes there are.
    pub nodes: usize,
    /// How many of them would do, as far as the last evaluation of the class by itself told; `None` where there was none.
    pub feasible: Option<u64>,
    /// The evaluation that it was decided by, where that is traced and is part of another attempt.
    pub evaluation: Option<Context>,
    /// What was chosen.
    pub choice: Option<Choice>,
}

/// A node that was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Its name.
    pub node: Arc<str>,
    /// Its weighted score.
    pub total: i64,
    /// It was judged anew by the coordinator since workers answered.
    pub repaired: bool,
}

/// An attempt that came to no bind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// The attempt.
    pub attempt: Traced,
    /// The pod.
    pub pod: PodName,
    /// The profile's `schedulerName`.
    pub profile: Arc<str>,
    /// Which attempt it was, counted from 1.
    pub number: u32,
    /// What kind of trouble it is.
    pub reason: Reason,
    /// What is said to the pod's owner.
    pub message: String,
}

/// What was told of a pod's attempts.
#[derive(Debug)]
pub(crate) struct Course {
    /// When the pod had come into the queue that began the attempt under way.
    queued_ms: TimeMs,
    /// The last attempt whose cycle was told.
    decided: u32,
    /// The last attempt whose end was told, or is for others to tell.
    ended: u32,
}

/// The span of an evaluation, and that which it is part of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker {
    pub(crate) context: Context,
    parent: u64,
}

/// An evaluation that is over.
#[derive(Debug)]
pub(crate) struct Over {
    asker: Asker,
    subject: Subject,
    asked_ms: TimeMs,
    revision: Revision,
    workers: usize,
    nodes: u64,
    failure: Option<&'static str>,
}

// === impl Traced ===

impl Traced {
    /// The span of a part of it.
    #[must_use]
    pub fn part(self, part: Part) -> Context {
        let name = match part {
            Part::Queue => "queue",
            Part::Cycle => "cycle",
            Part::Select => "select",
            Part::Binding => "binding",
            Part::Bind => "bind",
        };
        self.context.child(name, 0)
    }
}

// === impl Course ===

impl Course {
    /// Nothing was told.
    pub(crate) const NONE: Self = Self { queued_ms: 0, decided: 0, ended: 0 };

    /// An attempt begins of a pod that has been in the queue since then.
    pub(crate) const fn begin(&mut self, queued_ms: TimeMs) {
        self.queued_ms = queued_ms;
    }
}

// === impl ClassStates ===

impl ClassStates {
    /// Notes the end of an evaluation, if it is traced.
    pub(crate) fn note_end(&mut self, subject: Subject, ask: &Ask, failure: Option<&'static str>) {
        let Some(asker) = ask.trace else { return };
        let nodes = ask.answers.iter().map(|answer| u64::from(answer.covered)).sum();
        let (asked_ms, revision, workers) = (ask.asked_ms, ask.revision, ask.answers.len());
        self.over.push(Over { asker, subject, asked_ms, revision, workers, nodes, failure });
    }
}

// === impl Machine ===

impl Machine {
    /// Traces attempts from now on: those that `sampling` takes, and those of pods whose annotation says that their trace
    /// is recorded.
    #[must_use]
    pub const fn traced_by(mut self, sampling: Sampling) -> Self {
        self.tracing = Some(sampling);
        self
    }

    /// Whether an attempt is traced, and as what.
    fn traced(&self, pod: &Pod, attempt: u32) -> Option<Traced> {
        let sampling = self.tracing?;
        let uid = &pod.info.uid;
        let (context, parent) = match pod.info.trace_parent.as_deref() {
            Some(parent) if !parent.is_recorded => return None,
            Some(parent) => (Context::of_attempt_within(parent.context, uid, attempt), Some(parent.context.span)),
            None => (Context::of_attempt(uid, attempt), None),
        };
        let is_taken = parent.is_some() || sampling.takes(context.trace);
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
        let offers = state.and_then(|state| state.offers.as_ref());
        let own = [attempt.context.span, attempt.part(Part::Cycle).span];
        let others = offers.and_then(|offers| offers.trace).filter(|asker| !own.contains(&asker.parent));
        let decided = Decided {
            attempt,
            began_ms,
            revision: self.judge.cache().revision(),
            nodes: self.judge.cache().nodes.len(),
            feasible: offers.map(|offers| feasible(&offers.book)),
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
fn feasible(book: &Book) -> u64 {
    let refused: u64 = book.refused().iter().map(|group| u64::from(group.count)).sum();
    u64::from(book.covered()).saturating_sub(refused)
}
