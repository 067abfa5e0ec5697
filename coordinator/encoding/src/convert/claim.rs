//! Device claims, device classes and allocations.

use k8s_openapi::{api::resource::v1 as api, apimachinery::pkg::runtime::RawExtension};
use serde_json::Value;

use super::{list, read, tried};
use crate::{DecodeError, object::Specified, older::ClaimSpec, pb};

/// A claim in one version. A claim with an allocation is never dropped: its devices are in use.
macro_rules! claims {
    ($($claim:ident, $spec:ident, $devices:ident;)*) => {$(
        impl TryFrom<pb::$claim> for Specified<ClaimSpec, api::ResourceClaimStatus> {
            type Error = DecodeError;

            fn try_from(claim: pb::$claim) -> Result<Self, DecodeError> {
                let status = claim.status.map(api::ResourceClaimStatus::from);
                let is_allocated = status.as_ref().is_some_and(|status| status.allocation.is_some());
                let spec = match claim.spec.map(ClaimSpec::try_from).transpose() {
                    Err(_) if is_allocated => None,
                    spec => spec?,
                };
                Ok(Self { metadata: claim.metadata.unwrap_or_default().into(), spec, status })
            }
        }

        impl TryFrom<pb::$spec> for ClaimSpec {
            type Error = DecodeError;

            fn try_from(spec: pb::$spec) -> Result<Self, DecodeError> {
                Ok(Self(api::ResourceClaimSpec { devices: spec.devices.map(api::DeviceClaim::try_from).transpose()? }))
            }
        }

        impl TryFrom<pb::$devices> for api::DeviceClaim {
            type Error = DecodeError;

            fn try_from(claim: pb::$devices) -> Result<Self, DecodeError> {
                let config = tried(claim.config)?;
                Ok(Self { config, constraints: list(claim.constraints), requests: list(claim.requests) })
            }
        }
    )*};
}

claims! {
    ResourceClaim, ResourceClaimSpec, DeviceClaim;
    ResourceClaimV1beta1, ResourceClaimSpecV1beta1, DeviceClaimV1beta1;
}

/// A request of v1beta1 names its class, unless it has alternatives.
impl From<pb::DeviceRequestV1beta1> for api::DeviceRequest {
    fn from(request: pb::DeviceRequestV1beta1) -> Self {
        let first_available = list(request.first_available);
        let exactly = pb::ExactDeviceRequest {
            device_class_name: request.device_class_name,
            selectors: request.selectors,
            allocation_mode: request.allocation_mode,
            count: request.count,
            admin_access: request.admin_access,
            tolerations: request.tolerations,
            capacity: request.capacity,
            derived_attributes: request.derived_attributes,
        };
        let exactly = (!exactly.device_class_name.is_empty()).then(|| exactly.into());
        Self { exactly, first_available, name: request.name }
    }
}

read! {
    request: pb::DeviceRequest => api::DeviceRequest { exactly, first_available, name };
    request: pb::ExactDeviceRequest => api::ExactDeviceRequest {
        admin_access, allocation_mode, capacity, count, derived_attributes, device_class_name, selectors, tolerations,
    };
    request: pb::DeviceSubRequest => api::DeviceSubRequest {
        allocation_mode, capacity, count, derived_attributes, device_class_name, name, selectors, tolerations,
    };
    request: pb::DeviceSubRequestV1beta1 => api::DeviceSubRequest {
        allocation_mode, capacity, count, derived_attributes, device_class_name, name, selectors, tolerations,
    };
}

read! {
    derived: pb::DeviceDerivedAttribute => api::DeviceDerivedAttribute { expression, name };
    capacity: pb::CapacityRequirements => api::CapacityRequirements { requests };
    selector: pb::DeviceSelector => api::DeviceSelector { cel };
    cel: pb::CelDeviceSelector => api::CELDeviceSelector { expression };
    toleration: pb::DeviceToleration => api::DeviceToleration { effect, key, operator, toleration_seconds, value };
    constraint: pb::DeviceConstraint => api::DeviceConstraint { distinct_attribute, match_attribute, requests };
}

impl TryFrom<pb::DeviceClaimConfiguration> for api::DeviceClaimConfiguration {
    type Error = DecodeError;

    fn try_from(configuration: pb::DeviceClaimConfiguration) -> Result<Self, DecodeError> {
        let requests = list(configuration.requests);
        Ok(Self { opaque: opaque(configuration.device_configuration)?, requests })
    }
}

