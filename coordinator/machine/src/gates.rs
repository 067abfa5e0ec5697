//! Pods that are kept out of the queue.
//!
//! Knows: who is kept out, by which plugin, since when. Must not know: why.
//!
//! Source: `QueuedPodInfo.GatingPlugin`; upstream keeps such pods among the unschedulable ones and skips them there.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    event::TimeMs,
    subject::{Subject, Uid},
};

/// A pod that is kept out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gate {
    /// The PreEnqueue plugin that does; `None`: the pod needs a plugin that is not built, or is too large.
    pub(crate) plugin: Option<&'static str>,
    subject: Subject,
    /// When it was last asked whether it still does, without any event.
    asked_ms: TimeMs,
}

/// All pods that are kept out: some of those that are known anyway.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    pods: BTreeMap<Uid, Gate>,
    by_plugin: BTreeMap<&'static str, BTreeSet<(Subject, Uid)>>,
    /// Those that no plugin keeps out.
    untried: BTreeSet<Uid>,
}

impl Gates {
    /// A pod is kept out from now on, or still is.
    pub(crate) fn close(&mut self, uid: &Uid, plugin: Option<&'static str>, subject: Subject, now_ms: TimeMs) {
        self.open(uid);
        if let Some(plugin) = plugin {
            self.by_plugin.entry(plugin).or_default().insert((subject, Arc::clone(uid)));
        } else {
            self.untried.insert(Arc::clone(uid));
        }
        self.pods.insert(Arc::clone(uid), Gate { plugin, subject, asked_ms: now_ms });
    }

    /// A pod that is kept out is about another subject.
    pub(crate) fn reclass(&mut self, uid: &Uid, subject: Subject) {
        if let Some(Gate { plugin, asked_ms, .. }) = self.open(uid) {
            self.close(uid, plugin, subject, asked_ms);
        }
    }

    /// A pod is not kept out any more. Gives how it was.
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

    /// Who keeps a pod out.
    pub(crate) fn of(&self, uid: &Uid) -> Option<Gate> {
        self.pods.get(uid).copied()
    }

    /// Those that no plugin keeps out: they need one that is not built, or are too large.
    pub(crate) fn untried(&self) -> impl Iterator<Item = &Uid> {
        self.untried.iter()
    }

    /// How many are kept out.
    pub(crate) fn len(&self) -> usize {
        self.pods.len()
    }

    /// The plugins that keep pods out, and how many pods under each profile.
    pub(crate) fn by_plugin(&self) -> impl Iterator<Item = (&'static str, &BTreeSet<(Subject, Uid)>)> {
        self.by_plugin.iter().map(|(plugin, pods)| (*plugin, pods))
    }

    /// Those whose plugin was not asked about for longer than this.
    pub(crate) fn asked_before(&self, before_ms: TimeMs) -> Vec<Uid> {
        let is_due = |gate: &Gate| gate.plugin.is_some() && gate.asked_ms < before_ms;
        self.pods.iter().filter(|(_, gate)| is_due(gate)).map(|(uid, _)| Arc::clone(uid)).collect()
    }
}
