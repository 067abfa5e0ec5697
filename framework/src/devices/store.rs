//! Store of Dynamic Resource Allocation objects and assumed allocations. Source: `dra_manager.go`, `allocateddevices.go`,
//! `util/assumecache`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    allocated::Allocated,
    binding::{Readiness, readiness},
    extended::DeviceClasses,
    inventory::Inventory,
    model::{
        DeviceName,
        allocation::{Allocation, DeviceResult},
        claim::DeviceClaim,
        slice::Slice,
    },
    objects::{DeviceKey, DeviceKind, DeviceObject},
    plan::DevicePlan,
    special::{self, pending_uid},
    taints::TaintTracker,
    views::Views,
};
use crate::{map::Map, node::NodeInfo, pod_group::PodGroup, volumes::mounts::Owner};

pub(super) type ClaimName = (Arc<str>, Arc<str>);

#[derive(Debug, Default)]
pub(super) struct Store {
    claims: BTreeMap<ClaimName, Arc<DeviceClaim>>,
    /// Claims for the extended resources of pods, by UID of the pod.
    special: BTreeMap<Arc<str>, BTreeSet<ClaimName>>,
    /// Keys of [`Self::pending`] that are written and that no pod holds, until the watch shows the write or the deletion of the claim.
    unseen: BTreeSet<Arc<str>>,
    /// A list of claims is being received. It is not sorted by version.
    is_listing: bool,
    /// Assumed allocations by UID of the claim, not yet visible in the API.
    pending: Map<Arc<str>, Pending>,
    pub(super) classes: DeviceClasses,
    pub(super) rules: BTreeMap<Arc<str>, DeviceObject>,
    slices: BTreeMap<Arc<str>, Arc<Slice>>,
    inventory: Inventory,
    tracker: TaintTracker,
    allocated: Allocated,
    views: Views,
    /// UIDs of allocated claims with devices that were not ready within the timeout of a pod. Such an allocation is not waited for again.
    late: BTreeSet<Arc<str>>,
    /// Pod groups with claims.
    pub(super) groups: BTreeMap<ClaimName, Arc<PodGroup>>,
}

/// An assumed allocation.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    pub(super) name: ClaimName,
    pub(super) allocation: Arc<Allocation>,
    /// Version of the write. Once no pod holds the allocation, the API's state from this version on applies.
    written: Option<Arc<str>>,
    /// Pods that hold it; more than one only in a group.
    holders: u32,
    /// Assumed only during the attempt of a group; later members may share it.
    is_tentative: bool,
}

#[derive(Default)]
pub(super) struct Changed {
    pub(super) old: Option<DeviceObject>,
    pub(super) nodes: BTreeSet<Arc<str>>,
    /// Another class may now provide extended resources.
    pub(super) shares: bool,
    /// Deleted claims that no watch has shown, with their allocations.
    pub(super) freed: Vec<DeviceObject>,
}

impl Store {
    pub(super) fn claim(&self, name: &ClaimName) -> Option<&Arc<DeviceClaim>> {
        self.claims.get(name)
    }

    /// All allocated claims by name, including assumed allocations.
    pub(super) fn allocations(&self) -> impl Iterator<Item = (&Arc<DeviceClaim>, &Arc<Allocation>)> {
        self.claims.values().filter_map(|claim| {
            let pending = || self.pending.get(&claim.uid).map(|pending| &pending.allocation);
            Some((claim, claim.allocation.as_ref().or_else(pending)?))
        })
    }

    /// The assumed allocation of a claim, unless it is tentative.
    pub(super) fn pending(&self, uid: &str) -> Option<&Pending> {
        self.pending.get(uid).filter(|pending| !pending.is_tentative)
    }

    /// Allocation of a claim by an earlier member of the current group. Source: `pendingAllocations`.
    pub(super) fn tentative(&self, uid: &str) -> Option<&Arc<Allocation>> {
        self.pending.get(uid).filter(|pending| pending.is_tentative).map(|pending| &pending.allocation)
    }

