//! Claims, volumes, classes, drivers and attachments.

use k8s_openapi::api::{core::v1 as api, storage::v1 as storage};

use super::{amounts, every, list, some, texts};
use crate::{
    object::{Specified, StorageCapacity, StorageClass},
    pb,
};

impl From<pb::PersistentVolumeClaim> for Specified<api::PersistentVolumeClaimSpec, api::PersistentVolumeClaimStatus> {
    fn from(claim: pb::PersistentVolumeClaim) -> Self {
        Self {
            metadata: claim.metadata.unwrap_or_default().into(),
            spec: claim.spec.map(api::PersistentVolumeClaimSpec::from),
            status: claim.status.map(|status| api::PersistentVolumeClaimStatus {
                phase: some(status.phase),
                ..api::PersistentVolumeClaimStatus::default()
            }),
        }
    }
}

impl From<pb::PersistentVolumeClaimSpec> for api::PersistentVolumeClaimSpec {
    fn from(spec: pb::PersistentVolumeClaimSpec) -> Self {
        Self {
            access_modes: texts(spec.access_modes),
            resources: spec.resources.map(|resources| api::VolumeResourceRequirements {
                limits: None,
                requests: amounts(resources.requests),
            }),
            selector: spec.selector.map(Into::into),
            storage_class_name: spec.storage_class_name,
            volume_attributes_class_name: spec.volume_attributes_class_name,
            volume_mode: spec.volume_mode,
            volume_name: some(spec.volume_name),
            ..Self::default()
        }
    }
}

impl From<pb::PersistentVolume> for Specified<api::PersistentVolumeSpec, api::PersistentVolumeStatus> {
    fn from(volume: pb::PersistentVolume) -> Self {
        Self {
            metadata: volume.metadata.unwrap_or_default().into(),
            spec: volume.spec.map(api::PersistentVolumeSpec::from),
            status: volume.status.map(|status| api::PersistentVolumeStatus {
                phase: some(status.phase),
                ..api::PersistentVolumeStatus::default()
            }),
        }
    }
}

impl From<pb::PersistentVolumeSpec> for api::PersistentVolumeSpec {
    fn from(spec: pb::PersistentVolumeSpec) -> Self {
        let source = spec.persistent_volume_source.unwrap_or_default();
        Self {
            access_modes: texts(spec.access_modes),
            aws_elastic_block_store: source.aws_elastic_block_store.map(Into::into),
            azure_disk: source.azure_disk.map(Into::into),
            azure_file: source.azure_file.map(Into::into),
            capacity: amounts(spec.capacity),
            cinder: source.cinder.map(Into::into),
            claim_ref: spec.claim_ref.map(api::ObjectReference::from),
            csi: source.csi.map(Into::into),
            gce_persistent_disk: source.gce_persistent_disk.map(Into::into),
            node_affinity: spec
                .node_affinity
                .map(|affinity| api::VolumeNodeAffinity { required: affinity.required.map(Into::into) }),
            portworx_volume: source.portworx_volume.map(Into::into),
            storage_class_name: some(spec.storage_class_name),
            volume_attributes_class_name: spec.volume_attributes_class_name,
            volume_mode: spec.volume_mode,
            vsphere_volume: source.vsphere_volume.map(Into::into),
            ..Self::default()
        }
    }
}

impl From<pb::ObjectReference> for api::ObjectReference {
    fn from(reference: pb::ObjectReference) -> Self {
        Self {
            name: some(reference.name),
            namespace: some(reference.namespace),
            uid: some(reference.uid),
            ..Self::default()
        }
    }
}

impl From<pb::AzureFilePersistentVolumeSource> for api::AzureFilePersistentVolumeSource {
    fn from(share: pb::AzureFilePersistentVolumeSource) -> Self {
        Self {
            secret_name: share.secret_name,
            secret_namespace: share.secret_namespace,
            share_name: share.share_name,
            ..Self::default()
        }
    }
}

