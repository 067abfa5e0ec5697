//! Panics of plugins: the evaluated pod fails, and the process continues.
//!
//! An object that makes a plugin panic would otherwise end each leader in turn. All calls of plugins are contained here. After a panic the
//! class states are closed, and the Snapshot is restored from the charges. The panic is remembered with the version of the plugins' inputs,
//! and fails all pods of the subject until these change.
//!
//! Source: none. A panic of a plugin ends kube-scheduler's process.

use flotilla_framework::{contain::contain, map::Map, shard::RequestId};

use super::{
    Judge,
    decision::{Attempt, Decided, Decision},
};
use crate::{event::WorkerId, subject::Subject};

/// Maximum number of remembered subjects. A full table is cleared, and each subject may panic again. At some 300 bytes each they take 300
/// KiB.
const MAX_REMEMBERED: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct Panics {
    known: Map<Subject, Panicked>,
}

#[derive(Debug)]
struct Panicked {
    facts: u64,
    message: String,
}

impl Judge {
    /// Decides a pod, see [`Judge::decide_now`]. A panic fails the attempt.
    pub(crate) fn decide(&mut self, attempt: &Attempt<'_>) -> Decided {
        if let Some(error) = self.panic_of(attempt.subject) {
            return Ok(Decision::Fail(error));
        }
        self.states.work.add(super::work::DECISION);
        let decided = contain(|| self.decide_now(attempt));
        self.states.count_devices(attempt.subject);
        decided.unwrap_or_else(|panic| Ok(Decision::Fail(self.recover(attempt.subject, &panic))))
    }

    /// Prepares the plugins of a subject, see [`Judge::open_now`]. `false`: also if a plugin panicked.
    pub(crate) fn open(&mut self, subject: Subject) -> bool {
        self.panic_of(subject).is_none() && self.contained(subject, |judge| judge.open_now(subject)).unwrap_or(false)
    }

    /// Calls plugins for a subject. `None`: a plugin panicked; the subject is remembered and the state restored.
    pub(crate) fn contained<T>(&mut self, subject: Subject, work: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let done = contain(|| work(self));
        self.states.count_devices(subject);
        done.map_err(|panic| self.recover(subject, &panic)).ok()
    }

    /// A worker reports a panic of a plugin: the attempts of that subject fail.
    pub(crate) fn panicked_on(&mut self, worker: WorkerId, request: RequestId) {
        if !self.states.owes(worker, request) {
            return;
        }
        if let Some(subject) = self.states.subject_of(request) {
            self.recover(subject, "on a worker, whose log has the message");
        }
    }

    pub(crate) fn panic_of(&self, subject: Subject) -> Option<String> {
        if self.panics.known.is_empty() {
            return None;
        }
        let panicked = self.panics.known.get(&subject)?;
        let class = self.cache.classes().get(subject.1)?;
        (panicked.facts == self.cache.facts_version(class)).then(|| panicked.message.clone())
    }

    /// Whether a failed pod is held until its plugins' inputs change, because another attempt would end in the same panic or at the same
    /// work limit.
    pub(crate) fn is_held(&self, subject: Subject) -> bool {
        self.panic_of(subject).is_some() || self.states.get(subject).is_some_and(|state| state.prepared.is_exhausted())
    }

    /// Restores the state after a panic, and remembers the subject. Returns the error for its pods.
    pub(crate) fn recover(&mut self, subject: Subject, panic: &str) -> String {
        self.restore();
        let message = format!(
            "a plugin panicked: {panic}; the pod is held until it or an object that it names changes. This is a bug of Flotilla \
             or of the plugin"
        );
        if self.panics.known.len() >= MAX_REMEMBERED {
            self.panics.known.clear();
        }
        let facts = self.cache.classes().get(subject.1).map_or(0, |class| self.cache.facts_version(class));
        self.panics.known.insert(subject, Panicked { facts, message: message.clone() });
        message
    }

    pub(super) fn restore(&mut self) {
        self.counts.plugin_panics += 1;
        self.states.work.add(super::work::RESTORED_NODE * self.cache.nodes().len() as u64);
        self.states.clear();
        self.searches.clear();
        self.cache.restore();
    }

    /// Forgets all panics, after a change of the plugins or for another chance.
    pub(crate) fn forget_panics(&mut self) {
        self.panics.known.clear();
    }

    pub(crate) fn forget_panics_of(&mut self, class: flotilla_framework::class::ClassId) {
        self.panics.known.retain(|(_, known), _| *known != class);
    }
}
