//! Claims, volumes and all else of storage, as the watches told and as decisions assume.
//!
//! Knows: when what storage says of classes and nodes may have changed, and who has to hear of it. Must not know: what a
//! plugin makes of it, or who waits for it (that is [`crate::prebind`]).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_framework::{
    class::{Class, ClassId},
    extension::ClusterEvent,
    node::NodeInfo,
    shard::Change,
    volumes::{
        facts::VolumeFacts,
        node::Attachment,
        objects::{StorageKey, StorageKind, StorageObject, VolumeAttachment},
        standing::Standing,
        storage::{Plan, Storage},
    },
};

use crate::{
    cache::NodeEvent,
    event::{TimeMs, WorkerId},
    machine::Machine,
};

/// All of them, and what the pods on nodes hold of them.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    objects: Storage,
    standing: Standing,
    /// The classes with volumes whose pods stand on nodes.
    holders: BTreeMap<ClassId, Holder>,
    /// The standing classes whose attachments hang on an object.
    by_object: BTreeMap<StorageKey, BTreeSet<ClassId>>,
    /// The nodes that a volume is attached to.
    by_volume: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Changes whenever the facts of some class with volumes may have.
    version: u64,
}

/// A class with volumes whose pods stand on nodes.
#[derive(Debug, Default)]
struct Holder {
    pods: u32,
    /// The objects that its attachments hang on.
    keys: Vec<StorageKey>,
}

// === impl Shelf ===

impl Shelf {
    /// What there is, with what is assumed of it.
    pub(crate) const fn objects(&self) -> &Storage {
        &self.objects
    }

    /// Changes whenever the facts of some class with volumes may have changed.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// What all this says of a class.
    pub(crate) fn facts(&self, class: &Class) -> Option<Arc<VolumeFacts>> {
        self.objects.facts(class, &self.standing)
    }

    /// An object as the API has it.
    fn api(&self, key: &StorageKey) -> Option<StorageObject> {
        match key.kind {
            StorageKind::Claim => self.objects.api_claim(&key.namespace, &key.name).cloned().map(StorageObject::Claim),
            StorageKind::Volume => self.objects.api_volume(&key.name).cloned().map(StorageObject::Volume),
            _ => self.objects.get(key),
        }
    }

    /// A node with what its drivers say of it.
    pub(crate) fn complete(&self, info: &Arc<NodeInfo>) -> Arc<NodeInfo> {
        let csi = self.objects.node_csi(&info.name);
        if info.csi == csi { Arc::clone(info) } else { Arc::new(NodeInfo { csi, ..NodeInfo::clone(info) }) }
    }

    /// A plan counts as carried out.
    pub(crate) fn assume(&mut self, plan: &Plan) {
        self.version += 1;
        self.objects.assume(plan);
    }

    /// A plan does not count any more.
    pub(crate) fn restore(&mut self, plan: &Plan) {
        self.version += 1;
        self.objects.restore(plan);
    }

    /// An object looks like this now; whether that is news.
    fn apply(&mut self, object: &StorageObject) -> bool {
        if let StorageObject::VolumeAttachment(attachment) = object {
            self.detach(&object.key());
            self.attach(attachment);
        }
        let news = self.objects.apply(object.clone());
        self.version += u64::from(news);
        news
    }

    /// An object is gone; whether it was there.
    fn delete(&mut self, key: &StorageKey) -> bool {
        self.detach(key);
        let news = self.objects.delete(key);
        self.version += u64::from(news);
        news
    }

    fn attach(&mut self, attachment: &VolumeAttachment) {
        if let Some(volume) = &attachment.volume {
            self.by_volume.entry(Arc::clone(volume)).or_default().insert(Arc::clone(&attachment.node));
        }
    }

    fn detach(&mut self, key: &StorageKey) {
        let known = if key.kind == StorageKind::VolumeAttachment { self.objects.get(key) } else { None };
        let Some(StorageObject::VolumeAttachment(VolumeAttachment { volume: Some(volume), node, .. })) = known else {
            return;
        };
        if let Some(nodes) = self.by_volume.get_mut(&volume) {
            nodes.remove(&node);
            if nodes.is_empty() {
                self.by_volume.remove(&volume);
            }
        }
    }

    /// The nodes of which an object says something.
    fn nodes_of(&self, object: &StorageObject) -> BTreeSet<Arc<str>> {
        match object {
            StorageObject::CsiNode(node) => BTreeSet::from([Arc::clone(&node.name)]),
            StorageObject::VolumeAttachment(attachment) => BTreeSet::from([Arc::clone(&attachment.node)]),
            StorageObject::Volume(volume) => self.by_volume.get(&volume.name).cloned().unwrap_or_default(),
            _ => BTreeSet::new(),
        }
    }

