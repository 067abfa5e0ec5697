//! Volumes of pods.

use k8s_openapi::api::core::v1 as api;

use super::{list, read};
use crate::pb;

/// Keeps only volumes with fields that scheduling reads, which are few.
pub(super) fn read(mut volumes: Vec<pb::Volume>) -> Option<Vec<api::Volume>> {
    // Counted before the conversion: a growing vector of these large types holds kilobytes per item three times over.
    volumes.retain(|volume| volume.volume_source.as_ref().is_some_and(is_read));
    list(volumes)
}

fn is_read(source: &pb::VolumeSource) -> bool {
    *source != pb::VolumeSource::default()
}

read! {
    volume: pb::Volume => api::Volume { name } from volume_source {
        aws_elastic_block_store, azure_disk, azure_file, cinder, csi, ephemeral, gce_persistent_disk, image, iscsi,
        persistent_volume_claim, portworx_volume, rbd, vsphere_volume,
    } ..default;
    _volume: pb::EphemeralVolumeSource => api::EphemeralVolumeSource {} ..default;
    disk: pb::AwsElasticBlockStoreVolumeSource => api::AWSElasticBlockStoreVolumeSource { volume_id } ..default;
    disk: pb::AzureDiskVolumeSource => api::AzureDiskVolumeSource { disk_uri, kind } ..default;
    share: pb::AzureFileVolumeSource => api::AzureFileVolumeSource { secret_name, share_name } ..default;
    disk: pb::CinderVolumeSource => api::CinderVolumeSource { volume_id } ..default;
    volume: pb::CsiVolumeSource => api::CSIVolumeSource { driver } ..default;
    disk: pb::GcePersistentDiskVolumeSource => api::GCEPersistentDiskVolumeSource { pd_name, read_only } ..default;
    image: pb::ImageVolumeSource => api::ImageVolumeSource { reference } ..default;
    disk: pb::IscsiVolumeSource => api::ISCSIVolumeSource { iqn, read_only } ..default;
    claim: pb::PersistentVolumeClaimVolumeSource => api::PersistentVolumeClaimVolumeSource {
        claim_name, read_only = None,
    };
    disk: pb::PortworxVolumeSource => api::PortworxVolumeSource { volume_id } ..default;
    disk: pb::RbdVolumeSource => api::RBDVolumeSource { image, monitors, pool, read_only } ..default;
    disk: pb::VsphereVirtualDiskVolumeSource => api::VsphereVirtualDiskVolumeSource { volume_path } ..default;
}
