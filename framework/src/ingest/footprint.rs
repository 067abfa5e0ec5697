//! Reads requests and limits of a pod to which its devices add amounts, and the amounts in its status.

use std::sync::Arc;

use k8s_openapi::api::core::v1 as api;

use super::{
    Features,
    fields::{IngestError, quantities, quantity, text},
    requests::{self, Amounts, Reading},
};
use crate::{
    devices::footprint::{ClaimingContainer, Footprint, Quantities},
    quantity::Quantity,
};

/// Requests and limits of a pod. `total`: its requests; `nonzero`: those with defaults for CPU and memory.
///
/// # Errors
/// The first invalid or negative amount.
pub(super) fn footprint(
    pod: &api::Pod,
    spec: &api::PodSpec,
    features: Features,
    defaults: &[(&str, Quantity)],
) -> Result<Footprint, IngestError> {
    let reading = Reading::of_spec(features);
    let total = requests::total(pod, spec, reading)?;
    let mut missing = defaults.to_vec();
    if features.pod_level_resources && requests::is_pod_level_set(spec) {
        missing.retain(|(name, _)| !total.contains_key(*name));
    }
    let nonzero = requests::total(pod, spec, Reading { non_missing: &missing, ..reading })?;
    let amount = |name: &str| nonzero.get(name).copied().unwrap_or_default();
    let [requests, limits] = requests::of_containers(pod, spec)?;
    let of_pod = spec.resources.as_ref().filter(|_| features.pod_level_resources);
    let supported = |list, path| {
        let mut amounts = quantities(list, path)?;
        amounts.retain(|name, _| requests::is_pod_level(name));
        Ok::<_, IngestError>(amounts)
    };
    let pod_requests = supported(of_pod.and_then(|it| it.requests.as_ref()), "spec.resources.requests")?;
    let pod_limits = supported(of_pod.and_then(|it| it.limits.as_ref()), "spec.resources.limits")?;
    let init = spec.init_containers.iter().flatten().map(|container| (container, true));
    let containers = init.chain(spec.containers.iter().map(|container| (container, false)));
    let has_limits = !pod_limits.is_empty();
    let containers = containers.map(|(container, is_init)| one(container, is_init, has_limits));
    Ok(Footprint {
        nonzero: [amount("cpu"), amount("memory")],
        total: listed(total),
        requests: listed(requests),
        limits: listed(limits),
        pod_requests: listed(pod_requests),
        pod_limits: listed(pod_limits),
        containers: containers.collect::<Result<_, IngestError>>()?,
    })
}

fn one(container: &api::Container, is_init: bool, with_limits: bool) -> Result<ClaimingContainer, IngestError> {
    let resources = container.resources.as_ref();
    let limits = resources.and_then(|resources| resources.limits.as_ref()).filter(|_| with_limits);
    let claims = resources.and_then(|resources| resources.claims.as_ref());
    Ok(ClaimingContainer {
        name: text(&container.name),
        is_init,
        limits: listed(quantities(limits, format_args!("{}: resources.limits", container.name))?),
        claims: claims.into_iter().flatten().map(|claim| text(&claim.name)).collect(),
    })
}

fn listed(amounts: Amounts) -> Quantities {
    amounts.into_iter().map(|(name, amount)| (Arc::from(name), amount)).collect()
}

/// Whether the status contains amounts of devices.
pub(super) fn has_amounts(pod: &api::Pod) -> bool {
    claims(pod).next().is_some()
}

fn claims(pod: &api::Pod) -> impl Iterator<Item = &api::NodeAllocatableResourceClaimStatus> {
    pod.status.iter().flat_map(|status| status.node_allocatable_resource_claim_statuses.iter().flatten())
}

/// Amounts of devices in the status. Source: `addDRANodeAllocatableClaimResources`.
///
/// # Errors
/// The first invalid or negative amount.
pub(super) fn of_status(pod: &api::Pod) -> Result<Amounts, IngestError> {
    let mut sum = Amounts::new();
    let mut add = |name: &str, amount: Quantity| {
        let known = sum.entry(name.to_owned()).or_default();
        *known = known.plus(amount);
    };
    for claim in claims(pod) {
        let path = |field: &str, name: &str| {
            format!("status.nodeAllocatableResourceClaimStatuses[{}].{field}[{name}]", claim.resource_claim_name)
        };
        for mapping in claim.mapping.iter().flatten() {
            add(&mapping.name, quantity(&mapping.quantity, || path("mapping", &mapping.name))?);
        }
        for overhead in claim.overhead.iter().flatten() {
            let read = |amount: &Option<_>| {
                amount.as_ref().map(|amount| quantity(amount, || path("overhead", &overhead.name))).transpose()
            };
            add(&overhead.name, read(&overhead.per_pod)?.unwrap_or_default());
            let per_container = read(&overhead.per_container)?.unwrap_or_default();
            for _ in claim.containers.iter().flatten() {
                add(&overhead.name, per_container);
            }
        }
    }
    Ok(sum)
}
