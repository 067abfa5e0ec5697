//! The kinds of storage that are watched.
//!
//! Knows: where each kind is, and which of its fields are decoded. Must not know: how a list or a watch is spoken
//! (`source`), or what is read from an object (`flotilla_framework::ingest::storage`).

use std::{marker::PhantomData, sync::Arc};

use flotilla_encoding::{self as object, Object, Specified};
use flotilla_framework::{
    ingest::{IngestError, storage},
    volumes::objects::{StorageKey, StorageKind, StorageObject},
};
use flotilla_machine::event::Event;
use k8s_openapi::api::{core::v1 as core, storage::v1 as api};

use super::{known::Gone, source::Kind};

/// A kind of storage.
pub(super) trait Stores: Send + Sync + 'static {
    const PATH: &'static str;
    const WHAT: &'static str;
    const KIND: StorageKind;
    /// What is decoded of an object.
    type Object: Object;

    /// What scheduling reads of it.
    fn read(object: Self::Object) -> Result<StorageObject, IngestError>;
}

/// All objects of such a kind.
pub(super) struct AllOf<S>(PhantomData<S>);

impl<S: Stores> Kind for AllOf<S> {
    const PATH: &'static str = S::PATH;
    const WHAT: &'static str = S::WHAT;
    const FIELDS: Option<&'static str> = None;
    type Object = S::Object;

    fn applied(object: S::Object) -> Result<Event, IngestError> {
        Ok(Event::ObjectApplied(S::read(object)?.into()))
    }

    fn deleted(gone: Gone) -> Event {
        let (namespace, name) = gone.key.split_once('/').unwrap_or(("", &gone.key));
        let (namespace, name) = (Arc::from(namespace), Arc::from(name));
        Event::ObjectDeleted(StorageKey { kind: S::KIND, namespace, name }.into())
    }

    fn went_back() -> Option<Event> {
        is_written(S::KIND).then_some(Event::ObjectsWentBack)
    }

    fn listed_anew() -> Option<Event> {
        is_written(S::KIND).then_some(Event::StorageListedAnew(S::KIND))
    }
}

/// Whether a coordinator ever writes objects of the kind.
const fn is_written(kind: StorageKind) -> bool {
    matches!(kind, StorageKind::Claim | StorageKind::Volume)
}

pub(super) struct Claim;

impl Stores for Claim {
    const PATH: &'static str = "/api/v1/persistentvolumeclaims";
    const WHAT: &'static str = "persistentvolumeclaims";
    const KIND: StorageKind = StorageKind::Claim;
    type Object = Specified<core::PersistentVolumeClaimSpec, core::PersistentVolumeClaimStatus>;

    fn read(object: Self::Object) -> Result<StorageObject, IngestError> {
        storage::claim(&object.into()).map(StorageObject::Claim)
    }
}

pub(super) struct Volume;

impl Stores for Volume {
    const PATH: &'static str = "/api/v1/persistentvolumes";
    const WHAT: &'static str = "persistentvolumes";
    const KIND: StorageKind = StorageKind::Volume;
    type Object = Specified<core::PersistentVolumeSpec, core::PersistentVolumeStatus>;

    fn read(object: Self::Object) -> Result<StorageObject, IngestError> {
        storage::volume(&object.into()).map(StorageObject::Volume)
    }
}

pub(super) struct StorageClass;

impl Stores for StorageClass {
    const PATH: &'static str = "/apis/storage.k8s.io/v1/storageclasses";
    const WHAT: &'static str = "storageclasses";
    const KIND: StorageKind = StorageKind::StorageClass;
    type Object = object::StorageClass;

    fn read(object: Self::Object) -> Result<StorageObject, IngestError> {
        storage::storage_class(&object.into()).map(StorageObject::StorageClass)
    }
}

pub(super) struct CsiDriver;

impl Stores for CsiDriver {
    const PATH: &'static str = "/apis/storage.k8s.io/v1/csidrivers";
    const WHAT: &'static str = "csidrivers";
    const KIND: StorageKind = StorageKind::CsiDriver;
    type Object = Specified<api::CSIDriverSpec>;

    fn read(object: Self::Object) -> Result<StorageObject, IngestError> {
        storage::csi_driver(&object.into()).map(StorageObject::CsiDriver)
    }
}

pub(super) struct StorageCapacity;

impl Stores for StorageCapacity {
    const PATH: &'static str = "/apis/storage.k8s.io/v1/csistoragecapacities";
    const WHAT: &'static str = "csistoragecapacities";
    const KIND: StorageKind = StorageKind::StorageCapacity;
    type Object = object::StorageCapacity;

    fn read(object: Self::Object) -> Result<StorageObject, IngestError> {
        storage::storage_capacity(&object.into()).map(StorageObject::StorageCapacity)
    }
}

pub(super) struct CsiNode;

impl Stores for CsiNode {
    const PATH: &'static str = "/apis/storage.k8s.io/v1/csinodes";
    const WHAT: &'static str = "csinodes";
    const KIND: StorageKind = StorageKind::CsiNode;
    type Object = Specified<api::CSINodeSpec>;

    fn read(object: Self::Object) -> Result<StorageObject, IngestError> {
        storage::csi_node(&object.into()).map(StorageObject::CsiNode)
    }
}

pub(super) struct VolumeAttachment;

impl Stores for VolumeAttachment {
    const PATH: &'static str = "/apis/storage.k8s.io/v1/volumeattachments";
    const WHAT: &'static str = "volumeattachments";
    const KIND: StorageKind = StorageKind::VolumeAttachment;
    type Object = Specified<api::VolumeAttachmentSpec>;

    fn read(object: Self::Object) -> Result<StorageObject, IngestError> {
        storage::volume_attachment(&object.into()).map(StorageObject::VolumeAttachment)
    }
}
