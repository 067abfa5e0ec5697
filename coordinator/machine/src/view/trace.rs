//! What there is to tell of attempts that are traced.
//!
//! Knows: the names of an attempt's spans. Must not know: which attempts are traced, or who records spans.
//!
//! An evaluation serves many pods. It is part of the attempt that caused it: that of the pod at the head of the queue, or
//! the first of its class further back. The other attempts that use it name it, so that they can be linked to it.

use std::sync::Arc;

use flotilla_framework::{class::ClassId, shard::Revision, trace::Context};

use crate::{
    event::TimeMs,
    subject::{PodName, Reason, Subject},
};

/// An attempt that is traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traced {
    /// The span of the whole attempt.
    pub context: Context,
    /// The span of the client that created the pod, where the attempt is part of its trace.
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
    /// What a plugin writes and waits for before the bind; its place among them.
    PreBind(u64),
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
    /// The others, where all of them are known.
    pub rivals: Option<Rivals>,
}

/// The other nodes that would have done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rivals {
    /// How many nodes would have done, the chosen one included.
    pub feasible: u64,
    /// The best but the chosen one, and its total.
    pub runner_up: Option<(Arc<str>, i64)>,
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
    pub(crate) queued_ms: TimeMs,
    /// The last attempt whose cycle was told.
    pub(crate) decided: u32,
    /// The last attempt whose end was told, or is for others to tell.
    pub(crate) ended: u32,
}

/// The span of an evaluation, and that which it is part of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker {
    pub(crate) context: Context,
    pub(crate) parent: u64,
}

/// An evaluation that is over.
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

// === impl Traced ===

impl Traced {
    /// The span of a part of it.
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

// === impl Course ===

impl Course {
    /// Nothing was told.
    pub(crate) const NONE: Self = Self { queued_ms: 0, decided: 0, ended: 0 };

    /// An attempt begins of a pod that has been in the queue since then.
    pub(crate) const fn begin(&mut self, queued_ms: TimeMs) {
        self.queued_ms = queued_ms;
    }
}
