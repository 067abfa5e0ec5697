//! Volumes as NodeVolumeLimits counts them. Source: `CSILimits.filterAttachableVolumes`, `getCSIDriverInfo`, `getCSIDriverInfoFromSC`.

use std::{collections::BTreeSet, sync::Arc};

use super::{Pod, missing_claim, sorted};
use crate::volumes::{
    facts::Wanted,
    mounts::Mount,
    node::Attachment,
    objects::{Claim, InTree, VolumeSource},
    translate,
};

/// Plugins that are migrated on every node with a CSINode. Other translatable plugins never count. Source: `isCSIMigrationOn`, and
/// `isCSIMigrationOnForPlugin` of VolumeBinding.
const MIGRATED: [&str; 5] = [
    "kubernetes.io/aws-ebs",
    "kubernetes.io/azure-disk",
    "kubernetes.io/cinder",
    "kubernetes.io/gce-pd",
    "kubernetes.io/portworx-volume",
];

pub(in crate::volumes) fn is_migrated(plugin: &str) -> bool {
    MIGRATED.contains(&plugin)
}

/// Volumes that a class attaches, and their drivers that a node must have.
pub(super) fn wanted(pod: Pod<'_>) -> (Vec<Wanted>, Vec<Arc<str>>) {
    let mut all = Vec::new();
    for mount in &pod.volumes.mounts {
        let Some(wanted) = of_mount(pod, mount) else { continue };
        let is_end = !matches!(wanted, Wanted::Attach { .. } | Wanted::Fail { migrated: true, .. });
        all.push(wanted);
        if is_end {
            break;
        }
    }
    let drivers: BTreeSet<&Arc<str>> = all.iter().filter_map(driver).collect();
    let demands = |name: &&Arc<str>| pod.storage.driver(name).is_some_and(|driver| driver.prevents_if_missing);
    let demanded = drivers.into_iter().filter(demands).map(Arc::clone).collect();
    (all, demanded)
}

pub(super) fn attached(pod: Pod<'_>) -> Result<Vec<Attachment>, Arc<str>> {
    let mut all = Vec::new();
    for mount in &pod.volumes.mounts {
        match of_mount(pod, mount) {
            Some(Wanted::Attach { attachment, .. }) => all.push(attachment),
            Some(Wanted::Fail { error, .. }) => return Err(error),
            Some(Wanted::Missing(_)) | None => {}
        }
    }
    Ok(sorted(all))
}

fn driver(wanted: &Wanted) -> Option<&Arc<str>> {
    match wanted {
        Wanted::Attach { attachment, .. } => Some(&attachment.driver),
        Wanted::Missing(_) | Wanted::Fail { .. } => None,
    }
}

fn of_mount(pod: Pod<'_>, mount: &Mount) -> Option<Wanted> {
    let (name, is_own) = match mount {
        Mount::Claim(name) => (name, false),
        Mount::Ephemeral(name) => (name, true),
        Mount::Inline(inline) => return of_inline(inline.in_tree.as_ref()?),
        Mount::Csi(_) => return None,
    };
    if name.is_empty() {
        return Some(Wanted::Fail { error: "PersistentVolumeClaim had no name".into(), migrated: false });
    }
    let Some(claim) = pod.claim(name) else {
        let (namespace, reason) = (&pod.class.namespace, missing_claim(name));
        return Some(Wanted::Missing(format!("looking up PVC {namespace}/{name}: {reason}").into()));
    };
    if let Err(error) = if is_own { pod.owns(claim) } else { Ok(()) } {
        return Some(Wanted::Fail { error, migrated: false });
    }
    let (attachment, migrated) = of_claim(pod, claim)?;
    let is_counted = !attachment.driver.is_empty() && !attachment.handle.is_empty();
    is_counted.then_some(Wanted::Attach { attachment, migrated })
}

fn of_inline(source: &InTree) -> Option<Wanted> {
    if !is_migrated(&source.plugin) {
        return None;
    }
    Some(match &source.handle {
        Ok(handle) => {
            let attachment = Attachment { driver: Arc::clone(&source.driver), handle: Arc::clone(handle) };
            Wanted::Attach { attachment, migrated: true }
        }
        Err(error) => Wanted::Fail { error: Arc::clone(error), migrated: true },
    })
}

/// The CSI volume of a claim, and whether it counts only on nodes with a CSINode.
fn of_claim(pod: Pod<'_>, claim: &Claim) -> Option<(Attachment, bool)> {
    let Some(volume) = pod.storage.volume(&claim.volume_name) else { return of_class(pod, claim) };
    match &volume.source {
        VolumeSource::Csi { driver, handle } => {
            Some((Attachment { driver: Arc::clone(driver), handle: Arc::clone(handle) }, false))
        }
        VolumeSource::InTree(source) if is_migrated(&source.plugin) => {
            let handle = Arc::clone(source.handle.as_ref().ok()?);
            Some((Attachment { driver: Arc::clone(&source.driver), handle }, true))
        }
        VolumeSource::InTree(_) | VolumeSource::Other => None,
    }
}

fn of_class(pod: Pod<'_>, claim: &Claim) -> Option<(Attachment, bool)> {
    let class = pod.storage.class(&claim.storage_class).filter(|_| !claim.storage_class.is_empty())?;
    // Upstream uses a random prefix so that no driver's handle is equal.
    let handle = format!("\0{}/{}", claim.namespace, claim.name).into();
    match translate::driver(&class.provisioner) {
        Some(driver) if is_migrated(&class.provisioner) => Some((Attachment { driver: driver.into(), handle }, true)),
        Some(_) => None,
        None => Some((Attachment { driver: Arc::clone(&class.provisioner), handle }, false)),
    }
}