    /// An object; claims include their assumed allocation.
    pub(super) fn get(&self, key: &DeviceKey) -> Option<DeviceObject> {
        match key.kind {
            DeviceKind::Claim => {
                let name = (Arc::clone(&key.namespace), Arc::clone(&key.name));
                let Some(claim) = self.claims.get(&name) else { return self.assumed(&name) };
                let assumed = self.pending.get(&claim.uid).filter(|_| claim.allocation.is_none());
                Some(DeviceObject::Claim(assumed.map_or_else(
                    || Arc::clone(claim),
                    |pending| {
                        let allocation = Some(Arc::clone(&pending.allocation));
                        Arc::new(DeviceClaim { allocation, ..DeviceClaim::clone(claim) })
                    },
                )))
            }
            DeviceKind::Class => self.classes.get(&key.name).cloned().map(DeviceObject::Class),
            DeviceKind::Slice => self.slices.get(&key.name).cloned().map(DeviceObject::Slice),
            DeviceKind::TaintRule => self.rules.get(&key.name).cloned(),
        }
    }

    /// Adds or replaces an object from the API. `None`: unchanged.
    pub(super) fn apply(&mut self, object: &DeviceObject) -> Option<Changed> {
        match object {
            DeviceObject::Claim(claim) => {
                let name = (Arc::clone(&claim.namespace), Arc::clone(&claim.name));
                self.set_claim(&name, Some(claim))
            }
            DeviceObject::Class(class) => {
                let old = self.classes.get(&class.name).cloned();
                if old.as_ref() == Some(class) {
                    return None;
                }
                self.classes.apply(Arc::clone(class));
                Some(Changed { old: old.map(DeviceObject::Class), shares: true, ..Changed::default() })
            }
            DeviceObject::Slice(slice) => self.set_slice(&slice.name, Some(slice)),
            DeviceObject::TaintRule(rule) => {
                let old = self.rules.insert(Arc::clone(&rule.name), object.clone());
                let tainted = self.tracker.apply_rule(rule.as_ref().clone());
                self.taints_changed(old, tainted)
            }
        }
    }

    pub(super) fn delete(&mut self, key: &DeviceKey) -> Option<Changed> {
        match key.kind {
            DeviceKind::Claim => self.set_claim(&(Arc::clone(&key.namespace), Arc::clone(&key.name)), None),
            DeviceKind::Class => {
                let old = self.classes.get(&key.name).cloned()?;
                self.classes.remove(&key.name);
                Some(Changed { old: Some(DeviceObject::Class(old)), shares: true, ..Changed::default() })
            }
            DeviceKind::Slice => self.set_slice(&key.name, None),
            DeviceKind::TaintRule => {
                let old = self.rules.remove(&key.name)?;
                let tainted = self.tracker.remove_rule(&key.name);
                self.taints_changed(Some(old), tainted)
            }
        }
    }

    fn set_claim(&mut self, name: &ClaimName, new: Option<&Arc<DeviceClaim>>) -> Option<Changed> {
        let old = self.claims.get(name).cloned();
        if old.as_ref() == new {
            return None;
        }
        match new {
            Some(claim) => _ = self.claims.insert(name.clone(), Arc::clone(claim)),
            None => _ = self.claims.remove(name),
        }
        self.index_special(name, old.as_ref(), new);
        let of = |claim: Option<&Arc<DeviceClaim>>| claim.and_then(|claim| claim.allocation.clone());
        let (before, after) = (of(old.as_ref()), of(new));
        let mut nodes = BTreeSet::new();
        if before != after {
            old.iter().for_each(|claim| _ = self.late.remove(&claim.uid));
            nodes.extend(before.iter().flat_map(|allocation| self.count(&allocation.results, false)));
            nodes.extend(after.iter().flat_map(|allocation| self.count(&allocation.results, true)));
        }
        if let Some(claim) = new {
            for uid in [Some(Arc::clone(&claim.uid)), special_uid(claim)].into_iter().flatten() {
                if self.pending.get(&uid).is_some_and(|pending| pending.name == *name && pending.is_over(claim)) {
                    nodes.extend(self.release(&uid));
                }
            }
        }
        let mut changed = Changed { old: old.map(DeviceObject::Claim), nodes, ..Changed::default() };
        self.release_unseen(&mut changed, name, new);
        Some(changed)
    }

