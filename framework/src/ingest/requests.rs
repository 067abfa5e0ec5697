//! Computes a pod's requests as component-helpers' `PodRequests`, with pod-level resources, overhead and in-place resizes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use k8s_openapi::api::core::v1 as api;

use super::{
    Features,
    fields::{IngestError, ResourceList, quantities, text},
    footprint,
};
use crate::quantity::Quantity;

/// Amounts by resource name, exact.
pub type Amounts = BTreeMap<String, Quantity>;

/// The default CPU of a container without a CPU request, for "non-zero" requests.
pub const DEFAULT_MILLI_CPU: &str = "100m";

/// The default memory of a container without a memory request, for "non-zero" requests.
pub const DEFAULT_MEMORY: &str = "200Mi";

/// Options of the computation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reading<'a> {
    /// Use the allocated and actuated resources from the status, which an in-place resize changes.
    pub use_status: bool,
    /// Also use pod-level resources from the status; only with `use_status`.
    pub use_pod_level_status: bool,
    /// Ignore pod-level resources.
    pub skip_pod_level: bool,
    /// Add the amounts of devices in `status.nodeAllocatableResourceClaimStatuses`.
    pub use_devices: bool,
    /// Defaults for resources that a container does not name.
    pub non_missing: &'a [(&'a str, Quantity)],
}

impl Reading<'_> {
    /// The requests in the spec.
    #[must_use]
    pub fn of_spec(features: Features) -> Self {
        Self { skip_pod_level: !features.pod_level_resources, ..Self::default() }
    }

    /// The requests that count on the pod's node.
    #[must_use]
    pub fn of_status(features: Features) -> Self {
        Self {
            use_status: true,
            use_pod_level_status: features.pod_level_resizes,
            use_devices: features.devices.node_allocatable,
            ..Self::of_spec(features)
        }
    }
}

/// The sum over a pod.
///
/// # Errors
/// The first invalid or negative amount.
pub fn total(pod: &api::Pod, spec: &api::PodSpec, reading: Reading<'_>) -> Result<Amounts, IngestError> {
    let mut sum = containers(pod, spec, reading)?;
    if !reading.skip_pod_level {
        pod_level(pod, spec, reading, &mut sum)?;
    }
    add(&mut sum, &quantities(spec.overhead.as_ref(), "spec.overhead")?);
    Ok(sum)
}

/// The sum of a pod's limits, from its spec. Overhead is added to limited resources. Source: component-helpers' `PodLimits`, as the
/// resource metrics call it.
///
/// # Errors
/// The first invalid or negative amount.
pub fn limits(pod: &api::Pod, spec: &api::PodSpec) -> Result<Amounts, IngestError> {
    let mut sum = aggregate(pod, spec, Reading::default(), RequestSource::Limits)?;
    let wanted = spec.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    let effective = quantities(wanted, "spec.resources.limits")?;
    sum.extend(effective.into_iter().filter(|(name, _)| is_pod_level(name)));
    for (name, overhead) in quantities(spec.overhead.as_ref(), "spec.overhead")? {
        if let Some(limit) = sum.get_mut(&name).filter(|limit| **limit != Quantity::default()) {
            *limit = limit.plus(overhead);
        }
    }
    Ok(sum)
}

/// Sums of the containers' requests and limits in the spec.
///
/// # Errors
/// The first invalid or negative amount.
pub(super) fn of_containers(pod: &api::Pod, spec: &api::PodSpec) -> Result<[Amounts; 2], IngestError> {
    let sum = |source| aggregate(pod, spec, Reading::default(), source);
    Ok([sum(RequestSource::Spec)?, sum(RequestSource::Limits)?])
}

/// Whether the pod has pod-level requests of a supported kind; limits do not count. Source: `IsPodLevelRequestsSet`.
#[must_use]
pub fn is_pod_level_set(spec: &api::PodSpec) -> bool {
    let requests = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    requests.into_iter().flatten().any(|(name, _)| is_pod_level(name))
}

/// Whether the status contains amounts that count. Otherwise a reading of the status equals one of the spec.
#[must_use]
pub fn has_status(pod: &api::Pod, features: Features) -> bool {
    features.devices.node_allocatable && footprint::has_amounts(pod) || has_resources(pod)
}

fn has_resources(pod: &api::Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let containers = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    let mut containers = containers.map(|status| status.allocated_resources.is_some() || status.resources.is_some());
    status.allocated_resources.is_some()
        || status.resources.is_some()
        || containers.any(|told| told)
        || is_resize_infeasible(pod)
}

/// The extended resources in requests or limits of containers and init containers, also with amount 0. Sorted and unique. Source:
/// `HTTPExtender.hasManagedResources`; an extender can only manage resources with a domain outside Kubernetes.
#[must_use]
pub fn extended(spec: &api::PodSpec) -> Vec<Arc<str>> {
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let lists = containers.filter_map(|container| container.resources.as_ref());
    let names = lists.flat_map(|lists| lists.requests.iter().chain(&lists.limits).flat_map(BTreeMap::keys));
    let is_extended = |name: &&String| name.contains('/') && !name.contains("kubernetes.io/");
    let names: BTreeSet<&String> = names.filter(is_extended).collect();
    names.into_iter().map(text).collect()
}

pub(super) fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

