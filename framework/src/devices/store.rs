//! All objects of Dynamic Resource Allocation, with what is assumed of claims while pods are on their way.
//!
//! Knows: which devices are allocated by that, and which nodes a change concerns. Must not know: what a pod or its class makes
//! of it.
//!
//! Source: `dra_manager.go`, `allocateddevices.go`, `util/assumecache`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    allocated::Allocated,
    extended::DeviceClasses,
    inventory::Inventory,
    model::{
        allocation::{Allocation, DeviceResult},
        claim::DeviceClaim,
        slice::Slice,
    },
    objects::{DeviceKey, DeviceKind, DeviceObject},
    special::{self, pending_uid},
    taints::TaintTracker,
    views::Views,
};
use crate::{map::Map, node::NodeInfo, volumes::mounts::Owner};

/// A claim by namespace and name.
pub(super) type ClaimName = (Arc<str>, Arc<str>);

/// The objects.
#[derive(Debug, Default)]
pub(super) struct Store {
    claims: BTreeMap<ClaimName, Arc<DeviceClaim>>,
    /// The claims among them that were made for the extended resources of pods, by the UID of the pod.
    special: BTreeMap<Arc<str>, BTreeSet<ClaimName>>,
    /// Of [`Self::pending`], what is written of claims that no watch has shown.
    unseen: BTreeSet<Arc<str>>,
    /// Claims are told by a list, in no order of versions.
    is_listing: bool,
    /// What is allocated to claims by pods on their way, by the claim's UID: the API does not say so yet.
    pending: Map<Arc<str>, Pending>,
    pub(super) classes: DeviceClasses,
    pub(super) rules: BTreeMap<Arc<str>, DeviceObject>,
    slices: BTreeMap<Arc<str>, Arc<Slice>>,
    inventory: Inventory,
    tracker: TaintTracker,
    allocated: Allocated,
    views: Views,
}

/// An allocation that the API does not say yet.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    pub(super) name: ClaimName,
    pub(super) allocation: Arc<Allocation>,
    /// It is written with this version. Once no pod is on its way with it, the claim is as the API says from there on.
    written: Option<Arc<str>>,
    /// How many pods are on their way with it: several only of one group.
    holders: u32,
    /// It lasts for an attempt at a group, whose later members may share it.
    is_tentative: bool,
}

/// What a change comes to.
#[derive(Default)]
pub(super) struct Changed {
    pub(super) old: Option<DeviceObject>,
    pub(super) nodes: BTreeSet<Arc<str>>,
    /// Another class may stand behind extended resources.
    pub(super) shares: bool,
    /// What no watch has shown and is gone, with what was allocated to it.
    pub(super) freed: Vec<DeviceObject>,
}

// === impl Store ===

impl Store {
    /// A claim as the API has it.
    pub(super) fn claim(&self, name: &ClaimName) -> Option<&Arc<DeviceClaim>> {
        self.claims.get(name)
    }

    /// All claims that are allocated, by name, also those that pods on their way have allocated.
    pub(super) fn allocations(&self) -> impl Iterator<Item = (&Arc<DeviceClaim>, &Arc<Allocation>)> {
        self.claims.values().filter_map(|claim| {
            let pending = || self.pending.get(&claim.uid).map(|pending| &pending.allocation);
            Some((claim, claim.allocation.as_ref().or_else(pending)?))
        })
    }

    /// What a pod on its way has allocated to the claim of a UID, where no other pod may share it.
    pub(super) fn pending(&self, uid: &str) -> Option<&Pending> {
        self.pending.get(uid).filter(|pending| !pending.is_tentative)
    }

    /// What an earlier member of the group that is tried now has allocated to the claim of a UID.
    ///
    /// Source: `pendingAllocations`.
    pub(super) fn tentative(&self, uid: &str) -> Option<&Arc<Allocation>> {
        self.pending.get(uid).filter(|pending| pending.is_tentative).map(|pending| &pending.allocation)
    }

    /// An object, a claim with what is assumed of it.
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

    /// Takes an object as the API has it. `None`: that is no news.
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

    /// An object is gone. `None`: it was not there.
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

    /// Rules taint these devices otherwise than before. `None`: no device.
    fn taints_changed(&mut self, old: Option<DeviceObject>, tainted: Vec<Arc<Slice>>) -> Option<Changed> {
        if tainted.is_empty() {
            return None;
        }
        tainted.iter().for_each(|slice| self.inventory.apply(Arc::clone(slice)));
        Some(Changed { old, nodes: self.pools_changed(&tainted), ..Changed::default() })
    }

