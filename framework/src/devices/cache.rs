//! The coordinator's cache of Dynamic Resource Allocation objects.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    claimed::PodDevices,
    facts::DeviceFacts,
    model::{
        DeviceName,
        claim::{Consumer, DeviceClaim},
    },
    objects::{ClaimPatch, DeviceKey, DeviceObject},
    plan::{self, DevicePlan, Engine},
    resolve::Resolved,
    store::{Changed, Store},
};
use crate::{
    class::{Class, PodInfo},
    extension::{
        Facts,
        objects::{
            Awaited, AwaitedDevice, Changes, FreedForGroup, Object, ObjectCache, ObjectKey, Patch, Plan, PreBindError,
            TriedMember, Undone, Write, Written,
        },
    },
    node::NodeInfo,
    plugins::dynamic_resources::LAST_MARK,
    pod_group::{GroupKey, PodGroup},
    profile::{Args, Profile},
};

/// See the module.
#[derive(Debug)]
pub struct DeviceCache {
    plugin: &'static str,
    store: Store,
    engine: Engine,
    version: u64,
}

impl DeviceCache {
    /// An empty cache for the objects of `plugin`.
    #[must_use]
    pub fn of(plugin: &'static str) -> Self {
        Self { plugin, store: Store::default(), engine: Engine::default(), version: 0 }
    }

    fn changes(&mut self, changed: Changed) -> Changes {
        self.version += 1;
        let Changed { old, nodes, shares, freed } = changed;
        let freed = freed.into_iter().map(Object::Device).collect();
        Changes { old: old.map(Object::Device), nodes, shares, freed, ..Changes::default() }
    }

    fn assume(&mut self, plan: &dyn Plan, is_tentative: bool) -> BTreeSet<Arc<str>> {
        let Some(plan) = plan.of::<DevicePlan>() else { return BTreeSet::new() };
        let mut nodes = BTreeSet::new();
        for claim in &plan.claims {
            let Some(allocation) = &claim.allocation else { continue };
            let name = (Arc::clone(&claim.namespace), Arc::clone(&claim.name));
            nodes.extend(self.store.assume(&claim.uid, name, allocation, is_tentative));
        }
        self.version += 1;
        nodes
    }

    /// The allocated claims of a pod that made a node infeasible; none without the gate DRAWorkloadResourceClaims.
    fn marked<'a>(&'a self, pod: &'a PodInfo, unavailable: u64) -> Vec<&'a Arc<DeviceClaim>> {
        let devices = pod.class.devices.as_ref().filter(|devices| devices.group.is_some());
        let Some(devices) = devices else { return Vec::new() };
        let claims = self.store.claims_of(devices, &pod.class.namespace).unwrap_or_default();
        let count = claims.len();
        let marked = claims.into_iter().enumerate().filter_map(|(place, claim)| match claim {
            Resolved::Known(claim) if is_marked(place, count, unavailable) && claim.allocation.is_some() => Some(claim),
            Resolved::Known(_) | Resolved::Like(_) => None,
        });
        marked.collect()
    }

    /// PreFilter result for the claims of a pod or of its class.
    #[must_use]
    pub fn facts(&self, devices: &PodDevices, namespace: &Arc<str>) -> Option<DeviceFacts> {
        self.store.facts(devices, namespace)
    }

    /// Claims by allocated device, sorted by name. Claims with admin access are left out.
    #[must_use]
    pub fn holders(&self) -> BTreeMap<DeviceName, Vec<Holder>> {
        let mut holders: BTreeMap<DeviceName, Vec<Holder>> = BTreeMap::new();
        for (claim, allocation) in self.store.allocations() {
            let of_pod = |consumer: &&Consumer| consumer.api_group.is_empty() && &*consumer.resource == "pods";
            let pods = claim.reserved_for.iter().filter(of_pod);
            let pods = pods.map(|consumer| format!("{}/{}", claim.namespace, consumer.name)).collect();
            let holder = Holder { claim: claim.label(), pods };
            for result in allocation.results.iter().filter(|result| result.admin_access != Some(true)) {
                holders.entry(result.device.clone()).or_default().push(holder.clone());
            }
        }
        holders
    }
}

/// A claim with a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// `namespace/name`.
    pub claim: String,
    /// `namespace/name` of the pods in `reservedFor`.
    pub pods: Vec<String>,
}