    fn set_slice(&mut self, name: &Arc<str>, new: Option<&Arc<Slice>>) -> Option<Changed> {
        let old = self.slices.get(name).cloned();
        if old.as_ref() == new {
            return None;
        }
        let is_same = |old: &Arc<Slice>, new: &Arc<Slice>| {
            let resource_version = Arc::clone(&new.resource_version);
            Slice { resource_version, ..Slice::clone(old) } == **new
        };
        let is_touched = matches!((&old, new), (Some(old), Some(new)) if is_same(old, new));
        match new {
            Some(slice) => {
                self.slices.insert(Arc::clone(name), Arc::clone(slice));
                let tainted = self.tracker.apply_slice(Arc::clone(slice));
                if !is_touched {
                    self.inventory.apply(tainted);
                }
            }
            None => {
                self.slices.remove(name);
                self.tracker.remove_slice(name);
                self.inventory.remove(name);
            }
        }
        let both: Vec<Arc<Slice>> = old.iter().chain(new).cloned().collect();
        let nodes = if is_touched { BTreeSet::new() } else { self.pools_changed(&both) };
        Some(Changed { old: old.map(DeviceObject::Slice), nodes, ..Changed::default() })
    }

    /// Applies changed taints of rules. `None`: no device changed.
    fn taints_changed(&mut self, old: Option<DeviceObject>, tainted: Vec<Arc<Slice>>) -> Option<Changed> {
        if tainted.is_empty() {
            return None;
        }
        tainted.iter().for_each(|slice| self.inventory.apply(Arc::clone(slice)));
        Some(Changed { old, nodes: self.pools_changed(&tainted), ..Changed::default() })
    }

    /// Invalidates the pools of these slices. Returns the affected nodes.
    fn pools_changed(&mut self, slices: &[Arc<Slice>]) -> BTreeSet<Arc<str>> {
        let Self { inventory, views, .. } = self;
        let pools: BTreeSet<_> =
            slices.iter().map(|slice| (Arc::clone(&slice.driver), Arc::clone(&slice.pool))).collect();
        let known = pools.iter().flat_map(|(driver, pool)| inventory.of_pool(driver, pool));
        let mut all: Vec<Arc<Slice>> = known.map(|published| Arc::clone(&published.slice)).collect();
        all.extend(slices.iter().cloned());
        views.changed(all.iter().map(AsRef::as_ref))
    }

    /// Adds or removes the devices of an allocation. Returns the nodes that can reach them.
    fn count(&mut self, results: &[DeviceResult], is_added: bool) -> BTreeSet<Arc<str>> {
        let names = self.inventory.names();
        if is_added {
            self.allocated.add(results, names)
        } else {
            self.allocated.remove(results, names)
        }
        self.views.that_reach(results.iter())
    }

    /// Assumes an allocation of a claim. Pods of a group may share it. Source: `SignalClaimPendingAllocation`.
    pub(super) fn assume(
        &mut self,
        uid: &Arc<str>,
        name: ClaimName,
        allocation: &Arc<Allocation>,
        is_tentative: bool,
    ) -> BTreeSet<Arc<str>> {
        if let Some(pending) = self.pending.get_mut(uid).filter(|pending| pending.is_held(allocation)) {
            pending.holders += 1;
            return BTreeSet::new();
        }
        let pending = Pending { name, allocation: Arc::clone(allocation), written: None, holders: 1, is_tentative };
        let mut nodes = self.release(uid);
        self.pending.insert(Arc::clone(uid), pending);
        nodes.extend(self.count(&allocation.results, true));
        nodes
    }

