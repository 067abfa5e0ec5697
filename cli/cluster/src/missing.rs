//! Objects that others name and that the input lacks.

use std::collections::{BTreeMap, HashSet};

use flotilla_framework::{
    class::PodInfo,
    devices::{claimed::ClaimSource, objects::DeviceObject},
    labels::LabelSelector,
    volumes::{mounts::Mount, objects::StorageObject},
};

use super::listing::bounded;

/// The kind of a missing object, with what depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Lack {
    Namespace,
    RuntimeClass,
    StorageClass,
    Volume,
    /// The claim of a pending pod.
    Claim,
    /// The claim of a pod on a node.
    UsedClaim,
    ResourceClaim,
    Template,
    Owner,
}

/// The missing objects, each with the number of objects that name it.
#[derive(Debug, Default)]
pub(super) struct Missing(BTreeMap<Lack, BTreeMap<String, usize>>);

impl Missing {
    fn add(&mut self, lack: Lack, name: String, count: usize) {
        *self.0.entry(lack).or_default().entry(name).or_default() += count;
    }

    pub(super) fn add_namespace(&mut self, name: &str) {
        self.add(Lack::Namespace, format!("{name:?}"), 1);
    }

    pub(super) fn add_runtime(&mut self, name: &str) {
        self.add(Lack::RuntimeClass, format!("{name:?}"), 1);
    }

    /// Adds the controller of pods, such as `ReplicaSet shop/web-6d4`.
    pub(super) fn add_owner(&mut self, title: &str, pods: usize) {
        self.add(Lack::Owner, title.to_owned(), pods);
    }

    /// Adds the classes and volumes that claims name.
    ///
    /// A class need not exist for volumes that an administrator created with its name.
    pub(super) fn see_storage(&mut self, storage: &[StorageObject]) {
        let (mut classes, mut volumes) = (HashSet::new(), HashSet::new());
        for object in storage {
            match object {
                StorageObject::StorageClass(class) => _ = classes.insert(&*class.name),
                StorageObject::Volume(volume) => {
                    volumes.insert(&*volume.name);
                    classes.insert(&*volume.storage_class);
                }
                _ => {}
            }
        }
        for object in storage {
            let StorageObject::Claim(claim) = object else { continue };
            if !claim.volume_name.is_empty() {
                if !volumes.contains(&*claim.volume_name) {
                    self.add(Lack::Volume, format!("{:?}", claim.volume_name), 1);
                }
            } else if !claim.storage_class.is_empty() && !classes.contains(&*claim.storage_class) {
                self.add(Lack::StorageClass, format!("{:?}", claim.storage_class), 1);
            }
        }
    }

    /// Adds the claims that pods name.
    pub(super) fn see_pods<'a>(
        &mut self,
        pods: impl Iterator<Item = &'a PodInfo>,
        storage: &[StorageObject],
        devices: &[DeviceObject],
    ) {
        let claims = storage.iter().filter_map(|object| match object {
            StorageObject::Claim(claim) => Some((&*claim.namespace, &*claim.name)),
            _ => None,
        });
        let claims: HashSet<(&str, &str)> = claims.collect();
        let devices = devices.iter().filter_map(|object| match object {
            DeviceObject::Claim(claim) => Some((&*claim.namespace, &*claim.name)),
            _ => None,
        });
        let devices: HashSet<(&str, &str)> = devices.collect();
        for pod in pods {
            let namespace = &*pod.class.namespace;
            for mount in pod.class.volumes.iter().flat_map(|volumes| &volumes.mounts) {
                if let Mount::Claim(name) = mount
                    && !claims.contains(&(namespace, name))
                {
                    let lack = if pod.node_name.is_some() { Lack::UsedClaim } else { Lack::Claim };
                    self.add(lack, format!("{namespace}/{name}"), 1);
                }
            }
            for claim in pod.class.devices.iter().flat_map(|devices| &devices.claims) {
                if let ClaimSource::Named(name) = &claim.source
                    && pod.node_name.is_none()
                    && !devices.contains(&(namespace, name))
                {
                    self.add(Lack::ResourceClaim, format!("{namespace}/{name}"), 1);
                }
            }
        }
    }

    pub(super) fn add_template(&mut self, namespace: &str, name: &str) {
        self.add(Lack::Template, format!("{namespace}/{name}"), 1);
    }

    /// One line with all missing objects; `None` if there are none.
    pub(super) fn line(&self) -> Option<String> {
        let part = |(lack, names): (&Lack, &BTreeMap<String, usize>)| {
            let count: usize = names.values().sum();
            let (kind, effect) = lack.words(count, names.len());
            let names = bounded(names.keys().map(String::as_str));
            format!("{kind}{names} ({effect})")
        };
        let parts: Vec<String> = self.0.iter().map(part).collect();
        (!parts.is_empty()).then(|| format!("not in the input: {}", parts.join("; ")))
    }
}

impl Lack {
    /// The kind with a space, and what depends on it.
    fn words(self, count: usize, names: usize) -> (&'static str, String) {
        let of = |noun: &str| if count == 1 { format!("{count} {noun}") } else { format!("{count} {noun}s") };
        let stay = if count == 1 { "stays pending" } else { "stay pending" };
        let its = if names == 1 { "its" } else { "their" };
        match self {
            Self::Namespace => ("Namespace ", format!("{}; {its} labels are unknown", of("pod"))),
            Self::RuntimeClass => {
                ("RuntimeClass ", format!("{} without {its} overhead and node selector", of("created pod")))
            }
            Self::StorageClass => ("StorageClass ", of("claim")),
            Self::Volume => ("PersistentVolume ", of("bound claim")),
            Self::Claim => ("PersistentVolumeClaim ", format!("{} {stay}", of("pod"))),
            Self::UsedClaim => {
                let volumes = if names == 1 { "its volume counts" } else { "their volumes count" };
                ("PersistentVolumeClaim ", format!("{}; {volumes} for no limit and no zone", of("bound pod")))
            }
            Self::ResourceClaim => ("ResourceClaim ", format!("{} {stay}", of("pod"))),
            Self::Template => ("ResourceClaimTemplate ", format!("{} {stay}", of("pod"))),
            Self::Owner => {
                let (owner, them) =
                    (if names == 1 { "owner" } else { "owners" }, if count == 1 { "it" } else { "them" });
                ("", format!("{owner} of {}: drains and preemption treat {them} as recreated", of("pod")))
            }
        }
    }
}

/// Whether a term of the pod selects namespaces by label.
pub(super) fn selects_namespaces(pod: &PodInfo) -> bool {
    let terms = &pod.class.pod_affinity;
    let preferred = terms.preferred.iter().chain(&terms.preferred_anti).map(|(_, term)| term);
    let mut all = terms.required.iter().chain(&terms.required_anti).chain(preferred);
    all.any(
        |term| matches!(&term.namespace_selector, LabelSelector::Matching(requirements) if !requirements.is_empty()),
    )
}
