//! Claims, volumes and all else of storage, as the watches told and as decisions assume.
//!
//! Knows: when what storage says of classes and nodes may have changed. Must not know: what a plugin makes of it, or who
//! hears of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_framework::{
    class::{Class, ClassId},
    node::NodeInfo,
    volumes::{
        facts::VolumeFacts,
        node::Attachment,
        objects::{StorageKey, StorageKind, StorageObject, VolumeAttachment},
        standing::Standing,
        storage::{Plan, Storage},
    },
};

/// The plugin by whose word volumes are bound.
pub(crate) const VOLUME_BINDING: &str = "VolumeBinding";

/// How many pods may be on this way at once. They do not count among the binds under way, or ten minutes of a
/// provisioner's silence would keep everybody else from being decided. At some 1 KB each (the binding, the plan, what
/// was written) they take 16 MiB; a provisioner that needs a minute for each volume and has all of them under way at
/// once makes 273 pods a second. A pod more is tried again after its backoff. Those that get ready at once are binds
/// under way then: at most `max_binds_in_flight` and this many.
pub(crate) const MAX_PREPARATIONS: usize = 16_384;

/// All of them, and what the pods on nodes hold of them.
#[derive(Debug, Default)]
pub(crate) struct StorageState {
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

// === impl StorageState ===

impl StorageState {
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
    pub(crate) fn api(&self, key: &StorageKey) -> Option<StorageObject> {
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
    pub(crate) fn apply(&mut self, object: &StorageObject) -> bool {
        if let StorageObject::VolumeAttachment(attachment) = object {
            self.detach(&object.key());
            self.attach(attachment);
        }
        let news = self.objects.apply(object.clone());
        self.version += u64::from(news);
        news
    }

    /// An object is gone; whether it was there.
    pub(crate) fn delete(&mut self, key: &StorageKey) -> bool {
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
    pub(crate) fn nodes_of(&self, object: &StorageObject) -> BTreeSet<Arc<str>> {
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

    /// The classes on nodes whose attachments hang on an object.
    pub(crate) fn attached_through(&self, key: &StorageKey) -> BTreeSet<ClassId> {
        self.by_object.get(key).cloned().unwrap_or_default()
    }

    /// A pod of a class comes to a node. `true`: it is the first, so that nobody knows what such a pod attaches.
    pub(crate) fn hold(&mut self, id: ClassId, class: &Class) -> bool {
        self.version += u64::from(self.standing.add(class));
        let holder = self.holders.entry(id).or_default();
        holder.pods += 1;
        holder.pods == 1
    }

    /// A pod of a class left its node.
    pub(crate) fn let_go(&mut self, id: ClassId, class: &Class) {
        self.version += u64::from(self.standing.remove(class));
        let Some(holder) = self.holders.get_mut(&id) else { return };
        holder.pods -= 1;
        if holder.pods == 0 {
            self.unfollow(id);
            self.holders.remove(&id);
            self.version += u64::from(self.standing.set_uncountable(id, None));
        }
    }

    /// What each pod of a class on a node attaches to it.
    pub(crate) fn resolve(&mut self, id: ClassId, class: &Class) -> Vec<Attachment> {
        self.follow(id, class);
        let (attachments, error) = match self.objects.attached_by(class) {
            Ok(attachments) => (attachments, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        self.version += u64::from(self.standing.set_uncountable(id, error));
        attachments
    }
}
