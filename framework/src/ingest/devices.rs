//! Reads the device claims of a pod.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::{core::v1 as api, scheduling::v1beta1};

use super::{Features, fields::text};
use crate::{
    devices::{
        amount,
        claimed::{ClaimSource, PodClaim, PodDevices},
        extended::{self, Asking},
    },
    volumes::mounts::Owner,
};

pub(super) fn claimed(pod: &api::Pod, spec: &api::PodSpec, features: Features) -> Option<Arc<PodDevices>> {
    let statuses = Statuses::of(pod);
    let group = spec.scheduling_group.as_ref().filter(|_| features.workload_claims);
    let group = group.and_then(|group| group.pod_group_name.as_deref()).map(text);
    let claims = spec.resource_claims.iter().flatten().map(|claim| {
        let template = claim.resource_claim_template_name.as_deref();
        let whole = entry(&claim.name, (claim.resource_claim_name.as_deref(), template), &statuses);
        PodClaim { template: whole.template.filter(|_| group.is_some()), ..whole }
    });
    let claims: Vec<PodClaim> = claims.collect();
    let containers = if asks_for_any(spec) { containers(spec) } else { Vec::new() };
    if claims.is_empty() && containers.is_empty() {
        return None;
    }
    let (name, uid) = (pod.metadata.name.as_deref(), pod.metadata.uid.as_deref());
    let owner = Owner { name: text(name.unwrap_or_default()), uid: text(uid.unwrap_or_default()) };
    Some(Arc::new(PodDevices { owner, group, claims, containers, ..PodDevices::default() }))
}

/// The claims of a pod group.
pub(super) fn of_group(group: &v1beta1::PodGroup) -> Vec<PodClaim> {
    let statuses = group.status.as_ref().and_then(|status| status.resource_claim_statuses.as_ref());
    let statuses = statuses.into_iter().flatten();
    let statuses = Statuses::new(statuses.map(|status| (&*status.name, status.resource_claim_name.as_deref())));
    let claims = group.spec.resource_claims.iter().flatten().map(|claim| {
        let source = (claim.resource_claim_name.as_deref(), claim.resource_claim_template_name.as_deref());
        entry(&claim.name, source, &statuses)
    });
    claims.collect()
}

/// The names of generated claims, by entry.
struct Statuses<'a>(BTreeMap<&'a str, Option<&'a str>>);

impl<'a> Statuses<'a> {
    fn of(pod: &'a api::Pod) -> Self {
        let statuses = pod.status.as_ref().and_then(|status| status.resource_claim_statuses.as_ref());
        let statuses = statuses.into_iter().flatten();
        Self::new(statuses.map(|status| (&*status.name, status.resource_claim_name.as_deref())))
    }

    fn new(statuses: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> Self {
        let mut by_name = BTreeMap::new();
        for (entry, claim) in statuses {
            // The first of two with the same name counts.
            by_name.entry(entry).or_insert(claim);
        }
        Self(by_name)
    }
}

/// Source: `resourceclaim.Name`, `resourceclaim.NameFromPodGroup`.
fn entry(name: &str, (claim, template): (Option<&str>, Option<&str>), statuses: &Statuses<'_>) -> PodClaim {
    let source = match (claim, template.map(|_| statuses.0.get(name))) {
        (Some(claim), _) => ClaimSource::Named(text(claim)),
        (None, None) => ClaimSource::Unknown,
        (None, Some(None)) => ClaimSource::NotCreated,
        (None, Some(Some(None))) => ClaimSource::NotNeeded,
        (None, Some(Some(Some(made)))) => ClaimSource::Generated(text(made)),
    };
    PodClaim { entry: text(name), source, template: template.map(text) }
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
