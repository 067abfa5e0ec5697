//! Watch events of plugins' objects, and the pods and nodes that they affect.

use std::sync::Arc;

use flotilla_framework::{
    class::ClassId,
    extension::{
        ClusterEvent,
        objects::{Changes, Object, ObjectKey},
    },
};

use crate::{event::TimeMs, machine::Machine, pods::PodStage, queue::SubQueue, subject::Uid, wake::Strategy};

impl Machine {
    pub(crate) fn object_applied(&mut self, now_ms: TimeMs, object: &Object) {
        self.look_back(now_ms, object);
        if let Some(changes) = self.judge.apply_object(object) {
            self.object_changed(now_ms, &object.key(), changes, Some(object));
        }
    }

    pub(crate) fn object_deleted(&mut self, now_ms: TimeMs, key: &ObjectKey) {
        if let Some(changes) = self.judge.delete_object(key) {
            self.object_changed(now_ms, key, changes, None);
        }
    }

    /// A list of ResourceClaims begins, or is complete at a version.
    pub(crate) fn claims_listed(&mut self, now_ms: TimeMs, version: Option<&str>) {
        let Changes { nodes, freed, .. } = self.judge.claims_listed(version);
        nodes.iter().for_each(|name| self.refresh_node(now_ms, name));
        freed.iter().for_each(|object| self.wake_for(now_ms, ClusterEvent::of_object(Some(object), None)));
    }

    fn object_changed(&mut self, now_ms: TimeMs, key: &ObjectKey, changes: Changes, new: Option<&Object>) {
        let Changes { old, nodes, attachments, shares, freed } = changes;
        nodes.iter().for_each(|name| self.refresh_node(now_ms, name));
        let attachments = self.judge.attach(attachments);
        self.shards().send_attachments(attachments);
        let owned = [new, old.as_ref()].into_iter().flatten().find_map(|object| object.owner().cloned());
        let stood = owned.as_ref().and_then(|owner| self.pods.get(owner)).map(|pod| pod.class);
        if let Some(owner) = owned.as_ref().filter(|_| stood.is_some()) {
            self.sign_claiming(owner);
        }
        // Pods of a group share a class only while the claims of the group are theirs.
        let grouped = [new, old.as_ref()].into_iter().flatten().find_map(Object::pod_group);
        let group = grouped.and_then(|key| self.groups.known.get(&key));
        let waiting: Vec<Uid> = group.into_iter().flat_map(|group| group.waiting.keys().cloned()).collect();
        waiting.iter().for_each(|uid| self.sign_claiming(uid));
        if shares {
            let all = self.pods.uids(|pod| pod.info.class.devices.is_some());
            all.iter().for_each(|uid| self.sign_claiming(uid));
        }
        self.wake_for(now_ms, ClusterEvent::of_object(old.as_ref(), new));
        freed.iter().for_each(|object| self.wake_for(now_ms, ClusterEvent::of_object(Some(object), None)));
        let [add, update, delete] = key.labels();
        if let (Some(owner), Some(class)) = (&owned, stood) {
            self.try_owner(now_ms, owner, class, if old.is_some() { update } else { add });
        }
        let label = match (&old, new) {
            (None, _) => add,
            (Some(_), Some(_)) => update,
            (Some(_), None) => delete,
        };
        let released = self.held.changed(&self.pods, &self.judge);
        self.release(now_ms, released, label);
        self.turns().review_held_groups(now_ms);
        for uid in self.preparations.concerned(key, new.or(old.as_ref())) {
            self.look_at(now_ms, &uid);
        }
    }

    /// Retries the owner of a changed claim if the claim gated it, or its class changed. The old class does not name the claim, so the
    /// event did not wake it.
    fn try_owner(&mut self, now_ms: TimeMs, uid: &Uid, class: ClassId, label: &'static str) {
        let Some(pod) = self.pods.get(uid) else { return };
        match pod.stage {
            PodStage::Gated(_) => self.admit_by(now_ms, uid, label),
            PodStage::Queued(_)
                if pod.class != class && matches!(self.queue.sub_queue(uid), Some(SubQueue::Parked { .. })) =>
            {
                self.requeue(now_ms, uid, Strategy::AfterBackoff, label);
            }
            _ => {}
        }
    }

    fn refresh_node(&mut self, now_ms: TimeMs, name: &Arc<str>) {
        if let Some(info) = self.judge.refresh_node(name) {
            self.shards().send_to_holder(name, &info);
            self.look_at_those_on(now_ms, name);
        }
    }
}
