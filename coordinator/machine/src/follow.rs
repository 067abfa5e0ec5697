//! Everything that follows from a change of a pod.

use std::sync::Arc;

use flotilla_framework::{class::Class, extension::ClusterEvent};

use crate::{
    event::TimeMs,
    judge::{cache::Charge, nominator::Nominated},
    machine::Machine,
    pods::{Changed, Indexed, Pod},
    subject::Uid,
};

impl Machine {
    /// Changes a pod, and everything that follows from it.
    pub(crate) fn edit(&mut self, now_ms: TimeMs, uid: &Uid, change: impl FnOnce(&mut Pod)) {
        if let Some(changed) = self.pods.edit(uid, change) {
            self.follow_and_wake(now_ms, &changed);
        }
    }

    pub(crate) fn follow_and_wake(&mut self, now_ms: TimeMs, changed: &Changed) {
        let WakeUps { ended, moved } = self.follow(changed);
        self.wake_for_ended(now_ms, &changed.uid, ended);
        self.wake_for_moved(now_ms, moved);
    }

    /// Updates everything that follows from a pod, in this order: queue, pod groups, gates, fields that no selector reads, nominator,
    /// charges, classes, importance, and users of classes. Returns the reasons to wake other pods.
    pub(crate) fn follow(&mut self, changed: &Changed) -> WakeUps {
        let Changed { uid, before, after } = changed;
        let (before, after) = (before.as_ref(), after.as_ref());
        let is_queued = |pod: &Indexed| pod.stage.is_queued();
        if before.is_some_and(is_queued) && !after.is_some_and(is_queued) {
            self.queue.remove(uid);
        }
        self.groups.follow(&self.settings, uid, before, after);
        self.gates.follow(uid, before, after);
        if after.is_none() {
            self.held.forget(uid);
        }
        self.unread.follow(uid, self.judge.cache().classes(), before, after);
        let ended = self.follow_nomination(uid, after);
        let moved = self.follow_charge(uid, before, after);
        if let (Some(before), Some(after)) = (before, after) {
            self.follow_class(uid, before, after);
            self.follow_importance(before, after);
        }
        if let Some(before) = before.filter(|before| after.is_none_or(|after| after.class != before.class)) {
            self.shards().release_class(before.class);
        }
        WakeUps { ended, moved }
    }

    /// Updates the nominator. Returns the previous nomination.
    fn follow_nomination(&mut self, uid: &Uid, after: Option<&Indexed>) -> Option<Nominated> {
        let now = after.and_then(Nominated::of);
        if now.is_none() && self.judge.nominator().is_empty() {
            return None;
        }
        let (before, attachments) = self.judge.nominate(uid, now);
        self.shards().send_attachments(attachments);
        self.queue.set_alone(uid, self.judge.nominator().of(uid).is_some());
        before
    }

    /// Moves the pod between nodes. Returns the classes that left and came, for wake-ups.
    fn follow_charge(&mut self, uid: &Uid, before: Option<&Indexed>, after: Option<&Indexed>) -> Option<Moved> {
        let charge = |pod: Option<&Indexed>| pod.and_then(|pod| pod.charge.clone());
        let (old, new) = (charge(before), charge(after));
        if old == new {
            return None;
        }
        let stays = matches!((&old, &new), (Some(old), Some(new)) if old.node == new.node);
        let is_same_pod = before.zip(after).is_some_and(|(before, after)| before.has_info_of(after));
        // Only the representation of the pod changed.
        let is_signed_again = stays && is_same_pod;
        if !is_signed_again {
            let priority = after.map_or(0, |pod| pod.info.priority);
            self.residents.moves(uid, priority, old.as_ref(), new.as_ref());
        }
        let classes = self.judge.cache().classes();
        let class = |charge: &Option<Charge>| {
            let charge = charge.as_ref()?;
            Some((Arc::clone(classes.get(charge.class)?), Arc::clone(&charge.node)))
        };
        let moved = Moved { left: class(&old), came: class(&new), stays };
        // Its claims may have changed while it was charged.
        let is_forgotten = is_same_pod && new.is_none() && after.is_some_and(|pod| pod.info.node_name.is_none());
        new.iter().for_each(|new| self.shards().charge(new));
        if let Some(old) = &old {
            self.shards().discharge(old);
            self.shards().release_class(old.class);
            if new.is_none() {
                self.groups.vacated(uid);
            }
        }
        if is_forgotten {
            self.sign_claiming(uid);
        }
        (!is_signed_again).then_some(moved)
    }

    /// Dry runs of preemption on the node of a pod end otherwise if its importance changed. They follow the charges of pods anyway.
    fn follow_importance(&mut self, before: &Indexed, after: &Indexed) {
        let importance = |pod: &Indexed| (pod.info.priority, pod.info.started_ns);
        let Some(charge) = after.charge.as_ref().filter(|_| importance(before) != importance(after)) else { return };
        if let Some(node) = self.judge.cache().nodes().get(&charge.node).map(|node| node.id) {
            self.judge.searches_mut().forget_outcome(node);
        }
    }

    /// A queued pod with another class or other fields keeps its place.
    fn follow_class(&mut self, uid: &Uid, before: &Indexed, after: &Indexed) {
        let is_same = || before.class == after.class && before.info.class == after.info.class;
        if after.stage.is_queued()
            && before.stage == after.stage
            && !is_same()
            && let Some(entity_info) = self.pods.entity_info(uid, self.queue.pace())
        {
            self.queue.update_entity(uid, entity_info);
        }
    }

    /// Wakes the pods that gave way to a nomination that ended. A pod that is placed on its nominated node makes no room.
    pub(crate) fn wake_for_ended(&mut self, now_ms: TimeMs, uid: &Uid, ended: Option<Nominated>) {
        let Some(ended) = ended else { return };
        let stays = self.judge.nominator().of(uid).is_some_and(|now| now.node == ended.node);
        let charge = self.pods.get(uid).and_then(|pod| pod.charge.as_ref());
        if !stays && charge.is_none_or(|charge| charge.node != ended.node) {
            let event = ClusterEvent::PodRemoved(&ended.class.1);
            self.wake_where(now_ms, event, Some(&ended.node), |priority| priority <= ended.priority);
        }
    }

    /// Wakes the pods that a placed pod concerns, or one that is no longer placed.
    pub(crate) fn wake_for_moved(&mut self, now_ms: TimeMs, moved: Option<Moved>) {
        match moved {
            None => {}
            Some(Moved { left: Some((old, node)), came: Some((new, _)), stays: true }) => {
                self.wake_where(now_ms, ClusterEvent::PodUpdated { old: &old, new: &new }, Some(&node), |_| true);
            }
            Some(Moved { left, came, .. }) => {
                if let Some((new, node)) = came {
                    self.wake_where(now_ms, ClusterEvent::PodAdded(&new), Some(&node), |_| true);
                }
                if let Some((old, node)) = left {
                    self.wake_where(now_ms, ClusterEvent::PodRemoved(&old), Some(&node), |_| true);
                }
            }
        }
    }
}

/// Why other pods may have room after a change.
#[derive(Debug, Default)]
#[must_use = "pods would not wake"]
pub(crate) struct WakeUps {
    /// The pod's nomination before the change.
    pub(crate) ended: Option<Nominated>,
    pub(crate) moved: Option<Moved>,
}

/// The classes and nodes of a pod that changed its charge. `stays`: on the same node.
#[derive(Debug)]
pub(crate) struct Moved {
    left: Option<(Arc<Class>, Arc<str>)>,
    came: Option<(Arc<Class>, Arc<str>)>,
    stays: bool,
}
