//! Reads the status of a ResourceClaim: its allocation and the drivers' device status.

use k8s_openapi::{api::resource::v1 as api, apimachinery::pkg::apis::meta::v1::Condition, serde_json};

use super::{amounts, configuration, seconds, terms, texts, tolerations};
use crate::{
    devices::model::{
        DeviceName,
        allocation::{AllocatedConfig, Allocation, ConfigSource, DeviceResult},
        claim::{DeviceCondition, DeviceStatus},
    },
    ingest::{
        Features,
        fields::{IngestError, text},
    },
};

pub(super) fn allocation(allocation: &api::AllocationResult, features: Features) -> Result<Allocation, IngestError> {
    let none = api::DeviceAllocationResult::default();
    let devices = allocation.devices.as_ref().unwrap_or(&none);
    Ok(Allocation {
        results: devices.results.iter().flatten().map(|of| result(of, features)).collect::<Result<_, _>>()?,
        config: devices.config.iter().flatten().map(config).collect(),
        node_selector: terms(allocation.node_selector.as_ref()),
        allocated_s: allocation.allocation_timestamp.as_ref().map(seconds),
        is_untimed: false,
    })
}

/// Without DRAConsumableCapacity, claims share no devices. Source: `foreachAllocatedDevice`.
fn result(result: &api::DeviceRequestAllocationResult, features: Features) -> Result<DeviceResult, IngestError> {
    let path = || format!("status.allocation.devices.results[{}].consumedCapacity", result.request);
    let is_consumable = features.devices.consumable_capacity;
    let consumed = result.consumed_capacity.as_ref().filter(|_| is_consumable);
    Ok(DeviceResult {
        request: text(&result.request),
        device: device(&result.driver, &result.pool, &result.device),
        admin_access: result.admin_access,
        tolerations: tolerations(result.tolerations.as_ref()),
        binding_conditions: texts(result.binding_conditions.as_ref()),
        binding_failure_conditions: texts(result.binding_failure_conditions.as_ref()),
        share: result.share_id.as_deref().filter(|_| is_consumable).map(text),
        skipped_operations: texts(result.skip_node_operations.as_ref()),
        consumed: consumed.map(|consumed| amounts(Some(consumed), path)).transpose()?,
    })
}

fn config(config: &api::DeviceAllocationConfiguration) -> AllocatedConfig {
    // Any other source counts as the claim: the API server knows no third one.
    let source = if config.source == ConfigSource::Class.name() { ConfigSource::Class } else { ConfigSource::Claim };
    AllocatedConfig {
        source,
        requests: texts(config.requests.as_ref()),
        configuration: configuration(config.opaque.as_ref()),
    }
}

pub(super) fn status(status: &api::AllocatedDeviceStatus) -> DeviceStatus {
    let data = status.data.as_ref().map(|data| data.0.to_string().into());
    let network = status.network_data.as_ref().and_then(|data| serde_json::to_string(data).ok());
    DeviceStatus {
        device: device(&status.driver, &status.pool, &status.device),
        share: status.share_id.as_deref().map(text),
        conditions: status.conditions.iter().flatten().map(condition).collect(),
        data,
        network_data: network.map(Into::into),
    }
}

fn condition(condition: &Condition) -> DeviceCondition {
    DeviceCondition {
        kind: text(&condition.type_),
        status: text(&condition.status),
        reason: text(&condition.reason),
        message: text(&condition.message),
        observed_generation: condition.observed_generation,
        changed_s: seconds(&condition.last_transition_time),
    }
}

fn device(driver: &str, pool: &str, device: &str) -> DeviceName {
    DeviceName { driver: text(driver), pool: text(pool), device: text(device) }
}