fn opaque(of: Option<pb::DeviceConfiguration>) -> Result<Option<api::OpaqueDeviceConfiguration>, DecodeError> {
    let Some(opaque) = of.and_then(|configuration| configuration.opaque) else { return Ok(None) };
    let parameters = raw(opaque.parameters.unwrap_or_default())?;
    Ok(Some(api::OpaqueDeviceConfiguration { driver: opaque.driver, parameters }))
}

fn raw(extension: pb::RawExtension) -> Result<RawExtension, DecodeError> {
    let value = if extension.raw.is_empty() { Value::Null } else { serde_json::from_slice(&extension.raw)? };
    Ok(RawExtension(value))
}

read! {
    status: pb::ResourceClaimStatus => api::ResourceClaimStatus { allocation, devices, reserved_for };
    allocation: pb::AllocationResult => api::AllocationResult {
        allocation_timestamp, devices = Some(allocation.devices.unwrap_or_default().into()), node_selector,
    };
    devices: pb::DeviceAllocationResult => api::DeviceAllocationResult { config, results };
    result: pb::DeviceRequestAllocationResult => api::DeviceRequestAllocationResult {
        admin_access, binding_conditions, binding_failure_conditions, consumed_capacity, device, driver, pool, request,
        share_id, skip_node_operations, tolerations,
    };
    // An allocation's configuration is only for drivers.
    configuration: pb::DeviceAllocationConfiguration => api::DeviceAllocationConfiguration {
        opaque = opaque(configuration.device_configuration).unwrap_or_default(), requests, source,
    };
    consumer: pb::ResourceClaimConsumerReference => api::ResourceClaimConsumerReference {
        api_group, name, resource, uid,
    };
    // `null` in JSON means none.
    status: pb::AllocatedDeviceStatus => api::AllocatedDeviceStatus {
        conditions, data = status.data.and_then(|data| raw(data).ok()).filter(|data| !data.0.is_null()), device, driver,
        network_data, pool, share_id,
    };
    data: pb::NetworkDeviceData => api::NetworkDeviceData { hardware_address, interface_name, ips };
}

impl TryFrom<pb::DeviceClass> for Specified<api::DeviceClassSpec> {
    type Error = DecodeError;

    fn try_from(class: pb::DeviceClass) -> Result<Self, DecodeError> {
        Ok(Self {
            metadata: class.metadata.unwrap_or_default().into(),
            spec: class.spec.map(api::DeviceClassSpec::try_from).transpose()?,
            status: None,
        })
    }
}

impl TryFrom<pb::DeviceClassSpec> for api::DeviceClassSpec {
    type Error = DecodeError;

    fn try_from(spec: pb::DeviceClassSpec) -> Result<Self, DecodeError> {
        Ok(Self {
            config: tried(spec.config)?,
            extended_resource_name: spec.extended_resource_name,
            selectors: list(spec.selectors),
        })
    }
}

impl TryFrom<pb::DeviceClassConfiguration> for api::DeviceClassConfiguration {
    type Error = DecodeError;

    fn try_from(configuration: pb::DeviceClassConfiguration) -> Result<Self, DecodeError> {
        Ok(Self { opaque: opaque(configuration.device_configuration)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A claim with parameters of `depth` nested arrays.
    fn claim(depth: usize, allocation: Option<pb::AllocationResult>) -> pb::ResourceClaim {
        let raw = [vec![b'['; depth], vec![b']'; depth]].concat().into();
        let parameters = Some(pb::RawExtension { raw });
        let opaque = Some(pb::OpaqueDeviceConfiguration { driver: "d".to_owned(), parameters });
        let config = vec![pb::DeviceClaimConfiguration {
            device_configuration: Some(pb::DeviceConfiguration { opaque }),
            ..pb::DeviceClaimConfiguration::default()
        }];
        pb::ResourceClaim {
            spec: Some(pb::ResourceClaimSpec {
                devices: Some(pb::DeviceClaim { config, ..pb::DeviceClaim::default() }),
            }),
            status: Some(pb::ResourceClaimStatus { allocation, ..pb::ResourceClaimStatus::default() }),
            ..pb::ResourceClaim::default()
        }
    }

    type Claim = Specified<ClaimSpec, api::ResourceClaimStatus>;

    #[test]
    fn parameters_that_are_no_json_make_a_claim_unreadable_unless_it_is_allocated() {
        assert!(Claim::try_from(claim(10, None)).is_ok_and(|claim| claim.spec.is_some()));
        assert!(Claim::try_from(claim(200, None)).is_err());
        let allocated = Claim::try_from(claim(200, Some(pb::AllocationResult::default()))).expect("it is read");
        assert!(allocated.spec.is_none());
        assert!(allocated.status.is_some_and(|status| status.allocation.is_some()));
    }
}
