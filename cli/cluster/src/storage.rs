//! The object kinds of storage.

use flotilla_framework::{
    ingest::{IngestError, storage},
    volumes::objects::StorageObject,
};
use flotilla_objects::Object;
use k8s_openapi::{
    api::{
        core::v1::{PersistentVolume, PersistentVolumeClaim},
        storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::defaults;

pub(super) trait Stored: Object {
    const NAME: &'static str;
    const IS_NAMESPACED: bool = false;

    fn metadata_mut(&mut self) -> &mut ObjectMeta;

    fn fill_in(&mut self) {}

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
