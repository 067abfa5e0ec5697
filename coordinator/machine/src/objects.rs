//! Watch events of plugins' objects, and the pods and nodes that they affect.

use std::sync::Arc;

use flotilla_framework::{
    class::{Class, ClassId},
    devices::objects::DeviceObject,
    extension::{
        ClusterEvent,
        objects::{Attachments, Changes, Object, ObjectCache, ObjectKey},
    },
    shard::Change,
};
use flotilla_planted::planted;

use crate::{
    event::{TimeMs, WorkerId},
    judge::cache::{Charge, NodeEvent},
    machine::Machine,
    pods::{Pod, PodStage},
    queue::SubQueue,
    subject::Uid,
    wake::Strategy,
};

fn is_taint_rule(object: &Object) -> bool {
    matches!(object, Object::Device(DeviceObject::TaintRule(_)))
}

impl Machine {
    pub(crate) fn object_applied(&mut self, now_ms: TimeMs, object: &Object) {
        self.look_back(now_ms, object);
        if planted("ignores-taint-rules") && is_taint_rule(object) {
            return;
        }
        if let Some(changes) = self.judge.cache_mut().objects.apply(object) {
            self.object_changed(now_ms, &object.key(), changes, Some(object));
        }
    }

    pub(crate) fn object_deleted(&mut self, now_ms: TimeMs, key: &ObjectKey) {
        if let Some(changes) = self.judge.cache_mut().objects.delete(key) {
            self.object_changed(now_ms, key, changes, None);
        }
    }

    /// A list of ResourceClaims begins, or is complete at a version.
    pub(crate) fn claims_listed(&mut self, now_ms: TimeMs, version: Option<&str>) {
        let Changes { nodes, freed, .. } = self.judge.cache_mut().objects.claims_listed(version);
        nodes.iter().for_each(|name| self.refresh_node(now_ms, name));
        freed.iter().for_each(|object| self.wake_for_object(now_ms, Some(object), None));
    }

    fn object_changed(&mut self, now_ms: TimeMs, key: &ObjectKey, changes: Changes, new: Option<&Object>) {
        let Changes { old, nodes, attachments, shares, freed } = changes;
        nodes.iter().for_each(|name| self.refresh_node(now_ms, name));
        self.set_attachments(attachments);
        let owned = [new, old.as_ref()].into_iter().flatten().find_map(|object| object.owner().cloned());
        let stood = owned.as_ref().and_then(|owner| self.pods.get(owner)).map(|pod| pod.class);
        if let Some(owner) = owned.as_ref().filter(|_| stood.is_some()) {
            self.sign_claiming(owner);
        }
        if shares {
            self.sign_all_claiming();
        }
        self.wake_for_object(now_ms, old.as_ref(), new);
        freed.iter().for_each(|object| self.wake_for_object(now_ms, Some(object), None));
        if let (Some(owner), Some(class)) = (&owned, stood) {
            let [add, update, _] = key.labels();
            self.try_owner(now_ms, owner, class, if old.is_some() { update } else { add });
        }
        let [add, update, delete] = key.labels();
        let label = match (&old, new) {
            (None, _) => add,
            (Some(_), Some(_)) => update,
            (Some(_), None) => delete,
        };
        self.release_held(now_ms, label);
        self.review_held_groups(now_ms);
        self.check_waiters(now_ms, key, new.or(old.as_ref()));
    }

    pub(crate) fn wake_for_object(&mut self, now_ms: TimeMs, old: Option<&Object>, new: Option<&Object>) {
        if planted("wakes-nobody-for-deleted-rules") && new.is_none() && old.is_some_and(is_taint_rule) {
            return;
        }
        self.wake_for(now_ms, ClusterEvent::of_object(old, new));
    }

    /// Updates the class of a pod without a node after a change of its claims.
    pub(crate) fn sign_claiming(&mut self, uid: &Uid) {
        let is_claiming = |pod: &Pod| pod.info.class.devices.is_some() && pod.charge.is_none();
        if self.pods.get(uid).is_some_and(is_claiming) {
            self.renew_signature(uid);
        }
    }

