//! The volume controllers and the provisioners of a simulated cluster, which act as soon as they are asked.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_cluster::Cluster;
use flotilla_framework::{
    class::PodInfo,
    devices::objects::DeviceObject,
    extension::objects::{ObjectKey, Patch},
    volumes::{
        mounts::Mount,
        objects::{BindingMode, Claim, ClaimReference, StorageClass, StorageKey, StorageKind, StorageObject, Volume},
    },
};
use flotilla_machine::{
    action::{PreBind, Unreserve},
    event::Event,
};

use crate::claims::Claims;

mod provisioner;

use provisioner::{Provisioner, provisions};

/// The first resource version of written objects, above those in files.
const FIRST_VERSION: u64 = 1 << 62;

/// The current storage objects.
#[derive(Debug, Clone)]
pub(super) struct Storage {
    objects: BTreeMap<StorageKey, StorageObject>,
    provisioner: Provisioner,
    /// The claims of deleted pods' ephemeral volumes, for the pods that replace them.
    templates: BTreeMap<StorageKey, Claim>,
    version: u64,
    devices: Claims,
}

impl Storage {
    pub(super) fn new(cluster: &Cluster) -> Self {
        let objects = cluster.storage.iter().map(|object| (object.key(), object.clone())).collect();
        Self {
            objects,
            provisioner: Provisioner::new(cluster),
            templates: BTreeMap::new(),
            version: FIRST_VERSION,
            devices: Claims::new(&cluster.devices),
        }
    }

    /// Binds the claims that need no pod: those of Immediate classes, and those with a reserved volume. Returns the watch events.
    ///
    /// Source: `syncUnboundClaim` in `pkg/controller/volume/persistentvolume/pv_controller.go`.
    pub(super) fn begin(&mut self) -> Vec<Event> {
        let unbound = self.objects.values().filter_map(|object| match object {
            StorageObject::Claim(claim) if !claim.bind_completed && !claim.is_lost && !claim.is_deleting => {
                Some(claim.clone())
            }
            _ => None,
        });
        let unbound: Vec<Claim> = unbound.collect();
        let mut seen = Vec::new();
        for claim in unbound {
            self.bind_without_pod(&claim, &mut seen);
        }
        seen
    }

    fn bind_without_pod(&mut self, claim: &Claim, seen: &mut Vec<Event>) {
        let volume = match claim.volume_name.is_empty() {
            false => {
                self.volume(&claim.volume_name).filter(|volume| volume.claim.as_ref().is_none_or(|of| names(of, claim)))
            }
            true => self.reserved_for(claim).or_else(|| {
                let class = self.class(&claim.storage_class);
                let waits = class.is_some_and(|class| class.binding_mode == Some(BindingMode::WaitForFirstConsumer));
                if waits {
                    return None;
                }
                self.smallest_for(claim).or_else(|| {
                    let class = class.filter(|class| provisions(class))?;
                    self.provisioner.provision(claim, Some(class), None)
                })
            }),
        };
        if let Some(volume) = volume {
            self.bind(claim.clone(), None, volume, seen);
        }
    }

    /// Binds a pod's claims: those of the request, and those with a volume or a node already set. Returns the watch events, then the
    /// acknowledgement.
    pub(super) fn carry_out(&mut self, pod: &PodInfo, pre_bind: PreBind) -> Vec<Event> {
        let mut versions = Vec::new();
        let mut seen = Vec::new();
        for write in &pre_bind.writes {
            let (name, volume) = match &write.patch {
                Patch::SetAside { claim, .. } => {
                    let ObjectKey::Storage(key) = &write.object else { continue };
                    let Some(StorageObject::Volume(volume)) = self.objects.get(key).cloned() else {
                        return vec![failed(pre_bind, versions, "its volume is gone")];
                    };
                    (&claim.name, Some(volume))
                }
                Patch::Claim(patch) => {
                    self.version += 1;
                    let Some(written) = self.devices.write(&write.object, patch, self.version) else {
                        return vec![failed(pre_bind, versions, "its ResourceClaim is gone")];
                    };
                    versions.push(self.version.to_string().into());
                    seen.push(written);
                    continue;
                }
                Patch::SelectNode(node) => {
                    let name = write.object.name();
                    let Some(claim) = self.claim(&pre_bind.namespace, name) else {
                        return vec![failed(pre_bind, versions, "its claim is gone")];
                    };
                    (name, self.provisioner.provision(&claim, self.class(&claim.storage_class), Some(node)))
                }
            };
            let claim = self.claim(&pre_bind.namespace, name).zip(volume);
            let version = claim.and_then(|(claim, volume)| self.bind(claim, Some(&pre_bind.node), volume, &mut seen));
            versions.push(version.unwrap_or_default());
        }
        for name in names_of(pod) {
            let claim = self.claim(&pre_bind.namespace, name).filter(|claim| !claim.bind_completed);
            if let Some((claim, volume)) = claim.and_then(|claim| self.promised(&claim).map(|volume| (claim, volume))) {
                self.bind(claim, Some(&pre_bind.node), volume, &mut seen);
            }
        }
        let written = Event::Written { uid: pre_bind.uid, id: pre_bind.id, versions, failure: None };
        seen.into_iter().chain(std::iter::once(written)).collect()
    }

