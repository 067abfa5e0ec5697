//! Claims, volumes and all else of storage, as the watches tell, and who has to hear of it.
//!
//! Knows: whom a change of storage concerns. Must not know: what a plugin makes of it, or who waits for it (that is
//! [`crate::prebind`]).

use std::{collections::BTreeSet, sync::Arc};

use flotilla_framework::{
    class::ClassId,
    extension::ClusterEvent,
    shard::Change,
    volumes::objects::{StorageKey, StorageObject},
};

use crate::{
    event::{TimeMs, WorkerId},
    judge::cache::NodeEvent,
    machine::Machine,
};

impl Machine {
    pub(crate) fn storage_applied(&mut self, now_ms: TimeMs, object: &Arc<StorageObject>) {
        let key = object.key();
        let old = self.judge.cache().storage.api(&key);
        if self.judge.cache_mut().storage.apply(object) {
            self.storage_changed(now_ms, &key, old.as_ref(), Some(object));
        }
    }

    pub(crate) fn storage_deleted(&mut self, now_ms: TimeMs, key: &StorageKey) {
        let old = self.judge.cache().storage.api(key);
        if self.judge.cache_mut().storage.delete(key) {
            self.storage_changed(now_ms, key, old.as_ref(), None);
        }
    }

    fn storage_changed(
        &mut self,
        now_ms: TimeMs,
        key: &StorageKey,
        old: Option<&StorageObject>,
        new: Option<&StorageObject>,
    ) {
        let objects = [old, new].into_iter().flatten();
        let nodes: BTreeSet<Arc<str>> =
            objects.flat_map(|object| self.judge.cache().storage.nodes_of(object)).collect();
        nodes.iter().for_each(|name| self.refresh_node(now_ms, name));
        let classes = self.judge.cache().storage.attached_through(key);
        classes.into_iter().for_each(|class| self.resolve_attachments(class));
        self.wake_for_storage(now_ms, old, new);
        self.look_at_those_who_wait_for(now_ms, key, new.or(old));
    }

    /// Wakes the parked pods that a change of storage may help.
    pub(crate) fn wake_for_storage(
        &mut self,
        now_ms: TimeMs,
        old: Option<&StorageObject>,
        new: Option<&StorageObject>,
    ) {
        self.wake_for(now_ms, ClusterEvent::StorageChanged { old, new });
    }

    /// A pod of a class comes to a node.
    pub(crate) fn hold(&mut self, id: ClassId) {
        let cache = self.judge.cache_mut();
        let Some(class) = cache.classes.get(id).filter(|class| class.volumes.is_some()).map(Arc::clone) else {
            return;
        };
        if cache.storage.hold(id, &class) {
            self.resolve_attachments(id);
        }
    }

    /// A pod of a class left its node.
    pub(crate) fn let_go(&mut self, id: ClassId) {
        let cache = self.judge.cache_mut();
        if let Some(class) = cache.classes.get(id).filter(|class| class.volumes.is_some()).map(Arc::clone) {
            cache.storage.let_go(id, &class);
        }
    }

    /// What the pods of a standing class attach to their nodes, for all who count it.
    fn resolve_attachments(&mut self, id: ClassId) {
        let cache = self.judge.cache_mut();
        let Some(class) = cache.classes.get(id).map(Arc::clone) else { return };
        let attachments: Arc<[_]> = cache.storage.resolve(id, &class).into();
        if self.judge.cache().snapshot.attachments(id) == &*attachments {
            return;
        }
        self.judge.cache_mut().set_attachments(id, &attachments);
        let knowing = self.roster.workers.iter().filter(|(_, known)| known.classes.contains(&id));
        let knowing: Vec<WorkerId> = knowing.map(|(worker, _)| *worker).collect();
        for worker in knowing {
            self.tell(worker, Change::SetAttachments { class: id, attachments: Arc::clone(&attachments) });
        }
    }

    /// What the drivers of a node say has changed.
    fn refresh_node(&mut self, now_ms: TimeMs, name: &Arc<str>) {
        let Some(node) = self.judge.cache().nodes.get(name) else { return };
        let info = self.judge.cache().storage.complete(&node.info);
        if let NodeEvent::Updated(_) = self.judge.cache_mut().apply_node(&info) {
            self.tell_holder(name, &info);
            self.look_at_those_on(now_ms, name);
        }
    }
}
