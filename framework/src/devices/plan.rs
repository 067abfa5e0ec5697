//! Plans Reserve for the claims of a pod on a node, and the writes of PreBind. Source: `Reserve`, `bindClaim` and `Unreserve` of the
//! plugin.

use std::sync::{Arc, Mutex, PoisonError};

use xxhash_rust::xxh3::xxh3_128;

use super::{
    allocate::{AllocateError, MAX_STEPS, Scene, Scratch, allocate},
    binding::{Readiness, readiness},
    claimed::PodDevices,
    extended::Mapping,
    footprint::{AllocatedClaim, ClaimAmounts, amounts_of_claims},
    language::Cel,
    model::{
        allocation::{Allocation, DeviceResult},
        claim::{Consumer, DeviceClaim, FINALIZER},
    },
    node::NodeDevices,
    objects::{ClaimPatch, DeviceKey},
    resolve::Resolved,
    result::allocations,
    selectors::Verdicts,
    special::{self, UNNAMED},
    store::{Store, number},
    wanted::Wanted,
    work::Work,
};
use crate::{
    extension::objects::{AwaitedDevice, ObjectKey, Plan, PreBindError, Write, Written},
    node::NodeInfo,
    volumes::mounts::Owner,
};

/// Limit of cached selectors; above it the cache is cleared. At a word per device, 1,024 selectors take 160 MiB in a cluster with 40,000
/// devices.
const MAX_SELECTORS: usize = 1_024;

#[derive(Debug)]
pub(super) struct DevicePlan {
    pub(super) pod: Owner,
    /// With the gate DRAWorkloadResourceClaims: the group of the pod.
    pub(super) group: Option<Arc<str>>,
    /// Whether binding conditions are read.
    pub(super) waits: bool,
    pub(super) claims: Vec<Planned>,
    /// Amounts of the node's own resources that the devices take, if DRANodeAllocatableResources is on.
    pub(super) amounts: Arc<[ClaimAmounts]>,
}

#[derive(Debug)]
pub(super) struct Planned {
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) uid: Arc<str>,
    /// New allocation; `None`: already allocated.
    pub(super) allocation: Option<Arc<Allocation>>,
    /// The pod or its group, for which the claim is reserved.
    pub(super) consumer: Consumer,
    /// Set if the claim must be created first, for extended resources.
    pub(super) special: Option<Special>,
}

/// A claim to create for the extended resources of a pod.
#[derive(Debug)]
pub(super) struct Special {
    claim: Arc<DeviceClaim>,
    mappings: Arc<[Mapping]>,
}

#[derive(Debug)]
pub(super) struct Engine(Mutex<(Verdicts, Scratch)>);

impl Default for Engine {
    fn default() -> Self {
        Self(Mutex::new((Verdicts::new(Arc::new(Cel::default())), Scratch::default())))
    }
}

impl DevicePlan {
    /// With or without binding conditions, and thus times of allocations.
    pub(super) fn waiting(mut self, waits: bool) -> Self {
        self.waits = waits;
        for allocation in self.claims.iter_mut().filter(|_| !waits).filter_map(|claim| claim.allocation.as_mut()) {
            Arc::make_mut(allocation).is_untimed = true;
        }
        self
    }
}

impl Planned {
    pub(super) fn key(&self) -> ObjectKey {
        DeviceKey::claim(Arc::clone(&self.namespace), Arc::clone(&self.name)).into()
    }

    /// Whether the plan allocates an existing claim.
    fn is_allocated_here(&self) -> bool {
        self.allocation.is_some() && self.special.is_none()
    }

    /// Writes that create the claim for a pod. Each takes the version from the response to the one before.
    fn made(&self, special: &Special, pod: &Owner) -> [Write; 4] {
        let patches = [
            ClaimPatch::Create(Arc::clone(&special.claim)),
            ClaimPatch::SetFinalizers(vec![FINALIZER.into()]),
            ClaimPatch::SetStatus {
                allocation: self.allocation.clone(),
                reserved_for: vec![self.consumer.clone()],
                consumer: self.consumer.clone(),
            },
            ClaimPatch::TellPod {
                pod: Arc::clone(&pod.name),
                uid: Arc::clone(&pod.uid),
                mappings: Arc::clone(&special.mappings),
            },
        ];
        patches.map(|patch| Write {
            object: self.key(),
            uid: Arc::default(),
            resource_version: Arc::default(),
            patch: patch_of(patch),
        })
    }
}

