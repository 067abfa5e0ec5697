//! Claims of a pod in PreEnqueue and PreFilter, and in the class of the pod. Source: `foreachPodResourceClaim` and `PreFilter` of the
//! plugin.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    claimed::{ClaimSource, PodClaim, PodDevices},
    facts::{ClaimDevices, ClaimFact, Claims, DeviceFacts, Requests, nameless},
    model::{
        allocation::Allocation,
        claim::DeviceClaim,
        class::DeviceClass,
        request::{ClaimSpec, Request, RequestKind},
    },
    special::Extended,
    store::Store,
};
use crate::volumes::mounts::Owner;

/// Maximum alternatives of a request: `FirstAvailableDeviceRequestMaxSize`.
const MAX_ALTERNATIVES: i64 = 8;

pub(super) enum Resolved<'a> {
    Known(&'a Arc<DeviceClaim>),
    /// An existing claim, equivalent to all others with this spec.
    Like(&'a Arc<ClaimSpec>),
}

impl Store {
    /// Claims of a pod, in order.
    ///
    /// # Errors
    /// A claim is not available to the pod. Upstream's text.
    pub(super) fn claims_of<'a>(
        &'a self,
        devices: &'a PodDevices,
        namespace: &Arc<str>,
    ) -> Result<Vec<Resolved<'a>>, String> {
        let mut claims = Vec::with_capacity(devices.claims.len());
        for PodClaim { entry, source, .. } in &devices.claims {
            let pod = || format!("{namespace}/{}", devices.owner.name);
            let (name, must_own) = match source {
                ClaimSource::Like(spec) => {
                    claims.push(Resolved::Like(spec));
                    continue;
                }
                ClaimSource::NotNeeded => continue,
                ClaimSource::NotCreated => {
                    return Err(format!("pod \"{}\": ResourceClaim not created yet", pod()));
                }
                ClaimSource::Unknown => {
                    return Err(format!(
                        "pod \"{}\", spec.resourceClaim {entry:?}: none of the supported fields are set",
                        pod()
                    ));
                }
                ClaimSource::Named(name) => (name, false),
                ClaimSource::Generated(name) => (name, true),
            };
            let claim = self
                .claim(&(Arc::clone(namespace), Arc::clone(name)))
                .ok_or_else(|| format!("could not find ResourceClaim \"{namespace}/{name}\""))?;
            if claim.is_deleting {
                return Err(format!("resourceclaim {name:?} is being deleted"));
            }
            let is_own = || claim.controller.as_ref().is_some_and(|owner| owner.uid == devices.owner.uid);
            if must_own && !is_own() && !is_of_group(claim, devices) {
                let (claim, pod) = (claim.label(), pod());
                let owners = match &devices.group {
                    Some(group) => format!("neither Pod nor PodGroup {group} is the owner"),
                    None => "Pod is not owner".to_owned(),
                };
                return Err(format!("ResourceClaim {claim} was not created for Pod {pod} ({owners})"));
            }
            claims.push(Resolved::Known(claim));
        }
        Ok(claims)
    }

    /// Claims and extended resources in the form that pods of a class share. `None`: they cannot be shared.
    pub(super) fn shared(&self, devices: &PodDevices, namespace: &Arc<str>) -> Option<PodDevices> {
        let claims = self.shared_claims(devices, namespace);
        if claims.is_none() && devices.containers.is_empty() {
            return None;
        }
        let extended = self.extended(devices);
        let (owner, claims) =
            claims.map_or_else(|| (devices.owner.clone(), devices.claims.clone()), |claims| (Owner::default(), claims));
        let is_generated = |claim: &PodClaim| matches!(claim.source, ClaimSource::Generated(_));
        let group = devices.group.clone().filter(|_| claims.iter().any(is_generated));
        Some(PodDevices {
            owner,
            group,
            claims,
            footprint: devices.footprint.clone(),
            containers: extended.as_ref().map(Extended::shared).unwrap_or_default(),
            mapped: extended.iter().flat_map(Extended::mapped).cloned().collect(),
            has_left: extended.is_some_and(|extended| extended.has_left),
        })
    }

    /// Extended resources of a pod or class that devices may provide.
    pub(super) fn extended(&self, devices: &PodDevices) -> Option<Extended> {
        let extended = Extended::of(devices, &self.classes)?;
        let has_left = extended.has_left || self.special_of(&devices.owner).is_some();
        Some(Extended { has_left, ..extended })
    }

    /// Replaces unused claims that were generated for the pod with their specs, because they are interchangeable. Claims of its group keep
    /// their names. `None`: the claims cannot be shared.
    fn shared_claims(&self, devices: &PodDevices, namespace: &Arc<str>) -> Option<Vec<PodClaim>> {
        let like = |name: &Arc<str>| {
            let known = self.claim(&(Arc::clone(namespace), Arc::clone(name)))?;
            if is_of_group(known, devices) {
                return Some(ClaimSource::Generated(Arc::clone(name)));
            }
            let is_fresh = known.allocation.is_none()
                && known.reserved_for.is_empty()
                && !known.is_deleting
                && self.pending(&known.uid).is_none()
                && known.controller.as_ref().is_some_and(|owner| owner.uid == devices.owner.uid);
            is_fresh.then(|| ClaimSource::Like(Arc::clone(&known.spec)))
        };
        let mut claims = Vec::with_capacity(devices.claims.len());
        for claim in devices.claims.iter().filter(|claim| claim.source != ClaimSource::NotNeeded) {
            let source = match &claim.source {
                ClaimSource::Generated(name) => like(name)?,
                ClaimSource::NotCreated | ClaimSource::Unknown => return None,
                // It matters which pod has the claim.
                ClaimSource::Named(_) if devices.footprint.is_some() => return None,
                other => other.clone(),
            };
            // Otherwise the name of an entry matters only in errors.
            let entry = devices.footprint.as_ref().map(|_| Arc::clone(&claim.entry)).unwrap_or_default();
            claims.push(PodClaim { entry, source, ..PodClaim::default() });
        }
        Some(claims)
    }

    /// PreFilter result for the claims of a class. `None`: no claims.
    pub(super) fn facts(&self, devices: &PodDevices, namespace: &Arc<str>) -> Option<DeviceFacts> {
        match self.judge(devices, namespace) {
            Ok(claims) if claims.claims.is_empty() && claims.extended.is_none() => None,
            Ok(claims) => Some(DeviceFacts::Claims(Arc::new(claims))),
            Err(facts) => Some(facts),
        }
    }

    fn judge(&self, devices: &PodDevices, namespace: &Arc<str>) -> Result<Claims, DeviceFacts> {
        let refuse = |error: String| DeviceFacts::Refuse(error.into());
        let resolved = self.claims_of(devices, namespace).map_err(refuse)?;
        let mut classes = BTreeMap::new();
        let mut claims = Vec::with_capacity(resolved.len());
        for (place, claim) in resolved.iter().enumerate() {
            let (label, spec) = match claim {
                Resolved::Known(claim) => {
                    if let Some(allocation) = &claim.allocation {
                        let kept = self.devices_of_claim(devices, claim, allocation);
                        claims.push(fact_of(&claim.spec, allocation, self.has_failed(claim), kept));
                        continue;
                    }
                    if let Some(allocation) = self.tentative(&claim.uid) {
                        let kept = self.devices_of_claim(devices, claim, allocation);
                        claims.push(fact_of(&claim.spec, allocation, false, kept));
                        continue;
                    }
                    if self.pending(&claim.uid).is_some() {
                        let label = claim.label();
                        return Err(refuse(format!("resource claim {label} is in the process of being allocated")));
                    }
                    (claim.label(), &claim.spec)
                }
                Resolved::Like(spec) => (nameless(place), *spec),
            };
            self.find_classes(&label, &spec.requests, &mut classes)?;
            claims.push(ClaimFact::Unallocated { label: label.into(), spec: Arc::clone(spec) });
        }
        let extended = self.extended(devices).map(Arc::new);
        let namespace = extended.as_ref().map(|_| Arc::clone(namespace)).unwrap_or_default();
        let requests = devices.footprint.as_ref();
        let requests =
            requests.map(|footprint| Requests { footprint: Arc::clone(footprint), entries: devices.entries() });
        Ok(Claims { claims, classes: classes.into_values().collect(), extended, namespace, requests })
    }

    /// Source: `claimHasNodeAllocatableMappedDevice` and `validateNodeAllocatableDRAClaimSharing`.
    fn devices_of_claim(
        &self,
        devices: &PodDevices,
        claim: &DeviceClaim,
        allocation: &Arc<Allocation>,
    ) -> Option<Arc<ClaimDevices>> {
        devices.footprint.as_ref()?;
        let is_mapped = || allocation.results.iter().any(|result| self.is_mapped(&result.device));
        // A pod of the group that is being tried has it.
        let is_own = || {
            claim.is_reserved_for(&devices.owner.uid)
                || devices.group.as_ref().is_some_and(|group| claim.is_reserved_for_group(group))
        };
        let is_others = claim.allocation.is_none() || !claim.reserved_for.is_empty() && !is_own();
        Some(Arc::new(ClaimDevices {
            label: claim.label().into(),
            allocation: Arc::clone(allocation),
            is_taken: is_others && is_mapped(),
        }))
    }

    /// Classes that requests refer to. Source: `validateDeviceClass`.
    fn find_classes(
        &self,
        claim: &str,
        requests: &[Request],
        classes: &mut BTreeMap<Arc<str>, Arc<DeviceClass>>,
    ) -> Result<(), DeviceFacts> {
        for request in requests {
            let (asks, is_exact) = match &request.kind {
                RequestKind::Exactly(ask) => (std::slice::from_ref(ask), true),
                RequestKind::FirstAvailable(asks) => (asks.as_slice(), false),
                RequestKind::Unknown => {
                    let name = &request.name;
                    let text = format!("resource claim {claim}, request {name}: unknown request type");
                    return Err(DeviceFacts::Refuse(text.into()));
                }
            };
            for ask in asks {
                let name = if is_exact { request.name.to_string() } else { format!("{}/{}", request.name, ask.name) };
                if ask.class.is_empty() {
                    return Err(DeviceFacts::Fail(format!("request {name}: unsupported request type").into()));
                }
                let Some(class) = self.classes.get(&ask.class) else {
                    let text = format!("request {name}: device class {} does not exist", ask.class);
                    return Err(DeviceFacts::Refuse(text.into()));
                };
                classes.insert(Arc::clone(&ask.class), Arc::clone(class));
            }
        }
        Ok(())
    }
}

/// Whether a claim was generated for the group of a pod.
///
/// Source: `isForPodGroupByPod`.
fn is_of_group(claim: &DeviceClaim, devices: &PodDevices) -> bool {
    devices.group.is_some() && claim.pod_group() == devices.group.as_ref()
}

fn fact_of(
    spec: &ClaimSpec,
    allocation: &Allocation,
    has_failed: bool,
    devices: Option<Arc<ClaimDevices>>,
) -> ClaimFact {
    let is_taken = |label: &str| allocation.results.iter().any(|result| *result.request == *label);
    let scores = spec.requests.iter().flat_map(|request| {
        let asks = if let RequestKind::FirstAvailable(asks) = &request.kind { asks.as_slice() } else { &[] };
        let taken = (0..).zip(asks).filter(|(_, ask)| is_taken(&format!("{}/{}", request.name, ask.name)));
        taken.map(|(place, _): (i64, _)| MAX_ALTERNATIVES - place).collect::<Vec<_>>()
    });
    let skips_operations = allocation.results.iter().any(|result| !result.skipped_operations.is_empty());
    let nodes = allocation.node_selector.clone();
    ClaimFact::Allocated { nodes, has_failed, skips_operations, score: scores.sum(), devices }
}
