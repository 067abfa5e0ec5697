//! Pods that are held because the next attempt would fail in the same way: a plugin panicked, or used up the work limit of an attempt.
//!
//! A held pod waits outside the queue, with a condition and an event that give the reason. It is tried again when the pod, an object that
//! its plugins read, or the configuration changes, and after `podMaxInUnschedulablePodsDuration`.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    event::TimeMs,
    judge::Judge,
    pods::{PodStage, Pods},
    subject::Uid,
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

    /// Holds a pod that failed with this version of the facts.
    pub(crate) fn hold(&mut self, uid: &Uid, facts: u64, now_ms: TimeMs) {
        self.pods.insert(Arc::clone(uid), (facts, now_ms));
    }

    /// The pods with changed facts.
    pub(crate) fn changed(&self, pods: &Pods, judge: &Judge) -> Vec<Uid> {
        let is_news = |(uid, (facts, _)): &(&Uid, &(u64, TimeMs))| {
            pods.get(uid).is_none_or(|pod| match pod.stage {
                PodStage::Gated(gate) => judge.facts_version((gate.profile, pod.class)) != *facts,
                _ => true,
            })
        };
        self.pods.iter().filter(is_news).map(|(uid, _)| Arc::clone(uid)).collect()
    }

    /// The pods that were held for longer than this.
    pub(crate) fn due(&self, now_ms: TimeMs, longest_ms: TimeMs) -> Vec<Uid> {
        let is_due = |(_, (_, since_ms)): &(&Uid, &(u64, TimeMs))| now_ms.saturating_sub(*since_ms) > longest_ms;
        self.pods.iter().filter(is_due).map(|(uid, _)| Arc::clone(uid)).collect()
    }
}
