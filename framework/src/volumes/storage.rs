//! Storage objects by name, with assumed changes.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::objects::{
    Claim, ClaimReference, CsiDriver, CsiNode, StorageCapacity, StorageClass, StorageKey, StorageKind, StorageObject,
    Volume, VolumeAttachment,
};

/// All storage objects of the cluster, sorted by name.
///
/// Source: `passiveAssumeCache`. An assumed change holds while the API's object keeps the version that it is based on; any other version
/// replaces it.
#[derive(Debug, Clone, Default)]
pub struct Storage {
    claims: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Held<Claim>>>,
    volumes: BTreeMap<Arc<str>, Held<Volume>>,
    by_class: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    classes: BTreeMap<Arc<str>, StorageClass>,
    drivers: BTreeMap<Arc<str>, CsiDriver>,
    capacities: BTreeMap<(Arc<str>, Arc<str>), StorageCapacity>,
    csi_nodes: BTreeMap<Arc<str>, CsiNode>,
    attachments: BTreeMap<Arc<str>, VolumeAttachment>,
    by_node: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

/// Namespace and name of a claim.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimKey {
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

/// Volume bindings and provisions of a pod for Reserve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Name of the node.
    pub node: Arc<str>,
    /// Existing volumes to bind, with their claims.
    pub bindings: Vec<StaticBinding>,
    /// Claims to provision on the node.
    pub provisions: Vec<ClaimKey>,
    /// Whether all claims of the pod are bound, so that nothing is to be done.
    pub all_bound: bool,
}

/// A binding of a volume to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticBinding {
    /// Claim.
    pub claim: ClaimKey,
    /// UID of the claim.
    pub claim_uid: Arc<str>,
    /// Name of the volume.
    pub volume: Arc<str>,
}

#[derive(Debug, Clone)]
struct Held<T> {
    api: T,
    assumed: Option<T>,
}

trait Versioned: PartialEq {
    fn version(&self) -> &Arc<str>;
}

impl Versioned for Claim {
    fn version(&self) -> &Arc<str> {
        &self.resource_version
    }
}

impl Versioned for Volume {
    fn version(&self) -> &Arc<str> {
        &self.resource_version
    }
}

impl<T: Versioned> Held<T> {
    const fn new(api: T) -> Self {
        Self { api, assumed: None }
    }

    fn latest(&self) -> &T {
        self.assumed.as_ref().unwrap_or(&self.api)
    }

    fn replace(&mut self, api: T) -> bool {
        let is_other_version = self.api.version() != api.version();
        let is_news = self.api != api;
        if is_other_version {
            self.assumed = None;
        }
        self.api = api;
        is_news
    }
}

impl Storage {
    /// Adds or replaces an object from the API. Returns whether it changed. A new version of a claim or volume discards assumed changes.
    pub fn apply(&mut self, object: StorageObject) -> bool {
        match object {
            StorageObject::Claim(claim) => {
                let claims = self.claims.entry(Arc::clone(&claim.namespace)).or_default();
                apply_held(claims, Arc::clone(&claim.name), claim)
            }
            StorageObject::Volume(volume) => self.apply_volume(volume),
            StorageObject::StorageClass(class) => insert(&mut self.classes, Arc::clone(&class.name), class),
            StorageObject::CsiDriver(driver) => insert(&mut self.drivers, Arc::clone(&driver.name), driver),
            StorageObject::StorageCapacity(capacity) => {
                let key = (Arc::clone(&capacity.namespace), Arc::clone(&capacity.name));
                insert(&mut self.capacities, key, capacity)
            }
            StorageObject::CsiNode(node) => insert(&mut self.csi_nodes, Arc::clone(&node.name), node),
            StorageObject::VolumeAttachment(attachment) => self.apply_attachment(attachment),
        }
    }

