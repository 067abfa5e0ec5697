//! Reads ResourceClaims.

use std::sync::Arc;

use k8s_openapi::{
    api::resource::v1 as api,
    apimachinery::pkg::{api::resource::Quantity as ApiQuantity, apis::meta::v1::OwnerReference},
};

use super::{allocation, amounts, configuration, selectors, texts, tolerations};
use crate::{
    devices::model::{
        claim::{Consumer, Controller, DeviceClaim, EXTENDED_RESOURCE_CLAIM},
        request::{AllocationMode, Ask, ClaimConfig, ClaimSpec, Constraint, ConstraintKind, Request, RequestKind},
    },
    ingest::fields::{IngestError, name, namespace, present, text},
};

/// Reads a claim.
///
/// # Errors
/// A missing name, namespace or UID, or an invalid quantity.
pub fn claim(claim: &api::ResourceClaim) -> Result<DeviceClaim, IngestError> {
    let metadata = &claim.metadata;
    let annotations = metadata.annotations.as_ref();
    let mut owners = metadata.owner_references.iter().flatten();
    let status = claim.status.as_ref();
    let allocated = status.and_then(|status| status.allocation.as_ref());
    Ok(DeviceClaim {
        namespace: namespace(metadata)?,
        name: name(metadata)?,
        uid: present(metadata.uid.as_deref(), "metadata.uid")?,
        resource_version: text(metadata.resource_version.as_deref().unwrap_or_default()),
        finalizers: texts(metadata.finalizers.as_ref()),
        controller: owners.find(|owner| owner.controller == Some(true)).map(controller),
        is_extended: annotations.and_then(|all| all.get(EXTENDED_RESOURCE_CLAIM)).is_some_and(|value| value == "true"),
        is_deleting: metadata.deletion_timestamp.is_some(),
        spec: Arc::new(claim.spec.as_ref().map(spec).transpose()?.unwrap_or_default()),
        allocation: allocated.map(allocation::allocation).transpose()?.map(Arc::new),
        reserved_for: status
            .and_then(|status| status.reserved_for.as_ref())
            .into_iter()
            .flatten()
            .map(consumer)
            .collect(),
        statuses: status
            .and_then(|status| status.devices.as_ref())
            .into_iter()
            .flatten()
            .map(allocation::status)
            .collect(),
    })
}

fn controller(owner: &OwnerReference) -> Controller {
    Controller { kind: text(&owner.kind), name: text(&owner.name), uid: text(&owner.uid) }
}

fn consumer(consumer: &api::ResourceClaimConsumerReference) -> Consumer {
    Consumer {
        api_group: text(consumer.api_group.as_deref().unwrap_or_default()),
        resource: text(&consumer.resource),
        name: text(&consumer.name),
        uid: text(&consumer.uid),
    }
}

/// Reads the spec of a claim or a template.
///
/// # Errors
/// An invalid quantity.
pub fn spec(spec: &api::ResourceClaimSpec) -> Result<ClaimSpec, IngestError> {
    let Some(devices) = &spec.devices else { return Ok(ClaimSpec::default()) };
    let config = |config: &api::DeviceClaimConfiguration| ClaimConfig {
        requests: texts(config.requests.as_ref()),
        configuration: configuration(config.opaque.as_ref()),
    };
    Ok(ClaimSpec {
        requests: devices.requests.iter().flatten().map(request).collect::<Result<_, _>>()?,
        constraints: devices.constraints.iter().flatten().map(constraint).collect(),
        config: devices.config.iter().flatten().map(config).collect(),
    })
}

fn request(request: &api::DeviceRequest) -> Result<Request, IngestError> {
    let alternatives = request.first_available.as_deref().unwrap_or_default();
    let alternative = |one| alternative(one, &request.name);
    let kind = match &request.exactly {
        _ if !alternatives.is_empty() => {
            RequestKind::FirstAvailable(alternatives.iter().map(alternative).collect::<Result<_, _>>()?)
        }
        Some(one) => RequestKind::Exactly(exactly(one, &request.name)?),
        None => RequestKind::Unknown,
    };
    Ok(Request { name: text(&request.name), kind })
}

fn exactly(one: &api::ExactDeviceRequest, of: &str) -> Result<Ask, IngestError> {
    let path = || format!("spec.devices.requests[{of}].exactly.capacity.requests");
    Ok(Ask {
        name: text(""),
        class: text(&one.device_class_name),
        selectors: selectors(one.selectors.as_ref()),
        mode: mode(one.allocation_mode.as_deref(), one.count),
        admin_access: one.admin_access,
        tolerations: tolerations(one.tolerations.as_ref()),
        capacity: amounts(requested(one.capacity.as_ref()), path)?,
        has_derived_attributes: one.derived_attributes.as_ref().is_some_and(|derived| !derived.is_empty()),
    })
}

fn alternative(one: &api::DeviceSubRequest, of: &str) -> Result<Ask, IngestError> {
    let path = || format!("spec.devices.requests[{of}].firstAvailable[{}].capacity.requests", one.name);
    Ok(Ask {
        name: text(&one.name),
        class: text(&one.device_class_name),
        selectors: selectors(one.selectors.as_ref()),
        mode: mode(one.allocation_mode.as_deref(), one.count),
        admin_access: None,
        tolerations: tolerations(one.tolerations.as_ref()),
        capacity: amounts(requested(one.capacity.as_ref()), path)?,
        has_derived_attributes: one.derived_attributes.as_ref().is_some_and(|derived| !derived.is_empty()),
    })
}

fn requested(capacity: Option<&api::CapacityRequirements>) -> Option<&std::collections::BTreeMap<String, ApiQuantity>> {
    capacity?.requests.as_ref()
}

fn mode(mode: Option<&str>, count: Option<i64>) -> AllocationMode {
    match mode.unwrap_or_default() {
        "ExactCount" => AllocationMode::Count(count.unwrap_or(0)),
        "All" => AllocationMode::All,
        other => AllocationMode::Other(text(other)),
    }
}

fn constraint(constraint: &api::DeviceConstraint) -> Constraint {
    let kind = match (&constraint.match_attribute, &constraint.distinct_attribute) {
        (Some(name), _) => ConstraintKind::Match(text(name)),
        (None, Some(name)) => ConstraintKind::Distinct(text(name)),
        (None, None) => ConstraintKind::Unknown,
    };
    Constraint { requests: texts(constraint.requests.as_ref()), kind }
}
