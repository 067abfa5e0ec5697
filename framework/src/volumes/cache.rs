//! Cache of storage objects with the effects of Reserve and PreBind. VolumeBinding owns it. VolumeRestrictions, NodeVolumeLimits and
//! VolumeZone read only the facts.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    binding,
    facts::Wanted,
    in_use::StorageInUse,
    node::Attachment,
    objects::{StorageKey, StorageKind, StorageObject, VolumeAttachment},
    stand_in::{StandIns, placeholder},
    storage::{self, Storage},
};
use crate::{
    class::{Class, ClassId, PodInfo},
    extension::{
        Facts,
        objects::{
            Attachments, Awaited, Changes, Object, ObjectCache, ObjectKey, Plan, PreBindError, Undone, Write, Written,
        },
    },
    node::NodeInfo,
    profile::{Args, Profile},
};

#[derive(Debug)]
pub(crate) struct VolumeCache {
    plugin: &'static str,
    objects: Storage,
    standing: StorageInUse,
    /// Classes with volumes, and with assigned or nominated pods.
    holders: BTreeMap<ClassId, Holder>,
    /// Held classes by the objects that determine their attachments.
    by_object: BTreeMap<StorageKey, BTreeSet<ClassId>>,
    by_volume: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// The number of holders with each attachment.
    taken: BTreeMap<Attachment, u32>,
    stand_ins: StandIns,
    /// Incremented when the facts of any class with volumes may have changed.
    version: u64,
}

#[derive(Debug)]
struct Holder {
    class: Arc<Class>,
    users: u32,
    keys: Vec<StorageKey>,
    attachments: Arc<[Attachment]>,
}

impl VolumeCache {
    pub(crate) fn of(plugin: &'static str) -> Self {
        Self {
            plugin,
            objects: Storage::default(),
            standing: StorageInUse::default(),
            holders: BTreeMap::new(),
            by_object: BTreeMap::new(),
            by_volume: BTreeMap::new(),
            taken: BTreeMap::new(),
            stand_ins: StandIns::default(),
            version: 0,
        }
    }

