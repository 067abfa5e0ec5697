//! Gated pods, which are not in the queue.
//!
//! Source: `QueuedPodInfo.GatingPlugin`; kube-scheduler keeps such pods among the unschedulable ones and skips them there.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    event::TimeMs,
    subject::{Subject, Uid},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gate {
    /// The PreEnqueue plugin; `None`: the pod is too large, or is held.
    pub(crate) plugin: Option<&'static str>,
    subject: Subject,
    /// Time of the last PreEnqueue without an event.
    asked_ms: TimeMs,
}

/// All gated pods; a subset of the known pods.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    pods: BTreeMap<Uid, Gate>,
    by_plugin: BTreeMap<&'static str, BTreeSet<(Subject, Uid)>>,
    untried: BTreeSet<Uid>,
}

impl Gates {
    pub(crate) fn close(&mut self, uid: &Uid, plugin: Option<&'static str>, subject: Subject, now_ms: TimeMs) {
        self.open(uid);
        if let Some(plugin) = plugin {
            self.by_plugin.entry(plugin).or_default().insert((subject, Arc::clone(uid)));
        } else {
            self.untried.insert(Arc::clone(uid));
        }
        self.pods.insert(Arc::clone(uid), Gate { plugin, subject, asked_ms: now_ms });
    }

    pub(crate) fn reclass(&mut self, uid: &Uid, subject: Subject) {
        if let Some(Gate { plugin, asked_ms, .. }) = self.open(uid) {
            self.close(uid, plugin, subject, asked_ms);
        }
    }

    pub(crate) fn open(&mut self, uid: &Uid) -> Option<Gate> {
        let gate = self.pods.remove(uid)?;
        self.untried.remove(uid);
        if let Some(plugin) = gate.plugin
            && let Some(pods) = self.by_plugin.get_mut(plugin)
        {
            pods.remove(&(gate.subject, Arc::clone(uid)));
            if pods.is_empty() {
                self.by_plugin.remove(plugin);
            }
        }
        Some(gate)
    }

    pub(crate) fn of(&self, uid: &Uid) -> Option<Gate> {
        self.pods.get(uid).copied()
    }

    /// Gated pods without a gating plugin: they are too large, or held.
    pub(crate) fn untried(&self) -> impl Iterator<Item = &Uid> {
        self.untried.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.pods.len()
    }

    pub(crate) fn by_plugin(&self) -> impl Iterator<Item = (&'static str, &BTreeSet<(Subject, Uid)>)> {
        self.by_plugin.iter().map(|(plugin, pods)| (*plugin, pods))
    }

    /// Pods whose last PreEnqueue without an event was before this time.
    pub(crate) fn asked_before(&self, before_ms: TimeMs) -> Vec<Uid> {
        let is_due = |gate: &Gate| gate.plugin.is_some() && gate.asked_ms < before_ms;
        self.pods.iter().filter(|(_, gate)| is_due(gate)).map(|(uid, _)| Arc::clone(uid)).collect()
    }
}
