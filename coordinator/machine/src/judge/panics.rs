//! Panics of plugins: the pod that a plugin was asked about fails, and the process lives on.
//!
//! A plugin reads what users write, so that an object which makes one panic would end each leader in turn: the next leader has
//! the same object. Each place where plugins run is contained here. After a panic the class states are cleared and the Snapshot is
//! restored from what is charged, so that nothing half done is left. The panic is remembered with what the plugins read, and
//! answers for all pods of the subject until that changes.
//!
//! Source: kube-scheduler has no such thing; a panic of a plugin ends its process.

use flotilla_framework::{contain::contain, map::Map, shard::RequestId};

use super::{Judge, decision::Attempt, decision::Decision};
use crate::{event::WorkerId, subject::Subject};

/// How many subjects are remembered. With more than these, all are forgotten: each of them may panic once again. At some 300
/// bytes each they take 300 KiB.
const MAX_REMEMBERED: usize = 1_024;

/// The subjects of which an evaluation panicked.
#[derive(Debug, Default)]
pub(super) struct Panics {
    known: Map<Subject, Panicked>,
}

#[derive(Debug)]
struct Panicked {
    /// The version of the facts that the plugins read.
    facts: u64,
    message: String,
}

// === impl Judge ===

impl Judge {
    /// Decides on a pod, see [`Judge::decide_now`]. A panic fails the attempt.
    pub(crate) fn decide(&mut self, attempt: &Attempt<'_>) -> Decision {
        if let Some(error) = self.panic_of(attempt.subject) {
            return Decision::Fail(error);
        }
        self.states.work.add(super::work::DECISION);
        let decided = contain(|| self.decide_now(attempt));
        self.states.count_devices(attempt.subject);
        match decided {
            Ok(decision) => decision,
            Err(panic) => Decision::Fail(self.recover(attempt.subject, &panic)),
        }
    }

    /// Prepares the plugins of a subject, see [`Judge::open_now`]. `false`: also where a plugin panicked.
    pub(crate) fn open(&mut self, subject: Subject) -> bool {
        self.panic_of(subject).is_none() && self.contained(subject, |judge| judge.open_now(subject)).unwrap_or(false)
    }

    /// Runs code of plugins on behalf of a subject. `None`: it panicked, the subject is remembered, and the state is restored.
    pub(crate) fn contained<T>(&mut self, subject: Subject, work: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let done = contain(|| work(self));
        self.states.count_devices(subject);
        done.map_err(|panic| self.recover(subject, &panic)).ok()
    }

    /// A worker answers that a plugin panicked there: the attempts of that subject fail, as they would here.
    pub(crate) fn panicked_on(&mut self, worker: WorkerId, request: RequestId) {
        if !self.states.owes(worker, request) {
            return;
        }
        if let Some(subject) = self.states.subject_of(request) {
            self.recover(subject, "on a worker, whose log has the message");
        }
    }

    /// The error of a subject of which an evaluation panicked, while the plugins would read the same.
    pub(crate) fn panic_of(&self, subject: Subject) -> Option<String> {
        if self.panics.known.is_empty() {
            return None;
        }
        let panicked = self.panics.known.get(&subject)?;
        let class = self.cache.classes.get(subject.1)?;
        (panicked.facts == self.cache.facts_version(class)).then(|| panicked.message.clone())
    }

    /// Whether a pod whose attempt failed is held until what its plugins read changes: another attempt would end in the same way,
    /// by a panic or at the bound of its work.
    pub(crate) fn is_held(&self, subject: Subject) -> bool {
        self.panic_of(subject).is_some() || self.states.get(subject).is_some_and(|state| state.prepared.is_exhausted())
    }

    /// Restores what a panic may have left half done, and remembers the subject. Returns the error for its pods.
    pub(crate) fn recover(&mut self, subject: Subject, panic: &str) -> String {
        self.restore();
        let message = format!(
            "a plugin panicked: {panic}; the pod is held until it or an object that it names changes. This is a bug of Flotilla \
             or of the plugin"
        );
        if self.panics.known.len() >= MAX_REMEMBERED {
            self.panics.known.clear();
        }
        let facts = self.cache.classes.get(subject.1).map_or(0, |class| self.cache.facts_version(class));
        self.panics.known.insert(subject, Panicked { facts, message: message.clone() });
        message
    }

    /// Restores what a panic may have left half done.
    pub(super) fn restore(&mut self) {
        self.counts.plugin_panics += 1;
        self.states.work.add(super::work::RESTORED_NODE * self.cache.nodes.len() as u64);
        self.states.clear();
        self.cache.restore();
    }

    /// Nothing is remembered of panics: the plugins are others, or they get another chance.
    pub(crate) fn forget_panics(&mut self) {
        self.panics.known.clear();
    }

    /// A class is gone.
    pub(crate) fn forget_panics_of(&mut self, class: flotilla_framework::class::ClassId) {
        self.panics.known.retain(|(_, known), _| *known != class);
    }
}