impl ObjectCache for DeviceCache {
    fn apply(&mut self, object: &Object) -> Option<Changes> {
        let Object::Device(object) = object else { return None };
        self.store.apply(object).map(|changed| self.changes(changed))
    }

    fn delete(&mut self, key: &ObjectKey) -> Option<Changes> {
        let ObjectKey::Device(key) = key else { return None };
        self.store.delete(key).map(|changed| self.changes(changed))
    }

    fn claims_listed(&mut self, version: Option<&str>) -> Changes {
        let changed = self.store.claims_listed(version);
        self.changes(changed)
    }

    fn get(&self, key: &ObjectKey) -> Option<Object> {
        let ObjectKey::Device(key) = key else { return None };
        self.store.get(key).map(Object::Device)
    }

    fn concerns(&self, class: &Class) -> bool {
        class.devices.is_some()
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn share(&self, class: &Class) -> Option<Option<Arc<PodDevices>>> {
        let devices = class.devices.as_ref()?;
        let shared = self.store.shared(devices, &class.namespace)?;
        Some((!shared.claims.is_empty() || !shared.mapped.is_empty()).then(|| Arc::new(shared)))
    }

    fn pre_enqueue(&self, pod: &PodInfo) -> Option<String> {
        let devices = pod.class.devices.as_ref()?;
        self.store.claims_of(devices, &pod.class.namespace).err()
    }

    fn resolve(&self, class: &Class, facts: &mut Facts) {
        facts.devices = class.devices.as_ref().and_then(|devices| self.facts(devices, &class.namespace));
    }

    fn complete(&mut self, node: &mut Arc<NodeInfo>) {
        let devices = self.store.devices_of(node);
        if node.devices.as_deref() != devices.as_ref() {
            *node = Arc::new(NodeInfo { devices: devices.map(Arc::new), ..NodeInfo::clone(node) });
        }
    }

    fn forget_node(&mut self, name: &str) {
        self.store.forget_node(name);
    }

    fn plan(&self, pod: &PodInfo, node: &NodeInfo, profile: &Profile) -> Result<Option<Box<dyn Plan>>, String> {
        let is_filtered = profile.plugins.filter.iter().any(|name| name == self.plugin);
        let Some(devices) = pod.class.devices.as_ref().filter(|_| is_filtered) else { return Ok(None) };
        let plan = self.store.plan(devices, &pod.class.namespace, node, (&self.engine, self.version))?;
        let waits = profile.args.dynamic_resources.binding_timeout.is_some();
        Ok(plan.map(|plan| Box::new(plan.waiting(waits)) as Box<dyn Plan>))
    }

    fn charged(&self, plan: &dyn Plan, class: &Class) -> Option<Arc<Class>> {
        let amounts = &plan.of::<DevicePlan>()?.amounts;
        let footprint = class.devices.as_ref()?.footprint.as_ref().filter(|_| !amounts.is_empty())?;
        Some(Arc::new(footprint.class_with(class, amounts)))
    }

    fn reserve(&mut self, plan: &dyn Plan) -> BTreeSet<Arc<str>> {
        self.assume(plan, false)
    }

    fn reserve_tentatively(&mut self, plan: &dyn Plan) -> BTreeSet<Arc<str>> {
        self.assume(plan, true)
    }

    fn unreserve(&mut self, plan: &dyn Plan, written: &Written) -> Undone {
        let Some(plan) = plan.of::<DevicePlan>() else { return Undone::default() };
        let mut nodes = BTreeSet::new();
        for claim in &plan.claims {
            let Some(allocation) = &claim.allocation else { continue };
            nodes.extend(self.store.restore(&claim.uid, allocation, written.get(&claim.key())));
        }
        self.version += 1;
        Undone { writes: self.store.writes_back(plan, written), nodes }
    }

    fn writes(&self, plan: &dyn Plan) -> Vec<Write> {
        plan.of().map(|plan| self.store.writes(plan)).unwrap_or_default()
    }

    fn is_allocated(&self, plan: &dyn Plan, key: &ObjectKey, written: Option<&Arc<str>>) -> Result<bool, String> {
        plan.of().map_or(Ok(true), |plan| self.store.is_allocated(plan, key, written))
    }

    fn is_bound(&self, plan: &dyn Plan, written: &Written, _node: Option<&NodeInfo>) -> Result<bool, PreBindError> {
        plan.of().map_or(Ok(true), |plan| self.store.is_ready(plan, written))
    }

    /// Source: `DynamicResourcesArgs.BindingTimeout`.
    fn timeout_ms(&self, args: &Args) -> u64 {
        let timeout = args.dynamic_resources.binding_timeout.map_or(0, |timeout| timeout.nanoseconds);
        u64::try_from(timeout / 1_000_000).unwrap_or(0)
    }

    fn time_out(&mut self, plan: &dyn Plan) -> String {
        plan.of().into_iter().for_each(|plan| self.store.time_out(plan));
        self.version += 1;
        "device binding timeout: context deadline exceeded".to_owned()
    }

    fn awaited(&self) -> Awaited {
        Awaited { what: "their devices to become ready", see: "the drivers of their ResourceClaims" }
    }

    fn awaited_devices(&self, plan: &dyn Plan) -> Vec<AwaitedDevice> {
        plan.of().map(|plan| self.store.awaited(plan)).unwrap_or_default()
    }

    /// Source: `deallocateOrDeletePodClaims`. Upstream picks any matching claim, this the first.
    fn post_filter(&self, pod: &PodInfo, unavailable: u64) -> Option<(Vec<Write>, &'static str)> {
        let devices = pod.class.devices.as_ref()?;
        let claims = self.store.claims_of(devices, &pod.class.namespace).ok()?;
        let mut known = claims.iter().enumerate().filter_map(|(place, claim)| match claim {
            Resolved::Known(claim) => Some((place, *claim)),
            Resolved::Like(_) => None,
        });
        let claim = known.find(|(place, claim)| {
            let is_free = claim.reserved_for.iter().all(|consumer| consumer.uid == pod.uid);
            is_marked(*place, claims.len(), unavailable)
                && is_free
                && claim.reserved_for.len() <= 1
                && claim.allocation.is_some()
        });
        let Some((_, claim)) = claim else {
            // A claim from an earlier attempt would block the pod forever.
            let left = self.store.special_of(&devices.owner).filter(|_| self.store.extended(devices).is_some())?;
            let writes = plan::unmade(DeviceObject::Claim(Arc::clone(left)).key().into(), Some(left), None);
            return Some((writes, "deletion of ResourceClaim completed"));
        };
        let write = Write {
            object: DeviceObject::Claim(Arc::clone(claim)).key().into(),
            uid: Arc::clone(&claim.uid),
            resource_version: Arc::clone(&claim.resource_version),
            patch: Patch::Claim(ClaimPatch::Deallocate),
        };
        Some((vec![write], "deallocation of ResourceClaim completed"))
    }

    fn group_post_filter(
        &self,
        group: &PodGroup,
        members: &[TriedMember<'_>],
        freed: &BTreeSet<ObjectKey>,
    ) -> Result<Option<FreedForGroup>, String> {
        let Some((first, _)) = members.first() else { return Ok(None) };
        let marked = members.iter().flat_map(|(pod, unavailable)| self.marked(pod, *unavailable));
        let unavailable = marked.filter(|claim| {
            let key = ObjectKey::from(DeviceKey::claim(Arc::clone(&claim.namespace), Arc::clone(&claim.name)));
            !freed.contains(&key)
        });
        self.store.free_for_group(group, &first.uid, unavailable)
    }

    fn set_pod_group(&mut self, key: &GroupKey, group: Option<&Arc<PodGroup>>) {
        let name = (Arc::clone(&key.namespace), Arc::clone(&key.name));
        match group.filter(|group| !group.claims.is_empty()) {
            Some(group) => _ = self.store.groups.insert(name, Arc::clone(group)),
            None => _ = self.store.groups.remove(&name),
        }
    }
}

/// Whether the claim at this place made a node infeasible. The last bit covers all further claims; if there are several, none of them counts.
const fn is_marked(place: usize, claims: usize, unavailable: u64) -> bool {
    let bit = if place < LAST_MARK { place } else { LAST_MARK };
    (place < LAST_MARK || claims == LAST_MARK + 1) && unavailable >> bit & 1 == 1
}
