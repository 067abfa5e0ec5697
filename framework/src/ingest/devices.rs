//! Reads the device claims of a pod.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1 as api;

use super::fields::text;
use crate::{
    devices::{
        amount,
        claimed::{ClaimSource, PodClaim, PodDevices},
        extended::{self, Asking},
    },
    volumes::mounts::Owner,
};

pub(super) fn claimed(pod: &api::Pod, spec: &api::PodSpec) -> Option<Arc<PodDevices>> {
    let statuses = Statuses::of(pod);
    let claims: Vec<PodClaim> = spec.resource_claims.iter().flatten().map(|claim| entry(claim, &statuses)).collect();
    let containers = if asks_for_any(spec) { containers(spec) } else { Vec::new() };
    if claims.is_empty() && containers.is_empty() {
        return None;
    }
    let (name, uid) = (pod.metadata.name.as_deref(), pod.metadata.uid.as_deref());
    let owner = Owner { name: text(name.unwrap_or_default()), uid: text(uid.unwrap_or_default()) };
    Some(Arc::new(PodDevices { owner, claims, containers, ..PodDevices::default() }))
}

struct Statuses<'a>(BTreeMap<&'a str, &'a api::PodResourceClaimStatus>);

impl<'a> Statuses<'a> {
    fn of(pod: &'a api::Pod) -> Self {
        let statuses = pod.status.as_ref().and_then(|status| status.resource_claim_statuses.as_ref());
        let mut by_name = BTreeMap::new();
        for status in statuses.into_iter().flatten() {
            // The first of two with the same name counts.
            by_name.entry(&*status.name).or_insert(status);
        }
        Self(by_name)
    }
}

/// Source: `resourceclaim.Name`.
fn entry(claim: &api::PodResourceClaim, statuses: &Statuses<'_>) -> PodClaim {
    let generated = || match statuses.0.get(&*claim.name) {
        None => ClaimSource::NotCreated,
        Some(status) => status
            .resource_claim_name
            .as_ref()
            .map_or(ClaimSource::NotNeeded, |name| ClaimSource::Generated(text(name))),
    };
    let source = match (&claim.resource_claim_name, &claim.resource_claim_template_name) {
        (Some(name), _) => ClaimSource::Named(text(name)),
        (None, Some(_)) => generated(),
        (None, None) => ClaimSource::Unknown,
    };
    PodClaim { entry: text(&claim.name), source }
}

/// Whether a container requests a resource that a device class may provide. For most pods this is the only cost.
fn asks_for_any(spec: &api::PodSpec) -> bool {
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let requests = containers.filter_map(|container| container.resources.as_ref()?.requests.as_ref()).flatten();
    requests.into_iter().any(|(name, amount)| extended::may_be_devices(name, amount::integer(&amount.0)))
}

/// Init containers first, as in kube-scheduler's numbering.
fn containers(spec: &api::PodSpec) -> Vec<Asking> {
    let init = spec.init_containers.iter().flatten();
    let init = init.map(|container| asking(container, container.restart_policy.as_deref() != Some("Always")));
    init.chain(spec.containers.iter().map(|container| asking(container, false))).collect()
}

fn asking(container: &api::Container, is_short_lived: bool) -> Asking {
    let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let requests = requests.into_iter().flatten().map(|(name, amount)| (text(name), amount::integer(&amount.0)));
    Asking { name: text(&container.name), is_short_lived, requests: requests.collect() }
}
