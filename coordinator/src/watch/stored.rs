//! The kinds that plugins store: volumes and devices.

use std::{marker::PhantomData, sync::Arc};

use flotilla_encoding::{self as object, Object, Specified};
use flotilla_framework::{
    devices::objects::{DeviceKey, DeviceKind, DeviceObject},
    extension::objects,
    ingest::{Features, IngestError, device_objects, storage},
    volumes::objects::{StorageKey, StorageKind, StorageObject},
};
use flotilla_machine::event::Event;
use k8s_openapi::api::{core::v1 as core, resource::v1 as resource, storage::v1 as api};

use super::{known::Gone, source::Kind};
use crate::versions::{self, Served, Versions};

/// The machine's name of a kind.
#[derive(Clone, Copy)]
pub(super) enum Family {
    Storage(StorageKind),
    Device(DeviceKind),
}

use Family::{Device, Storage};

/// A kind that a plugin stores.
pub(super) trait Stores: Send + Sync + 'static {
    const PATH: &'static str;
    const FAMILY: Family;
    type Object: Object;

    fn read(object: Self::Object, features: Features) -> Result<objects::Object, IngestError>;
}

/// All objects of such a kind.
pub(super) struct AllOf<S>(PhantomData<S>);

impl<S: Stores> Kind for AllOf<S> {
    const PATH: &'static str = S::PATH;
    const VERSIONS: &'static [&'static str] = match S::FAMILY {
        Storage(_) => &[],
        Device(DeviceKind::TaintRule) => versions::TAINT_RULES,
        Device(_) => versions::DEVICES,
    };
    const UNSERVED: Option<&'static str> = match S::FAMILY {
        Storage(_) => None,
        Device(DeviceKind::TaintRule) => Some(
            "DeviceTaintRules need the API server's --runtime-config to enable their version, as Kubernetes 1.37 does by default",
        ),
        Device(_) => Some(
            "pods with ResourceClaims need a version of resource.k8s.io in the API server's --runtime-config, as Kubernetes 1.34 has by \
             default",
        ),
    };
    const FORBIDDEN: Option<&'static str> = match S::FAMILY {
        Device(DeviceKind::TaintRule) => {
            Some("DeviceTaintRules have no effect until list and watch on devicetaintrules are granted")
        }
        Storage(_) | Device(_) => None,
    };
    type Object = S::Object;

    fn applied(object: S::Object, features: Features) -> Result<Event, IngestError> {
        Ok(Event::ObjectApplied(S::read(object, features)?))
    }

    fn deleted(gone: Gone) -> Event {
        let (namespace, name) = gone.key.split_once('/').unwrap_or(("", &gone.key));
        let (namespace, name) = (Arc::from(namespace), Arc::from(name));
        Event::ObjectDeleted(match S::FAMILY {
            Storage(kind) => StorageKey { kind, namespace, name }.into(),
            Device(kind) => DeviceKey { kind, namespace, name }.into(),
        })
    }

    fn served(versions: &Versions) -> Served {
        match S::FAMILY {
            Device(DeviceKind::Claim) => versions.claims.clone(),
            Storage(_) | Device(_) => Served::default(),
        }
    }

    fn went_back() -> Option<Event> {
        Self::relisted().map(|_| Event::ObjectsWentBack)
    }

    /// For kinds that a coordinator writes.
    fn relisted() -> Option<Event> {
        match S::FAMILY {
            Storage(kind @ (StorageKind::Claim | StorageKind::Volume)) => Some(Event::StorageRelisted(kind)),
            Device(DeviceKind::Claim) => Some(Event::ClaimsRelisted),
            Storage(_) | Device(_) => None,
        }
    }

    fn listed(version: &str) -> Option<Event> {
        matches!(S::FAMILY, Device(DeviceKind::Claim)).then(|| Event::ClaimsListed { version: version.into() })
    }
}

/// The path, the machine's name of the kind, the decoded part, its reader, and the machine's name of the result.
macro_rules! stored {
    ($($name:ident $path:literal, $family:expr, $object:ty, $read:expr => $read_object:path;)*) => {$(
        pub(super) struct $name;

        impl Stores for $name {
            const PATH: &'static str = $path;
            const FAMILY: Family = $family;
            type Object = $object;

            fn read(object: $object, features: Features) -> Result<objects::Object, IngestError> {
                Ok($read_object($read(&object.into(), features)?).into())
            }
        }
    )*};
}

stored! {
    PersistentVolumeClaim "/api/v1/persistentvolumeclaims", Storage(StorageKind::Claim),
        Specified<core::PersistentVolumeClaimSpec, core::PersistentVolumeClaimStatus>, |of, _| storage::claim(of) => StorageObject::Claim;
    PersistentVolume "/api/v1/persistentvolumes", Storage(StorageKind::Volume),
        Specified<core::PersistentVolumeSpec, core::PersistentVolumeStatus>, |of, _| storage::volume(of) => StorageObject::Volume;
    StorageClass "/apis/storage.k8s.io/v1/storageclasses", Storage(StorageKind::StorageClass),
        object::StorageClass, |of, _| storage::storage_class(of) => StorageObject::StorageClass;
    CsiDriver "/apis/storage.k8s.io/v1/csidrivers", Storage(StorageKind::CsiDriver),
        Specified<api::CSIDriverSpec>, |of, _| storage::csi_driver(of) => StorageObject::CsiDriver;
    CsiStorageCapacity "/apis/storage.k8s.io/v1/csistoragecapacities", Storage(StorageKind::StorageCapacity),
        object::StorageCapacity, |of, _| storage::storage_capacity(of) => StorageObject::StorageCapacity;
    CsiNode "/apis/storage.k8s.io/v1/csinodes", Storage(StorageKind::CsiNode),
        Specified<api::CSINodeSpec>, |of, _| storage::csi_node(of) => StorageObject::CsiNode;
    VolumeAttachment "/apis/storage.k8s.io/v1/volumeattachments", Storage(StorageKind::VolumeAttachment),
        Specified<api::VolumeAttachmentSpec>, |of, _| storage::volume_attachment(of) => StorageObject::VolumeAttachment;
    ResourceClaim "/apis/resource.k8s.io/v1/resourceclaims", Device(DeviceKind::Claim),
        Specified<object::ClaimSpec, resource::ResourceClaimStatus>, device_objects::claim => DeviceObject::from;
    DeviceClass "/apis/resource.k8s.io/v1/deviceclasses", Device(DeviceKind::Class),
        Specified<resource::DeviceClassSpec>, |of, _| device_objects::device_class(of) => DeviceObject::from;
    ResourceSlice "/apis/resource.k8s.io/v1/resourceslices", Device(DeviceKind::Slice),
        Specified<object::SliceSpec>, device_objects::slice => DeviceObject::from;
    DeviceTaintRule "/apis/resource.k8s.io/v1/devicetaintrules", Device(DeviceKind::TaintRule),
        Specified<object::TaintRuleSpec>, device_objects::taint_rule => DeviceObject::from;
}