    /// Deallocates claims and returns the events. Written volumes stay.
    pub(super) fn give_back(&mut self, unreserve: &Unreserve) -> Vec<Event> {
        let writes = unreserve.writes.iter().filter_map(|write| {
            let Patch::Claim(patch) = &write.patch else { return None };
            self.version += 1;
            self.devices.write(&write.object, patch, self.version)
        });
        writes.collect()
    }

    /// Creates a claim. Returns the watch events.
    pub(super) fn claim_created(&mut self, claim: Claim) -> Vec<Event> {
        let object = StorageObject::Claim(claim.clone());
        self.objects.insert(object.key(), object.clone());
        let mut seen = vec![Event::ObjectApplied(object.into())];
        self.bind_without_pod(&claim, &mut seen);
        seen
    }

    /// Creates the claims of a pod's ephemeral volumes, like those of the pod that it replaces. Returns the watch events.
    ///
    /// Source: `pkg/controller/volume/ephemeral/controller.go`.
    pub(super) fn pod_created(&mut self, pod: &PodInfo) -> Vec<Event> {
        let mut seen = Vec::new();
        for name in ephemeral_names(pod) {
            let key = claim_key(&pod.class.namespace, name);
            let Some(claim) = self.templates.remove(&key) else { continue };
            self.version += 1;
            let (uid, resource_version) = (format!("{}/{name}", pod.uid).into(), self.version.to_string().into());
            let claim = Claim { uid, resource_version, owner_pod: Some(Arc::clone(&pod.uid)), ..claim };
            self.objects.insert(key, StorageObject::Claim(claim.clone()));
            seen.push(Event::ObjectApplied(StorageObject::Claim(claim.clone()).into()));
            self.bind_without_pod(&claim, &mut seen);
        }
        seen
    }

    /// Deletes the claims of a deleted pod's ephemeral volumes, and their volumes. Returns the watch events.
    pub(super) fn pod_deleted(&mut self, pod: &PodInfo) -> Vec<Event> {
        let mut seen = Vec::new();
        for name in ephemeral_names(pod) {
            let key = claim_key(&pod.class.namespace, name);
            let Some(claim) = self.claim(&pod.class.namespace, name) else { continue };
            if claim.owner_pod.as_ref() != Some(&pod.uid) {
                continue;
            }
            let volume = StorageKey {
                kind: StorageKind::Volume,
                namespace: Arc::default(),
                name: Arc::clone(&claim.volume_name),
            };
            for key in [volume, key.clone()] {
                if self.objects.remove(&key).is_some() {
                    seen.push(Event::ObjectDeleted(key.into()));
                }
            }
            let unbound = Claim {
                volume_name: Arc::default(),
                bind_completed: false,
                has_annotations: false,
                selected_node: None,
                owner_pod: None,
                ..claim
            };
            self.templates.insert(key, unbound);
        }
        seen
    }

    /// Continues the versions of a later state that is undone. Returns the watch events that revert its `changed` objects.
    pub(super) fn revert(&mut self, later: &Self, changed: &BTreeSet<ObjectKey>) -> Vec<Event> {
        self.version = self.version.max(later.version);
        let revert = |key: &ObjectKey| {
            self.version += 1;
            let version: Arc<str> = self.version.to_string().into();
            let object = match key {
                ObjectKey::Storage(key) => self.objects.get_mut(key).map(|object| {
                    match object {
                        StorageObject::Claim(claim) => claim.resource_version = version,
                        StorageObject::Volume(volume) => volume.resource_version = version,
                        _ => {}
                    }
                    object.clone().into()
                }),
                ObjectKey::Device(key) => self.devices.renew(key, version).map(Into::into),
            };
            object.map_or_else(|| Event::ObjectDeleted(key.clone()), Event::ObjectApplied)
        };
        changed.iter().map(revert).collect()
    }

    /// All storage objects and ResourceClaims.
    pub(super) fn into_objects(self) -> (Vec<StorageObject>, Vec<DeviceObject>) {
        (self.objects.into_values().collect(), self.devices.into_objects())
    }

    /// A node was removed.
    pub(super) fn forget_node(&mut self, node: &str) {
        self.provisioner.forget_node(node);
    }

    /// The pod's unbound claims, by name.
    pub(super) fn unbound(&self, pod: &PodInfo) -> Vec<Arc<str>> {
        let is_bound =
            |name: &Arc<str>| self.claim(&pod.class.namespace, name).is_some_and(|claim| claim.bind_completed);
        names_of(pod).filter(|name| !is_bound(name)).cloned().collect()
    }

