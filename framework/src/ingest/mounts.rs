//! Reads the volumes of a pod.

use std::sync::Arc;

use k8s_openapi::{api::core::v1 as api, apimachinery::pkg::apis::meta::v1::ObjectMeta};

use super::fields::text;
use crate::volumes::{
    mounts::{Disk, Inline, Mount, Owner, PodVolumes},
    translate,
};

pub(super) fn volumes(metadata: &ObjectMeta, spec: &api::PodSpec) -> Option<Arc<PodVolumes>> {
    let pod = metadata.name.as_deref().unwrap_or_default();
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let mounts: Vec<Mount> = spec.volumes.iter().flatten().filter_map(|volume| mount(volume, pod, namespace)).collect();
    if mounts.is_empty() {
        return None;
    }
    let is_owner = mounts.iter().any(|mount| matches!(mount, Mount::Ephemeral(_)));
    let owner = Owner { name: text(pod), uid: text(metadata.uid.as_deref().unwrap_or_default()) };
    Some(Arc::new(PodVolumes { mounts, owner: is_owner.then_some(owner) }))
}

fn mount(volume: &api::Volume, pod: &str, namespace: &str) -> Option<Mount> {
    let name = &volume.name;
    if let Some(claim) = &volume.persistent_volume_claim {
        return Some(Mount::Claim(text(&claim.claim_name)));
    }
    if volume.ephemeral.is_some() {
        // Source: component-helpers `ephemeral.VolumeClaimName`.
        return Some(Mount::Ephemeral(format!("{pod}-{name}").into()));
    }
    if let Some(csi) = &volume.csi {
        return Some(Mount::Csi(text(&csi.driver)));
    }
    let in_tree = translate::inline(volume, namespace).map(|mut source| {
        source.handle =
            source.handle.map_err(|error| format!("converting volume({name}) from inline to csi: {error}").into());
        source
    });
    let inline = Inline { disk: disk(volume), in_tree };
    (inline != Inline::default()).then_some(Mount::Inline(inline))
}

fn disk(volume: &api::Volume) -> Option<Disk> {
    let is_set = |flag: Option<bool>| flag.unwrap_or(false);
    if let Some(disk) = &volume.gce_persistent_disk {
        return Some(Disk::GcePersistentDisk { name: text(&disk.pd_name), read_only: is_set(disk.read_only) });
    }
    if let Some(disk) = &volume.aws_elastic_block_store {
        return Some(Disk::AwsElasticBlockStore { volume: text(&disk.volume_id) });
    }
    if let Some(disk) = &volume.iscsi {
        return Some(Disk::Iscsi { iqn: text(&disk.iqn), read_only: is_set(disk.read_only) });
    }
    let disk = volume.rbd.as_ref()?;
    Some(Disk::Rbd {
        monitors: disk.monitors.iter().map(text).collect(),
        pool: text(disk.pool.as_deref().unwrap_or("rbd")),
        image: text(&disk.image),
        read_only: is_set(disk.read_only),
    })
}