    /// Forgets the assumed allocation of a pod. The last pod that shares it releases it. A written allocation stays until the API shows the
    /// result. Source: `MaybeRemoveClaimPendingAllocation`.
    pub(super) fn restore(
        &mut self,
        uid: &Arc<str>,
        allocation: &Arc<Allocation>,
        written: Option<&Arc<str>>,
    ) -> BTreeSet<Arc<str>> {
        let pending = self.pending.get_mut(uid).filter(|pending| pending.is_held(allocation));
        let Some(pending) = pending else { return BTreeSet::new() };
        pending.holders -= 1;
        let versions = pending.written.iter().chain(written);
        pending.written = versions.max_by_key(|version| number(version)).cloned();
        if pending.holders > 0 {
            return BTreeSet::new();
        }
        let claim = self.claims.get(&pending.name);
        let is_over = match claim {
            _ if pending.written.is_none() => true,
            Some(claim) if claim.uid == *uid || special_uid(claim).as_ref() == Some(uid) => pending.is_over(claim),
            // The claim was created for the pod, and the watch has not shown it yet.
            None if special::is_pending_uid(uid) => false,
            _ => true,
        };
        if is_over {
            return self.release(uid);
        }
        self.unseen.insert(Arc::clone(uid));
        BTreeSet::new()
    }

    /// The first claim, by name, for the extended resources of a pod.
    pub(super) fn special_of(&self, pod: &Owner) -> Option<&Arc<DeviceClaim>> {
        self.claims.get(self.special.get(&pod.uid)?.first()?)
    }

    fn index_special(&mut self, name: &ClaimName, old: Option<&Arc<DeviceClaim>>, new: Option<&Arc<DeviceClaim>>) {
        let pod = |claim: &Arc<DeviceClaim>| {
            let owner = claim.controller.as_ref().filter(|_| claim.is_extended)?;
            Some(Arc::clone(&owner.uid))
        };
        if let Some(pod) = old.and_then(pod)
            && let Some(names) = self.special.get_mut(&pod)
        {
            names.remove(name);
            if names.is_empty() {
                self.special.remove(&pod);
            }
        }
        if let Some(pod) = new.and_then(pod) {
            self.special.entry(pod).or_default().insert(name.clone());
        }
    }

    /// A claim for extended resources that is not in the API yet, with its assumed allocation.
    fn assumed(&self, name: &ClaimName) -> Option<DeviceObject> {
        let (uid, pending) = self.pending.iter().find(|(_, pending)| pending.name == *name)?;
        Some(pending.claim(uid))
    }

    /// Releases unseen claims that were written before the version of this watch event. Lists are not sorted by version, so only their end
    /// releases claims.
    fn release_unseen(&mut self, changed: &mut Changed, name: &ClaimName, new: Option<&Arc<DeviceClaim>>) {
        match new {
            None => self.release_those(changed, |pending| pending.name == *name),
            Some(_) if self.is_listing => {}
            Some(claim) => self.release_written_before(changed, number(&claim.resource_version)),
        }
    }

    /// A list of claims starts (`None`), or is complete at a version.
    pub(super) fn claims_listed(&mut self, version: Option<&str>) -> Changed {
        let mut changed = Changed::default();
        self.is_listing = version.is_none();
        if let Some(version) = version {
            self.release_written_before(&mut changed, number(version).saturating_add(1));
        }
        changed
    }

    fn release_written_before(&mut self, changed: &mut Changed, version: u64) {
        let is_before = |written: &Arc<str>| number(written) < version;
        self.release_those(changed, |pending| pending.written.as_ref().is_some_and(is_before));
    }

