//! Derives facts about classes, nodes and assigned pods from storage objects. The plugins evaluate node labels.

mod binding;
mod limits;
pub(super) mod reach;
#[cfg(test)]
mod tests;
mod zones;

use std::sync::Arc;

pub(super) use binding::Names;
pub(super) use limits::is_migrated;

use super::{
    facts::{Binding, VolumeFacts},
    in_use::StorageInUse,
    mounts::{Owner, PodVolumes},
    node::{Attachment, NodeCsi},
    objects::{AccessModes, Claim, VolumeSource},
    storage::Storage,
};
use crate::class::Class;

impl Storage {
    /// Facts about a class; `None` if plugins read none of its volumes.
    #[must_use]
    pub fn facts(&self, class: &Class, standing: &StorageInUse) -> Option<Arc<VolumeFacts>> {
        let pod = Pod { class, volumes: class.volumes.as_deref()?, storage: self };
        let (wanted, demanded) = limits::wanted(pod);
        let uncountable = if pod.volumes.may_be_limited() {
            standing.uncountable().map(|(class, error)| (class, Arc::clone(error))).collect()
        } else {
            Vec::new()
        };
        let (exclusive, exclusive_claims) = exclusive(pod, standing)
            .map_or_else(|reason| (Err(reason), Vec::new()), |(used, claims)| (Ok(used), claims));
        Some(Arc::new(VolumeFacts {
            exclusive,
            exclusive_claims,
            wanted,
            demanded,
            uncountable,
            binding: binding::binding(pod).0,
            zones: zones::zones(pod),
        }))
    }

    /// Volumes that an assigned pod attaches to its node, sorted and unique. Missing claims do not count. Source:
    /// `CSILimits.filterAttachableVolumes` for an existing pod.
    ///
    /// # Errors
    /// The volumes cannot be counted. Upstream's text.
    pub fn attached_by(&self, class: &Class) -> Result<Vec<Attachment>, Arc<str>> {
        let Some(volumes) = class.volumes.as_deref() else { return Ok(Vec::new()) };
        limits::attached(Pod { class, volumes, storage: self })
    }

    /// CSI data of a node; `None` without a CSINode.
    #[must_use]
    pub fn node_csi(&self, node: &str) -> Option<Arc<NodeCsi>> {
        let csi_node = self.csi_node(node)?;
        let attached = self.attachments(node).filter_map(|attachment| {
            let volume = self.volume(attachment.volume.as_deref()?)?;
            let VolumeSource::Csi { handle, .. } = &volume.source else { return None };
            let driver = Arc::clone(&attachment.attacher);
            (!driver.is_empty()).then(|| Attachment { driver, handle: Arc::clone(handle) })
        });
        Some(Arc::new(NodeCsi {
            drivers: csi_node.drivers.clone(),
            migrated_plugins: csi_node.migrated_plugins.clone(),
            attached: sorted(attached.collect()),
        }))
    }

    /// Input of VolumeBinding for a class, and the names behind its indices.
    pub(super) fn binding(&self, class: &Class) -> (Binding, Names) {
        class
            .volumes
            .as_deref()
            .map_or_else(Default::default, |volumes| binding::binding(Pod { class, volumes, storage: self }))
    }
}

#[derive(Clone, Copy)]
struct Pod<'a> {
    class: &'a Class,
    volumes: &'a PodVolumes,
    storage: &'a Storage,
}

impl<'a> Pod<'a> {
    fn claim(&self, name: &str) -> Option<&'a Claim> {
        self.storage.claim(&self.class.namespace, name)
    }

    /// Checks that the claim was created for this pod. Source: component-helpers `ephemeral.VolumeIsForPod`.
    fn owns(&self, claim: &Claim) -> Result<(), Arc<str>> {
        let none = Owner::default();
        let owner = self.volumes.owner.as_ref().unwrap_or(&none);
        if claim.owner_pod.as_ref() == Some(&owner.uid) {
            return Ok(());
        }
        let (namespace, name, pod) = (&claim.namespace, &claim.name, &owner.name);
        Err(format!("PVC {namespace}/{name} was not created for pod {namespace}/{pod} (pod is not owner)").into())
    }
}

/// Source: `VolumeRestrictions.readWriteOncePodPVCsForPod` and `calPreFilterState`.
fn exclusive(pod: Pod<'_>, standing: &StorageInUse) -> Result<(u32, Vec<Arc<str>>), Arc<str>> {
    let mut exclusive: Vec<Arc<str>> = Vec::new();
    for name in pod.volumes.named_claims() {
        let claim = pod.claim(name).ok_or_else(|| missing_claim(name))?;
        if claim.access_modes.contains(AccessModes::READ_WRITE_ONCE_POD) && !exclusive.contains(name) {
            exclusive.push(Arc::clone(name));
        }
    }
    let used = exclusive.iter().filter(|name| standing.is_used(&pod.class.namespace, name)).count();
    Ok((u32::try_from(used).unwrap_or(u32::MAX), exclusive))
}

/// A lister's error for a missing claim.
fn missing_claim(name: &str) -> Arc<str> {
    format!("persistentvolumeclaim {name:?} not found").into()
}

fn sorted(mut attachments: Vec<Attachment>) -> Vec<Attachment> {
    attachments.sort_unstable();
    attachments.dedup();
    attachments
}
