//! Spans of traced attempts.
//!
//! An evaluation serves many pods. Its span belongs to the attempt that requested it. That pod is the head of the queue, or the first of
//! its class further back. Other attempts link to it.

use std::sync::Arc;

use flotilla_framework::{class::ClassId, shard::Revision, trace::Context};

use crate::{
    event::TimeMs,
    subject::{PodName, Reason, Subject},
};

/// A traced attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traced {
    /// The span of the whole attempt.
    pub context: Context,
    /// The span of the client that created the pod, if the attempt continues its trace.
    pub parent: Option<u64>,
    /// Time of entry into the queue, or of the end of the previous attempt.
    pub queued_ms: TimeMs,
    /// The pod's class.
    pub class: ClassId,
}

/// A part of an attempt with its own span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// In the queue.
    Queue,
    /// From the head of the queue to the decision.
    Cycle,
    /// Merging results and choosing a node.
    Select,
    /// From the decision to the bind.
    Binding,
    /// PreBind of a plugin, by its index.
    PreBind(u64),
    /// The bind request.
    Bind,
}

/// A record for spans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trace {
    /// The end of an evaluation; the runtime adds the parts of the workers.
    Evaluated(Evaluated),
    /// The end of a scheduling cycle.
    Decided(Decided),
    /// The end of an attempt without a bind; otherwise [`crate::action::Action::Bind`] carries the trace.
    Failed(Failed),
}

/// A completed evaluation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evaluated {
    /// Its span, named in [`flotilla_framework::shard::Command::Evaluate`].
    pub context: Context,
    /// The parent span.
    pub parent: u64,
    /// Time of the request.
    pub asked_ms: TimeMs,
    /// The profile's `schedulerName`.
    pub profile: Arc<str>,
    /// The class.
    pub class: ClassId,
    /// The revision of the request.
    pub revision: Revision,
    /// The number of workers that answered.
    pub workers: usize,
    /// The number of their nodes.
    pub nodes: u64,
    /// Why it failed.
    pub failure: Option<&'static str>,
}

/// A completed scheduling cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// The attempt.
    pub attempt: Traced,
    /// Time at which the pod reached the head of the queue.
    pub began_ms: TimeMs,
    /// The revision of the decision.
    pub revision: Revision,
    /// The number of nodes.
    pub nodes: usize,
    /// The number of feasible nodes in the last evaluation of the class itself; `None` without one.
    pub feasible: Option<u64>,
    /// The evaluation behind the decision, if it is traced in another attempt.
    pub evaluation: Option<Context>,
    /// The chosen node.
    pub choice: Option<Choice>,
}

/// A chosen node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Its name.
    pub node: Arc<str>,
    /// Its weighted score.
    pub total: i64,
    /// The coordinator evaluated it again after the workers' answers.
    pub repaired: bool,
    /// The other feasible nodes, if all are known.
    pub rivals: Option<Rivals>,
}

/// The other feasible nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rivals {
    /// The number of feasible nodes, including the chosen one.
    pub feasible: u64,
    /// The best one other than the chosen one, and its total.
    pub runner_up: Option<(Arc<str>, i64)>,
}

/// An attempt without a bind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// The attempt.
    pub attempt: Traced,
    /// The pod.
    pub pod: PodName,
    /// The profile's `schedulerName`.
    pub profile: Arc<str>,
    /// The number of the attempt, from 1.
    pub number: u32,
    /// The reason of the condition.
    pub reason: Reason,
    /// The message of the condition.
    pub message: String,
}

/// Trace state of a pod's attempts.
#[derive(Debug, Default)]
pub(crate) struct Course {
    /// Entry into the queue before the current attempt.
    pub(crate) queued_ms: TimeMs,
    /// The last attempt with a recorded cycle.
    pub(crate) decided: u32,
    /// The last attempt with a recorded end, or with its end left to the binder.
    pub(crate) ended: u32,
}

/// The span of an evaluation, and its parent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker {
    pub(crate) context: Context,
    pub(crate) parent: u64,
}

#[derive(Debug)]
pub(crate) struct Over {
    pub(crate) asker: Asker,
    pub(crate) subject: Subject,
    pub(crate) asked_ms: TimeMs,
    pub(crate) revision: Revision,
    pub(crate) workers: usize,
    pub(crate) nodes: u64,
    pub(crate) failure: Option<&'static str>,
}

impl Traced {
    /// The span of a part.
    #[must_use]
    pub fn part(self, part: Part) -> Context {
        let (name, number) = match part {
            Part::Queue => ("queue", 0),
            Part::Cycle => ("cycle", 0),
            Part::Select => ("select", 0),
            Part::Binding => ("binding", 0),
            Part::PreBind(place) => ("prebind", place),
            Part::Bind => ("bind", 0),
        };
        self.context.child(name, number)
    }
}

impl Course {
    pub(crate) const fn begin(&mut self, queued_ms: TimeMs) {
        self.queued_ms = queued_ms;
    }
}
