//! A pod to count, with the objects that each copy has for itself.

use std::{collections::BTreeSet, sync::Arc};

use flotilla_cluster::Cluster;
use flotilla_framework::{
    class::{Class, PodInfo},
    devices::{
        claimed::{ClaimSource, PodDevices},
        model::claim::{Controller, DeviceClaim},
        objects::DeviceObject,
    },
    extension::PodField,
    volumes::{
        mounts::{Mount, Owner, PodVolumes},
        objects::{Claim, StorageObject},
    },
};

/// The prefix of the copies' UIDs, which no API server uses.
const COPY: &str = "copy/";

/// A pod to count.
#[derive(Debug, Clone)]
pub(super) struct Counted {
    /// The name in the answer.
    pub(super) title: String,
    pub(super) pod: Arc<PodInfo>,
    /// Claims of volumes, of which each copy has its own.
    claims: Vec<Claim>,
    /// Claims of devices, of which each copy has its own.
    devices: Vec<Arc<DeviceClaim>>,
}

/// One copy of a pod, with its claims.
pub(super) struct Copy {
    pub(super) pod: Arc<PodInfo>,
    pub(super) storage: Vec<StorageObject>,
    pub(super) devices: Vec<DeviceObject>,
}

impl Counted {
    /// Takes a pending pod out of the cluster, with the claims that were created for it.
    pub(super) fn take(cluster: &mut Cluster, key: &str, title: String, is_own: impl Fn(&str) -> bool) -> Option<Self> {
        let place = cluster.pending.iter().rposition(|pod| pod.key() == key)?;
        let pod = cluster.pending.remove(place);
        let volumes = pod.class.volumes.iter().flat_map(|volumes| volumes.claims());
        let names: BTreeSet<Arc<str>> =
            volumes.filter(|(name, must_own)| *must_own || is_own(name)).map(|(name, _)| Arc::clone(name)).collect();
        let namespace = &pod.class.namespace;
        let (mut claims, mut devices) = (Vec::new(), Vec::new());
        cluster.storage.retain(|object| match object {
            StorageObject::Claim(claim) if claim.namespace == *namespace && names.contains(&claim.name) => {
                claims.push(claim.clone());
                false
            }
            _ => true,
        });
        cluster.devices.retain(|object| match object {
            DeviceObject::Claim(claim) if claim.controller.as_ref().is_some_and(|owner| owner.uid == pod.uid) => {
                devices.push(Arc::clone(claim));
                false
            }
            _ => true,
        });
        Some(Self { title, pod, claims, devices })
    }

    pub(super) fn showing(self, fields: &[PodField]) -> Self {
        Self { pod: self.pod.showing(fields), ..self }
    }

    pub(super) fn with_class(&self, class: Class) -> Self {
        let pod = Arc::new(PodInfo { class: Arc::new(class), ..PodInfo::clone(&self.pod) });
        Self { pod, ..self.clone() }
    }

    pub(super) fn copy(&self, number: usize) -> Copy {
        let renamed = |name: &str| -> Arc<str> { format!("{name}-{number}").into() };
        let name = renamed(&self.pod.name);
        let uid: Arc<str> = format!("{COPY}{}/{name}", self.pod.class.namespace).into();
        let owner = Owner { name: Arc::clone(&name), uid: Arc::clone(&uid) };
        let own = |claim: &Claim| {
            let name = renamed(&claim.name);
            let uid = format!("{COPY}{}/{name}", claim.namespace).into();
            let owner_pod = claim.owner_pod.as_ref().map(|_| Arc::clone(&owner.uid));
            StorageObject::Claim(Claim { name, uid, owner_pod, ..claim.clone() })
        };
        let own_device = |claim: &Arc<DeviceClaim>| {
            let name = renamed(&claim.name);
            let uid = format!("{COPY}{}/{name}", claim.namespace).into();
            let controller = claim.controller.as_ref().map(|known| Controller {
                name: Arc::clone(&owner.name),
                uid: Arc::clone(&owner.uid),
                ..known.clone()
            });
            DeviceObject::Claim(Arc::new(DeviceClaim { name, uid, controller, ..DeviceClaim::clone(claim) }))
        };
        let pod = PodInfo { uid, name, class: self.class(&owner, renamed), ..PodInfo::clone(&self.pod) };
        Copy {
            pod: Arc::new(pod),
            storage: self.claims.iter().map(own).collect(),
            devices: self.devices.iter().map(own_device).collect(),
        }
    }

    /// The class of a copy: its claims have other names. Copies without claims share the class.
    fn class(&self, owner: &Owner, renamed: impl Fn(&str) -> Arc<str>) -> Arc<Class> {
        let class = &self.pod.class;
        let devices = class.devices.as_deref().map(|devices| {
            let mut devices = PodDevices { owner: owner.clone(), ..devices.clone() };
            for claim in &mut devices.claims {
                if let ClaimSource::Generated(name) = &mut claim.source
                    && self.devices.iter().any(|known| known.name == *name)
                {
                    *name = renamed(name);
                }
            }
            Arc::new(devices)
        });
        if self.claims.is_empty() && devices.is_none() {
            return Arc::clone(class);
        }
        let volumes = class.volumes.as_deref().map(|volumes| {
            let mut volumes = PodVolumes { owner: volumes.owner.as_ref().map(|_| owner.clone()), ..volumes.clone() };
            for mount in &mut volumes.mounts {
                if let Mount::Claim(name) | Mount::Ephemeral(name) = mount
                    && self.claims.iter().any(|claim| claim.name == *name)
                {
                    *name = renamed(name);
                }
            }
            Arc::new(volumes)
        });
        Arc::new(Class { volumes, devices, ..Class::clone(class) })
    }
}

/// Whether a pod is a copy.
pub(super) fn is_copy(pod: &PodInfo) -> bool {
    pod.uid.starts_with(COPY)
}
