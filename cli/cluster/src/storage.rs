//! The object kinds of storage.

use std::sync::Arc;

use flotilla_framework::{
    ingest::{IngestError, storage},
    volumes::objects::StorageObject,
};
use flotilla_objects::Object;
use k8s_openapi::{
    api::{
        core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
        storage::v1::{CSIDriver, CSINode, CSINodeDriver, CSIStorageCapacity, StorageClass, VolumeAttachment},
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};

use super::defaults;

pub(super) trait Stored: Object {
    const NAME: &'static str;
    const IS_NAMESPACED: bool = false;

    fn metadata_mut(&mut self) -> &mut ObjectMeta;

    fn fill_in(&mut self) {}

    /// CSI drivers with their topology keys.
    fn topology_keys(&self) -> Vec<(Arc<str>, Vec<Arc<str>>)> {
        Vec::new()
    }

    /// The claim, if the object is one.
    fn claim(&self) -> Option<&PersistentVolumeClaim> {
        None
    }

    fn read(&self) -> Result<StorageObject, IngestError>;
}

impl Stored for PersistentVolumeClaim {
    const NAME: &'static str = "PersistentVolumeClaim";
    const IS_NAMESPACED: bool = true;

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn claim(&self) -> Option<&PersistentVolumeClaim> {
        Some(self)
    }

    fn read(&self) -> Result<StorageObject, IngestError> {
        storage::claim(self).map(StorageObject::Claim)
    }
}

impl Stored for PersistentVolume {
    const NAME: &'static str = "PersistentVolume";

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn fill_in(&mut self) {
        defaults::volume(self);
    }

    fn read(&self) -> Result<StorageObject, IngestError> {
        storage::volume(self).map(StorageObject::Volume)
    }
}

impl Stored for StorageClass {
    const NAME: &'static str = "StorageClass";

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn fill_in(&mut self) {
        defaults::storage_class(self);
    }

    fn read(&self) -> Result<StorageObject, IngestError> {
        storage::storage_class(self).map(StorageObject::StorageClass)
    }
}

impl Stored for CSIDriver {
    const NAME: &'static str = "CSIDriver";

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn read(&self) -> Result<StorageObject, IngestError> {
        storage::csi_driver(self).map(StorageObject::CsiDriver)
    }
}

impl Stored for CSIStorageCapacity {
    const NAME: &'static str = "CSIStorageCapacity";
    const IS_NAMESPACED: bool = true;

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn read(&self) -> Result<StorageObject, IngestError> {
        storage::storage_capacity(self).map(StorageObject::StorageCapacity)
    }
}

impl Stored for CSINode {
    const NAME: &'static str = "CSINode";

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn topology_keys(&self) -> Vec<(Arc<str>, Vec<Arc<str>>)> {
        let keys = |driver: &CSINodeDriver| {
            let keys = driver.topology_keys.iter().flatten().map(|key| Arc::from(key.as_str()));
            (Arc::from(driver.name.as_str()), keys.collect())
        };
        self.spec.drivers.iter().map(keys).collect()
    }

    fn read(&self) -> Result<StorageObject, IngestError> {
        storage::csi_node(self).map(StorageObject::CsiNode)
    }
}

impl Stored for VolumeAttachment {
    const NAME: &'static str = "VolumeAttachment";

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn read(&self) -> Result<StorageObject, IngestError> {
        storage::volume_attachment(self).map(StorageObject::VolumeAttachment)
    }
}

/// The claims of a pod's ephemeral volumes.
///
/// Source: `handleVolume` in `pkg/controller/volume/ephemeral/controller.go`.
pub(super) fn ephemeral_claims(pod: &Pod) -> impl Iterator<Item = PersistentVolumeClaim> {
    let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: pod_name.to_owned(),
        uid: pod.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(move |volume| {
        let template = volume.ephemeral.as_ref()?.volume_claim_template.as_ref()?;
        let known = template.metadata.clone().unwrap_or_default();
        let metadata = ObjectMeta {
            name: Some(format!("{pod_name}-{}", volume.name)),
            namespace: pod.metadata.namespace.clone(),
            labels: known.labels,
            annotations: known.annotations,
            owner_references: Some(vec![owner.clone()]),
            ..ObjectMeta::default()
        };
        Some(PersistentVolumeClaim { metadata, spec: Some(template.spec.clone()), status: None })
    })
}

/// The keys of the field that an error is about; empty for the whole object.
pub(super) fn keys(error: &IngestError) -> Vec<&str> {
    match error {
        IngestError::Quantity { path, .. } | IngestError::Negative { path, .. } => {
            path.split(['.', '[', ']']).filter(|key| !key.is_empty()).collect()
        }
        IngestError::Missing(_) | IngestError::TooLarge(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
