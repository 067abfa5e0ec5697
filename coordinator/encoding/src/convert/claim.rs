//! Claims of devices, their classes, and what is allocated.

use k8s_openapi::{
    api::{core::v1 as core, resource::v1 as api},
    apimachinery::pkg::{apis::meta::v1::Time, runtime::RawExtension},
};
use serde_json::Value;

use super::{amounts, list, some, texts, tried};
use crate::{DecodeError, object::Specified, pb};

impl TryFrom<pb::ResourceClaim> for Specified<api::ResourceClaimSpec, api::ResourceClaimStatus> {
    type Error = DecodeError;

    /// Whatever is asked for, the devices of an allocation are taken: a claim that has them is never left out.
    fn try_from(claim: pb::ResourceClaim) -> Result<Self, DecodeError> {
        let status = claim.status.map(api::ResourceClaimStatus::from);
        let is_allocated = status.as_ref().is_some_and(|status| status.allocation.is_some());
        let spec = match claim.spec.map(api::ResourceClaimSpec::try_from).transpose() {
            Err(_) if is_allocated => None,
            spec => spec?,
        };
        Ok(Self { metadata: claim.metadata.unwrap_or_default().into(), spec, status })
    }
}

impl TryFrom<pb::ResourceClaimSpec> for api::ResourceClaimSpec {
    type Error = DecodeError;

    fn try_from(spec: pb::ResourceClaimSpec) -> Result<Self, DecodeError> {
        Ok(Self { devices: spec.devices.map(api::DeviceClaim::try_from).transpose()? })
    }
}

impl TryFrom<pb::DeviceClaim> for api::DeviceClaim {
    type Error = DecodeError;

    fn try_from(claim: pb::DeviceClaim) -> Result<Self, DecodeError> {
        Ok(Self { config: tried(claim.config)?, constraints: list(claim.constraints), requests: list(claim.requests) })
    }
}

impl From<pb::DeviceRequest> for api::DeviceRequest {
    fn from(request: pb::DeviceRequest) -> Self {
        Self {
            exactly: request.exactly.map(Into::into),
            first_available: list(request.first_available),
            name: request.name,
        }
    }
}

impl From<pb::ExactDeviceRequest> for api::ExactDeviceRequest {
    fn from(request: pb::ExactDeviceRequest) -> Self {
        Self {
            admin_access: request.admin_access,
            allocation_mode: some(request.allocation_mode),
            capacity: request.capacity.map(Into::into),
            count: Some(request.count).filter(|count| *count != 0),
            derived_attributes: list(request.derived_attributes),
            device_class_name: request.device_class_name,
            selectors: list(request.selectors),
            tolerations: list(request.tolerations),
        }
    }
}

impl From<pb::DeviceSubRequest> for api::DeviceSubRequest {
    fn from(request: pb::DeviceSubRequest) -> Self {
        Self {
            allocation_mode: some(request.allocation_mode),
            capacity: request.capacity.map(Into::into),
            count: Some(request.count).filter(|count| *count != 0),
            derived_attributes: list(request.derived_attributes),
            device_class_name: request.device_class_name,
            name: request.name,
            selectors: list(request.selectors),
            tolerations: list(request.tolerations),
        }
    }
}

impl From<pb::DeviceDerivedAttribute> for api::DeviceDerivedAttribute {
    fn from(_: pb::DeviceDerivedAttribute) -> Self {
        Self::default()
    }
}

impl From<pb::CapacityRequirements> for api::CapacityRequirements {
    fn from(capacity: pb::CapacityRequirements) -> Self {
        Self { requests: amounts(capacity.requests) }
    }
}

impl From<pb::DeviceSelector> for api::DeviceSelector {
    fn from(selector: pb::DeviceSelector) -> Self {
        Self { cel: selector.cel.map(|cel| api::CELDeviceSelector { expression: cel.expression }) }
    }
}

impl From<pb::DeviceToleration> for api::DeviceToleration {
    fn from(toleration: pb::DeviceToleration) -> Self {
        Self {
            effect: some(toleration.effect),
            key: some(toleration.key),
            operator: some(toleration.operator),
            toleration_seconds: toleration.toleration_seconds,
            value: some(toleration.value),
        }
    }
}

impl From<pb::DeviceConstraint> for api::DeviceConstraint {
    fn from(constraint: pb::DeviceConstraint) -> Self {
        Self {
            distinct_attribute: constraint.distinct_attribute,
            match_attribute: constraint.match_attribute,
            requests: texts(constraint.requests),
        }
    }
}

impl TryFrom<pb::DeviceClaimConfiguration> for api::DeviceClaimConfiguration {
    type Error = DecodeError;

