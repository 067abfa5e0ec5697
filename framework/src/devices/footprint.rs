//! Amounts of the node's own resources, such as CPU and memory, that the devices of a pod take.
//!
//! With DRANodeAllocatableResources, a device may map to an amount of a resource, or have an overhead. These amounts depend on the allocated
//! devices, so the requests in the pod do not contain them. Source: `nodeallocatabledynamicresources.go` of the plugin, and
//! component-helpers' `addDRANodeAllocatableClaimResources`.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

use super::{
    amount::Amount,
    model::{
        allocation::DeviceResult,
        slice::{AllocatableMapping, AllocatableOverhead, Device, NodeAllocatable},
    },
    pools::NodePools,
};
use crate::{class::Class, quantity::Quantity, resources::Resources};

const NANO: i128 = 1_000_000_000;

/// Exact amounts by resource, sorted by name.
pub type Quantities = Vec<(Arc<str>, Quantity)>;

/// Requests and limits of a pod without its devices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Footprint {
    /// All requests: containers, pod-level resources and overhead.
    pub total: Quantities,
    /// CPU and memory with a default for each container that requests none.
    pub nonzero: [Quantity; 2],
    /// Sum of the containers' requests.
    pub requests: Quantities,
    /// Sum of the containers' limits.
    pub limits: Quantities,
    /// Pod-level requests of supported resources; empty without the gate PodLevelResources.
    pub pod_requests: Quantities,
    /// Pod-level limits, as above.
    pub pod_limits: Quantities,
    /// All containers, init containers first.
    pub containers: Vec<ClaimingContainer>,
}

/// A container and the claims that it uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClaimingContainer {
    /// `name`.
    pub name: Arc<str>,
    /// Whether it is an init container.
    pub is_init: bool,
    /// `resources.limits`, if the pod has limits too; empty otherwise.
    pub limits: Quantities,
    /// Entries of `spec.resourceClaims` in `resources.claims`.
    pub claims: Vec<Arc<str>>,
}

/// A NodeAllocatableResourceClaimStatus: amounts for one claim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimAmounts {
    /// Name of the claim.
    pub claim: Arc<str>,
    /// Containers that use it.
    pub containers: Vec<Arc<str>>,
    /// `mapping`, sorted by resource.
    pub mapping: Vec<(Arc<str>, Amount)>,
    /// `overhead`, sorted by resource.
    pub overhead: Vec<(Arc<str>, AllocatableOverhead)>,
}

/// An allocated claim of a pod.
#[derive(Debug, Clone, Copy)]
pub struct AllocatedClaim<'a> {
    /// `namespace/name`, for errors.
    pub label: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its devices.
    pub results: &'a [DeviceResult],
}

