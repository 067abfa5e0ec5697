//! Storage of the test world: the API server checks the version of each write, and a controller binds claims.

use std::sync::Arc;

use flotilla_framework::{
    class::{NodeTerm, PodInfo, Requirement},
    extension::objects::{ObjectKey, Patch, Write},
    profile::{Profile, WeightedPlugin},
    quantity::Quantity,
    testing::{self, PodBuilder},
    volumes::{
        binding::volume_key,
        mounts::{Mount, Owner, PodVolumes},
        objects::{
            AccessModes, BindingMode, Claim, ClaimReference, StorageClass, StorageKey, StorageKind, StorageObject,
            Volume,
        },
    },
};
use flotilla_machine::{
    action::PreBind,
    event::{Event, PreparationId},
};

use crate::world::World;

pub(crate) fn profile() -> Profile {
    let mut profile = testing::profile();
    let plugins = &mut profile.plugins;
    for name in ["VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"] {
        for point in [&mut plugins.pre_filter, &mut plugins.filter] {
            if !point.iter().any(|known| known == name) {
                point.push(name.to_owned());
            }
        }
    }
    for point in [&mut plugins.pre_score, &mut plugins.reserve, &mut plugins.pre_bind] {
        if !point.iter().any(|known| known == "VolumeBinding") {
            point.push("VolumeBinding".to_owned());
        }
    }
    if !plugins.score.iter().any(|known| known.name == "VolumeBinding") {
        plugins.score.push(WeightedPlugin { name: "VolumeBinding".to_owned(), weight: 1 });
    }
    profile
}

/// A class with this binding mode: `local` has only existing volumes, any other name a provisioner.
pub(crate) fn class(name: &str, binding_mode: BindingMode) -> StorageObject {
    let provisioner = if name == "local" { "kubernetes.io/no-provisioner" } else { "example.com/disk" };
    StorageObject::StorageClass(StorageClass {
        name: name.into(),
        provisioner: provisioner.into(),
        binding_mode: Some(binding_mode),
        ..StorageClass::default()
    })
}

pub(crate) fn claim(name: &str, class: &str) -> Claim {
    Claim {
        namespace: "default".into(),
        name: name.into(),
        uid: format!("claim-{name}").into(),
        storage_class: class.into(),
        access_modes: AccessModes::READ_WRITE_ONCE,
        requested: Quantity::parse("1Gi").ok(),
        ..Claim::default()
    }
}

/// A volume of 1 GiB that only one node can reach.
pub(crate) fn local_volume(name: &str, node: &str) -> Volume {
    let requirement =
        Requirement { key: "kubernetes.io/hostname".into(), operator: "In".into(), values: vec![node.into()] };
    Volume {
        name: name.into(),
        uid: format!("volume-{name}").into(),
        storage_class: "local".into(),
        capacity: Quantity::parse("1Gi").expect("a quantity"),
        access_modes: AccessModes::READ_WRITE_ONCE,
        node_affinity: Some(vec![NodeTerm { expressions: vec![requirement], fields: Vec::new() }]),
        is_available: true,
        ..Volume::default()
    }
}

pub(crate) fn pod_with(name: &str, claims: &[&str]) -> PodInfo {
    with_claims(testing::pod(name), claims).build()
}

pub(crate) fn with_claims(builder: PodBuilder, claims: &[&str]) -> PodBuilder {
    let mounts = claims.iter().map(|&name| Mount::Claim(name.into())).collect();
    builder.class(|class| class.volumes = Some(Arc::new(PodVolumes { mounts, owner: None })))
}

/// A pod with an ephemeral volume.
pub(crate) fn ephemeral_pod(name: &str, volume: &str) -> PodInfo {
    let owner = Owner { name: name.into(), uid: format!("uid-{name}").into() };
    let mounts = vec![Mount::Ephemeral(format!("{name}-{volume}").into())];
    let volumes = PodVolumes { mounts, owner: Some(owner) };
    testing::pod(name).class(|class| class.volumes = Some(Arc::new(volumes))).build()
}

pub(crate) fn claim_key(name: &str) -> StorageKey {
    StorageKey { kind: StorageKind::Claim, namespace: "default".into(), name: name.into() }
}

impl World {
    pub(crate) fn with_volumes(workers: usize) -> Self {
        let mut world = Self::with_profiles(vec![profile()]);
        for index in 0..workers {
            world.join(&format!("worker-{index}"));
        }
        world.store(class("local", BindingMode::WaitForFirstConsumer));
        world.store(class("made", BindingMode::WaitForFirstConsumer));
        world.store(class("at-once", BindingMode::Immediate));
        world.settle();
        world
    }

    /// Writes an object: updates its version, and emits the watch event.
    pub(crate) fn store(&mut self, mut object: StorageObject) {
        self.last_version += 1;
        let version: Arc<str> = self.last_version.to_string().into();
        match &mut object {
            StorageObject::Claim(claim) => {
                claim.resource_version = version;
                claim.has_annotations = claim.bind_completed || claim.selected_node.is_some();
            }
            StorageObject::Volume(volume) => volume.resource_version = version,
            _ => {}
        }
        self.storage.insert(object.key(), object.clone());
        self.observe_storage(Event::ObjectApplied(object.into()));
    }

    /// Delivers storage events in order: at once if none is pending and the watch does not lag, else later.
    fn observe_storage(&mut self, event: Event) {
        self.storage_watch.push_back(event);
        if self.storage_watch.len() == 1 && !self.storage_lags {
            self.run_storage_watch();
        }
    }

    pub(crate) fn store_claim(&mut self, claim: Claim) {
        self.store(StorageObject::Claim(claim));
    }