    /// What these slices say of their pools is new.
    fn pools_changed(&mut self, slices: &[Arc<Slice>]) -> BTreeSet<Arc<str>> {
        let Self { inventory, views, .. } = self;
        let pools: BTreeSet<_> =
            slices.iter().map(|slice| (Arc::clone(&slice.driver), Arc::clone(&slice.pool))).collect();
        let known = pools.iter().flat_map(|(driver, pool)| inventory.of_pool(driver, pool));
        let mut all: Vec<Arc<Slice>> = known.map(|published| Arc::clone(&published.slice)).collect();
        all.extend(slices.iter().cloned());
        views.changed(all.iter().map(AsRef::as_ref))
    }

    /// Counts the devices of an allocation, or takes them back. Gives the nodes that can reach them.
    fn count(&mut self, results: &[DeviceResult], is_added: bool) -> BTreeSet<Arc<str>> {
        let names = self.inventory.names();
        if is_added {
            self.allocated.add(results, names)
        } else {
            self.allocated.remove(results, names)
        }
        self.views.that_reach(results.iter())
    }

    /// A pod is on its way with an allocation of a claim, which pods of its group may share.
    ///
    /// Source: `SignalClaimPendingAllocation`.
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

    /// A pod is not on its way any more with what it allocated to a claim. The last of the pods that share it takes it back, but
    /// what is written of it stays until the API says what has become of it.
    ///
    /// Source: `MaybeRemoveClaimPendingAllocation`.
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
            // It was made for the pod, and the watch has not come so far.
            None if special::is_pending_uid(uid) => false,
            _ => true,
        };
        if is_over {
            return self.release(uid);
        }
        if claim.is_none() {
            self.unseen.insert(Arc::clone(uid));
        }
        BTreeSet::new()
    }

    /// The first claim by name that was made for the extended resources of a pod.
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

    /// A claim for extended resources that is on its way to the API, with what is allocated to it.
    fn assumed(&self, name: &ClaimName) -> Option<DeviceObject> {
        let (uid, pending) = self.pending.iter().find(|(_, pending)| pending.name == *name)?;
        Some(pending.claim(uid))
    }

    /// The watch has come to a claim: of those that were written before it and that it did not show there are no more. Of a list
    /// only its end says that.
    fn release_unseen(&mut self, changed: &mut Changed, name: &ClaimName, new: Option<&Arc<DeviceClaim>>) {
        match new {
            None => self.release_those(changed, |pending| pending.name == *name),
            Some(_) if self.is_listing => {}
            Some(claim) => self.release_written_before(changed, number(&claim.resource_version)),
        }
    }

    /// A list of claims begins, or all of it was told.
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

    /// Of what no watch has shown.
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

    /// What a node can reach, and what of it is allocated; `None` where it can reach nothing.
    pub(super) fn devices_of(&mut self, node: &Arc<NodeInfo>) -> Option<super::node::NodeDevices> {
        let Self { views, inventory, allocated, .. } = self;
        let pools = views.pools(node, inventory);
        (!pools.is_empty()).then(|| pools.with(allocated))
    }

    /// A node is gone.
    pub(super) fn forget_node(&mut self, name: &str) {
        self.views.forget(name);
    }
}

// === impl Pending ===

impl Pending {
    /// The claim of a UID as far as it is known.
    fn claim(&self, uid: &Arc<str>) -> DeviceObject {
        let ((namespace, name), allocation) = (self.name.clone(), Some(Arc::clone(&self.allocation)));
        DeviceClaim { namespace, name, uid: Arc::clone(uid), allocation, ..DeviceClaim::default() }.into()
    }

    /// Whether pods are on their way with this very allocation.
    fn is_held(&self, allocation: &Arc<Allocation>) -> bool {
        self.holders > 0 && Arc::ptr_eq(&self.allocation, allocation)
    }

    /// Whether the API says itself by now what is allocated to the claim.
    fn is_over(&self, claim: &DeviceClaim) -> bool {
        let is_shown = |written: &Arc<str>| number(&claim.resource_version) >= number(written);
        claim.allocation.is_some() || self.holders == 0 && self.written.as_ref().is_some_and(is_shown)
    }
}

/// The UID under which devices are set aside for a claim that was made for the extended resources of a pod.
fn special_uid(claim: &DeviceClaim) -> Option<Arc<str>> {
    let owner = claim.controller.as_ref().filter(|_| claim.is_extended)?;
    Some(pending_uid(&owner.uid))
}

/// A version as upstream's assume cache compares it.
pub(super) fn number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}
