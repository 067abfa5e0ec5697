//! The objects of all plugins that keep any: what the coordinator holds of them, and the order of Reserve and
//! Unreserve.
//!
//! Knows: which plugin keeps which objects, and what each has reserved. Must not know: any plugin, or when anything is
//! reserved or written.

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    class::{Class, PodInfo},
    extension::{
        Facts,
        objects::{
            Attachments, Awaited, AwaitedDevice, Changes, Object, ObjectCache, ObjectKey, Plan, Undone, Write, Written,
        },
    },
    node::NodeInfo,
    profile::Profile,
    registry::Registry,
};

/// The objects of each plugin that keeps any, in the registry's order.
#[derive(Debug, Default)]
pub struct Objects(Vec<Kept>);

#[derive(Debug)]
struct Kept {
    plugin: &'static str,
    cache: Box<dyn ObjectCache>,
}

/// What a plugin has planned to reserve for a pod on a node, or has reserved.
#[derive(Debug)]
pub struct Reservation {
    /// The plugin's name.
    pub plugin: &'static str,
    /// The place of its objects.
    place: usize,
    plan: Box<dyn Plan>,
}

// === impl Reservation ===

impl Reservation {
    /// The objects that it is about.
    #[must_use]
    pub fn objects(&self) -> Vec<ObjectKey> {
        self.plan.objects()
    }

    /// The objects that other pods of the group may have allocated too, see [`Plan::allocates`].
    #[must_use]
    pub fn allocates(&self) -> Vec<ObjectKey> {
        self.plan.allocates()
    }
}

// === impl Objects ===

impl Objects {
    /// The objects of all plugins of a registry, none of which is known yet.
    #[must_use]
    pub fn of(registry: Registry) -> Self {
        Self(
            registry
                .iter()
                .filter_map(|plugin| Some(Kept { plugin: plugin.name(), cache: plugin.objects()? }))
                .collect(),
        )
    }

    /// Takes an object as the API has it now. `None`: no plugin's objects change.
    pub fn apply(&mut self, object: &Object) -> Option<Changes> {
        self.change(|cache| cache.apply(object))
    }

    /// An object is gone. `None`: it was not there.
    pub fn delete(&mut self, key: &ObjectKey) -> Option<Changes> {
        self.change(|cache| cache.delete(key))
    }

    /// A list of ResourceClaims begins (`None`), or is through up to a version.
    pub fn claims_listed(&mut self, version: Option<&str>) -> Changes {
        self.change(|cache| Some(cache.claims_listed(version))).unwrap_or_default()
    }

    /// Several plugins may keep the same object.
    fn change(&mut self, change: impl Fn(&mut dyn ObjectCache) -> Option<Changes>) -> Option<Changes> {
        let changes = self.0.iter_mut().filter_map(|kept| change(&mut *kept.cache));
        changes.reduce(|mut all, one| {
            all.old = all.old.or(one.old);
            all.nodes.extend(one.nodes);
            all.attachments.extend(one.attachments);
            all.shares |= one.shares;
            all.freed.extend(one.freed);
            all
        })
    }

    /// Whether an object is there.
    #[must_use]
    pub fn contains(&self, key: &ObjectKey) -> bool {
        self.0.iter().any(|kept| kept.cache.get(key).is_some())
    }

    /// An object as it is now for the plugin that has reserved something, with what it assumes of it.
    #[must_use]
    pub fn get_for(&self, reservation: &Reservation, key: &ObjectKey) -> Option<Object> {
        self.0.get(reservation.place)?.cache.get(key)
    }

    /// Changes whenever what [`Self::resolve`] says about a class may have changed; always 0 for a class that uses no
    /// objects.
    #[must_use]
    pub fn version(&self, class: &Class) -> u64 {
        if class.uses_objects() { self.concerned(class).map(|cache| cache.version()).sum() } else { 0 }
    }

    /// Puts into the facts of a class what the objects say about it.
    pub fn resolve(&self, class: &Class, facts: &mut Facts) {
        if class.uses_objects() {
            self.concerned(class).for_each(|cache| cache.resolve(class, facts));
        }
    }

    fn concerned(&self, class: &Class) -> impl Iterator<Item = &dyn ObjectCache> {
        self.0.iter().map(|kept| &*kept.cache).filter(|cache| cache.concerns(class))
    }

    /// A node with what the objects say about it.
    #[must_use]
    pub fn complete(&mut self, node: &Arc<NodeInfo>) -> Arc<NodeInfo> {
        let mut node = Arc::clone(node);
        self.0.iter_mut().for_each(|kept| kept.cache.complete(&mut node));
        node
    }

    /// A node is gone.
    pub fn forget_node(&mut self, name: &str) {
        self.0.iter_mut().for_each(|kept| kept.cache.forget_node(name));
    }

    /// The first PreEnqueue plugin of a profile that keeps a pod out because of objects, and what it says.
    #[must_use]
    pub fn gate(&self, profile: &Profile, pod: &PodInfo) -> Option<(&'static str, String)> {
        if !pod.class.uses_objects() {
            return None;
        }
        profile.plugins.pre_enqueue.iter().find_map(|name| {
            let kept = self.0.iter().find(|kept| kept.plugin == name)?;
            Some((kept.plugin, kept.cache.pre_enqueue(pod)?))
        })
    }

    /// The class with no more of its pods' claims of devices than matters; itself where that is all. Of a pod that has its node
    /// none matters.
    #[must_use]
    pub fn share(&self, class: &Arc<Class>, is_placed: bool) -> Arc<Class> {
        if class.devices.is_none() {
            return Arc::clone(class);
        }
        let shared = self.0.iter().find_map(|kept| kept.cache.share(class));
        match if is_placed { Some(None) } else { shared } {
            None => Arc::clone(class),
            Some(devices) => Arc::new(Class { devices, ..Class::clone(class) }),
        }
    }