impl Plan for DevicePlan {
    fn objects(&self) -> Vec<ObjectKey> {
        self.claims.iter().map(Planned::key).collect()
    }

    fn allocates(&self) -> Vec<ObjectKey> {
        self.claims.iter().filter(|claim| claim.is_allocated_here()).map(Planned::key).collect()
    }
}

impl Store {
    /// Plans Reserve for the claims of a pod on a node. `None`: nothing to do.
    ///
    /// # Errors
    /// The claims cannot be allocated there; the filter should have rejected the node.
    pub(super) fn plan(
        &self,
        devices: &PodDevices,
        namespace: &Arc<str>,
        node: &NodeInfo,
        (engine, attempt): (&Engine, u64),
    ) -> Result<Option<DevicePlan>, String> {
        let resolved = self.claims_of(devices, namespace)?;
        let special = self.special(devices, namespace, node, attempt)?;
        let known = resolved.iter().filter_map(|claim| match claim {
            Resolved::Known(claim) => Some(*claim),
            // The claims of a single pod have names.
            Resolved::Like(_) => None,
        });
        let known: Vec<&Arc<DeviceClaim>> = known.collect();
        if known.is_empty() && special.is_none() {
            return Ok(None);
        }
        let made = special.as_ref().map(|special| &special.claim);
        let known: Vec<&Arc<DeviceClaim>> = known.into_iter().chain(made).collect();
        let is_free = |claim: &&&Arc<DeviceClaim>| claim.allocation.is_none() && self.tentative(&claim.uid).is_none();
        let unallocated: Vec<&DeviceClaim> = known.iter().filter(is_free).map(|claim| &***claim).collect();
        if let Some(claim) = unallocated.iter().find(|claim| self.pending(&claim.uid).is_some()) {
            return Err(format!("resource claim {} is in the process of being allocated", claim.label()));
        }
        let mut found = match unallocated.is_empty() {
            true => Vec::new(),
            false => self.search(&unallocated, node, engine)?,
        }
        .into_iter();
        // kube-scheduler counts entries without a claim here too, so a later claim may get the consumer of another entry.
        let mut consumers = self.consumers(devices, namespace).into_iter();
        let claims = known.iter().map(|claim| Planned {
            namespace: Arc::clone(&claim.namespace),
            name: Arc::clone(&claim.name),
            uid: Arc::clone(&claim.uid),
            allocation: match claim.allocation {
                Some(_) => None,
                None => self.tentative(&claim.uid).cloned().or_else(|| found.next().map(Arc::new)),
            },
            consumer: consumers.next().unwrap_or_else(|| consumer(&devices.owner)),
            special: None,
        });
        let mut claims: Vec<Planned> = claims.collect();
        let amounts = self.amounts(devices, &claims, &known, node)?;
        if let Some(last) = claims.last_mut() {
            last.special = special;
        }
        let (pod, group) = (devices.owner.clone(), devices.group.clone());
        Ok(Some(DevicePlan { pod, group, waits: true, claims, amounts }))
    }

    /// Source: the same computation as in `Filter`, for the selected node.
    fn amounts(
        &self,
        devices: &PodDevices,
        planned: &[Planned],
        known: &[&Arc<DeviceClaim>],
        node: &NodeInfo,
    ) -> Result<Arc<[ClaimAmounts]>, String> {
        let (Some(footprint), Some(on_node)) = (&devices.footprint, &node.devices) else {
            return Ok(Arc::default());
        };
        let labels: Vec<String> = known.iter().map(|claim| claim.label()).collect();
        let claims = planned.iter().zip(known).zip(&labels).map(|((planned, claim), label)| {
            let allocation = planned.allocation.as_ref().or(claim.allocation.as_ref());
            let results = allocation.map_or(&[][..], |allocation| &allocation.results);
            AllocatedClaim { label, name: &claim.name, results }
        });
        let claims: Vec<AllocatedClaim<'_>> = claims.collect();
        let claims = amounts_of_claims(&claims, &devices.entries(), &footprint.containers, &on_node.pools)?;
        Ok(claims.unwrap_or_default().into())
    }