    /// Updates the classes of all pods that use devices.
    fn sign_all_claiming(&mut self) {
        let is_claiming = |pod: &Pod| pod.info.class.devices.is_some();
        let all = self.pods.iter().filter(|(_, pod)| is_claiming(pod)).map(|(uid, _)| Arc::clone(uid));
        let all: Vec<Uid> = all.collect();
        all.iter().for_each(|uid| self.sign_claiming(uid));
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

    /// Charges a pod to a node, permanently or for an attempt: in the Snapshot and in the plugins' objects. No other function charges a
    /// pod. Returns the change for the node's holder; an attempt does not send it.
    ///
    /// Source: `Snapshot.AssumePod` and `Snapshot.AddPod`.
    pub(crate) fn put_on(&mut self, charge: &Charge) -> Option<(WorkerId, Change)> {
        self.hold(charge.class, |kept, id, class| kept.pod_added(id, class));
        self.judge.cache_mut().charge(&charge.node, charge.class)
    }

    /// Removes a pod from its node. The caller releases the class.
    ///
    /// Source: `Snapshot.ForgetPod` and `Snapshot.RemovePod`.
    pub(crate) fn take_off(&mut self, charge: &Charge) -> Option<(WorkerId, Change)> {
        let change = self.judge.cache_mut().discharge(&charge.node, charge.class);
        let cache = self.judge.cache_mut();
        if let Some(class) = cache.classes.get(charge.class).filter(|class| class.uses_objects()) {
            cache.objects.leave(|kept| kept.pod_removed(charge.class, class));
        }
        change
    }

    /// Registers a nominated pod's class: filters count it on its node in their first pass.
    pub(crate) fn hold_nominated(&mut self, class: ClassId) {
        self.hold(class, |kept, id, class| kept.pod_nominated(id, class));
    }

    pub(crate) fn let_go_nominated(&mut self, class: ClassId) {
        self.judge.cache_mut().objects.leave(|kept| kept.nomination_ended(class));
    }

    fn hold(&mut self, id: ClassId, enter: fn(&mut dyn ObjectCache, ClassId, &Arc<Class>) -> Attachments) {
        let cache = self.judge.cache_mut();
        if let Some(class) = cache.classes.get(id).filter(|class| class.uses_objects()).map(Arc::clone) {
            let attachments = cache.objects.enter(|kept| enter(kept, id, &class));
            self.set_attachments(attachments);
        }
    }

    /// Sets the volume attachments that placed classes add to nodes, here and on the workers.
    fn set_attachments(&mut self, attachments: Attachments) {
        for (class, attachments) in attachments {
            if self.judge.cache().snapshot.attachments(class) == &*attachments {
                continue;
            }
            self.judge.cache_mut().set_attachments(class, &attachments);
            let knowing = self.roster.workers.iter().filter(|(_, known)| known.classes.contains(&class));
            let knowing: Vec<WorkerId> = knowing.map(|(worker, _)| *worker).collect();
            for worker in knowing {
                self.send_change(worker, Change::SetAttachments { class, attachments: Arc::clone(&attachments) });
            }
        }
    }

    fn refresh_node(&mut self, now_ms: TimeMs, name: &Arc<str>) {
        let Some(node) = self.judge.cache().nodes.get(name) else { return };
        let known = Arc::clone(&node.info);
        let info = self.judge.cache_mut().objects.complete(&known);
        if info.csi == known.csi {
            if info.devices != known.devices {
                self.judge.cache_mut().set_devices(&info);
            }
            return;
        }
        let applied = self.judge.cache_mut().apply_node(&info);
        self.judge.forget_outdated();
        if let NodeEvent::Updated(_) = applied {
            self.send_to_holder(name, &info);
            self.look_at_those_on(now_ms, name);
        }
    }
}
