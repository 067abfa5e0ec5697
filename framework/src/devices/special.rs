//! The claim for the extended resources of a pod that DeviceClasses provide. Source: `filterExtendedResources` and
//! `preFilterExtendedResources` of the plugin.

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

/// Label of the claim before it has a name.
pub const UNNAMED: &str = "<extended-resources>";

/// Maximum extended resources of a pod from devices, one bit each. Others are not provided.
const MAX_RESOURCES: usize = 64;

/// Maximum length of the base in `generateName`, and the characters that the API server appends. Source: `names.SimpleNameGenerator`.
const MAX_BASE: usize = 58;
const ADDED: u32 = 5;
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Extended resources of a pod, at least one of which a DeviceClass provides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Extended {
    /// All containers, init containers first.
    pub containers: Vec<Asking>,
    /// Requested resources that devices may provide, sorted by name, with the class that provides each.
    pub resources: Vec<(Arc<str>, Option<Arc<DeviceClass>>)>,
    /// An earlier attempt left a claim for them.
    pub has_left: bool,
}

/// The resources of [`Extended`] that devices provide on a node, one bit per index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Served(pub u64);

/// Why a node cannot provide the extended resources of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unserved {
    /// A claim of an earlier attempt must be deleted first.
    #[error("cannot schedule extended resource claim")]
    Left,
    /// The node lacks a resource, and no class provides it.
    #[error("cannot fit resource")]
    Lacking,
}

impl Extended {
    /// Extended resources of a pod. `None`: no class provides any of them.
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

    /// Resources that a class provides, sorted.
    pub fn mapped(&self) -> impl Iterator<Item = &Arc<str>> {
        self.resources.iter().filter(|(_, class)| class.is_some()).map(|(name, _)| name)
    }

    /// The class that provides a resource.
    #[must_use]
    pub fn class(&self, resource: &str) -> Option<&Arc<DeviceClass>> {
        self.resources.iter().find(|(name, _)| **name == *resource)?.1.as_ref()
    }

    /// Resources that devices provide on a node. `allocatable` returns the node's amount, or `None` if the node does not list the resource.
    /// A resource with amount 0 and no class is left to NodeResourcesFit.
    ///
    /// # Errors
    /// The node cannot provide all of them.
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

    /// The claim spec for resources from devices, and the mappings to containers. `None`: no container requests an integer amount of them.
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

    /// The form that pods of a class share: containers have no names, and other resources lose their amounts. Their positions stay because
    /// request names contain them.
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

pub(super) fn on(allocatable: &Resources) -> impl Fn(&str) -> Option<i64> + '_ {
    |name| allocatable.scalar(name)
}

/// Placeholder UID for assumed devices of a claim that has no UID yet. Real UIDs contain no slash.
pub(super) fn pending_uid(pod_uid: &str) -> Arc<str> {
    format!("{pod_uid}/{UNNAMED}").into()
}

pub(super) fn is_pending_uid(uid: &str) -> bool {
    uid.ends_with(UNNAMED)
}

/// The claim to create for a pod, without status.
pub(super) fn claim(namespace: &Arc<str>, pod: &Owner, attempt: u64, spec: &Arc<ClaimSpec>) -> DeviceClaim {
    let (name, uid) = (Arc::clone(&pod.name), Arc::clone(&pod.uid));
    DeviceClaim {
        namespace: Arc::clone(namespace),
        name: name_of(pod, attempt),
        uid: pending_uid(&pod.uid),
        controller: Some(Controller { kind: "Pod".into(), name, uid, ..Controller::default() }),
        is_extended: true,
        spec: Arc::clone(spec),
        ..DeviceClaim::default()
    }
}

/// Name of the claim for a pod. An API server would generate it at random. Here it is a hash of the pod and of the attempt, so that
/// an attempt does not reuse the name of an earlier one.
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
