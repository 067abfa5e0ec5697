//! The volume controller and the provisioners of a simulated cluster, which act immediately.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_cluster::Cluster;
use flotilla_framework::{
    class::{NodeTerm, PodInfo, Requirement},
    extension::objects::{ObjectKey, Patch},
    node::NodeInfo,
    volumes::objects::{Claim, ClaimReference, StorageKey, StorageKind, StorageObject, Volume},
};
use flotilla_machine::{
    action::{PreBind, Unreserve},
    event::Event,
};

use crate::claims::Claims;

/// The first resource version of written objects, above those in files.
const FIRST_VERSION: u64 = 1 << 62;

/// The provisioner of classes with manually created volumes.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

const HOSTNAME: &str = "kubernetes.io/hostname";

/// The current storage objects.
#[derive(Debug)]
pub(super) struct Controller {
    objects: BTreeMap<StorageKey, StorageObject>,
    /// The hostname of each node; every node from files has one.
    hostnames: BTreeMap<Arc<str>, Arc<str>>,
    /// The claim names of each pod.
    claims: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    version: u64,
    devices: Claims,
}

impl Controller {
    pub(super) fn new(cluster: &Cluster) -> Self {
        let Cluster { storage, nodes, pending: pods, .. } = cluster;
        let objects = storage.iter().map(|object| (object.key(), object.clone())).collect();
        let hostname = |node: &Arc<NodeInfo>| Some((Arc::clone(&node.name), node.label(HOSTNAME)?.into()));
        let claims = |pod: &Arc<PodInfo>| {
            let claims = pod.class.volumes.as_ref()?.claims().map(|(name, _)| Arc::clone(name)).collect();
            Some((Arc::clone(&pod.uid), claims))
        };
        Self {
            objects,
            hostnames: nodes.iter().filter_map(hostname).collect(),
            claims: pods.iter().filter_map(claims).collect(),
            version: FIRST_VERSION,
            devices: Claims::new(&cluster.devices),
        }
    }

    /// Binds a pod's claims: those of the request, and those with a volume or a node already set. Returns the watch events, then the
    /// acknowledgement.
    pub(super) fn carry_out(&mut self, pre_bind: PreBind) -> Vec<Event> {
        let mut versions = Vec::new();
        let mut seen = Vec::new();
        for write in &pre_bind.writes {
            let (claim, volume) = match &write.patch {
                Patch::SetAside { claim, .. } => {
                    let ObjectKey::Storage(key) = &write.object else { continue };
                    let Some(StorageObject::Volume(volume)) = self.objects.get(key).cloned() else {
                        return vec![failed(pre_bind, versions, "its volume is gone")];
                    };
                    (&claim.name, volume)
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
                    (name, self.made_for(&claim, node))
                }
            };
            versions.push(self.bind_claim(claim, &pre_bind, volume, &mut seen).unwrap_or_default());
        }
        for name in self.claims.get(&pre_bind.uid).cloned().unwrap_or_default() {
            let claim = self.claim(&pre_bind.namespace, &name).filter(|claim| !claim.bind_completed);
            if let Some(volume) = claim.and_then(|claim| self.promised(&claim)) {
                self.bind_claim(&name, &pre_bind, volume, &mut seen);
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

    /// The pod's unbound claims, by name.
    pub(super) fn unbound(&self, pod: &PodInfo) -> Vec<Arc<str>> {
        let names = self.claims.get(&pod.uid).into_iter().flatten().cloned();
        let is_bound =
            |name: &Arc<str>| self.claim(&pod.class.namespace, name).is_some_and(|claim| claim.bind_completed);
        names.filter(|name| !is_bound(name)).collect()
    }

    /// The volume that is reserved for a claim, or a new one on the claim's selected node.
    ///
    /// Source: the volume controller binds what `spec.claimRef` names; a provisioner acts on the annotation
    /// `volume.kubernetes.io/selected-node`.
    fn promised(&self, claim: &Claim) -> Option<Volume> {
        let volumes = self.objects.values().filter_map(|object| match object {
            StorageObject::Volume(volume) => Some(volume),
            _ => None,
        });
        let is_for = |reference: &ClaimReference| {
            reference.namespace == claim.namespace
                && reference.name == claim.name
                && (reference.uid.is_empty() || reference.uid == claim.uid)
        };
        let set_aside = volumes.into_iter().find(|volume| volume.claim.as_ref().is_some_and(is_for));
        set_aside.cloned().or_else(|| {
            let (kind, name) = (StorageKind::StorageClass, Arc::clone(&claim.storage_class));
            let class = self.objects.get(&StorageKey { kind, namespace: Arc::default(), name });
            let Some(StorageObject::StorageClass(class)) = class else { return None };
            let is_served = !class.provisioner.is_empty() && &*class.provisioner != NO_PROVISIONER;
            let node = claim.selected_node.as_ref().filter(|_| is_served)?;
            Some(self.made_for(claim, node))
        })
    }

    /// The volume that a provisioner creates: of the requested size and for one node.
    fn made_for(&self, claim: &Claim, node: &Arc<str>) -> Volume {
        let hostname = Arc::clone(self.hostnames.get(node).unwrap_or(node));
        let here = Requirement { key: HOSTNAME.into(), operator: "In".into(), values: vec![hostname] };
        Volume {
            name: format!("pvc-{}-{}", claim.namespace, claim.name).into(),
            uid: format!("pvc-{}", claim.uid).into(),
            storage_class: Arc::clone(&claim.storage_class),
            capacity: claim.requested.unwrap_or_default(),
            access_modes: claim.access_modes,
            is_block: claim.is_block,
            node_affinity: Some(vec![NodeTerm { expressions: vec![here], fields: Vec::new() }]),
            ..Volume::default()
        }
    }

    /// Binds a claim to a volume, and returns the new version of both.
    fn bind_claim(
        &mut self,
        name: &Arc<str>,
        pre_bind: &PreBind,
        volume: Volume,
        seen: &mut Vec<Event>,
    ) -> Option<Arc<str>> {
        let claim = self.claim(&pre_bind.namespace, name)?;
        if claim.bind_completed {
            // Bound for another pod with the same claim.
            return Some(claim.resource_version);
        }
        self.version += 1;
        let version: Arc<str> = self.version.to_string().into();
        let (namespace, uid) = (Arc::clone(&claim.namespace), Arc::clone(&claim.uid));
        let reference = ClaimReference { namespace, name: Arc::clone(name), uid };
        let volume_name = Arc::clone(&volume.name);
        let resource_version = || Arc::clone(&version);
        let bound = Claim {
            volume_name,
            bind_completed: true,
            has_annotations: true,
            selected_node: claim.selected_node.clone().or_else(|| Some(Arc::clone(&pre_bind.node))),
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
        let (namespace, name) = (Arc::clone(namespace), Arc::clone(name));
        match self.objects.get(&StorageKey { kind: StorageKind::Claim, namespace, name }) {
            Some(StorageObject::Claim(claim)) => Some(claim.clone()),
            _ => None,
        }
    }
}

fn failed(pre_bind: PreBind, versions: Vec<Arc<str>>, why: &str) -> Event {
    Event::Written { uid: pre_bind.uid, id: pre_bind.id, versions, failure: Some(why.to_owned()) }
}