    fn release_those(&mut self, changed: &mut Changed, is_over: impl Fn(&Pending) -> bool) {
        let is_over = |uid: &&Arc<str>| self.pending.get(*uid).is_none_or(&is_over);
        let over: Vec<Arc<str>> = self.unseen.iter().filter(is_over).cloned().collect();
        for uid in over {
            self.unseen.remove(&uid);
            changed.freed.extend(self.pending.get(&uid).map(|pending| pending.claim(&uid)));
            changed.nodes.extend(self.release(&uid));
        }
    }

    fn release(&mut self, uid: &Arc<str>) -> BTreeSet<Arc<str>> {
        let Some(pending) = self.pending.swap_remove(uid) else { return BTreeSet::new() };
        self.unseen.remove(uid);
        self.count(&pending.allocation.results, false)
    }

    /// Devices of a node and their allocations; `None` if there are none.
    pub(super) fn devices_of(&mut self, node: &Arc<NodeInfo>) -> Option<super::node::NodeDevices> {
        let Self { views, inventory, allocated, .. } = self;
        let pools = views.pools(node, inventory);
        (!pools.is_empty()).then(|| pools.with(allocated))
    }

    /// The devices of a plan were not ready within the timeout. Source: `isClaimTimeout`, which compares the time of the allocation; here the
    /// wait of a pod for it decides.
    pub(super) fn time_out(&mut self, plan: &DevicePlan) {
        for planned in &plan.claims {
            let name = (Arc::clone(&planned.namespace), Arc::clone(&planned.name));
            let waits =
                |claim: &&Arc<DeviceClaim>| claim.allocation.is_some() && readiness(claim) == Readiness::Waiting;
            if let Some(claim) = self.claims.get(&name).filter(waits) {
                self.late.insert(Arc::clone(&claim.uid));
            }
        }
    }

    /// Whether the devices of an allocated claim failed to become ready.
    pub(super) fn has_failed(&self, claim: &DeviceClaim) -> bool {
        match readiness(claim) {
            Readiness::Ready => false,
            Readiness::Waiting => self.late.contains(&claim.uid),
            Readiness::Failed(_) => true,
        }
    }

    /// Whether a device maps to an amount of a node's resource. Source: `getDeviceFromManager`.
    pub(super) fn is_mapped(&self, name: &DeviceName) -> bool {
        let slices = self.inventory.of_pool(&name.driver, &name.pool);
        let mut devices = slices.flat_map(|published| &published.slice.devices);
        let device = devices.find(|device| device.name == name.device);
        device.is_some_and(|device| device.allocatable.iter().any(|one| one.mapping.is_some()))
    }

    pub(super) fn forget_node(&mut self, name: &str) {
        self.views.forget(name);
    }
}

impl Pending {
    fn claim(&self, uid: &Arc<str>) -> DeviceObject {
        let ((namespace, name), allocation) = (self.name.clone(), Some(Arc::clone(&self.allocation)));
        DeviceClaim { namespace, name, uid: Arc::clone(uid), allocation, ..DeviceClaim::default() }.into()
    }

    /// Whether pods hold exactly this allocation.
    fn is_held(&self, allocation: &Arc<Allocation>) -> bool {
        self.holders > 0 && Arc::ptr_eq(&self.allocation, allocation)
    }

    /// Whether the API's state of the claim supersedes the assumed allocation.
    fn is_over(&self, claim: &DeviceClaim) -> bool {
        let is_shown = |written: &Arc<str>| number(&claim.resource_version) >= number(written);
        claim.allocation.is_some() || self.holders == 0 && self.written.as_ref().is_some_and(is_shown)
    }
}

fn special_uid(claim: &DeviceClaim) -> Option<Arc<str>> {
    let owner = claim.controller.as_ref().filter(|_| claim.is_extended)?;
    Some(pending_uid(&owner.uid))
}

/// A version in the numeric form that upstream's assume cache compares.
pub(super) fn number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}
