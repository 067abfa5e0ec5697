//! Reads ResourceClaims.

use std::sync::Arc;

use k8s_openapi::{api::resource::v1 as api, apimachinery::pkg::apis::meta::v1::OwnerReference};

use super::{allocation, amounts, configuration, selectors, texts, tolerations};
use crate::{
    devices::{
        amount::Amount,
        model::{
            claim::{Consumer, Controller, DeviceClaim, EXTENDED_RESOURCE_CLAIM},
            request::{
                AllocationMode, Ask, ClaimConfig, ClaimSpec, Constraint, ConstraintKind, DisabledFeature, Request,
                RequestKind,
            },
        },
    },
    ingest::{
        Features,
        features::Allocator,
        fields::{IngestError, name, namespace, present, text},
    },
};

/// Reads a claim as a scheduler with these features.
///
/// # Errors
/// A missing name, namespace or UID, or an invalid quantity.
pub fn claim(claim: &api::ResourceClaim, features: Features) -> Result<DeviceClaim, IngestError> {
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
        spec: Arc::new(claim.spec.as_ref().map(|of| spec(of, features)).transpose()?.unwrap_or_default()),
        allocation: allocated.map(|of| allocation::allocation(of, features)).transpose()?.map(Arc::new),
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
    let api_group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    Controller { api_group: text(api_group), kind: text(&owner.kind), name: text(&owner.name), uid: text(&owner.uid) }
}

fn consumer(consumer: &api::ResourceClaimConsumerReference) -> Consumer {
    Consumer {
        api_group: text(consumer.api_group.as_deref().unwrap_or_default()),
        resource: text(&consumer.resource),
        name: text(&consumer.name),
        uid: text(&consumer.uid),
    }
}

/// Reads the spec of a claim or a template as a scheduler with these features.
///
/// # Errors
/// An invalid quantity.
pub fn spec(spec: &api::ResourceClaimSpec, features: Features) -> Result<ClaimSpec, IngestError> {
    let Some(devices) = &spec.devices else { return Ok(ClaimSpec::default()) };
    let config = |config: &api::DeviceClaimConfiguration| ClaimConfig {
        requests: texts(config.requests.as_ref()),
        configuration: configuration(config.opaque.as_ref()),
    };
    Ok(ClaimSpec {
        requests: devices.requests.iter().flatten().map(|of| request(of, features)).collect::<Result<_, _>>()?,
        constraints: devices.constraints.iter().flatten().map(|of| constraint(of, features)).collect(),
        config: devices.config.iter().flatten().map(config).collect(),
    })
}

fn request(request: &api::DeviceRequest, features: Features) -> Result<Request, IngestError> {
    let alternatives = request.first_available.as_deref().unwrap_or_default();
    let alternative = |one| alternative(one, &request.name, features);
    let kind = match &request.exactly {
        _ if !alternatives.is_empty() => {
            RequestKind::FirstAvailable(alternatives.iter().map(alternative).collect::<Result<_, _>>()?)
        }
        Some(one) => RequestKind::Exactly(exactly(one, &request.name, features)?),
        None => RequestKind::Unknown,
    };
    Ok(Request { name: text(&request.name), kind })
}

fn exactly(one: &api::ExactDeviceRequest, of: &str, features: Features) -> Result<Ask, IngestError> {
    let path = || format!("spec.devices.requests[{of}].exactly.capacity.requests");
    Ok(Ask {
        name: text(""),
        class: text(&one.device_class_name),
        selectors: selectors(one.selectors.as_ref()),
        mode: mode(one.allocation_mode.as_deref(), one.count),
        admin_access: one.admin_access,
        tolerations: tolerations(one.tolerations.as_ref()),
        capacity: capacity(one.capacity.as_ref(), path, features)?,
        derived: derived(one.derived_attributes.as_ref(), features),
        disabled: disabled(one.capacity.as_ref(), one.derived_attributes.as_ref(), features),
    })
}

fn alternative(one: &api::DeviceSubRequest, of: &str, features: Features) -> Result<Ask, IngestError> {
    let path = || format!("spec.devices.requests[{of}].firstAvailable[{}].capacity.requests", one.name);
    Ok(Ask {
        name: text(&one.name),
        class: text(&one.device_class_name),
        selectors: selectors(one.selectors.as_ref()),
        mode: mode(one.allocation_mode.as_deref(), one.count),
        admin_access: None,
        tolerations: tolerations(one.tolerations.as_ref()),
        capacity: capacity(one.capacity.as_ref(), path, features)?,
        derived: derived(one.derived_attributes.as_ref(), features),
        disabled: disabled(one.capacity.as_ref(), one.derived_attributes.as_ref(), features),
    })
}

/// Requested capacity. The stable allocator ignores it.
fn capacity(
    capacity: Option<&api::CapacityRequirements>,
    path: impl Fn() -> String,
    features: Features,
) -> Result<Vec<(Arc<str>, Amount)>, IngestError> {
    let requests = capacity.filter(|_| features.devices.consumable_capacity);
    amounts(requests.and_then(|capacity| capacity.requests.as_ref()), path)
}

fn derived(list: Option<&Vec<api::DeviceDerivedAttribute>>, features: Features) -> Vec<(Arc<str>, Arc<str>)> {
    let list = list.filter(|_| features.devices.derived_attributes);
    list.into_iter().flatten().map(|derived| (text(&derived.name), text(&derived.expression))).collect()
}

/// Upstream checks capacity first, and not in the stable allocator.
fn disabled(
    capacity: Option<&api::CapacityRequirements>,
    derived: Option<&Vec<api::DeviceDerivedAttribute>>,
    Features { devices, .. }: Features,
) -> Option<DisabledFeature> {
    if capacity.is_some() && !devices.consumable_capacity && devices.allocator() != Allocator::Stable {
        return Some(DisabledFeature::Capacity);
    }
    let is_derived = derived.is_some_and(|derived| !derived.is_empty());
    (is_derived && !devices.derived_attributes).then_some(DisabledFeature::DerivedAttributes)
}

fn mode(mode: Option<&str>, count: Option<i64>) -> AllocationMode {
    match mode.unwrap_or_default() {
        "ExactCount" => AllocationMode::Count(count.unwrap_or(0)),
        "All" => AllocationMode::All,
        other => AllocationMode::Other(text(other)),
    }
}

/// The stable allocator does not support `distinctAttribute`.
fn constraint(constraint: &api::DeviceConstraint, Features { devices, .. }: Features) -> Constraint {
    let kind = match (&constraint.match_attribute, &constraint.distinct_attribute) {
        (Some(name), _) => ConstraintKind::Match(text(name)),
        (None, Some(name)) if devices.allocator() != Allocator::Stable => ConstraintKind::Distinct(text(name)),
        (None, _) => ConstraintKind::Unknown,
    };
    Constraint { requests: texts(constraint.requests.as_ref()), kind, compares_sets: devices.list_attributes }
}
