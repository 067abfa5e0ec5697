//! Gated pods, which are not in the queue: a plugin gates them, or they are too large to be tried, so that they do not delay other pods.
//!
//! The machine measures a pod when it is added ([`flotilla_framework::excess`]), and in relation to the number of namespaces. A pod that is
//! too large is measured again when the pod or the namespaces change.
//!
//! Source: `QueuedPodInfo.GatingPlugin`; kube-scheduler keeps such pods among the unschedulable ones and skips them there.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_framework::{admission, class::ClassId, contain::contain, extension::ClusterEvent};

use crate::{
    event::TimeMs,
    judge::Judge,
    pods::{Indexed, Pod, PodStage, Pods},
    settings::Settings,
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

impl Pod {
    /// Why the pod is too large to be tried.
    pub(crate) fn excess(&self, judge: &Judge) -> Option<String> {
        admission::excess(&self.info, judge.cache().directory().namespaces())
    }

    /// The first PreEnqueue plugin that gates a pod, and its message. The last gating plugin runs first.
    pub(crate) fn gate(
        &self,
        (settings, judge): (&Settings, &Judge),
        profile: ProfileIndex,
    ) -> Option<(&'static str, String)> {
        let profile = settings.profile(profile)?;
        let is_in_force = |name: &str| profile.plugins.pre_enqueue.iter().any(|known| known == name);
        let last = self.stage.gate().and_then(|gate| gate.plugin).filter(|name| is_in_force(name));
        let last = last.and_then(|name| settings.registry().find(name));
        let asked = contain(|| {
            let word = last.and_then(|plugin| Some((plugin.name(), plugin.pre_enqueue(&self.info)?)));
            word.or_else(|| admission::gate(settings.registry(), profile, &self.info))
                .or_else(|| judge.cache().objects().gate(profile, &self.info))
        });
        // The first plugin replaces the one that panicked: the pod is checked again at each of its events.
        asked.unwrap_or_else(|panic| {
            let plugin = profile.plugins.pre_enqueue.iter().find_map(|name| settings.registry().find(name))?;
            Some((plugin.name(), format!("PreEnqueue panicked: {panic}; this is a bug of Flotilla or of a plugin")))
        })
    }
}

/// All gated pods; a subset of the known pods.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    pods: BTreeMap<Uid, (Gate, ClassId)>,
    by_plugin: BTreeMap<&'static str, BTreeSet<(Subject, Uid)>>,
    untried: BTreeSet<Uid>,
    /// Pods that are too large on their own, in any stage.
    too_large: BTreeSet<Uid>,
}

impl Gates {
    pub(crate) fn follow(&mut self, uid: &Uid, before: Option<&Indexed>, after: Option<&Indexed>) {
        if after.is_some_and(|pod| pod.info.excess.is_some()) {
            self.too_large.insert(Arc::clone(uid));
        } else {
            self.too_large.remove(uid);
        }
        let gate = |pod: Option<&Indexed>| pod.and_then(|pod| Some((pod.stage.gate()?, pod.class)));
        match (gate(before), gate(after)) {
            (before, after) if before == after => {}
            (_, Some((gate, class))) => self.close(uid, gate, class),
            (_, None) => self.open(uid),
        }
    }

    /// Sets or replaces the gate of a pod.
    fn close(&mut self, uid: &Uid, gate: Gate, class: ClassId) {
        self.open(uid);
        if let Some(plugin) = gate.plugin {
            self.by_plugin.entry(plugin).or_default().insert(((gate.profile, class), Arc::clone(uid)));
        } else {
            self.untried.insert(Arc::clone(uid));
        }
        self.pods.insert(Arc::clone(uid), (gate, class));
    }

    fn open(&mut self, uid: &Uid) {
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

    /// The untried pods that are not too large any more.
    pub(crate) fn fitting(&self, pods: &Pods, judge: &Judge) -> Vec<Uid> {
        let fits = |uid: &&Uid| {
            pods.get(uid).is_some_and(|pod| matches!(pod.stage, PodStage::Gated(_)) && pod.excess(judge).is_none())
        };
        self.untried.iter().filter(fits).cloned().collect()
    }

    /// The number of pods that are too large: those not tried, and placed pods with ignored affinities.
    pub(crate) fn count_too_large(&self, pods: &Pods, judge: &Judge) -> u64 {
        let by_namespaces = |uid: &&Uid| {
            let pod = pods.get(uid);
            pod.is_some_and(|pod| pod.info.excess.is_none() && judge.cache().has_excess(pod.class))
        };
        (self.too_large.len() + self.untried.iter().filter(by_namespaces).count()) as u64
    }

    pub(crate) fn len(&self) -> usize {
        self.pods.len()
    }

    /// The pods for which the hint of the gating plugin returns Queue.
    pub(crate) fn worth_asking(&self, judge: &Judge, event: ClusterEvent<'_>) -> Vec<Uid> {
        let asked = self.by_plugin.iter().filter(|(plugin, _)| judge.may_wake(plugin, event));
        let pods = asked.flat_map(|(plugin, pods)| pods.iter().map(move |(subject, uid)| (plugin, *subject, uid)));
        let worth = pods.filter(|(plugin, subject, _)| judge.hint(plugin, event, *subject));
        worth.map(|(_, _, uid)| Arc::clone(uid)).collect()
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
