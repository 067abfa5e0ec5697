//! Specs of `resource.k8s.io` in any version from v1alpha3 and v1beta1 to v1, read as v1.

use flotilla_framework::ingest::beta;
use k8s_openapi::api::resource::v1 as api;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

use crate::{
    DecodeError,
    object::{Metadata, Object, Specified},
    pb,
};

const BETA: &str = "resource.k8s.io/v1beta1";

/// The spec of a ResourceClaim.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClaimSpec(pub(crate) api::ResourceClaimSpec);

/// The spec of a ResourceSlice.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SliceSpec(pub(crate) api::ResourceSliceSpec);

/// The spec of a DeviceTaintRule. A rule that selects devices by class or expression, as in v1alpha3 until Kubernetes 1.34, is an error:
/// without these fields it would taint other devices.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaintRuleSpec(pub(crate) api::DeviceTaintRuleSpec);

impl<'de> Deserialize<'de> for ClaimSpec {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut spec = Value::deserialize(from)?;
        beta::claim_spec(&mut spec);
        serde_json::from_value(spec).map(Self).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for SliceSpec {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut spec = Value::deserialize(from)?;
        beta::slice_spec(&mut spec);
        serde_json::from_value(spec).map(Self).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for TaintRuleSpec {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let spec = Value::deserialize(from)?;
        if beta::selects_by_class(&spec) {
            return Err(D::Error::custom(DecodeError::TaintSelector));
        }
        serde_json::from_value(spec).map(Self).map_err(D::Error::custom)
    }
}

/// Implements [`Object`] for a kind that has another message in v1beta1.
macro_rules! versioned {
    ($($object:ty: $message:ident, $beta:ident;)*) => {$(
        impl Object for $object {
            type Message = pb::$message;

            fn from_message(message: pb::$message) -> Result<Self, DecodeError> {
                message.try_into().map_err(DecodeError::from)
            }

            fn decode(api_version: &str, object: &[u8]) -> Result<Self, DecodeError> {
                match api_version {
                    BETA => <pb::$beta as prost::Message>::decode(object)?.try_into().map_err(DecodeError::from),
                    _ => Self::from_message(prost::Message::decode(object)?),
                }
            }

            fn metadata(&self) -> &Metadata {
                &self.metadata
            }
        }
    )*};
}

versioned! {
    Specified<ClaimSpec, api::ResourceClaimStatus>: ResourceClaim, ResourceClaimV1beta1;
    Specified<SliceSpec>: ResourceSlice, ResourceSliceV1beta1;
}

/// Reads a ResourceClaim in JSON, in any version.
///
/// # Errors
/// Invalid JSON or an unexpected shape.
pub fn claim_from_json(object: &[u8]) -> Result<api::ResourceClaim, DecodeError> {
    Ok(serde_json::from_slice::<Specified<ClaimSpec, api::ResourceClaimStatus>>(object)?.into())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use prost::Message as _;
    use serde_json::json;

    use super::*;
    use crate::{Change, Encoding, Page, Read};

    type Claim = Specified<ClaimSpec, api::ResourceClaimStatus>;
    type Slice = Specified<SliceSpec>;

    fn enveloped(api_version: &str, raw: Vec<u8>) -> Bytes {
        let type_meta = Some(pb::TypeMeta { api_version: api_version.to_owned(), ..pb::TypeMeta::default() });
        let unknown = pb::Unknown { type_meta, raw: raw.into(), ..pb::Unknown::default() };
        [&crate::protobuf::MAGIC[..], &unknown.encode_to_vec()].concat().into()
    }

    fn meta(name: &str) -> Option<pb::DeviceMeta> {
        Some(pb::DeviceMeta { name: name.to_owned(), namespace: "shop".to_owned(), ..pb::DeviceMeta::default() })
    }

    fn beta_claim() -> pb::ResourceClaimV1beta1 {
        let sub = pb::DeviceSubRequestV1beta1 {
            name: "big".to_owned(),
            device_class_name: "big".to_owned(),
            tolerations: vec![pb::DeviceToleration { key: "k".to_owned(), ..pb::DeviceToleration::default() }],
            ..pb::DeviceSubRequestV1beta1::default()
        };
        let requests = vec![
            pb::DeviceRequestV1beta1 {
                name: "gpu".to_owned(),
                device_class_name: "gpu".to_owned(),
                allocation_mode: "ExactCount".to_owned(),
                count: 2,
                ..pb::DeviceRequestV1beta1::default()
            },
            pb::DeviceRequestV1beta1 {
                name: "any".to_owned(),
                first_available: vec![sub],
                ..pb::DeviceRequestV1beta1::default()
            },
        ];
        let devices = Some(pb::DeviceClaimV1beta1 { requests, ..pb::DeviceClaimV1beta1::default() });
        let spec = Some(pb::ResourceClaimSpecV1beta1 { devices });
        pb::ResourceClaimV1beta1 { metadata: meta("claim"), spec, ..pb::ResourceClaimV1beta1::default() }
    }

    fn expected_requests() -> Value {
        json!([
            { "name": "gpu", "exactly": { "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2 } },
            { "name": "any", "firstAvailable": [
                { "name": "big", "deviceClassName": "big", "tolerations": [{ "key": "k" }] },
            ] },
        ])
    }

    fn requests(read: Read<Claim>) -> Value {
        let Read::Whole(claim) = read else { panic!("the claim does not decode") };
        let claim = api::ResourceClaim::from(claim);
        let devices = claim.spec.and_then(|spec| spec.devices).expect("devices");
        serde_json::to_value(devices.requests).expect("JSON")
    }

    #[test]
    fn a_claim_of_v1beta1_in_a_watch_is_read_as_one_of_v1() {
        let object = pb::RawExtension { raw: enveloped(BETA, beta_claim().encode_to_vec()) };
        let event = pb::WatchEvent { r#type: "ADDED".to_owned(), object: Some(object) };
        let change = Change::<Claim>::decode(Encoding::Protobuf, event.encode_to_vec().into()).expect("a change");
        let Change::Applied(read) = change else { panic!("{change:?}") };
        assert_eq!(requests(read), expected_requests());
    }

    #[test]
    fn a_claim_of_v1beta1_in_a_list_is_read_as_one_of_v1() {
        let list = pb::List { items: vec![beta_claim().encode_to_vec().into()], ..pb::List::default() };
        let page = Page::decode(Encoding::Protobuf, enveloped(BETA, list.encode_to_vec())).expect("a page");
        assert_eq!(requests(page.items[0].read().expect("an item")), expected_requests());
        let json = json!({ "metadata": {}, "items": [{ "metadata": { "name": "claim" }, "spec": { "devices": { "requests": [
            { "name": "gpu", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2 },
            { "name": "any", "firstAvailable": [
                { "name": "big", "deviceClassName": "big", "tolerations": [{ "key": "k" }] },
            ] },
        ] } } }] });
        let page = Page::decode(Encoding::Json, json.to_string().into()).expect("a page");
        assert_eq!(requests(page.items[0].read().expect("an item")), expected_requests());
    }

    #[test]
    fn a_slice_of_v1beta1_is_read_as_one_of_v1() {
        let basic = pb::BasicDevice {
            attributes: [(
                "type".to_owned(),
                pb::DeviceAttribute { string: Some("gpu".to_owned()), ..Default::default() },
            )]
            .into(),
            ..pb::BasicDevice::default()
        };
        let devices = vec![pb::DeviceV1beta1 { name: "a".to_owned(), basic: Some(basic) }];
        let spec = pb::ResourceSliceSpecV1beta1 { driver: "d".to_owned(), devices, ..Default::default() };
        let slice = pb::ResourceSliceV1beta1 { metadata: None, spec: Some(spec) };
        let read = Slice::decode(BETA, &slice.encode_to_vec()).expect("a slice");
        let spec = json!({ "driver": "d", "devices": [{ "name": "a", "basic": { "attributes": { "type": { "string": "gpu" } } } }],
            "pool": { "name": "", "generation": 0, "resourceSliceCount": 0 } });
        let from_json: SliceSpec = serde_json::from_value(spec).expect("a spec");
        assert_eq!(read.spec, Some(from_json.clone()));
        assert_eq!(from_json.0.devices.expect("devices")[0].attributes.as_ref().map(|all| all.len()), Some(1));
    }

    #[test]
    fn a_rule_that_selects_devices_by_class_is_an_error_instead_of_a_rule_about_all_devices() {
        let taint = json!({ "key": "k", "effect": "NoSchedule" });
        let narrow = json!({ "deviceSelector": { "deviceClassName": "gpu" }, "taint": taint });
        assert!(serde_json::from_value::<TaintRuleSpec>(narrow).is_err());
        assert!(serde_json::from_value::<TaintRuleSpec>(json!({ "taint": taint })).is_ok());
        let selector = pb::DeviceTaintSelector { device_class_name: Some("gpu".to_owned()), ..Default::default() };
        let rule = |selector| pb::DeviceTaintRuleSpec { device_selector: selector, taint: None };
        assert!(TaintRuleSpec::try_from(rule(Some(selector))).is_err());
        assert!(TaintRuleSpec::try_from(rule(None)).is_ok());
    }
}