    /// Deletes an object. Returns whether it existed.
    pub fn delete(&mut self, key: &StorageKey) -> bool {
        match key.kind {
            StorageKind::Claim => self.delete_claim(key),
            StorageKind::Volume => self.delete_volume(&key.name),
            StorageKind::StorageClass => self.classes.remove(&key.name).is_some(),
            StorageKind::CsiDriver => self.drivers.remove(&key.name).is_some(),
            StorageKind::StorageCapacity => {
                self.capacities.remove(&(Arc::clone(&key.namespace), Arc::clone(&key.name))).is_some()
            }
            StorageKind::CsiNode => self.csi_nodes.remove(&key.name).is_some(),
            StorageKind::VolumeAttachment => self.delete_attachment(&key.name),
        }
    }

    /// An object with assumed changes.
    #[must_use]
    pub fn get(&self, key: &StorageKey) -> Option<StorageObject> {
        let name = &key.name;
        match key.kind {
            StorageKind::Claim => self.claim(&key.namespace, name).cloned().map(StorageObject::Claim),
            StorageKind::Volume => self.volume(name).cloned().map(StorageObject::Volume),
            StorageKind::StorageClass => self.class(name).cloned().map(StorageObject::StorageClass),
            StorageKind::CsiDriver => self.driver(name).cloned().map(StorageObject::CsiDriver),
            StorageKind::StorageCapacity => {
                let capacity = self.capacities.get(&(Arc::clone(&key.namespace), Arc::clone(name)));
                capacity.cloned().map(StorageObject::StorageCapacity)
            }
            StorageKind::CsiNode => self.csi_node(name).cloned().map(StorageObject::CsiNode),
            StorageKind::VolumeAttachment => self.attachments.get(name).cloned().map(StorageObject::VolumeAttachment),
        }
    }

    /// A claim with assumed changes.
    #[must_use]
    pub fn claim(&self, namespace: &str, name: &str) -> Option<&Claim> {
        self.claims.get(namespace)?.get(name).map(Held::latest)
    }

    /// A claim from the API.
    #[must_use]
    pub fn api_claim(&self, namespace: &str, name: &str) -> Option<&Claim> {
        self.claims.get(namespace)?.get(name).map(|held| &held.api)
    }

    /// A volume with assumed changes.
    #[must_use]
    pub fn volume(&self, name: &str) -> Option<&Volume> {
        self.volumes.get(name).map(Held::latest)
    }

    /// A volume from the API.
    #[must_use]
    pub fn api_volume(&self, name: &str) -> Option<&Volume> {
        self.volumes.get(name).map(|held| &held.api)
    }

    /// Volumes of a storage class, with assumed changes.
    pub fn volumes_of_class(&self, class: &str) -> impl Iterator<Item = &Volume> {
        self.by_class.get(class).into_iter().flatten().filter_map(|name| self.volume(name))
    }

    /// The StorageClass with this name.
    #[must_use]
    pub fn class(&self, name: &str) -> Option<&StorageClass> {
        self.classes.get(name)
    }

    /// The CSIDriver with this name.
    #[must_use]
    pub fn driver(&self, name: &str) -> Option<&CsiDriver> {
        self.drivers.get(name)
    }

    /// All capacities, by namespace and name.
    pub fn capacities(&self) -> impl Iterator<Item = &StorageCapacity> {
        self.capacities.values()
    }

    /// The CSINode of a node.
    #[must_use]
    pub fn csi_node(&self, name: &str) -> Option<&CsiNode> {
        self.csi_nodes.get(name)
    }

    /// VolumeAttachments of a node.
    pub fn attachments(&self, node: &str) -> impl Iterator<Item = &VolumeAttachment> {
        self.by_node.get(node).into_iter().flatten().filter_map(|name| self.attachments.get(name))
    }

    /// Reserve: assumes the bindings and provisions of a plan until the API shows a new version. Missing objects are skipped; the later
    /// write reports them. Source: `AssumePodVolumes`.
    pub fn assume(&mut self, plan: &Plan) {
        if plan.all_bound {
            return;
        }
        for binding in &plan.bindings {
            let Some(held) = self.volumes.get_mut(&binding.volume) else { continue };
            let mut volume = held.latest().clone();
            volume.claim = Some(ClaimReference {
                namespace: Arc::clone(&binding.claim.namespace),
                name: Arc::clone(&binding.claim.name),
                uid: Arc::clone(&binding.claim_uid),
            });
            held.assumed = Some(volume);
        }
        for key in &plan.provisions {
            let Some(held) = self.held_claim(key) else { continue };
            let mut claim = held.latest().clone();
            claim.selected_node = Some(Arc::clone(&plan.node));
            held.assumed = Some(claim);
        }
    }

