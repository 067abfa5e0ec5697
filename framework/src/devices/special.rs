//! The claim that is made for the extended resources of a pod, where device classes stand behind them.
//!
//! Knows: which of the resources a node has by a device plugin and which come from devices, and what is claimed for these. Must
//! not know: which devices are found.
//!
//! Source: `filterExtendedResources` and `preFilterExtendedResources` of the plugin.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::{
    claimed::PodDevices,
    extended::{self, Asking, DeviceClasses, Mapping},
    model::{
        claim::{Controller, DeviceClaim},
        class::DeviceClass,
        request::ClaimSpec,
    },
};
use crate::{resources::Resources, volumes::mounts::Owner};

/// How the claim is called as long as it has no name.
pub const UNNAMED: &str = "<extended-resources>";

/// How many extended resources of one pod may come from devices: each is a bit. Others are not served.
const MAX_RESOURCES: usize = 64;

/// How many characters an API server takes of `generateName`, and how many it adds.
///
/// Source: `names.SimpleNameGenerator`.
const MAX_BASE: usize = 58;
const ADDED: u32 = 5;
/// Those that it adds.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The extended resources of a pod of which device classes stand behind at least one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Extended {
    /// The containers, init containers first.
    pub containers: Vec<Asking>,
    /// What they ask for that may come from devices, sorted by name, each with the class behind it.
    pub resources: Vec<(Arc<str>, Option<Arc<DeviceClass>>)>,
    /// A claim is there for them, from an attempt before.
    pub has_left: bool,
}

/// The resources of [`Extended`] that come from devices on a node, each a bit by its place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Served(pub u64);

/// Why a pod cannot have its extended resources on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unserved {
    /// There is a claim from an attempt before, which has to go first.
    #[error("cannot schedule extended resource claim")]
    Left,
    /// The node lacks a resource, and no class stands behind it.
    #[error("cannot fit resource")]
    Lacking,
}

// === impl Extended ===

impl Extended {
    /// What containers ask for. `None`: no class stands behind any of it.
    #[must_use]
    pub fn of(devices: &PodDevices, classes: &DeviceClasses) -> Option<Self> {
        if devices.containers.is_empty() || classes.is_empty() {
            return None;
        }
        let names = extended::backable(&devices.containers).into_iter();
        let resources: Vec<_> = names.map(|name| (Arc::clone(name), classes.behind(name).cloned())).collect();
        let is_mapped = resources.iter().any(|(_, class)| class.is_some());
        is_mapped.then(|| Self { containers: devices.containers.clone(), resources, has_left: devices.has_left })
    }

    /// The names of the resources that a class stands behind, sorted.
    pub fn mapped(&self) -> impl Iterator<Item = &Arc<str>> {
        self.resources.iter().filter(|(_, class)| class.is_some()).map(|(name, _)| name)
    }

    /// The class behind a resource.
    #[must_use]
    pub fn class(&self, resource: &str) -> Option<&Arc<DeviceClass>> {
        self.resources.iter().find(|(name, _)| **name == *resource)?.1.as_ref()
    }

    /// Which resources come from devices on a node, given how much of a resource is allocatable there; `None` where the node does
    /// not name it. One of 0 without a class is nothing for devices: that it lacks is for NodeResourcesFit to say.
    ///
    /// # Errors
    /// The pod cannot have all of them there.
    pub fn served(&self, allocatable: impl Fn(&str) -> Option<i64>) -> Result<Served, Unserved> {
        if self.has_left {
            return Err(Unserved::Left);
        }
        let mut served = Served::default();
        for (place, (name, class)) in self.resources.iter().enumerate() {
            match (allocatable(name), class) {
                (None | Some(0), Some(_)) if place < MAX_RESOURCES => served.0 |= 1 << place,
                (None, _) | (Some(0), Some(_)) => return Err(Unserved::Lacking),
                (Some(_), _) => {}
            }
        }
        Ok(served)
    }

    /// What is claimed for the resources that come from devices, and which container gets which devices. `None`: nothing, also
    /// where no container asks for a whole number.
    #[must_use]
    pub fn claimed(&self, served: Served) -> Option<(Arc<ClaimSpec>, Vec<Mapping>)> {
        let of = |(place, (name, class)): (usize, &'_ (Arc<str>, Option<Arc<DeviceClass>>))| {
            let is_served = place < MAX_RESOURCES && served.0 >> place & 1 == 1;
            class.as_ref().filter(|_| is_served).map(|class| (Arc::clone(name), Arc::clone(class)))
        };
        let resources: Vec<_> = self.resources.iter().enumerate().filter_map(of).collect();
        let resources = resources.iter().map(|(name, class)| (name, class));
        let (requests, mappings) = extended::requests(&self.containers, resources);
        (!requests.is_empty()).then(|| (Arc::new(ClaimSpec { requests, ..ClaimSpec::default() }), mappings))
    }

    /// The resources as a class of pods has them: containers without names, and of what they ask for only what may come from
    /// devices. The other names stay, as they count for the names of requests.
    #[must_use]
    pub fn shared(&self) -> Vec<Asking> {
        let amount = |(name, amount): &(Arc<str>, Option<i64>)| {
            (Arc::clone(name), if extended::is_backable(name) { *amount } else { Some(0) })
        };
        let container = |container: &Asking| Asking {
            name: Arc::default(),
            is_short_lived: container.is_short_lived,
            requests: container.requests.iter().map(amount).collect(),
        };
        self.containers.iter().map(container).collect()
    }
}

/// How much of a resource a node has allocatable.
pub(super) fn on(allocatable: &Resources) -> impl Fn(&str) -> Option<i64> + '_ {
    |name| allocatable.scalar(name)
}

/// The UID under which devices are set aside for the claim of a pod until that has its own: no UID has a slash.
pub(super) fn pending_uid(pod_uid: &str) -> Arc<str> {
    format!("{pod_uid}/{UNNAMED}").into()
}

/// Whether a UID is one of [`pending_uid`].
pub(super) fn is_pending_uid(uid: &str) -> bool {
    uid.ends_with(UNNAMED)
}

/// The claim as it is created for a pod, without its status.
pub(super) fn claim(namespace: &Arc<str>, pod: &Owner, attempt: u64, spec: &Arc<ClaimSpec>) -> DeviceClaim {
    let (name, uid) = (Arc::clone(&pod.name), Arc::clone(&pod.uid));
    DeviceClaim {
        namespace: Arc::clone(namespace),
        name: name_of(pod, attempt),
        uid: pending_uid(&pod.uid),
        controller: Some(Controller { kind: "Pod".into(), name, uid }),
        is_extended: true,
        spec: Arc::clone(spec),
        ..DeviceClaim::default()
    }
}

/// A name for the claim of a pod. An API server makes one by chance; here it is made of the pod and of what may differ from one
/// attempt to the next, so that no attempt meets the claim of the one before.
fn name_of(pod: &Owner, attempt: u64) -> Arc<str> {
    let base = format!("{}-extended-resources-", pod.name);
    let mut base: String = base.chars().take(MAX_BASE).collect();
    let mut hash = xxh3_64(format!("{}/{attempt}", pod.uid).as_bytes());
    for _ in 0..ADDED {
        let letters = LETTERS.len() as u64;
        base.push(char::from(LETTERS[usize::try_from(hash % letters).unwrap_or(0)]));
        hash /= letters;
    }
    base.into()
}
