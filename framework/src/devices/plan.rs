//! What Reserve has to do for the claims of a pod on a node, and what PreBind writes of it.
//!
//! Knows: what is found on the node by the law of the filter, and upstream's order of writes. Must not know: when it is done.
//!
//! Source: `Reserve`, `bindClaim` and `Unreserve` of the plugin.

use std::sync::{Arc, Mutex, PoisonError};

use xxhash_rust::xxh3::xxh3_128;

use super::{
    allocate::{AllocateError, MAX_STEPS, Scene, Scratch, allocate},
    binding::{Readiness, readiness},
    claimed::PodDevices,
    language::Cel,
    model::{
        allocation::Allocation,
        claim::{Consumer, DeviceClaim, FINALIZER},
    },
    node::NodeDevices,
    objects::{ClaimPatch, DeviceKey},
    resolve::Resolved,
    result::allocations,
    selectors::Verdicts,
    store::{Store, number},
    wanted::Wanted,
};
use crate::{
    extension::objects::{ObjectKey, Plan, Write, Written},
    node::NodeInfo,
    volumes::mounts::Owner,
};

/// After so many selectors what they say of devices is found out anew. At a word per device each, 1,024 of them take 160 MiB
/// in a cluster with 40,000 devices.
const MAX_SELECTORS: usize = 1_024;

/// What Reserve has to do.
#[derive(Debug)]
pub(super) struct DevicePlan {
    pub(super) pod: Owner,
    /// Whether binding conditions are read.
    pub(super) waits: bool,
    pub(super) claims: Vec<Planned>,
}

/// A claim of the pod.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) uid: Arc<str>,
    /// What is allocated to it now; `None`: it is allocated already.
    pub(super) allocation: Option<Arc<Allocation>>,
}

/// What searches keep from one to the next.
#[derive(Debug)]
pub(super) struct Engine(Mutex<(Verdicts, Scratch)>);

// === impl Engine ===

impl Default for Engine {
    fn default() -> Self {
        Self(Mutex::new((Verdicts::new(Arc::new(Cel)), Scratch::default())))
    }
}

// === impl Planned ===

impl Planned {
    pub(super) fn key(&self) -> ObjectKey {
        DeviceKey::claim(Arc::clone(&self.namespace), Arc::clone(&self.name)).into()
    }
}

impl Plan for DevicePlan {
    fn objects(&self) -> Vec<ObjectKey> {
        self.claims.iter().map(Planned::key).collect()
    }
}

// === impl Store ===

impl Store {
    /// What Reserve has to do for the claims of a pod on a node. `None`: nothing.
    ///
    /// # Errors
    /// The claims cannot be allocated there, which the filter has to have said.
    pub(super) fn plan(
        &self,
        devices: &PodDevices,
        namespace: &Arc<str>,
        node: &NodeInfo,
        engine: &Engine,
    ) -> Result<Option<DevicePlan>, String> {
        let resolved = self.claims_of(devices, namespace)?;
        let known = resolved.iter().filter_map(|claim| match claim {
            Resolved::Known(claim) => Some(*claim),
            // Of a pod all claims have names.
            Resolved::Like(_) => None,
        });
        let known: Vec<&Arc<DeviceClaim>> = known.collect();
        if known.is_empty() {
            return Ok(None);
        }
        let unallocated: Vec<&DeviceClaim> =
            known.iter().filter(|claim| claim.allocation.is_none()).map(|claim| &***claim).collect();
        if let Some(claim) = unallocated.iter().find(|claim| self.pending(&claim.uid).is_some()) {
            return Err(format!("resource claim {} is in the process of being allocated", claim.label()));
        }
        let mut found = match unallocated.is_empty() {
            true => Vec::new(),
            false => self.search(&unallocated, node, engine)?,
        }
        .into_iter();
        let claims = known.iter().map(|claim| Planned {
            namespace: Arc::clone(&claim.namespace),
            name: Arc::clone(&claim.name),
            uid: Arc::clone(&claim.uid),
            allocation: if claim.allocation.is_none() { found.next().map(Arc::new) } else { None },
        });
        Ok(Some(DevicePlan { pod: devices.owner.clone(), waits: true, claims: claims.collect() }))
    }

    /// The devices for claims on a node, as the filter finds them.
    fn search(&self, claims: &[&DeviceClaim], node: &NodeInfo, engine: &Engine) -> Result<Vec<Allocation>, String> {
        const NONE: &str = "claim allocation not found for node";
        let nothing = NodeDevices::default();
        let devices = node.devices.as_deref().unwrap_or(&nothing);
        // What a panic has left is whole: verdicts are added one by one.
        let mut kept = engine.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (verdicts, scratch) = &mut *kept;
        if verdicts.len() > MAX_SELECTORS {
            *verdicts = Verdicts::new(Arc::new(Cel));
        }
        let find = |name: &str| self.classes.get(name).cloned();
        let wanted = Wanted::of(claims.iter().copied(), &find, verdicts);
        let scene =
            Scene { pools: &devices.pools, allocated: &devices.allocated, wanted: &wanted, max_steps: MAX_STEPS };
        let found = allocate(scene, verdicts, scratch).map_err(|error| match error {
            AllocateError::TooManySteps(_) => format!("node {}: timed out trying to allocate devices", node.name),
            other => other.to_string(),
        })?;
        let found = found.ok_or(NONE)?;
        // Unique as long as no claim is allocated twice to a device, and the same whenever it is asked for.
        let mut share_id = |claim: usize, device: usize| share_id(claims[claim], device);
        allocations(&found, &wanted, &devices.pools, &node.name, &mut share_id)
    }

