//! Gated pods, which are not in the queue.
//!
//! Source: `QueuedPodInfo.GatingPlugin`; kube-scheduler keeps such pods among the unschedulable ones and skips them there.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_framework::class::ClassId;

use crate::{
    event::TimeMs,
    subject::{ProfileIndex, Subject, Uid},
};

/// Why a pod is gated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gate {
    pub(crate) profile: ProfileIndex,
    /// The PreEnqueue plugin; `None`: the pod is too large, or is held.
    pub(crate) plugin: Option<&'static str>,
    /// Time of the last PreEnqueue without an event.
    pub(crate) asked_ms: TimeMs,
}

/// All gated pods; a subset of the known pods.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    pods: BTreeMap<Uid, (Gate, ClassId)>,
    by_plugin: BTreeMap<&'static str, BTreeSet<(Subject, Uid)>>,
    untried: BTreeSet<Uid>,
}

impl Gates {
    /// Sets or replaces the gate of a pod.
    pub(crate) fn close(&mut self, uid: &Uid, gate: Gate, class: ClassId) {
        self.open(uid);
        if let Some(plugin) = gate.plugin {
            self.by_plugin.entry(plugin).or_default().insert(((gate.profile, class), Arc::clone(uid)));
        } else {
            self.untried.insert(Arc::clone(uid));
        }
        self.pods.insert(Arc::clone(uid), (gate, class));
    }

    pub(crate) fn open(&mut self, uid: &Uid) {
        let Some((gate, class)) = self.pods.remove(uid) else { return };
        self.untried.remove(uid);
        if let Some(plugin) = gate.plugin
            && let Some(pods) = self.by_plugin.get_mut(plugin)
        {
            pods.remove(&((gate.profile, class), Arc::clone(uid)));
            if pods.is_empty() {
                self.by_plugin.remove(plugin);
            }
        }
    }

    pub(crate) fn contains(&self, uid: &Uid) -> bool {
        self.pods.contains_key(uid)
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
        self.pods.iter().filter(|(_, (gate, _))| is_due(gate)).map(|(uid, _)| Arc::clone(uid)).collect()
    }
}
