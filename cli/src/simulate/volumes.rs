//! The volume controller and the provisioners of a simulated cluster: they do at once whatever they are told.
//!
//! Knows: what the objects of storage look like once a claim is bound. Must not know: why that volume, or why that node.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{
    class::{NodeTerm, Requirement},
    node::NodeInfo,
    volumes::{
        binding::volume_key,
        objects::{Claim, ClaimReference, StorageKey, StorageKind, StorageObject, Volume},
    },
};
use flotilla_machine::{action::VolumeBinding, event::Event};

/// The versions of what is written begin here, above those in files.
const FIRST_VERSION: u64 = 1 << 62;

/// The label that says which node a volume is for.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// The objects of storage as they are by now.
#[derive(Debug)]
pub(super) struct Controller {
    objects: BTreeMap<StorageKey, StorageObject>,
    /// The hostname of each node, which every node of a cluster from files has.
    hostnames: BTreeMap<Arc<str>, Arc<str>>,
    version: u64,
}

impl Controller {
    pub(super) fn new(objects: &[StorageObject], nodes: &[Arc<NodeInfo>]) -> Self {
        let objects = objects.iter().map(|object| (object.key(), object.clone())).collect();
        let hostname = |node: &Arc<NodeInfo>| Some((Arc::clone(&node.name), node.label(HOSTNAME)?.into()));
        Self { objects, hostnames: nodes.iter().filter_map(hostname).collect(), version: FIRST_VERSION }
    }

    /// Binds the claims of a pod. What to tell the machine: how everything looks now, and then that it is written.
    pub(super) fn bind(&mut self, binding: VolumeBinding) -> Vec<Event> {
        let mut versions = Vec::new();
        let mut seen = Vec::new();
        for write in &binding.volumes {
            let Some(StorageObject::Volume(volume)) = self.objects.get(&volume_key(&write.name)).cloned() else {
                return vec![failed(binding, versions, "its volume is gone")];
            };
            versions.push(self.bind_claim(&write.claim.name, &binding, volume, &mut seen).unwrap_or_default());
        }
        for write in &binding.claims {
            let Some(claim) = self.claim(&binding.namespace, &write.name) else {
                return vec![failed(binding, versions, "its claim is gone")];
            };
            let made = made_for(&claim, self.hostnames.get(&binding.node).unwrap_or(&binding.node));
            versions.push(self.bind_claim(&write.name, &binding, made, &mut seen).unwrap_or_default());
        }
        let written = Event::VolumesWritten { uid: binding.uid, id: binding.id, versions, failure: None };
        seen.into_iter().chain(std::iter::once(written)).collect()
    }

    /// Binds a claim to a volume, and gives the version that both have then.
    fn bind_claim(
        &mut self,
        name: &Arc<str>,
        binding: &VolumeBinding,
        volume: Volume,
        seen: &mut Vec<Event>,
    ) -> Option<Arc<str>> {
        let claim = self.claim(&binding.namespace, name)?;
        if claim.bind_completed {
            // For another pod that has the same claim.
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
            selected_node: claim.selected_node.clone().or_else(|| Some(Arc::clone(&binding.node))),
            resource_version: resource_version(),
            ..claim
        };
        let taken =
            Volume { claim: Some(reference), is_available: false, resource_version: resource_version(), ..volume };
        for object in [StorageObject::Volume(taken), StorageObject::Claim(bound)] {
            self.objects.insert(object.key(), object.clone());
            seen.push(Event::StorageApplied(Arc::new(object)));
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

fn failed(binding: VolumeBinding, versions: Vec<Arc<str>>, why: &str) -> Event {
    Event::VolumesWritten { uid: binding.uid, id: binding.id, versions, failure: Some(why.to_owned()) }
}

/// The volume that a provisioner makes: as large as was asked for, and for its node alone.
fn made_for(claim: &Claim, hostname: &Arc<str>) -> Volume {
    let here = Requirement { key: HOSTNAME.into(), operator: "In".into(), values: vec![Arc::clone(hostname)] };
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