    fn try_from(configuration: pb::DeviceClaimConfiguration) -> Result<Self, DecodeError> {
        let requests = texts(configuration.requests);
        Ok(Self { opaque: opaque(configuration.device_configuration)?, requests })
    }
}

fn opaque(of: Option<pb::DeviceConfiguration>) -> Result<Option<api::OpaqueDeviceConfiguration>, DecodeError> {
    let Some(opaque) = of.and_then(|configuration| configuration.opaque) else { return Ok(None) };
    let parameters = raw(opaque.parameters.unwrap_or_default())?;
    Ok(Some(api::OpaqueDeviceConfiguration { driver: opaque.driver, parameters }))
}

/// JSON within an object; none is `null`, as JSON has it.
fn raw(extension: pb::RawExtension) -> Result<RawExtension, DecodeError> {
    let value = if extension.raw.is_empty() { Value::Null } else { serde_json::from_slice(&extension.raw)? };
    Ok(RawExtension(value))
}

impl From<pb::ResourceClaimStatus> for api::ResourceClaimStatus {
    fn from(status: pb::ResourceClaimStatus) -> Self {
        Self {
            allocation: status.allocation.map(Into::into),
            devices: list(status.devices),
            reserved_for: list(status.reserved_for),
        }
    }
}

impl From<pb::AllocationResult> for api::AllocationResult {
    fn from(allocation: pb::AllocationResult) -> Self {
        let devices = allocation.devices.unwrap_or_default();
        Self {
            allocation_timestamp: allocation.allocation_timestamp.map(Time::from),
            devices: Some(api::DeviceAllocationResult { config: list(devices.config), results: list(devices.results) }),
            node_selector: allocation.node_selector.map(core::NodeSelector::from),
        }
    }
}

impl From<pb::DeviceRequestAllocationResult> for api::DeviceRequestAllocationResult {
    fn from(result: pb::DeviceRequestAllocationResult) -> Self {
        Self {
            admin_access: result.admin_access,
            binding_conditions: texts(result.binding_conditions),
            binding_failure_conditions: texts(result.binding_failure_conditions),
            consumed_capacity: amounts(result.consumed_capacity),
            device: result.device,
            driver: result.driver,
            pool: result.pool,
            request: result.request,
            share_id: result.share_id,
            tolerations: list(result.tolerations),
            ..Self::default()
        }
    }
}

impl From<pb::DeviceAllocationConfiguration> for api::DeviceAllocationConfiguration {
    fn from(configuration: pb::DeviceAllocationConfiguration) -> Self {
        Self {
            // Of what is allocated, the configuration is only for drivers.
            opaque: opaque(configuration.device_configuration).unwrap_or_default(),
            requests: texts(configuration.requests),
            source: configuration.source,
        }
    }
}

impl From<pb::ResourceClaimConsumerReference> for api::ResourceClaimConsumerReference {
    fn from(consumer: pb::ResourceClaimConsumerReference) -> Self {
        Self {
            api_group: some(consumer.api_group),
            name: consumer.name,
            resource: consumer.resource,
            uid: consumer.uid,
        }
    }
}

impl From<pb::AllocatedDeviceStatus> for api::AllocatedDeviceStatus {
    fn from(status: pb::AllocatedDeviceStatus) -> Self {
        let data = status.data.and_then(|data| raw(data).ok());
        Self {
            conditions: list(status.conditions),
            // Of JSON, `null` is none.
            data: data.filter(|data| !data.0.is_null()),
            device: status.device,
            driver: status.driver,
            network_data: status.network_data.map(Into::into),
            pool: status.pool,
            share_id: status.share_id,
        }
    }
}

impl From<pb::NetworkDeviceData> for api::NetworkDeviceData {
    fn from(data: pb::NetworkDeviceData) -> Self {
        Self {
            hardware_address: some(data.hardware_address),
            interface_name: some(data.interface_name),
            ips: texts(data.ips),
        }
    }
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

    /// A claim with so many arrays within each other as its parameters.
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

    type Claim = Specified<api::ResourceClaimSpec, api::ResourceClaimStatus>;

    #[test]
    fn parameters_that_are_no_json_make_a_claim_unreadable_unless_it_is_allocated() {
        assert!(Claim::try_from(claim(10, None)).is_ok_and(|claim| claim.spec.is_some()));
        assert!(Claim::try_from(claim(200, None)).is_err());
        let allocated = Claim::try_from(claim(200, Some(pb::AllocationResult::default()))).expect("it is read");
        assert!(allocated.spec.is_none());
        assert!(allocated.status.is_some_and(|status| status.allocation.is_some()));
    }
}