impl From<pb::CinderVolumeSource> for api::CinderPersistentVolumeSource {
    fn from(disk: pb::CinderVolumeSource) -> Self {
        Self { volume_id: disk.volume_id, ..Self::default() }
    }
}

impl From<pb::CsiPersistentVolumeSource> for api::CSIPersistentVolumeSource {
    fn from(volume: pb::CsiPersistentVolumeSource) -> Self {
        Self { driver: volume.driver, volume_handle: volume.volume_handle, ..Self::default() }
    }
}

impl From<pb::StorageClass> for StorageClass {
    fn from(class: pb::StorageClass) -> Self {
        Self {
            metadata: class.metadata.unwrap_or_default().into(),
            provisioner: class.provisioner,
            volume_binding_mode: class.volume_binding_mode,
            allowed_topologies: list(class.allowed_topologies),
        }
    }
}

impl From<pb::TopologySelectorTerm> for api::TopologySelectorTerm {
    fn from(term: pb::TopologySelectorTerm) -> Self {
        Self { match_label_expressions: list(term.match_label_expressions) }
    }
}

impl From<pb::TopologySelectorLabelRequirement> for api::TopologySelectorLabelRequirement {
    fn from(requirement: pb::TopologySelectorLabelRequirement) -> Self {
        Self { key: requirement.key, values: requirement.values }
    }
}

impl From<pb::CsiDriver> for Specified<storage::CSIDriverSpec> {
    fn from(driver: pb::CsiDriver) -> Self {
        Self {
            metadata: driver.metadata.unwrap_or_default().into(),
            spec: driver.spec.map(|spec| storage::CSIDriverSpec {
                prevent_pod_scheduling_if_missing: spec.prevent_pod_scheduling_if_missing,
                storage_capacity: spec.storage_capacity,
                ..storage::CSIDriverSpec::default()
            }),
            status: None,
        }
    }
}

impl From<pb::CsiStorageCapacity> for StorageCapacity {
    fn from(capacity: pb::CsiStorageCapacity) -> Self {
        Self {
            metadata: capacity.metadata.unwrap_or_default().into(),
            storage_class_name: capacity.storage_class_name,
            node_topology: capacity.node_topology.map(Into::into),
            capacity: capacity.capacity.map(Into::into),
            maximum_volume_size: capacity.maximum_volume_size.map(Into::into),
        }
    }
}

impl From<pb::CsiNode> for Specified<storage::CSINodeSpec> {
    fn from(node: pb::CsiNode) -> Self {
        Self {
            metadata: node.metadata.unwrap_or_default().into(),
            spec: node.spec.map(|spec| storage::CSINodeSpec { drivers: every(spec.drivers) }),
            status: None,
        }
    }
}

impl From<pb::CsiNodeDriver> for storage::CSINodeDriver {
    fn from(driver: pb::CsiNodeDriver) -> Self {
        let allocatable = driver.allocatable.map(|resources| storage::VolumeNodeResources { count: resources.count });
        Self { allocatable, name: driver.name, ..Self::default() }
    }
}

impl From<pb::VolumeAttachment> for Specified<storage::VolumeAttachmentSpec> {
    fn from(attachment: pb::VolumeAttachment) -> Self {
        Self {
            metadata: attachment.metadata.unwrap_or_default().into(),
            spec: attachment.spec.map(storage::VolumeAttachmentSpec::from),
            status: None,
        }
    }
}

impl From<pb::VolumeAttachmentSpec> for storage::VolumeAttachmentSpec {
    fn from(spec: pb::VolumeAttachmentSpec) -> Self {
        let source = spec.source.unwrap_or_default();
        Self {
            attacher: spec.attacher,
            node_name: spec.node_name,
            source: storage::VolumeAttachmentSource {
                persistent_volume_name: source.persistent_volume_name,
                ..storage::VolumeAttachmentSource::default()
            },
        }
    }
}