    /// Claim for the extended resources of a pod that devices on the node provide.
    ///
    /// # Errors
    /// The node cannot provide them, or the result of an earlier attempt is not known yet. The filter should have rejected the node.
    fn special(
        &self,
        devices: &PodDevices,
        namespace: &Arc<str>,
        node: &NodeInfo,
        attempt: u64,
    ) -> Result<Option<Special>, String> {
        let Some(extended) = self.extended(devices) else { return Ok(None) };
        let served = extended.served(special::on(&node.allocatable)).map_err(|unserved| unserved.to_string())?;
        let Some((spec, mappings)) = extended.claimed(served) else { return Ok(None) };
        let claim = special::claim(namespace, &devices.owner, attempt, &spec);
        if self.pending(&claim.uid).is_some() {
            return Err(format!("resource claim {namespace}/{UNNAMED} is in the process of being allocated"));
        }
        Ok(Some(Special { claim: Arc::new(claim), mappings: mappings.into() }))
    }

    /// Searches devices on a node as the filter does.
    fn search(&self, claims: &[&DeviceClaim], node: &NodeInfo, engine: &Engine) -> Result<Vec<Allocation>, String> {
        const NONE: &str = "claim allocation not found for node";
        let nothing = NodeDevices::default();
        let devices = node.devices.as_deref().unwrap_or(&nothing);
        // Verdicts are added one by one, so a panic leaves the cache consistent.
        let mut kept = engine.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (verdicts, scratch) = &mut *kept;
        if verdicts.len() > MAX_SELECTORS {
            *verdicts = Verdicts::new(Arc::new(Cel::default()));
        }
        verdicts.replace_work(Work::default());
        let find = |name: &str| self.classes.get(name).cloned();
        let wanted = Wanted::of(claims.iter().copied(), &find, verdicts);
        let scene =
            Scene { pools: &devices.pools, allocated: &devices.allocated, wanted: &wanted, max_steps: MAX_STEPS };
        let found = allocate(scene, verdicts, scratch).map_err(|error| match error {
            AllocateError::TooManySteps(_) | AllocateError::TooMuchWork => {
                format!("node {}: timed out trying to allocate devices", node.name)
            }
            other => other.to_string(),
        })?;
        let found = found.ok_or(NONE)?;
        // Unique unless a claim allocates the same device twice, and reproducible.
        let mut share_id = |claim: usize, device: usize| share_id(claims[claim], device);
        allocations(&found, &wanted, &devices.pools, &node.name, &mut share_id)
    }