    /// The volume that is reserved for a claim, or a new one on the claim's selected node.
    ///
    /// Source: the volume controller binds what `spec.claimRef` names; a provisioner acts on the annotation
    /// `volume.kubernetes.io/selected-node`.
    fn promised(&self, claim: &Claim) -> Option<Volume> {
        self.reserved_for(claim).or_else(|| {
            let class = self.class(&claim.storage_class).filter(|class| provisions(class))?;
            let node = claim.selected_node.as_ref()?;
            self.provisioner.provision(claim, Some(class), Some(node))
        })
    }

    fn volumes(&self) -> impl Iterator<Item = &Volume> {
        self.objects.values().filter_map(|object| match object {
            StorageObject::Volume(volume) => Some(volume),
            _ => None,
        })
    }

    fn volume(&self, name: &Arc<str>) -> Option<Volume> {
        let key = StorageKey { kind: StorageKind::Volume, namespace: Arc::default(), name: Arc::clone(name) };
        match self.objects.get(&key) {
            Some(StorageObject::Volume(volume)) => Some(volume.clone()),
            _ => None,
        }
    }

    fn reserved_for(&self, claim: &Claim) -> Option<Volume> {
        self.volumes().find(|volume| volume.claim.as_ref().is_some_and(|reference| names(reference, claim))).cloned()
    }

    /// The smallest free volume that a claim may have on any node.
    ///
    /// Source: `FindMatchingVolume` in component-helpers `storage/volume`, without a node.
    fn smallest_for(&self, claim: &Claim) -> Option<Volume> {
        let suits = |volume: &&Volume| {
            volume.claim.is_none()
                && volume.is_available
                && !volume.is_deleting
                && volume.storage_class == claim.storage_class
                && volume.is_block == claim.is_block
                && volume.attributes_class == claim.attributes_class
                && volume.access_modes.contains(claim.access_modes)
                && claim.requested.is_none_or(|requested| volume.capacity >= requested)
                && match &claim.selector {
                    Some(Ok(selector)) => selector.matches(&volume.labels),
                    Some(Err(_)) => false,
                    None => true,
                }
        };
        self.volumes().filter(suits).min_by(|one, other| one.capacity.cmp(&other.capacity)).cloned()
    }

    /// Binds a claim to a volume, and returns the new version of both.
    fn bind(
        &mut self,
        claim: Claim,
        node: Option<&Arc<str>>,
        volume: Volume,
        seen: &mut Vec<Event>,
    ) -> Option<Arc<str>> {
        if claim.bind_completed {
            // Bound for another pod with the same claim.
            return Some(claim.resource_version);
        }
        self.version += 1;
        let version: Arc<str> = self.version.to_string().into();
        let (namespace, name, uid) = (Arc::clone(&claim.namespace), Arc::clone(&claim.name), Arc::clone(&claim.uid));
        let reference = ClaimReference { namespace, name, uid };
        let resource_version = || Arc::clone(&version);
        let bound = Claim {
            volume_name: Arc::clone(&volume.name),
            bind_completed: true,
            has_annotations: true,
            selected_node: claim.selected_node.clone().or_else(|| node.cloned()),
            resource_version: resource_version(),
            ..claim
        };
        let taken =
            Volume { claim: Some(reference), is_available: false, resource_version: resource_version(), ..volume };
        for object in [StorageObject::Volume(taken), StorageObject::Claim(bound)] {
            self.objects.insert(object.key(), object.clone());
            seen.push(Event::ObjectApplied(object.into()));
        }
        Some(version)
    }

    fn claim(&self, namespace: &Arc<str>, name: &Arc<str>) -> Option<Claim> {
        match self.objects.get(&claim_key(namespace, name)) {
            Some(StorageObject::Claim(claim)) => Some(claim.clone()),
            _ => None,
        }
    }

    fn class(&self, name: &Arc<str>) -> Option<&StorageClass> {
        let key = StorageKey { kind: StorageKind::StorageClass, namespace: Arc::default(), name: Arc::clone(name) };
        match self.objects.get(&key) {
            Some(StorageObject::StorageClass(class)) => Some(class),
            _ => None,
        }
    }
}

fn claim_key(namespace: &Arc<str>, name: &Arc<str>) -> StorageKey {
    StorageKey { kind: StorageKind::Claim, namespace: Arc::clone(namespace), name: Arc::clone(name) }
}

fn names(reference: &ClaimReference, claim: &Claim) -> bool {
    reference.namespace == claim.namespace
        && reference.name == claim.name
        && (reference.uid.is_empty() || reference.uid == claim.uid)
}

fn names_of(pod: &PodInfo) -> impl Iterator<Item = &Arc<str>> {
    pod.class.volumes.iter().flat_map(|volumes| volumes.claims()).map(|(name, _)| name)
}

fn ephemeral_names(pod: &PodInfo) -> impl Iterator<Item = &Arc<str>> {
    pod.class.volumes.iter().flat_map(|volumes| &volumes.mounts).filter_map(|mount| match mount {
        Mount::Ephemeral(name) => Some(name),
        _ => None,
    })
}

fn failed(pre_bind: PreBind, versions: Vec<Arc<str>>, why: &str) -> Event {
    Event::Written { uid: pre_bind.uid, id: pre_bind.id, versions, failure: Some(why.to_owned()) }
}