    /// What PreBind has to write.
    pub(super) fn writes(&self, plan: &DevicePlan) -> Vec<Write> {
        let mut writes = Vec::new();
        for planned in &plan.claims {
            let Some(claim) = self.claim(&(Arc::clone(&planned.namespace), Arc::clone(&planned.name))) else {
                continue;
            };
            let is_reserved = claim.is_reserved_for(&plan.pod.uid);
            if is_reserved && planned.allocation.is_none() {
                continue;
            }
            let mut write = |patch| {
                writes.push(Write {
                    object: planned.key(),
                    uid: Arc::clone(&claim.uid),
                    resource_version: Arc::clone(&claim.resource_version),
                    patch: patch_of(patch),
                });
            };
            if planned.allocation.is_some() && !claim.finalizers.iter().any(|known| &**known == FINALIZER) {
                let finalizers = claim.finalizers.iter().cloned().chain([FINALIZER.into()]);
                write(ClaimPatch::SetFinalizers(finalizers.collect()));
            }
            let mut reserved_for = claim.reserved_for.clone();
            if !is_reserved {
                let (name, uid) = (Arc::clone(&plan.pod.name), Arc::clone(&plan.pod.uid));
                reserved_for.push(Consumer { api_group: Arc::default(), resource: "pods".into(), name, uid });
            }
            write(ClaimPatch::SetStatus { allocation: planned.allocation.clone(), reserved_for });
        }
        writes
    }

    /// What has to be written where a pod does not go where it was to go: it does not use its claims.
    pub(super) fn writes_back(&self, plan: &DevicePlan, written: &Written) -> Vec<Write> {
        let mut writes = Vec::new();
        for planned in &plan.claims {
            let Some(claim) = self.claim(&(Arc::clone(&planned.namespace), Arc::clone(&planned.name))) else {
                continue;
            };
            let key = planned.key();
            if written.contains_key(&key) || claim.is_reserved_for(&plan.pod.uid) {
                writes.push(Write {
                    object: key,
                    uid: Arc::clone(&claim.uid),
                    resource_version: Arc::default(),
                    patch: patch_of(ClaimPatch::RemoveReservation(Arc::clone(&plan.pod.uid))),
                });
            }
        }
        writes
    }

    /// Whether all devices are ready, by what the API says from the versions on that were written.
    ///
    /// # Errors
    /// One will not get ready; in upstream's words.
    pub(super) fn is_ready(&self, plan: &DevicePlan, written: &Written) -> Result<bool, String> {
        for planned in plan.claims.iter().filter(|_| plan.waits) {
            let name = (Arc::clone(&planned.namespace), Arc::clone(&planned.name));
            let Some(claim) = self.claim(&name).filter(|claim| claim.uid == planned.uid) else {
                let (namespace, name) = name;
                return Err(format!("could not find ResourceClaim \"{namespace}/{name}\""));
            };
            let has_conditions = |allocation: &Arc<Allocation>| {
                allocation.results.iter().any(|result| !result.binding_conditions.is_empty())
            };
            if !planned.allocation.as_ref().or(claim.allocation.as_ref()).is_some_and(has_conditions) {
                continue;
            }
            let is_old =
                |version: &Arc<str>| claim.allocation.is_none() && number(&claim.resource_version) < number(version);
            if written.get(&planned.key()).is_some_and(is_old) {
                return Ok(false);
            }
            match readiness(claim) {
                Readiness::Ready => {}
                Readiness::Waiting => return Ok(false),
                Readiness::Failed(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

const fn patch_of(patch: ClaimPatch) -> crate::extension::objects::Patch {
    crate::extension::objects::Patch::Claim(patch)
}

/// A UUID for the share of a device that a claim gets: upstream draws it, here it is made of what it is for, so that it is the
/// same for whoever asks. The version of the claim goes into it, for one that is allocated once more.
fn share_id(claim: &DeviceClaim, device: usize) -> Arc<str> {
    let text = format!("{}/{}/{device}", claim.uid, claim.resource_version);
    let hash = xxh3_128(text.as_bytes());
    // As random UUIDs are marked: version 4, variant 1.
    let hash = hash & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let digits = format!("{hash:032x}");
    let (time, rest) = digits.split_at(8);
    let (middle, rest) = rest.split_at(4);
    let (version, rest) = rest.split_at(4);
    let (variant, node) = rest.split_at(4);
    format!("{time}-{middle}-{version}-{variant}-{node}").into()
}