    /// The object from the API, without assumed changes.
    fn api(&self, key: &StorageKey) -> Option<StorageObject> {
        match key.kind {
            StorageKind::Claim => self.objects.api_claim(&key.namespace, &key.name).cloned().map(StorageObject::Claim),
            StorageKind::Volume => self.objects.api_volume(&key.name).cloned().map(StorageObject::Volume),
            _ => self.objects.get(key),
        }
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

    fn nodes_of(&self, object: &StorageObject) -> BTreeSet<Arc<str>> {
        match object {
            StorageObject::CsiNode(node) => BTreeSet::from([Arc::clone(&node.name)]),
            StorageObject::VolumeAttachment(attachment) => BTreeSet::from([Arc::clone(&attachment.node)]),
            StorageObject::Volume(volume) => self.by_volume.get(&volume.name).cloned().unwrap_or_default(),
            _ => BTreeSet::new(),
        }
    }

    /// Records the objects that determine the attachments of a class.
    fn follow(&mut self, id: ClassId) {
        self.unfollow(id);
        let Some(holder) = self.holders.get_mut(&id) else { return };
        let class = &holder.class;
        let namespace = &class.namespace;
        let key = |kind, namespace: &Arc<str>, name: &Arc<str>| {
            let (namespace, name) = (Arc::clone(namespace), Arc::clone(name));
            StorageKey { kind, namespace, name }
        };
        for (name, _) in class.volumes.iter().flat_map(|volumes| volumes.claims()) {
            holder.keys.push(key(StorageKind::Claim, namespace, name));
            if let Some(claim) = self.objects.claim(namespace, name) {
                // Before its provisioning, a volume counts for the driver of its storage class.
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

    /// Volumes that each pod of a class attaches to its node.
    fn attachments(&mut self, id: ClassId) -> Attachments {
        self.follow(id);
        let Some(holder) = self.holders.get(&id) else { return Vec::new() };
        let (attachments, error) = match self.objects.attached_by(&holder.class) {
            Ok(attachments) => (attachments, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        self.version += u64::from(self.standing.set_uncountable(id, error));
        let attachments: Arc<[Attachment]> = attachments.into();
        count(&mut self.taken, &attachments);
        if let Some(holder) = self.holders.get_mut(&id) {
            let old = std::mem::replace(&mut holder.attachments, Arc::clone(&attachments));
            uncount(&mut self.taken, &old);
        }
        vec![(id, attachments)]
    }

    /// Counts an assigned or nominated pod. The first pod of a class computes the attachments.
    fn enter(&mut self, id: ClassId, class: &Arc<Class>) -> Attachments {
        let attachments = Arc::default();
        let new = || Holder { class: Arc::clone(class), users: 0, keys: Vec::new(), attachments };
        let holder = self.holders.entry(id).or_insert_with(new);
        holder.users += 1;
        if holder.users == 1 { self.attachments(id) } else { Vec::new() }
    }

    fn leave(&mut self, id: ClassId) {
        let Some(holder) = self.holders.get_mut(&id) else { return };
        holder.users -= 1;
        if holder.users == 0 {
            self.unfollow(id);
            if let Some(gone) = self.holders.remove(&id) {
                uncount(&mut self.taken, &gone.attachments);
            }
            self.version += u64::from(self.standing.set_uncountable(id, None));
        }
    }

    fn changes(&mut self, key: &StorageKey, old: Option<StorageObject>, new: Option<&StorageObject>) -> Changes {
        self.version += 1;
        let nodes = [old.as_ref(), new].into_iter().flatten().flat_map(|object| self.nodes_of(object)).collect();
        let classes = self.by_object.get(key).cloned().unwrap_or_default();
        let attachments = classes.into_iter().flat_map(|class| self.attachments(class)).collect();
        Changes { old: old.map(Object::from), nodes, attachments, ..Changes::default() }
    }
}

fn count(taken: &mut BTreeMap<Attachment, u32>, attachments: &[Attachment]) {
    for attachment in attachments {
        *taken.entry(attachment.clone()).or_default() += 1;
    }
}

fn uncount(taken: &mut BTreeMap<Attachment, u32>, attachments: &[Attachment]) {
    for attachment in attachments {
        let Some(users) = taken.get_mut(attachment) else { continue };
        *users -= 1;
        if *users == 0 {
            taken.remove(attachment);
        }
    }
}

impl ObjectCache for VolumeCache {
    fn apply(&mut self, object: &Object) -> Option<Changes> {
        let Object::Storage(object) = object else { return None };
        let key = object.key();
        let old = self.api(&key);
        if let StorageObject::VolumeAttachment(attachment) = &**object {
            self.detach(&key);
            self.attach(attachment);
        }
        self.objects.apply(StorageObject::clone(object)).then(|| self.changes(&key, old, Some(object)))
    }

    fn delete(&mut self, key: &ObjectKey) -> Option<Changes> {
        let ObjectKey::Storage(key) = key else { return None };
        let old = self.api(key);
        self.detach(key);
        self.objects.delete(key).then(|| self.changes(key, old, None))
    }

    fn get(&self, key: &ObjectKey) -> Option<Object> {
        let ObjectKey::Storage(key) = key else { return None };
        self.objects.get(key).map(Object::from)
    }

    fn concerns(&self, class: &Class) -> bool {
        class.volumes.is_some()
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn resolve(&self, class: &Class, facts: &mut Facts) {
        facts.volumes = self.stand_ins.facts(class).or_else(|| self.objects.facts(class, &self.standing));
    }

    fn stand_in(&mut self, class: &Class, facts: &Facts) -> Option<Class> {
        let volumes = self.stand_ins.of(class, facts.volumes.as_deref()?)?;
        Some(Class { volumes: Some(volumes), ..Class::clone(class) })
    }

    fn equals_stand_in(&self, facts: &Facts) -> bool {
        let Some(facts) = &facts.volumes else { return false };
        facts.wanted.iter().enumerate().all(|(place, wanted)| match wanted {
            Wanted::Attach { attachment, .. } => {
                !self.taken.contains_key(attachment)
                    && !self.taken.contains_key(&placeholder(&attachment.driver, place))
            }
            Wanted::Missing(_) | Wanted::Fail { .. } => false,
        })
    }

    fn forget_class(&mut self, class: &Class) {
        self.stand_ins.forget(class);
    }

    fn complete(&mut self, node: &mut Arc<NodeInfo>) {
        let csi = self.objects.node_csi(&node.name);
        if node.csi != csi {
            *node = Arc::new(NodeInfo { csi, ..NodeInfo::clone(node) });
        }
    }

    fn pod_added(&mut self, id: ClassId, class: &Arc<Class>) -> Attachments {
        if class.volumes.is_none() {
            return Vec::new();
        }
        self.version += u64::from(self.standing.add(class));
        self.enter(id, class)
    }

    fn pod_removed(&mut self, id: ClassId, class: &Class) {
        if self.holders.contains_key(&id) {
            self.version += u64::from(self.standing.remove(class));
            self.leave(id);
        }
    }

    /// The claims of a nominated pod are not in use yet, but its volumes count on its node.
    ///
    /// Source: `addGENominatedPods`, which adds the pod to the NodeInfo but not to the Snapshot.
    fn pod_nominated(&mut self, id: ClassId, class: &Arc<Class>) -> Attachments {
        if class.volumes.is_some() { self.enter(id, class) } else { Vec::new() }
    }

    fn nomination_ended(&mut self, id: ClassId) {
        self.leave(id);
    }

    /// Without a filter result for a node, all claims count as bound. Source: `VolumeBinding.Reserve`.
    fn plan(&self, pod: &PodInfo, node: &NodeInfo, profile: &Profile) -> Result<Option<Box<dyn Plan>>, String> {
        let is_filtered = profile.plugins.filter.iter().any(|name| name == self.plugin);
        if !is_filtered || pod.class.volumes.is_none() {
            return Ok(None);
        }
        let plan = self.objects.plan(&pod.class, node).filter(|plan| !plan.all_bound);
        Ok(plan.map(|plan| Box::new(plan) as Box<dyn Plan>))
    }

    fn reserve(&mut self, plan: &dyn Plan) -> BTreeSet<Arc<str>> {
        if let Some(plan) = plan.of() {
            self.version += 1;
            self.objects.assume(plan);
        }
        BTreeSet::new()
    }

    fn unreserve(&mut self, plan: &dyn Plan, written: &Written) -> Undone {
        if let Some(plan) = plan.of::<storage::Plan>() {
            self.version += 1;
            self.objects.restore(&plan.without(written));
        }
        Undone::default()
    }

    fn writes(&self, plan: &dyn Plan) -> Vec<Write> {
        plan.of().map(|plan| self.objects.writes(plan)).unwrap_or_default()
    }

    fn is_bound(&self, plan: &dyn Plan, written: &Written, node: Option<&NodeInfo>) -> Result<bool, PreBindError> {
        Ok(plan.of().map_or(Ok(true), |plan| binding::is_bound(&self.objects, plan, written, node))?)
    }

    /// Source: `VolumeBindingArgs.BindTimeoutSeconds`.
    fn timeout_ms(&self, args: &Args) -> u64 {
        u64::try_from(args.volume_binding.bind_timeout_seconds).unwrap_or(0).saturating_mul(1_000)
    }

    fn time_out(&mut self, _plan: &dyn Plan) -> String {
        "binding volumes: context deadline exceeded".to_owned()
    }

    fn awaited(&self) -> Awaited {
        Awaited { what: "their volumes to be bound", see: "the provisioners of their StorageClasses" }
    }
}