    pub(super) fn writes(&self, plan: &DevicePlan) -> Vec<Write> {
        let mut writes = Vec::new();
        for planned in &plan.claims {
            if let Some(special) = &planned.special {
                writes.extend(planned.made(special, &plan.pod));
                continue;
            }
            let Some(claim) = self.claim(&(Arc::clone(&planned.namespace), Arc::clone(&planned.name))) else {
                continue;
            };
            // Another pod of the group may already have written the allocation.
            let allocation = planned.allocation.clone().filter(|_| claim.allocation.is_none());
            let is_reserved = claim.is_reserved_for(&plan.pod.uid)
                || plan.group.as_ref().is_some_and(|group| claim.is_reserved_for_group(group));
            if is_reserved && allocation.is_none() {
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
            if allocation.is_some() && !claim.finalizers.iter().any(|known| &**known == FINALIZER) {
                let finalizers = claim.finalizers.iter().cloned().chain([FINALIZER.into()]);
                write(ClaimPatch::SetFinalizers(finalizers.collect()));
            }
            let mut reserved_for = claim.reserved_for.clone();
            if !is_reserved {
                reserved_for.push(planned.consumer.clone());
            }
            write(ClaimPatch::SetStatus { allocation, reserved_for, consumer: planned.consumer.clone() });
        }
        writes.extend(self.write_of_amounts(plan, Arc::clone(&plan.amounts)));
        writes
    }

    /// Writes the amounts of the pod's devices to the pod; no amounts clear those of an earlier write.
    fn write_of_amounts(&self, plan: &DevicePlan, claims: Arc<[ClaimAmounts]>) -> Option<Write> {
        let last = plan.claims.last().filter(|_| !plan.amounts.is_empty())?;
        let claim = self.claim(&(Arc::clone(&last.namespace), Arc::clone(&last.name)));
        let (pod, uid) = (Arc::clone(&plan.pod.name), Arc::clone(&plan.pod.uid));
        Some(Write {
            object: last.key(),
            uid: Arc::clone(&last.uid),
            resource_version: claim.map(|claim| Arc::clone(&claim.resource_version)).unwrap_or_default(),
            patch: patch_of(ClaimPatch::SetAmounts { pod, uid, claims }),
        })
    }

    /// Writes that release the claims of a pod that was not bound.
    pub(super) fn writes_back(&self, plan: &DevicePlan, written: &Written) -> Vec<Write> {
        let mut writes = Vec::new();
        for planned in &plan.claims {
            let claim = self.claim(&(Arc::clone(&planned.namespace), Arc::clone(&planned.name)));
            if planned.special.is_some() {
                writes.extend(unmade(planned.key(), claim, written.get(&planned.key())));
                continue;
            }
            let Some(claim) = claim else { continue };
            let key = planned.key();
            // Other pods of the group may need a reservation for the group.
            let is_written = planned.consumer.uid == plan.pod.uid && written.contains_key(&key);
            if is_written || claim.is_reserved_for(&plan.pod.uid) {
                writes.push(Write {
                    object: key,
                    uid: Arc::clone(&claim.uid),
                    resource_version: Arc::default(),
                    patch: patch_of(ClaimPatch::RemoveReservation(Arc::clone(&plan.pod.uid))),
                });
            }
        }
        writes.extend(self.write_of_amounts(plan, Arc::default()));
        writes
    }

    /// Whether the API shows the planned allocation of a claim. Another pod of the group may have written it with this version.
    ///
    /// # Errors
    /// The claim was deleted, deallocated or allocated differently. Upstream's text.
    pub(super) fn is_allocated(
        &self,
        plan: &DevicePlan,
        key: &ObjectKey,
        written: Option<&Arc<str>>,
    ) -> Result<bool, String> {
        let Some(planned) = plan.claims.iter().find(|planned| planned.key() == *key) else { return Ok(true) };
        let Planned { namespace, name, uid, allocation, .. } = planned;
        let known = self.claim(&(Arc::clone(namespace), Arc::clone(name))).filter(|claim| claim.uid == *uid);
        let Some(claim) = known else { return Err(format!("could not find ResourceClaim \"{namespace}/{name}\"")) };
        let is_past = |written: &Arc<str>| number(&claim.resource_version) >= number(written);
        match (&claim.allocation, allocation) {
            (Some(shown), Some(ours)) if shown.results != ours.results => {
                Err(format!("claim {} got allocated elsewhere in the meantime", claim.label()))
            }
            (None, _) if written.is_some_and(is_past) => {
                Err(format!("claim {} got deallocated elsewhere in the meantime", claim.label()))
            }
            (shown, _) => Ok(shown.is_some()),
        }
    }

    /// All devices of the claims if one of them has binding conditions. Source: `hasBindingConditions`, and the metrics of PreBind.
    pub(super) fn awaited(&self, plan: &DevicePlan) -> Vec<AwaitedDevice> {
        let allocation = |planned: &Planned| {
            let name = (Arc::clone(&planned.namespace), Arc::clone(&planned.name));
            let known = || self.claim(&name).and_then(|claim| claim.allocation.clone());
            planned.allocation.clone().or_else(known)
        };
        let allocations: Vec<Arc<Allocation>> =
            plan.claims.iter().filter(|_| plan.waits).filter_map(allocation).collect();
        let device = |result: &DeviceResult| AwaitedDevice {
            driver: Arc::clone(&result.device.driver),
            has_conditions: !result.binding_conditions.is_empty(),
        };
        let devices = allocations.iter().flat_map(|allocation| &allocation.results).map(device);
        let devices: Vec<AwaitedDevice> = devices.collect();
        if devices.iter().any(|device| device.has_conditions) { devices } else { Vec::new() }
    }

    /// Whether all devices are ready in the API, at least at the written versions.
    ///
    /// # Errors
    /// A device failed. Upstream's text.
    pub(super) fn is_ready(&self, plan: &DevicePlan, written: &Written) -> Result<bool, PreBindError> {
        for planned in plan.claims.iter().filter(|_| plan.waits) {
            let name = (Arc::clone(&planned.namespace), Arc::clone(&planned.name));
            let has_conditions = |allocation: &Arc<Allocation>| {
                allocation.results.iter().any(|result| !result.binding_conditions.is_empty())
            };
            let is_it = |claim: &&Arc<DeviceClaim>| planned.special.is_some() || claim.uid == planned.uid;
            let Some(claim) = self.claim(&name).filter(is_it) else {
                // The watch may not show a new claim yet. Then only its binding conditions matter.
                match planned.allocation.as_ref().filter(|_| planned.special.is_some()) {
                    Some(allocation) if has_conditions(allocation) => return Ok(false),
                    Some(_) => continue,
                    None => {}
                }
                let (namespace, name) = name;
                return Err(format!("could not find ResourceClaim \"{namespace}/{name}\"").into());
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
                Readiness::Failed(error) => return Err(PreBindError::DeviceFailed(error)),
            }
        }
        Ok(true)
    }
}

/// Writes that delete a claim created for a pod. `known`: from the watch; `written`: version after a write of this attempt. Source:
/// `deleteClaim`.
pub(super) fn unmade(key: ObjectKey, known: Option<&Arc<DeviceClaim>>, written: Option<&Arc<str>>) -> Vec<Write> {
    if known.is_none() && written.is_none() {
        return Vec::new();
    }
    let of_known = |claim: &Arc<DeviceClaim>| Arc::clone(&claim.resource_version);
    let version = [known.map(of_known), written.cloned()].into_iter().flatten().max_by_key(|version| number(version));
    let write = |patch| Write {
        object: key.clone(),
        uid: known.map(|claim| Arc::clone(&claim.uid)).unwrap_or_default(),
        resource_version: version.clone().unwrap_or_default(),
        patch: patch_of(patch),
    };
    let mut writes = Vec::new();
    if written.is_some() || known.is_some_and(|claim| claim.finalizers.iter().any(|known| &**known == FINALIZER)) {
        let others = known.iter().flat_map(|claim| &claim.finalizers).filter(|known| &***known != FINALIZER);
        writes.push(write(ClaimPatch::SetFinalizers(others.cloned().collect())));
    }
    writes.push(write(ClaimPatch::Delete));
    writes
}

pub(super) fn consumer(pod: &Owner) -> Consumer {
    let (name, uid) = (Arc::clone(&pod.name), Arc::clone(&pod.uid));
    Consumer { api_group: Arc::default(), resource: "pods".into(), name, uid }
}

const fn patch_of(patch: ClaimPatch) -> crate::extension::objects::Patch {
    crate::extension::objects::Patch::Claim(patch)
}

/// UUID for a claim's share of a device. Upstream draws it at random; here it is a hash, so that it is reproducible. The claim's version is
/// included because a claim can be allocated again.
fn share_id(claim: &DeviceClaim, device: usize) -> Arc<str> {
    let text = format!("{}/{}/{}/{device}", claim.uid, claim.name, claim.resource_version);
    let hash = xxh3_128(text.as_bytes());
    let hash = hash & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let digits = format!("{hash:032x}");
    let (time, rest) = digits.split_at(8);
    let (middle, rest) = rest.split_at(4);
    let (version, rest) = rest.split_at(4);
    let (variant, node) = rest.split_at(4);
    format!("{time}-{middle}-{version}-{variant}-{node}").into()
}