    pub(crate) fn store_volume(&mut self, volume: Volume) {
        self.store(StorageObject::Volume(volume));
    }

    pub(crate) fn unstore(&mut self, key: &StorageKey) {
        if self.storage.remove(key).is_some() {
            self.observe_storage(Event::ObjectDeleted(key.clone().into()));
        }
    }

    pub(crate) fn claim(&self, name: &str) -> Option<&Claim> {
        match self.storage.get(&claim_key(name)) {
            Some(StorageObject::Claim(claim)) => Some(claim),
            _ => None,
        }
    }

    pub(crate) fn volume(&self, name: &str) -> Option<&Volume> {
        match self.storage.get(&volume_key(&name.into())) {
            Some(StorageObject::Volume(volume)) => Some(volume),
            _ => None,
        }
    }

    pub(crate) fn claim_of(&self, volume: &str) -> Option<&str> {
        Some(&self.volume(volume)?.claim.as_ref()?.name)
    }

    pub(crate) fn selected_node(&self, claim: &str) -> Option<&str> {
        self.claim(claim)?.selected_node.as_deref()
    }

    pub(crate) fn run_storage_watch(&mut self) -> bool {
        let Some(event) = self.storage_watch.pop_front() else { return false };
        self.tell(event);
        true
    }

    /// The API server performs the oldest volume writes, up to the first version conflict.
    pub(crate) fn run_pre_bind(&mut self) -> bool {
        let Some(binding) = self.pre_binds.pop_front() else { return false };
        let (versions, failure) = self.write(&binding);
        self.tell(Event::Written { uid: binding.uid, id: binding.id, versions, failure });
        true
    }

    pub(crate) fn write(&mut self, pre_bind: &PreBind) -> (Vec<Arc<str>>, Option<String>) {
        let of_claims = |write: &Write| matches!(write.object, ObjectKey::Device(_));
        if pre_bind.writes.first().is_some_and(of_claims) {
            return self.write_claims(pre_bind);
        }
        let mut versions = Vec::new();
        for write in &pre_bind.writes {
            let ObjectKey::Storage(key) = &write.object else { panic!("{write:?} is not for storage") };
            let (kind, version) = match &write.patch {
                Patch::SetAside { .. } => ("volume", self.volume(&key.name).map(|known| &known.resource_version)),
                Patch::SelectNode(_) => ("claim", self.claim(&key.name).map(|known| &known.resource_version)),
                Patch::Claim(patch) => panic!("{patch:?} is not for storage"),
            };
            if version != Some(&write.resource_version) {
                return (versions, Some(format!("conflict on {kind} {}", key.name)));
            }
            match (self.storage.get(key).cloned(), &write.patch) {
                (Some(StorageObject::Volume(known)), Patch::SetAside { claim, .. }) => {
                    assert_eq!(known.uid, write.uid, "the version is that of another volume");
                    self.store_volume(Volume { claim: Some(claim.clone()), ..known });
                }
                (Some(StorageObject::Claim(known)), Patch::SelectNode(node)) => {
                    assert_eq!(known.uid, write.uid, "the version is that of another claim");
                    self.store_claim(Claim { selected_node: Some(Arc::clone(node)), ..known });
                }
                (known, patch) => panic!("{patch:?} is not for {known:?}"),
            }
            versions.push(self.last_version.to_string().into());
        }
        (versions, None)
    }

    /// The API server rejects all writes of the oldest PreBind.
    pub(crate) fn refuse_pre_bind(&mut self, why: &str) -> PreparationId {
        let binding = self.pre_binds.pop_front().expect("writes under way");
        let failure = Some(why.to_owned());
        self.tell(Event::Written { uid: binding.uid, id: binding.id, versions: Vec::new(), failure });
        binding.id
    }

    /// Runs the volume controller once: binds claims with a reserved volume, claims that do not wait for a pod, and provisioned ones.
    /// Returns whether anything changed.
    pub(crate) fn run_volume_controller(&mut self) -> bool {
        let claims: Vec<Claim> = self
            .storage
            .values()
            .filter_map(|object| match object {
                StorageObject::Claim(claim) if !claim.bind_completed => Some(claim.clone()),
                _ => None,
            })
            .collect();
        let mut busy = false;
        for claim in claims {
            let Some(volume) = self.volume_for(&claim) else { continue };
            busy = true;
            let reference = ClaimReference {
                namespace: Arc::clone(&claim.namespace),
                name: Arc::clone(&claim.name),
                uid: Arc::clone(&claim.uid),
            };
            let volume_name = Arc::clone(&volume.name);
            self.store_volume(Volume { claim: Some(reference), is_available: false, ..volume });
            self.store_claim(Claim { volume_name, bind_completed: true, ..claim });
        }
        busy
    }

    fn volume_for(&self, claim: &Claim) -> Option<Volume> {
        let volumes = || {
            self.storage.values().filter_map(|object| match object {
                StorageObject::Volume(volume) => Some(volume),
                _ => None,
            })
        };
        let is_for_it = |volume: &&Volume| volume.claim.as_ref().is_some_and(|known| known.uid == claim.uid);
        if let Some(volume) = volumes().find(is_for_it) {
            return Some(volume.clone());
        }
        match &*claim.storage_class {
            "at-once" => {
                volumes().find(|volume| volume.claim.is_none() && &*volume.storage_class == "at-once").cloned()
            }
            "made" => {
                let node = claim.selected_node.as_deref()?;
                let made = local_volume(&format!("made-for-{}", claim.name), node);
                Some(Volume { storage_class: "made".into(), ..made })
            }
            _ => None,
        }
    }
}
