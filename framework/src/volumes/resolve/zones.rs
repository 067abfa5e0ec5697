//! Zones of the volumes of bound claims. Source: `VolumeZone.getPVbyPod`.

use std::sync::Arc;

use super::{Pod, missing_claim};
use crate::volumes::{
    facts::ZoneLabel,
    objects::{BindingMode, Claim},
    zones::of_volume,
};

pub(super) fn zones(pod: Pod<'_>) -> Result<Vec<ZoneLabel>, Arc<str>> {
    let mut all = Vec::new();
    for name in pod.volumes.named_claims() {
        if name.is_empty() {
            return Err("PersistentVolumeClaim had no name".into());
        }
        let claim = pod.claim(name).ok_or_else(|| missing_claim(name))?;
        if claim.volume_name.is_empty() {
            unbound(pod, claim)?;
            continue;
        }
        let volume = pod.storage.volume(&claim.volume_name);
        all.extend(of_volume(volume.ok_or_else(|| format!("persistentvolume {:?} not found", claim.volume_name))?));
    }
    Ok(all)
}

/// Whether a claim without a volume is skipped, or an error.
fn unbound(pod: Pod<'_>, claim: &Claim) -> Result<(), Arc<str>> {
    let name = &claim.storage_class;
    if name.is_empty() {
        return Err("PersistentVolumeClaim had no pv name and storageClass name".into());
    }
    let class = pod.storage.class(name);
    match class.ok_or_else(|| format!("storageclass.storage.k8s.io {name:?} not found"))?.binding_mode {
        None => Err(format!("VolumeBindingMode not set for StorageClass {name:?}").into()),
        Some(BindingMode::WaitForFirstConsumer) => Ok(()),
        Some(BindingMode::Immediate) => Err("PersistentVolume had no name".into()),
    }
}