fn containers(pod: &api::Pod, spec: &api::PodSpec, reading: Reading<'_>) -> Result<Amounts, IngestError> {
    let mut wanted = aggregate(pod, spec, reading, RequestSource::Spec)?;
    let devices = if reading.use_devices { footprint::of_status(pod)? } else { Amounts::new() };
    add(&mut wanted, &devices);
    if !reading.use_status || !has_resources(pod) {
        return Ok(wanted);
    }
    let status = pod.status.as_ref();
    let whole = status.filter(|_| reading.use_pod_level_status).and_then(|status| {
        let allocated = status.allocated_resources.as_ref()?;
        Some((allocated, status.resources.as_ref()?.requests.as_ref()?))
    });
    let (allocated, actuated) = match whole {
        Some((allocated, actuated)) => (
            quantities(Some(allocated), "status.allocatedResources")?,
            quantities(Some(actuated), "status.resources.requests")?,
        ),
        None => {
            // The kubelet adds the devices' amounts only to the actuated resources.
            let mut allocated = aggregate(pod, spec, reading, RequestSource::Allocated)?;
            add(&mut allocated, &devices);
            (allocated, aggregate(pod, spec, reading, RequestSource::Actuated)?)
        }
    };
    let mut sum = allocated;
    raise(&mut sum, &actuated);
    if !is_resize_infeasible(pod) {
        raise(&mut sum, &wanted);
    }
    Ok(sum)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestSource {
    Spec,
    Allocated,
    Actuated,
    Limits,
}

fn aggregate(
    pod: &api::Pod,
    spec: &api::PodSpec,
    reading: Reading<'_>,
    stage: RequestSource,
) -> Result<Amounts, IngestError> {
    let mut sum = Amounts::new();
    for (index, container) in spec.containers.iter().enumerate() {
        let path = format_args!("spec.containers[{index}].resources.requests");
        add(&mut sum, &one(pod, container, path, reading, stage)?);
    }
    let mut sidecars = Amounts::new();
    let mut highest = Amounts::new();
    for (index, container) in spec.init_containers.iter().flatten().enumerate() {
        let path = format_args!("spec.initContainers[{index}].resources.requests");
        let own = one(pod, container, path, reading, stage)?;
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut sum, &own);
            add(&mut sidecars, &own);
            raise(&mut highest, &sidecars);
        } else {
            let mut with_sidecars = own;
            add(&mut with_sidecars, &sidecars);
            raise(&mut highest, &with_sidecars);
        }
    }
    raise(&mut sum, &highest);
    Ok(sum)
}

fn one(
    pod: &api::Pod,
    container: &api::Container,
    path: fmt::Arguments<'_>,
    reading: Reading<'_>,
    stage: RequestSource,
) -> Result<Amounts, IngestError> {
    let resources = container.resources.as_ref();
    let wanted = resources.and_then(|resources| resources.requests.as_ref());
    let list = match stage {
        RequestSource::Spec => wanted,
        RequestSource::Limits => resources.and_then(|resources| resources.limits.as_ref()),
        RequestSource::Allocated | RequestSource::Actuated => told(pod, container, wanted, stage),
    };
    let mut amounts = quantities(list, path)?;
    for (name, quantity) in reading.non_missing {
        amounts.entry((*name).to_owned()).or_insert(*quantity);
    }
    Ok(amounts)
}

/// The kubelet's value of a container's request; otherwise the spec's, unless a resize is infeasible.
fn told<'a>(
    pod: &'a api::Pod,
    container: &api::Container,
    wanted: Option<&'a ResourceList>,
    stage: RequestSource,
) -> Option<&'a ResourceList> {
    let status = pod.status.as_ref().and_then(|status| {
        let all = status.container_statuses.iter().flatten();
        all.chain(status.init_container_statuses.iter().flatten()).find(|status| status.name == container.name)
    });
    let actuated = status
        .filter(|_| stage == RequestSource::Actuated)
        .and_then(|status| status.resources.as_ref()?.requests.as_ref());
    actuated.or_else(|| status?.allocated_resources.as_ref()).or_else(|| wanted.filter(|_| !is_resize_infeasible(pod)))
}

fn pod_level(pod: &api::Pod, spec: &api::PodSpec, reading: Reading<'_>, sum: &mut Amounts) -> Result<(), IngestError> {
    let wanted = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let mut effective = quantities(wanted, "spec.resources.requests")?;
    effective.retain(|name, _| is_pod_level(name));
    if effective.is_empty() {
        return Ok(());
    }
    let status = pod.status.as_ref();
    if reading.use_status
        && reading.use_pod_level_status
        && let Some(resources) = status.and_then(|status| status.resources.as_ref())
    {
        if is_resize_infeasible(pod) {
            effective.clear();
        }
        raise(&mut effective, &quantities(resources.requests.as_ref(), "status.resources.requests")?);
        let allocated = status.and_then(|status| status.allocated_resources.as_ref());
        raise(&mut effective, &quantities(allocated, "status.allocatedResources")?);
    }
    sum.extend(effective.into_iter().filter(|(name, _)| is_pod_level(name)));
    Ok(())
}

/// Whether the kubelet reported a resize as infeasible.
fn is_resize_infeasible(pod: &api::Pod) -> bool {
    pending_resize(pod) == Some("Infeasible")
}

/// Whether the kubelet has deferred a resize. Source: `IsPodResizeDeferred`.
pub(super) fn is_resize_deferred(pod: &api::Pod) -> bool {
    pending_resize(pod) == Some("Deferred")
}

/// The reason why a resize is pending. The first such condition decides.
fn pending_resize(pod: &api::Pod) -> Option<&str> {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.find(|condition| condition.type_ == "PodResizePending")?.reason.as_deref()
}

fn add(sum: &mut Amounts, other: &Amounts) {
    for (name, quantity) in other {
        let known = sum.entry(name.clone()).or_default();
        *known = known.plus(*quantity);
    }
}

fn raise(highest: &mut Amounts, other: &Amounts) {
    for (name, quantity) in other {
        let known = highest.entry(name.clone()).or_default();
        *known = (*known).max(*quantity);
    }
}
