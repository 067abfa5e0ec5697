//! All objects of storage by name, with what is assumed on top.
//!
//! Knows: which object is the newest, and what a pod on its way to a node has been promised. Must not know: what a plugin
//! makes of any of it, or who writes the promises to the API server.

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

/// Every object of storage in the cluster. All lists are in the order of names.
///
/// Source: `passiveAssumeCache`: what is assumed is good as long as the API's object has the version that it was assumed
/// on; the first other version takes its place.
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

/// Which claim.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimKey {
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

/// What Reserve has to do for a pod on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The node.
    pub node: Arc<str>,
    /// The volumes that are there already, and the claims they are set aside for.
    pub bindings: Vec<StaticBinding>,
    /// The claims for which the provisioner is told the node.
    pub provisions: Vec<ClaimKey>,
    /// Whether all of the pod's claims are bound, so that nothing is to be done.
    pub all_bound: bool,
}

/// A volume that is set aside for a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticBinding {
    /// The claim.
    pub claim: ClaimKey,
    /// The claim's UID.
    pub claim_uid: Arc<str>,
    /// The volume's name.
    pub volume: Arc<str>,
}

/// An object of the API, and what is assumed of it.
#[derive(Debug, Clone)]
struct Held<T> {
    api: T,
    assumed: Option<T>,
}

/// An object whose versions can be told apart.
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

    /// Takes what the API has now; whether it is news.
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

// === impl Storage ===

impl Storage {
    /// Takes an object as the API has it now; whether that is news. A claim or volume of another version than the one that
    /// something was assumed on puts an end to what was assumed.
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

    /// Forgets an object; whether it was there.
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

    /// An object as it is now, with what is assumed of it.
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

    /// A claim, with what is assumed of it.
    #[must_use]
    pub fn claim(&self, namespace: &str, name: &str) -> Option<&Claim> {
        self.claims.get(namespace)?.get(name).map(Held::latest)
    }

    /// A claim as the API has it.
    #[must_use]
    pub fn api_claim(&self, namespace: &str, name: &str) -> Option<&Claim> {
        self.claims.get(namespace)?.get(name).map(|held| &held.api)
    }

    /// A volume, with what is assumed of it.
    #[must_use]
    pub fn volume(&self, name: &str) -> Option<&Volume> {
        self.volumes.get(name).map(Held::latest)
    }

    /// A volume as the API has it.
    #[must_use]
    pub fn api_volume(&self, name: &str) -> Option<&Volume> {
        self.volumes.get(name).map(|held| &held.api)
    }

    /// The volumes of a storage class, with what is assumed of them.
    pub fn volumes_of_class(&self, class: &str) -> impl Iterator<Item = &Volume> {
        self.by_class.get(class).into_iter().flatten().filter_map(|name| self.volume(name))
    }

    /// A storage class.
    #[must_use]
    pub fn class(&self, name: &str) -> Option<&StorageClass> {
        self.classes.get(name)
    }

    /// A driver.
    #[must_use]
    pub fn driver(&self, name: &str) -> Option<&CsiDriver> {
        self.drivers.get(name)
    }

    /// All capacities, by namespace and name.
    pub fn capacities(&self) -> impl Iterator<Item = &StorageCapacity> {
        self.capacities.values()
    }

    /// What drivers say of a node.
    #[must_use]
    pub fn csi_node(&self, name: &str) -> Option<&CsiNode> {
        self.csi_nodes.get(name)
    }

    /// What is attached to a node, or about to be.
    pub fn attachments(&self, node: &str) -> impl Iterator<Item = &VolumeAttachment> {
        self.by_node.get(node).into_iter().flatten().filter_map(|name| self.attachments.get(name))
    }

    /// Reserve: what a plan promises counts as done until the API says otherwise. What is not there is passed over; the
    /// write that follows finds that out.
    ///
    /// Source: `AssumePodVolumes`.
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

    /// Unreserve: what a plan promised counts no more. After a write has succeeded its part of the plan is to be left out
    /// here: what is assumed stays until the watch brings it.
    ///
    /// Source: `RevertAssumedPodVolumes`, and the versions that it compares.
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

/// Puts an object into its place; whether that is news.
fn insert<K: Ord, V: PartialEq>(objects: &mut BTreeMap<K, V>, key: K, object: V) -> bool {
    if objects.get(&key) == Some(&object) {
        return false;
    }
    objects.insert(key, object);
    true
}

/// As [`insert`], for what can be assumed.
fn apply_held<T: Versioned>(objects: &mut BTreeMap<Arc<str>, Held<T>>, name: Arc<str>, object: T) -> bool {
    match objects.get_mut(&name) {
        Some(held) => held.replace(object),
        None => objects.insert(name, Held::new(object)).is_none(),
    }
}

/// Takes a name out of an index.
fn drop_from(index: &mut BTreeMap<Arc<str>, BTreeSet<Arc<str>>>, key: &Arc<str>, name: &Arc<str>) {
    if let Some(names) = index.get_mut(key) {
        names.remove(name);
        if names.is_empty() {
            index.remove(key);
        }
    }
}