    /// Takes note of which objects the attachments of a class hang on.
    fn follow(&mut self, id: ClassId, class: &Class) {
        self.unfollow(id);
        let Some(holder) = self.holders.get_mut(&id) else { return };
        let namespace = &class.namespace;
        let key = |kind, namespace: &Arc<str>, name: &Arc<str>| {
            let (namespace, name) = (Arc::clone(namespace), Arc::clone(name));
            StorageKey { kind, namespace, name }
        };
        for (name, _) in class.volumes.iter().flat_map(|volumes| volumes.claims()) {
            holder.keys.push(key(StorageKind::Claim, namespace, name));
            if let Some(claim) = self.objects.claim(namespace, name) {
                // A volume that is not made yet is attached by the driver of its storage class.
                let is_made = !claim.volume_name.is_empty();
                let (kind, name) = if is_made {
                    (StorageKind::Volume, &claim.volume_name)
                } else {
                    (StorageKind::StorageClass, &claim.storage_class)
                };
                holder.keys.push(key(kind, &Arc::default(), name));
            }
        }
        for key in &holder.keys {
            self.by_object.entry(key.clone()).or_default().insert(id);
        }
    }

    fn unfollow(&mut self, id: ClassId) {
        let keys = self.holders.get_mut(&id).map(|holder| std::mem::take(&mut holder.keys));
        for key in keys.into_iter().flatten() {
            if let Some(classes) = self.by_object.get_mut(&key) {
                classes.remove(&id);
                if classes.is_empty() {
                    self.by_object.remove(&key);
                }
            }
        }
    }
}

impl Machine {
    pub(crate) fn storage_applied(&mut self, now_ms: TimeMs, object: &Arc<StorageObject>) {
        let key = object.key();
        let old = self.cache.storage.api(&key);
        if self.cache.storage.apply(object) {
            self.storage_changed(now_ms, &key, old.as_ref(), Some(object));
        }
    }

    pub(crate) fn storage_deleted(&mut self, now_ms: TimeMs, key: &StorageKey) {
        let old = self.cache.storage.api(key);
        if self.cache.storage.delete(key) {
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
        let nodes: BTreeSet<Arc<str>> = objects.flat_map(|object| self.cache.storage.nodes_of(object)).collect();
        nodes.iter().for_each(|name| self.refresh_node(now_ms, name));
        let classes = self.cache.storage.by_object.get(key).cloned().unwrap_or_default();
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
        let Some(class) = self.cache.classes.get(id).filter(|class| class.volumes.is_some()).map(Arc::clone) else {
            return;
        };
        let shelf = &mut self.cache.storage;
        shelf.version += u64::from(shelf.standing.add(&class));
        let holder = shelf.holders.entry(id).or_default();
        holder.pods += 1;
        if holder.pods == 1 {
            self.resolve_attachments(id);
        }
    }

    /// A pod of a class left its node.
    pub(crate) fn let_go(&mut self, id: ClassId) {
        let Some(class) = self.cache.classes.get(id).filter(|class| class.volumes.is_some()).map(Arc::clone) else {
            return;
        };
        let shelf = &mut self.cache.storage;
        shelf.version += u64::from(shelf.standing.remove(&class));
        let Some(holder) = shelf.holders.get_mut(&id) else { return };
        holder.pods -= 1;
        if holder.pods == 0 {
            shelf.unfollow(id);
            shelf.holders.remove(&id);
            shelf.version += u64::from(shelf.standing.set_uncountable(id, None));
        }
    }

    /// What the pods of a standing class attach to their nodes, for all who count it.
    fn resolve_attachments(&mut self, id: ClassId) {
        let Some(class) = self.cache.classes.get(id).map(Arc::clone) else { return };
        let shelf = &mut self.cache.storage;
        shelf.follow(id, &class);
        let (attachments, error) = match shelf.objects.attached_by(&class) {
            Ok(attachments) => (attachments, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        shelf.version += u64::from(shelf.standing.set_uncountable(id, error));
        let attachments: Arc<[Attachment]> = attachments.into();
        if self.cache.snapshot.attachments(id) == &*attachments {
            return;
        }
        self.cache.set_attachments(id, &attachments);
        let knowing = self.roster.workers.iter().filter(|(_, known)| known.classes.contains(&id));
        let knowing: Vec<WorkerId> = knowing.map(|(worker, _)| *worker).collect();
        for worker in knowing {
            self.tell(worker, Change::SetAttachments { class: id, attachments: Arc::clone(&attachments) });
        }
    }

    /// What the drivers of a node say has changed.
    fn refresh_node(&mut self, now_ms: TimeMs, name: &Arc<str>) {
        let Some(node) = self.cache.nodes.get(name) else { return };
        let info = self.cache.storage.complete(&node.info);
        if let NodeEvent::Updated(_) = self.cache.apply_node(&info) {
            self.tell_holder(name, &info);
            self.look_at_those_on(now_ms, name);
        }
    }
}