    /// PostFilter of a plugin that keeps objects, where a profile has it: what has to be written, and what it says.
    #[must_use]
    pub fn post_filter(&self, plugin: &str, pod: &PodInfo, unavailable: u64) -> Option<(Vec<Write>, &'static str)> {
        let kept = self.0.iter().find(|kept| kept.plugin == plugin)?;
        kept.cache.post_filter(pod, unavailable)
    }

    /// Has each plugin take note of a pod that is on a node, or nominated to one, from now on. Gives the attachments of classes
    /// that are known by that.
    pub fn enter(&mut self, enter: impl Fn(&mut dyn ObjectCache) -> Attachments) -> Attachments {
        self.0.iter_mut().flat_map(|kept| enter(&mut *kept.cache)).collect()
    }

    /// Has each plugin take note of a pod that is there no longer.
    pub fn leave(&mut self, leave: impl Fn(&mut dyn ObjectCache)) {
        self.0.iter_mut().for_each(|kept| leave(&mut *kept.cache));
    }

    /// What the Reserve plugins of a profile have to do for a pod on a node, in the profile's order; nothing is reserved
    /// yet. Empty, and no plugin is asked, where the pod uses no objects.
    ///
    /// # Errors
    /// What the first plugin says that fails, in upstream's words.
    ///
    /// Source: `RunReservePluginsReserve`.
    pub fn plan(&self, pod: &PodInfo, node: &NodeInfo, profile: &Profile) -> Result<Vec<Reservation>, String> {
        let mut reservations = Vec::new();
        if !pod.class.uses_objects() {
            return Ok(reservations);
        }
        for name in &profile.plugins.reserve {
            let Some(place) = self.0.iter().position(|kept| kept.plugin == name) else { continue };
            let Kept { plugin, cache } = &self.0[place];
            let plan = cache.plan(pod, node, profile);
            let plan = plan.map_err(|error| format!("running Reserve plugin {plugin:?}: {error}"))?;
            reservations.extend(plan.map(|plan| Reservation { plugin, place, plan }));
        }
        Ok(reservations)
    }

    /// Reserve. Those of one pod in their order. Gives the nodes that may have to be completed anew.
    pub fn reserve(&mut self, reservation: &Reservation) -> BTreeSet<Arc<str>> {
        let kept = self.0.get_mut(reservation.place);
        kept.map(|kept| kept.cache.reserve(&*reservation.plan)).unwrap_or_default()
    }

    /// Reserve for the length of an attempt at a group, see [`ObjectCache::reserve_tentatively`].
    pub fn reserve_tentatively(&mut self, reservation: &Reservation) -> BTreeSet<Arc<str>> {
        let kept = self.0.get_mut(reservation.place);
        kept.map(|kept| kept.cache.reserve_tentatively(&*reservation.plan)).unwrap_or_default()
    }

    /// Unreserve, but for what was written. Those of one pod in reverse order. Gives what follows from it.
    pub fn unreserve(&mut self, reservation: &Reservation, written: &Written) -> Undone {
        let kept = self.0.get_mut(reservation.place);
        kept.map(|kept| kept.cache.unreserve(&*reservation.plan, written)).unwrap_or_default()
    }

    /// What PreBind has to write, and how long it may wait then, in milliseconds. `None`: the profile leaves it out.
    #[must_use]
    pub fn pre_bind(&self, reservation: &Reservation, profile: &Profile) -> Option<(Vec<Write>, u64)> {
        let kept = self.0.get(reservation.place)?;
        let runs = profile.plugins.pre_bind.iter().any(|name| name == kept.plugin);
        runs.then(|| (kept.cache.writes(&*reservation.plan), kept.cache.timeout_ms(&profile.args)))
    }

    /// Whether the API shows an object with the allocation of a reservation, see [`ObjectCache::is_allocated`].
    ///
    /// # Errors
    /// The allocation is another one, or is gone.
    pub fn is_allocated(
        &self,
        reservation: &Reservation,
        key: &ObjectKey,
        written: Option<&Arc<str>>,
    ) -> Result<bool, String> {
        let kept = self.0.get(reservation.place);
        kept.map_or(Ok(true), |kept| kept.cache.is_allocated(&*reservation.plan, key, written))
    }

    /// Whether all is there that PreBind waits for. `node` is `None` where it is gone.
    ///
    /// # Errors
    /// It will not come to that: the pod has to be scheduled anew.
    pub fn is_bound(
        &self,
        reservation: &Reservation,
        written: &Written,
        node: Option<&NodeInfo>,
    ) -> Result<bool, String> {
        let kept = self.0.get(reservation.place);
        kept.map_or(Ok(true), |kept| kept.cache.is_bound(&*reservation.plan, written, node))
    }

    /// The devices of a reservation that is written, where PreBind waits for one of them.
    #[must_use]
    pub fn awaited_devices(&self, reservation: &Reservation) -> Vec<AwaitedDevice> {
        let kept = self.0.get(reservation.place);
        kept.map(|kept| kept.cache.awaited_devices(&*reservation.plan)).unwrap_or_default()
    }

    /// The error of a PreBind that has waited for too long.
    #[must_use]
    pub fn timed_out(&self, reservation: &Reservation) -> String {
        self.0.get(reservation.place).map(|kept| kept.cache.timed_out(&*reservation.plan)).unwrap_or_default()
    }

    /// What PreBind waits for.
    #[must_use]
    pub fn awaited(&self, reservation: &Reservation) -> Option<Awaited> {
        self.0.get(reservation.place).map(|kept| kept.cache.awaited())
    }
}