    /// Unreserve: reverts the assumed changes of a plan. The caller removes parts that were written; these stay assumed until the watch
    /// shows them. Source: `RevertAssumedPodVolumes`, and its version comparison.
    pub fn restore(&mut self, plan: &Plan) {
        for binding in &plan.bindings {
            if let Some(held) = self.volumes.get_mut(&binding.volume) {
                let claim = held.assumed.as_ref().and_then(|volume| volume.claim.as_ref());
                if claim.is_some_and(|claim| claim.uid == binding.claim_uid) {
                    held.assumed = None;
                }
            }
        }
        for key in &plan.provisions {
            if let Some(held) = self.held_claim(key)
                && held.assumed.as_ref().is_some_and(|claim| claim.selected_node.as_ref() == Some(&plan.node))
            {
                held.assumed = None;
            }
        }
    }

    fn held_claim(&mut self, key: &ClaimKey) -> Option<&mut Held<Claim>> {
        self.claims.get_mut(&key.namespace)?.get_mut(&key.name)
    }

    fn apply_volume(&mut self, volume: Volume) -> bool {
        let name = Arc::clone(&volume.name);
        let class = Arc::clone(&volume.storage_class);
        let before = self.volumes.get(&name).map(|held| Arc::clone(&held.api.storage_class));
        if let Some(before) = before.filter(|before| *before != class) {
            drop_from(&mut self.by_class, &before, &name);
        }
        self.by_class.entry(class).or_default().insert(Arc::clone(&name));
        apply_held(&mut self.volumes, name, volume)
    }

    fn apply_attachment(&mut self, attachment: VolumeAttachment) -> bool {
        let name = Arc::clone(&attachment.name);
        let node = Arc::clone(&attachment.node);
        let before = self.attachments.get(&name).map(|known| Arc::clone(&known.node));
        if let Some(before) = before.filter(|before| *before != node) {
            drop_from(&mut self.by_node, &before, &name);
        }
        self.by_node.entry(node).or_default().insert(Arc::clone(&name));
        insert(&mut self.attachments, name, attachment)
    }

    fn delete_claim(&mut self, key: &StorageKey) -> bool {
        let Some(claims) = self.claims.get_mut(&key.namespace) else { return false };
        let was_there = claims.remove(&key.name).is_some();
        if claims.is_empty() {
            self.claims.remove(&key.namespace);
        }
        was_there
    }

    fn delete_volume(&mut self, name: &Arc<str>) -> bool {
        let Some(held) = self.volumes.remove(name) else { return false };
        drop_from(&mut self.by_class, &held.api.storage_class, name);
        true
    }

    fn delete_attachment(&mut self, name: &Arc<str>) -> bool {
        let Some(attachment) = self.attachments.remove(name) else { return false };
        drop_from(&mut self.by_node, &attachment.node, name);
        true
    }
}

fn insert<K: Ord, V: PartialEq>(objects: &mut BTreeMap<K, V>, key: K, object: V) -> bool {
    if objects.get(&key) == Some(&object) {
        return false;
    }
    objects.insert(key, object);
    true
}

fn apply_held<T: Versioned>(objects: &mut BTreeMap<Arc<str>, Held<T>>, name: Arc<str>, object: T) -> bool {
    match objects.get_mut(&name) {
        Some(held) => held.replace(object),
        None => objects.insert(name, Held::new(object)).is_none(),
    }
}

fn drop_from(index: &mut BTreeMap<Arc<str>, BTreeSet<Arc<str>>>, key: &Arc<str>, name: &Arc<str>) {
    if let Some(names) = index.get_mut(key) {
        names.remove(name);
        if names.is_empty() {
            index.remove(key);
        }
    }
}
