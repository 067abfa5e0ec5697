//! The kinds of devices that are watched: those of `resource.k8s.io`.
//!
//! Knows: where each kind is, which of its fields are decoded, and that older API servers lack some. Must not know: how a list or a
//! watch is spoken (`source`), or what is read from an object (`flotilla_framework::ingest::device_objects`).

use std::{marker::PhantomData, sync::Arc};

use flotilla_encoding::{Object, Specified};
use flotilla_framework::{
    devices::objects::{DeviceKey, DeviceKind, DeviceObject},
    ingest::{IngestError, device_objects},
};
use flotilla_machine::event::Event;
use k8s_openapi::api::resource::v1 as api;

use super::{known::Gone, source::Kind};

/// A kind of devices.
pub(super) trait Stores: Send + Sync + 'static {
    const PATH: &'static str;
    const WHAT: &'static str;
    const KIND: DeviceKind;
    /// Which API servers have the kind.
    const SINCE: &'static str =
        "pods with ResourceClaims need an API server that serves resource.k8s.io/v1, as Kubernetes does since 1.34";
    /// What is decoded of an object.
    type Object: Object;

    /// What scheduling reads of it.
    fn read(object: Self::Object) -> Result<DeviceObject, IngestError>;
}

/// All objects of such a kind.
pub(super) struct AllOf<S>(PhantomData<S>);

impl<S: Stores> Kind for AllOf<S> {
    const PATH: &'static str = S::PATH;
    const WHAT: &'static str = S::WHAT;
    const FIELDS: Option<&'static str> = None;
    const UNSERVED: Option<&'static str> = Some(S::SINCE);
    type Object = S::Object;

    fn applied(object: S::Object) -> Result<Event, IngestError> {
        Ok(Event::ObjectApplied(S::read(object)?.into()))
    }

    fn deleted(gone: Gone) -> Event {
        let (namespace, name) = gone.key.split_once('/').unwrap_or(("", &gone.key));
        let (namespace, name) = (Arc::from(namespace), Arc::from(name));
        Event::ObjectDeleted(DeviceKey { kind: S::KIND, namespace, name }.into())
    }

    fn went_back() -> Option<Event> {
        // Only these are ever written.
        matches!(S::KIND, DeviceKind::Claim).then_some(Event::ObjectsWentBack)
    }

    fn listed_anew() -> Option<Event> {
        matches!(S::KIND, DeviceKind::Claim).then_some(Event::ClaimsListedAnew)
    }

    fn listed(version: &str) -> Option<Event> {
        matches!(S::KIND, DeviceKind::Claim).then(|| Event::ClaimsListed { version: version.into() })
    }
}

pub(super) struct Claim;

impl Stores for Claim {
    const PATH: &'static str = "/apis/resource.k8s.io/v1/resourceclaims";
    const WHAT: &'static str = "resourceclaims";
    const KIND: DeviceKind = DeviceKind::Claim;
    type Object = Specified<api::ResourceClaimSpec, api::ResourceClaimStatus>;

    fn read(object: Self::Object) -> Result<DeviceObject, IngestError> {
        device_objects::claim(&object.into()).map(DeviceObject::from)
    }
}

pub(super) struct Class;

impl Stores for Class {
    const PATH: &'static str = "/apis/resource.k8s.io/v1/deviceclasses";
    const WHAT: &'static str = "deviceclasses";
    const KIND: DeviceKind = DeviceKind::Class;
    type Object = Specified<api::DeviceClassSpec>;

    fn read(object: Self::Object) -> Result<DeviceObject, IngestError> {
        device_objects::device_class(&object.into()).map(DeviceObject::from)
    }
}

pub(super) struct Slice;

impl Stores for Slice {
    const PATH: &'static str = "/apis/resource.k8s.io/v1/resourceslices";
    const WHAT: &'static str = "resourceslices";
    const KIND: DeviceKind = DeviceKind::Slice;
    type Object = Specified<api::ResourceSliceSpec>;

    fn read(object: Self::Object) -> Result<DeviceObject, IngestError> {
        device_objects::slice(&object.into()).map(DeviceObject::from)
    }
}

pub(super) struct TaintRule;

impl Stores for TaintRule {
    const PATH: &'static str = "/apis/resource.k8s.io/v1/devicetaintrules";
    const WHAT: &'static str = "devicetaintrules";
    const KIND: DeviceKind = DeviceKind::TaintRule;
    const SINCE: &'static str = "DeviceTaintRules are read of resource.k8s.io/v1, where Kubernetes has them since 1.37";
    type Object = Specified<api::DeviceTaintRuleSpec>;

    fn read(object: Self::Object) -> Result<DeviceObject, IngestError> {
        device_objects::taint_rule(&object.into()).map(DeviceObject::from)
    }
}
