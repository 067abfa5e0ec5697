//! The volumes of pods.

use k8s_openapi::api::core::v1 as api;

use super::{list, some};
use crate::pb;

/// The volumes of which something is read, which most are not.
pub(super) fn read(mut volumes: Vec<pb::Volume>) -> Option<Vec<api::Volume>> {
    // How many are left is known then. A vector of these that grows holds some kilobytes for each three times over.
    volumes.retain(|volume| volume.volume_source.as_ref().is_some_and(is_read));
    list(volumes)
}

fn is_read(source: &pb::VolumeSource) -> bool {
    *source != pb::VolumeSource::default()
}

impl From<pb::Volume> for api::Volume {
    fn from(volume: pb::Volume) -> Self {
        let source = volume.volume_source.unwrap_or_default();
        Self {
            name: volume.name,
            aws_elastic_block_store: source.aws_elastic_block_store.map(Into::into),
            azure_disk: source.azure_disk.map(Into::into),
            azure_file: source.azure_file.map(Into::into),
            cinder: source.cinder.map(Into::into),
            csi: source.csi.map(Into::into),
            ephemeral: source.ephemeral.map(|_| api::EphemeralVolumeSource::default()),
            gce_persistent_disk: source.gce_persistent_disk.map(Into::into),
            image: source.image.map(Into::into),
            iscsi: source.iscsi.map(Into::into),
            persistent_volume_claim: source.persistent_volume_claim.map(Into::into),
            portworx_volume: source.portworx_volume.map(Into::into),
            rbd: source.rbd.map(Into::into),
            vsphere_volume: source.vsphere_volume.map(Into::into),
            ..Self::default()
        }
    }
}

impl From<pb::AwsElasticBlockStoreVolumeSource> for api::AWSElasticBlockStoreVolumeSource {
    fn from(disk: pb::AwsElasticBlockStoreVolumeSource) -> Self {
        Self { volume_id: disk.volume_id, ..Self::default() }
    }
}

impl From<pb::AzureDiskVolumeSource> for api::AzureDiskVolumeSource {
    fn from(disk: pb::AzureDiskVolumeSource) -> Self {
        Self { disk_uri: disk.disk_uri, kind: disk.kind, ..Self::default() }
    }
}

impl From<pb::AzureFileVolumeSource> for api::AzureFileVolumeSource {
    fn from(share: pb::AzureFileVolumeSource) -> Self {
        Self { secret_name: share.secret_name, share_name: share.share_name, ..Self::default() }
    }
}

impl From<pb::CinderVolumeSource> for api::CinderVolumeSource {
    fn from(disk: pb::CinderVolumeSource) -> Self {
        Self { volume_id: disk.volume_id, ..Self::default() }
    }
}

impl From<pb::CsiVolumeSource> for api::CSIVolumeSource {
    fn from(volume: pb::CsiVolumeSource) -> Self {
        Self { driver: volume.driver, ..Self::default() }
    }
}

impl From<pb::GcePersistentDiskVolumeSource> for api::GCEPersistentDiskVolumeSource {
    fn from(disk: pb::GcePersistentDiskVolumeSource) -> Self {
        Self { pd_name: disk.pd_name, read_only: disk.read_only.then_some(true), ..Self::default() }
    }
}

impl From<pb::ImageVolumeSource> for api::ImageVolumeSource {
    fn from(image: pb::ImageVolumeSource) -> Self {
        Self { reference: some(image.reference), ..Self::default() }
    }
}

impl From<pb::IscsiVolumeSource> for api::ISCSIVolumeSource {
    fn from(disk: pb::IscsiVolumeSource) -> Self {
        Self { iqn: disk.iqn, read_only: disk.read_only.then_some(true), ..Self::default() }
    }
}

impl From<pb::PersistentVolumeClaimVolumeSource> for api::PersistentVolumeClaimVolumeSource {
    fn from(claim: pb::PersistentVolumeClaimVolumeSource) -> Self {
        Self { claim_name: claim.claim_name, read_only: None }
    }
}

impl From<pb::PortworxVolumeSource> for api::PortworxVolumeSource {
    fn from(disk: pb::PortworxVolumeSource) -> Self {
        Self { volume_id: disk.volume_id, ..Self::default() }
    }
}

impl From<pb::RbdVolumeSource> for api::RBDVolumeSource {
    fn from(disk: pb::RbdVolumeSource) -> Self {
        Self {
            image: disk.image,
            monitors: disk.monitors,
            pool: some(disk.pool),
            read_only: disk.read_only.then_some(true),
            ..Self::default()
        }
    }
}

impl From<pb::VsphereVirtualDiskVolumeSource> for api::VsphereVirtualDiskVolumeSource {
    fn from(disk: pb::VsphereVirtualDiskVolumeSource) -> Self {
        Self { volume_path: disk.volume_path, ..Self::default() }
    }
}
