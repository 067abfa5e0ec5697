//! Claims, volumes, classes, drivers and attachments.

use k8s_openapi::api::{core::v1 as api, storage::v1 as storage};

use super::read;
use crate::{
    object::{Specified, StorageCapacity, StorageClass},
    pb,
};

read! {
    claim: pb::PersistentVolumeClaim => Specified<api::PersistentVolumeClaimSpec, api::PersistentVolumeClaimStatus> {
        metadata, spec, status,
    };
    status: pb::PersistentVolumeClaimStatus => api::PersistentVolumeClaimStatus { phase } ..default;
    spec: pb::PersistentVolumeClaimSpec => api::PersistentVolumeClaimSpec {
        access_modes, resources, selector, storage_class_name, volume_attributes_class_name, volume_mode, volume_name,
    } ..default;
    resources: pb::ResourceRequirements => api::VolumeResourceRequirements { limits = None, requests };
    volume: pb::PersistentVolume => Specified<api::PersistentVolumeSpec, api::PersistentVolumeStatus> {
        metadata, spec, status,
    };
    status: pb::PersistentVolumeStatus => api::PersistentVolumeStatus { phase } ..default;
    affinity: pb::VolumeNodeAffinity => api::VolumeNodeAffinity { required };
    spec: pb::PersistentVolumeSpec => api::PersistentVolumeSpec {
        access_modes, capacity, claim_ref, node_affinity, storage_class_name, volume_attributes_class_name, volume_mode,
    } from persistent_volume_source {
        aws_elastic_block_store, azure_disk, azure_file, cinder, csi, gce_persistent_disk, portworx_volume,
        vsphere_volume,
    } ..default;
    reference: pb::ObjectReference => api::ObjectReference { name, namespace, uid } ..default;
    share: pb::AzureFilePersistentVolumeSource => api::AzureFilePersistentVolumeSource {
        secret_name, secret_namespace, share_name,
    } ..default;
    disk: pb::CinderVolumeSource => api::CinderPersistentVolumeSource { volume_id } ..default;
    volume: pb::CsiPersistentVolumeSource => api::CSIPersistentVolumeSource { driver, volume_handle } ..default;
    class: pb::StorageClass => StorageClass { metadata, provisioner, volume_binding_mode, allowed_topologies };
    term: pb::TopologySelectorTerm => api::TopologySelectorTerm { match_label_expressions };
    requirement: pb::TopologySelectorLabelRequirement => api::TopologySelectorLabelRequirement { key, values };
    driver: pb::CsiDriver => Specified<storage::CSIDriverSpec> { metadata, spec, status = None };
    spec: pb::CsiDriverSpec => storage::CSIDriverSpec { prevent_pod_scheduling_if_missing, storage_capacity } ..default;
    capacity: pb::CsiStorageCapacity => StorageCapacity {
        metadata, storage_class_name, node_topology, capacity, maximum_volume_size,
    };
    node: pb::CsiNode => Specified<storage::CSINodeSpec> { metadata, spec, status = None };
    spec: pb::CsiNodeSpec => storage::CSINodeSpec { drivers };
    driver: pb::CsiNodeDriver => storage::CSINodeDriver { allocatable, name } ..default;
    resources: pb::VolumeNodeResources => storage::VolumeNodeResources { count };
    attachment: pb::VolumeAttachment => Specified<storage::VolumeAttachmentSpec> { metadata, spec, status = None };
    spec: pb::VolumeAttachmentSpec => storage::VolumeAttachmentSpec {
        attacher, node_name, source = spec.source.unwrap_or_default().into(),
    };
    source: pb::VolumeAttachmentSource => storage::VolumeAttachmentSource { persistent_volume_name } ..default;
}
