//! Pods that are held because the next attempt would fail in the same way: a plugin panicked, or used up the work limit of an attempt.
//!
//! A held pod waits outside the queue, with a condition and an event that give the reason. It is tried again when the pod, an object that
//! its plugins read, or the configuration changes, and after `podMaxInUnschedulablePodsDuration`.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    event::TimeMs,
    machine::Machine,
    pods::PodStage,
    queue::incoming::UNSCHEDULABLE_TIMEOUT,
    subject::{Subject, Uid},
};

/// The held pods, each with the version of the facts that its plugins read, and the start of the hold.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pods: BTreeMap<Uid, (u64, TimeMs)>,
}

impl Held {
    pub(crate) fn forget(&mut self, uid: &Uid) {
        self.pods.remove(uid);
    }
}

impl Machine {
    pub(crate) fn hold_pod(&mut self, now_ms: TimeMs, uid: &Uid, subject: Subject, error: String) {
        self.status.decisions += 1;
        self.count_attempt(now_ms, uid, None);
        let Some(attempts) = self.pods.attempts_mut(uid) else { return };
        attempts.count += 1;
        attempts.end();
        let facts = self.facts_of(subject);
        self.held.pods.insert(Arc::clone(uid), (facts, now_ms));
        self.leave_untried(now_ms, uid, subject.0, error);
    }

    /// Releases the pods with changed facts.
    pub(crate) fn release_held(&mut self, now_ms: TimeMs, label: &'static str) {
        if self.held.pods.is_empty() {
            return;
        }
        let is_news = |(uid, (facts, _)): &(&Uid, &(u64, TimeMs))| {
            self.pods.get(uid).is_none_or(|pod| match pod.stage {
                PodStage::Gated(gate) => self.facts_of((gate.profile, pod.class)) != *facts,
                _ => true,
            })
        };
        let released: Vec<Uid> = self.held.pods.iter().filter(is_news).map(|(uid, _)| Arc::clone(uid)).collect();
        self.release(now_ms, released, label);
    }

    /// Releases the pods that were held for longer than this.
    pub(crate) fn flush_held(&mut self, now_ms: TimeMs, longest_ms: TimeMs) {
        let is_due = |(_, (_, since_ms)): &(&Uid, &(u64, TimeMs))| now_ms.saturating_sub(*since_ms) > longest_ms;
        let due: Vec<Uid> = self.held.pods.iter().filter(is_due).map(|(uid, _)| Arc::clone(uid)).collect();
        if !due.is_empty() {
            self.judge.forget_panics();
            self.release(now_ms, due, UNSCHEDULABLE_TIMEOUT);
        }
    }

    fn release(&mut self, now_ms: TimeMs, uids: Vec<Uid>, label: &'static str) {
        for uid in uids {
            self.held.pods.remove(&uid);
            if self.pods.get(&uid).is_some_and(|pod| matches!(pod.stage, PodStage::Gated(_))) {
                self.admit_by(now_ms, &uid, label);
            }
        }
    }

    pub(crate) fn facts_of(&self, subject: Subject) -> u64 {
        let cache = self.judge.cache();
        cache.classes.get(subject.1).map_or(0, |class| cache.facts_version(class))
    }
}
