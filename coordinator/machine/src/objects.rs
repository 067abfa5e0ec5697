//! Objects that plugins keep, as the watches tell, and who has to hear of them.
//!
//! Knows: whom a change of an object concerns. Must not know: what a plugin makes of it, or who waits for it (that is
//! [`crate::prebind`]).

use std::sync::Arc;

use flotilla_framework::{
    class::ClassId,
    extension::{
        ClusterEvent,
        objects::{Attachments, Changes, Object, ObjectKey},
    },
    shard::Change,
};

use crate::{
    event::{TimeMs, WorkerId},
    judge::cache::NodeEvent,
    machine::Machine,
};

impl Machine {
    pub(crate) fn object_applied(&mut self, now_ms: TimeMs, object: &Object) {
        if let Some(changes) = self.judge.cache_mut().objects.apply(object) {
            self.object_changed(now_ms, &object.key(), changes, Some(object));
        }
    }

    pub(crate) fn object_deleted(&mut self, now_ms: TimeMs, key: &ObjectKey) {
        if let Some(changes) = self.judge.cache_mut().objects.delete(key) {
            self.object_changed(now_ms, key, changes, None);
        }
    }

    fn object_changed(&mut self, now_ms: TimeMs, key: &ObjectKey, changes: Changes, new: Option<&Object>) {
        let Changes { old, nodes, attachments } = changes;
        nodes.iter().for_each(|name| self.refresh_node(now_ms, name));
        self.set_attachments(attachments);
        self.wake_for_object(now_ms, old.as_ref(), new);
        self.look_at_those_who_wait_for(now_ms, key, new.or(old.as_ref()));
    }

    /// Wakes the parked pods that a change of an object may help.
    pub(crate) fn wake_for_object(&mut self, now_ms: TimeMs, old: Option<&Object>, new: Option<&Object>) {
        self.wake_for(now_ms, ClusterEvent::of_object(old, new));
    }

    /// A pod of a class comes to a node.
    pub(crate) fn hold(&mut self, id: ClassId) {
        let cache = self.judge.cache_mut();
        if let Some(class) = cache.classes.get(id).filter(|class| class.uses_objects()).map(Arc::clone) {
            let attachments = cache.objects.pod_added(id, &class);
            self.set_attachments(attachments);
        }
    }

    /// A pod of a class left its node.
    pub(crate) fn let_go(&mut self, id: ClassId) {
        let cache = self.judge.cache_mut();
        if let Some(class) = cache.classes.get(id).filter(|class| class.uses_objects()) {
            cache.objects.pod_removed(id, class);
        }
    }

    /// What the pods of classes on nodes attach to these, for all who count it.
    fn set_attachments(&mut self, attachments: Attachments) {
        for (class, attachments) in attachments {
            if self.judge.cache().snapshot.attachments(class) == &*attachments {
                continue;
            }
            self.judge.cache_mut().set_attachments(class, &attachments);
            let knowing = self.roster.workers.iter().filter(|(_, known)| known.classes.contains(&class));
            let knowing: Vec<WorkerId> = knowing.map(|(worker, _)| *worker).collect();
            for worker in knowing {
                self.tell(worker, Change::SetAttachments { class, attachments: Arc::clone(&attachments) });
            }
        }
    }

    /// What objects say of a node has changed.
    fn refresh_node(&mut self, now_ms: TimeMs, name: &Arc<str>) {
        let Some(node) = self.judge.cache().nodes.get(name) else { return };
        let info = self.judge.cache().objects.complete(&node.info);
        let applied = self.judge.cache_mut().apply_node(&info);
        self.judge.forget_outdated();
        if let NodeEvent::Updated(_) = applied {
            self.tell_holder(name, &info);
            self.look_at_those_on(now_ms, name);
        }
    }
}
