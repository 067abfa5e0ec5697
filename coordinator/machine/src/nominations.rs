//! Nominations: the machine's own ones, those of the watch, and wake-ups when one ends.
//!
//! Source: `backend/queue/nominator.go`, and `eventhandlers.go` for wake-ups.

use std::sync::Arc;

use flotilla_framework::{class::PodInfo, extension::ClusterEvent};

use crate::{
    action::Nomination,
    event::TimeMs,
    judge::nominator::Nominated,
    machine::Machine,
    pods::{Pod, PodStage},
    subject::Uid,
};

/// Maximum number of own nominations per pod that the watch has not shown. Each takes a write, and the API server is seldom behind by two.
const MAX_UNSAID: usize = 8;

impl Nominated {
    pub(crate) fn of(pod: &Pod) -> Option<Self> {
        let waits = matches!(pod.stage, PodStage::Queued(_) | PodStage::Gated(_) | PodStage::Member(_));
        let node = pod.nominated_node().filter(|_| waits)?;
        let class = (pod.class, Arc::clone(&pod.info.class));
        Some(Self { node: Arc::clone(node), priority: pod.info.priority, class })
    }
}

impl Machine {
    /// Updates the nominator from the pod, and returns the previous nomination.
    pub(crate) fn nominate(&mut self, uid: &Uid) -> Option<Nominated> {
        if self.judge.nominator().is_empty() && self.pods.get(uid).is_none_or(|pod| pod.nominated_node().is_none()) {
            return None;
        }
        let now = self.pods.get(uid).and_then(Nominated::of);
        let class = now.as_ref().map(|now| now.class.0);
        let before = self.judge.nominator_mut().set(uid, now);
        class.into_iter().for_each(|class| self.hold_nominated(class));
        before.iter().for_each(|before| self.let_go_nominated(before.class.0));
        self.queue.set_alone(uid, self.judge.nominator().of(uid).is_some());
        before
    }

    /// Nominates a pod or removes its nomination. The change counts at once, until the watch shows a change. Returns the change to write.
    pub(crate) fn nominate_local(&mut self, now_ms: TimeMs, uid: &Uid, node: Option<Arc<str>>) -> Nomination {
        let Some(pod) = self.pods.get_mut(uid) else { return Nomination::Keep };
        let is_announced = std::mem::take(&mut pod.announced);
        if pod.nominated_node() == node.as_ref() && !is_announced {
            return Nomination::Keep;
        }
        pod.unconfirmed.extend(pod.local_nomination.replace(node.clone()));
        let too_many = pod.unconfirmed.len().saturating_sub(MAX_UNSAID);
        pod.unconfirmed.drain(..too_many);
        let before = self.nominate(uid);
        self.end_nomination(now_ms, uid, before);
        node.map_or(Nomination::Clear, Nomination::To)
    }

    /// Observes the nomination that the watch shows. It ends the local one if it equals it, or if another client has written. An older
    /// local nomination that arrives late changes nothing.
    pub(crate) fn observe_nomination(&mut self, uid: &Uid, old: Option<&PodInfo>) {
        let Some(pod) = self.pods.get_mut(uid).filter(|pod| pod.local_nomination.is_some()) else { return };
        let shown = &pod.info.nominated_node_name;
        if old.is_none_or(|old| old.nominated_node_name == *shown) {
            return;
        }
        let is_old_news = pod.local_nomination.as_ref() != Some(shown) && pod.unconfirmed.contains(shown);
        if !is_old_news {
            pod.local_nomination = None;
            pod.unconfirmed.clear();
        }
    }

    /// If a nomination ended, wakes the pods that gave way to it. A pod that is placed on its nominated node makes no room.
    pub(crate) fn end_nomination(&mut self, now_ms: TimeMs, uid: &Uid, before: Option<Nominated>) {
        let Some(before) = before else { return };
        let stays = self.judge.nominator().of(uid).is_some_and(|now| now.node == before.node);
        let charge = self.pods.get(uid).and_then(|pod| pod.charge.as_ref());
        if !stays && charge.is_none_or(|charge| charge.node != before.node) {
            let event = ClusterEvent::PodRemoved(&before.class.1);
            self.wake_where(now_ms, event, |priority| priority <= before.priority);
        }
    }
}