/// Amounts for the claims of a pod with devices on a node, sorted by name. `entries`: the claim of each entry of `spec.resourceClaims`
/// that has one, by index. Claims without amounts are left out. `None`: no device of a claim takes amounts of a node.
///
/// # Errors
/// A device is not on the node, or lacks the capacity that it maps. Upstream's text.
pub fn amounts_of_claims(
    claims: &[AllocatedClaim<'_>],
    entries: &[(Arc<str>, usize)],
    containers: &[ClaimingContainer],
    pools: &NodePools,
) -> Result<Option<Vec<ClaimAmounts>>, String> {
    let takes = |result: &DeviceResult| pools.find(&result.device).is_some_and(|it| !it.allocatable.is_empty());
    let mut found: BTreeMap<&str, ClaimAmounts> = BTreeMap::new();
    for claim in claims.iter().filter(|claim| claim.results.iter().any(takes)) {
        if !found.contains_key(claim.label) {
            found.insert(claim.label, amounts_of(*claim, pools)?);
        }
    }
    if found.is_empty() {
        return Ok(None);
    }
    found.retain(|_, amounts| !amounts.mapping.is_empty() || !amounts.overhead.is_empty());
    for container in containers {
        for entry in &container.claims {
            let known = entries.iter().find(|(name, _)| name == entry).and_then(|(_, at)| claims.get(*at));
            if let Some(amounts) = known.and_then(|claim| found.get_mut(claim.label)) {
                amounts.containers.push(Arc::clone(&container.name));
            }
        }
    }
    let mut sorted: Vec<ClaimAmounts> = found.into_values().collect();
    sorted.sort_by(|one, other| one.claim.cmp(&other.claim));
    Ok(Some(sorted))
}

/// Source: `buildNodeAllocatableDRAInfo`.
fn amounts_of(claim: AllocatedClaim<'_>, pools: &NodePools) -> Result<ClaimAmounts, String> {
    let (mut mapping, mut overhead) = (BTreeMap::new(), BTreeMap::new());
    for result in claim.results {
        let name = &result.device;
        let device = pools.find(name).ok_or_else(|| {
            let (label, device, pool, driver) = (claim.label, &name.device, &name.pool, &name.driver);
            format!(
                "claim {label}, device {device}, driver {driver}: device {device} not found in pool {pool} for driver \
                 {driver}"
            )
        })?;
        add_device(&mut mapping, &mut overhead, device, result).map_err(|error| {
            let (label, device) = (claim.label, &name.device);
            format!("claim {label}, device {device}: {error}")
        })?;
    }
    Ok(ClaimAmounts {
        claim: claim.name.into(),
        containers: Vec::new(),
        mapping: mapping.into_iter().collect(),
        overhead: overhead.into_iter().collect(),
    })
}

fn add_device(
    mapping: &mut BTreeMap<Arc<str>, Amount>,
    overhead: &mut BTreeMap<Arc<str>, AllocatableOverhead>,
    device: &Device,
    result: &DeviceResult,
) -> Result<(), String> {
    for NodeAllocatable { resource, mapping: mapped, overhead: more } in &device.allocatable {
        if let Some(amount) =
            mapped.as_ref().map(|mapped| mapped_amount(resource, mapped, result)).transpose()?.flatten()
        {
            let known = mapping.entry(Arc::clone(resource)).or_default();
            *known = sum(known, &amount);
        }
        let Some(more) = more.as_ref().filter(|more| **more != AllocatableOverhead::default()) else { continue };
        let known = overhead.entry(Arc::clone(resource)).or_default();
        for (known, more) in [(&mut known.per_pod, &more.per_pod), (&mut known.per_container, &more.per_container)] {
            if let Some(more) = more {
                *known = Some(known.as_ref().map_or_else(|| more.clone(), |known| sum(known, more)));
            }
        }
    }
    Ok(())
}

/// Source: `addDeviceMapping`.
fn mapped_amount(
    resource: &str,
    mapping: &AllocatableMapping,
    result: &DeviceResult,
) -> Result<Option<Amount>, String> {
    let Some(key) = &mapping.capacity else { return Ok(mapping.per_device.clone()) };
    let consumed = result.consumed.as_ref().ok_or_else(|| {
        format!(
            "ConsumedCapacity is nil, but Capacity key '{key}' is set in NodeAllocatableResources for resource {resource}"
        )
    })?;
    let Some((_, consumed)) = consumed.iter().find(|(name, _)| name == key) else { return Ok(None) };
    Ok(Some(match &mapping.per_capacity {
        Some(factor) if factor.nano() != NANO => times(consumed, factor),
        _ => consumed.clone(),
    }))
}

/// The sum takes the format of the first amount, unless that is 0. Source: `Quantity.Add`.
fn sum(one: &Amount, other: &Amount) -> Amount {
    let format = if one.nano() == 0 { other.format() } else { one.format() };
    Amount::of(one.nano().saturating_add(other.nano()), format)
}

/// The product, rounded up to nano.
fn times(one: &Amount, factor: &Amount) -> Amount {
    let product = one
        .nano()
        .checked_mul(factor.nano())
        .map_or(i128::MAX / 2, |product| product.div_euclid(NANO) + i128::from(product.rem_euclid(NANO) != 0));
    Amount::of(product, one.format())
}

impl Footprint {
    /// Requests of the pod with its devices. Source: `PodRequests` with `UseDRANodeAllocatableResourceClaimStatus`.
    #[must_use]
    pub fn with(&self, claims: &[ClaimAmounts]) -> Resources {
        let added = added(claims);
        let mut total: BTreeMap<&str, Quantity> = self.total.iter().map(|(name, amount)| (&**name, *amount)).collect();
        for (name, amount) in added.iter().filter(|(name, _)| !self.is_set_for_pod(name)) {
            let known = total.entry(name).or_default();
            *known = known.plus(*amount);
        }
        Resources::from_quantities(total)
    }

    /// CPU in thousandths of a core and memory in bytes, with defaults for containers that request none. Source: `CalculateResource`.
    fn nonzero_with(&self, claims: &[ClaimAmounts]) -> (i64, i64) {
        let added = added(claims);
        let amount = |name: &str, nonzero: Quantity| {
            let Some(more) = added.get(name).filter(|_| !self.is_set_for_pod(name)) else { return nonzero };
            // With pod-level requests, a default is for a resource without any request.
            let base = if self.pod_requests.is_empty() { nonzero } else { of(&self.total, name).unwrap_or_default() };
            base.plus(*more)
        };
        (amount("cpu", self.nonzero[0]).milli(), amount("memory", self.nonzero[1]).units())
    }

    /// The class of a pod with the amounts of its devices.
    #[must_use]
    pub fn class_with(&self, class: &Class, claims: &[ClaimAmounts]) -> Class {
        let mut class = class.clone();
        class.accounted = self.with(claims);
        (class.nonzero_milli_cpu, class.nonzero_memory) = self.nonzero_with(claims);
        class
    }

    fn is_set_for_pod(&self, name: &str) -> bool {
        of(&self.pod_requests, name).is_some()
    }

    /// Whether the pod-level requests and limits are large enough for the containers and devices.
    ///
    /// # Errors
    /// Upstream's text. Source: `validatePodLevelResourcesCoverDRA`.
    pub fn covers(&self, claims: &[ClaimAmounts]) -> Result<(), String> {
        if claims.is_empty() {
            return Ok(());
        }
        let added = added(claims);
        let plus = |known: Option<Quantity>, name: &str| {
            let more = added.get(name).copied();
            known.map_or(more, |known| Some(known.plus(more.unwrap_or_default())))
        };
        for (name, wanted) in &self.pod_requests {
            if plus(of(&self.requests, name), name).is_some_and(|sum| sum > *wanted) {
                return Err(format!(
                    "pod level request for {name} is insufficient to cover the aggregated container and node-allocatable \
                     DRA requests"
                ));
            }
        }
        let huge = self.pod_limits.iter().filter(|(name, _)| is_huge(name));
        for (name, limit) in huge {
            if plus(of(&self.limits, name), name).is_some_and(|sum| sum > *limit) {
                return Err(format!(
                    "pod level limit for {name} is insufficient to cover the aggregated container and node-allocatable \
                     DRA limits"
                ));
            }
        }
        let mut containers = self.containers.iter().filter(|container| !container.is_init);
        containers.try_for_each(|container| self.covers_container(container, claims))
    }

    fn covers_container(&self, container: &ClaimingContainer, claims: &[ClaimAmounts]) -> Result<(), String> {
        for (name, limit) in container.limits.iter().filter(|(name, _)| !is_huge(name)) {
            let Some(of_pod) = of(&self.pod_limits, name) else { continue };
            let used = claims.iter().filter(|claim| claim.containers.contains(&container.name));
            let sum = used.fold(*limit, |sum, claim| sum.plus(claim.amount(name, 1)));
            if sum > of_pod {
                return Err(format!(
                    "pod level limit for {name} is insufficient to cover the limit and DRA overhead for container {}",
                    container.name
                ));
            }
        }
        Ok(())
    }
}

impl ClaimAmounts {
    /// The amount of a resource, if this many containers use the claim.
    fn amount(&self, resource: &str, containers: usize) -> Quantity {
        let mapped = self.mapping.iter().filter(|(name, _)| **name == *resource).map(|(_, amount)| amount.nano());
        let overhead = self.overhead.iter().filter(|(name, _)| **name == *resource).map(|(_, overhead)| {
            let nano = |amount: &Option<Amount>| amount.as_ref().map_or(0, Amount::nano);
            nano(&overhead.per_pod).saturating_add(nano(&overhead.per_container).saturating_mul(containers as i128))
        });
        Quantity::from_nano(mapped.chain(overhead).fold(0, i128::saturating_add))
    }

    /// Resources with an amount.
    fn resources(&self) -> impl Iterator<Item = &Arc<str>> {
        self.mapping.iter().map(|(name, _)| name).chain(self.overhead.iter().map(|(name, _)| name))
    }
}

/// Amounts that all claims together add to the requests of a pod. Source: `addDRANodeAllocatableClaimResources`.
fn added(claims: &[ClaimAmounts]) -> BTreeMap<Arc<str>, Quantity> {
    let mut added = BTreeMap::new();
    for claim in claims {
        let mut names: Vec<&Arc<str>> = claim.resources().collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let known: &mut Quantity = added.entry(Arc::clone(name)).or_default();
            *known = known.plus(claim.amount(name, claim.containers.len()));
        }
    }
    added
}

fn of(list: &Quantities, name: &str) -> Option<Quantity> {
    list.iter().find(|(known, _)| **known == *name).map(|(_, amount)| *amount)
}

fn is_huge(name: &str) -> bool {
    name.starts_with("hugepages-")
}
