//! The objects of all plugins that keep any, and the order of Reserve and Unreserve.

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    class::{Class, PodInfo},
    extension::{
        Facts,
        objects::{
            Attachments, Awaited, AwaitedDevice, Changes, FreedForGroup, Object, ObjectCache, ObjectKey, Plan,
            PreBindError, TriedMember, Undone, Write, Written,
        },
    },
    node::NodeInfo,
    pod_group::{GroupKey, PodGroup},
    profile::Profile,
    registry::Registry,
};

/// The objects of each such plugin, in the registry's order.
#[derive(Debug, Default)]
pub struct Objects(Vec<Kept>);

#[derive(Debug)]
struct Kept {
    plugin: &'static str,
    cache: Box<dyn ObjectCache>,
}

/// A plugin's plan for a pod on a node, reserved or not. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Reservation {
    /// The plugin's name.
    pub plugin: &'static str,
    place: usize,
    plan: Arc<dyn Plan>,
}

impl Reservation {
    /// The objects of the plan.
    #[must_use]
    pub fn objects(&self) -> Vec<ObjectKey> {
        self.plan.objects()
    }

    /// The objects that other pods of the group may allocate too; see [`Plan::allocates`].
    #[must_use]
    pub fn allocates(&self) -> Vec<ObjectKey> {
        self.plan.allocates()
    }
}

impl Objects {
    /// Empty caches for all plugins of a registry.
    #[must_use]
    pub fn of(registry: Registry) -> Self {
        Self(
            registry
                .iter()
                .filter_map(|plugin| Some(Kept { plugin: plugin.name(), cache: plugin.objects()? }))
                .collect(),
        )
    }

    /// Takes an object from the API. `None`: no plugin's objects changed.
    pub fn apply(&mut self, object: &Object) -> Option<Changes> {
        self.change(|cache| cache.apply(object))
    }

    /// Removes an object. `None`: unknown.
    pub fn delete(&mut self, key: &ObjectKey) -> Option<Changes> {
        self.change(|cache| cache.delete(key))
    }

    /// A list of ResourceClaims begins (`None`) or is complete up to a version (`Some`).
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

    /// Whether an object is known.
    #[must_use]
    pub fn contains(&self, key: &ObjectKey) -> bool {
        self.0.iter().any(|kept| kept.cache.get(key).is_some())
    }

    /// An object in its current state, with the assumptions of the reservation's plugin.
    #[must_use]
    pub fn get_for(&self, reservation: &Reservation, key: &ObjectKey) -> Option<Object> {
        self.0.get(reservation.place)?.cache.get(key)
    }

    /// Changes whenever the result of [`Self::resolve`] may change for a class; always 0 for a class without objects.
    #[must_use]
    pub fn version(&self, class: &Class) -> u64 {
        if class.uses_objects() { self.concerned(class).map(|cache| cache.version()).sum() } else { 0 }
    }

    /// Adds the objects' facts to those of a class.
    pub fn resolve(&self, class: &Class, facts: &mut Facts) {
        if class.uses_objects() {
            self.concerned(class).for_each(|cache| cache.resolve(class, facts));
        }
    }

    fn concerned(&self, class: &Class) -> impl Iterator<Item = &dyn ObjectCache> {
        self.0.iter().map(|kept| &*kept.cache).filter(|cache| cache.concerns(class))
    }

    /// The head of a class's family for these facts. `None`: no other class has the same results.
    pub fn head(&mut self, class: &Class, facts: &Facts) -> Option<Class> {
        if !class.uses_objects() {
            return Some(class.head());
        }
        let mut concerned = self.0.iter_mut().map(|kept| &mut *kept.cache).filter(|cache| cache.concerns(class));
        let stand_in = concerned.try_fold(Class::clone(class), |class, cache| cache.stand_in(&class, facts));
        // The objects of the stand-in have no namespace.
        stand_in.map(|class| Class { namespace: Arc::default(), ..class.head() })
    }

    /// Whether a class with these facts currently has the results of the head of its family.
    #[must_use]
    pub fn follows_head(&self, class: &Class, facts: &Facts) -> bool {
        !class.uses_objects() || self.concerned(class).all(|cache| cache.equals_stand_in(facts))
    }

    /// A class is not known any more.
    pub fn forget_class(&mut self, class: &Class) {
        if class.uses_objects() {
            self.0.iter_mut().for_each(|kept| kept.cache.forget_class(class));
        }
    }

    /// A node with the objects' data.
    #[must_use]
    pub fn complete(&mut self, node: &Arc<NodeInfo>) -> Arc<NodeInfo> {
        let mut node = Arc::clone(node);
        self.0.iter_mut().for_each(|kept| kept.cache.complete(&mut node));
        node
    }

    /// A node was removed.
    pub fn forget_node(&mut self, name: &str) {
        self.0.iter_mut().for_each(|kept| kept.cache.forget_node(name));
    }

    /// The first PreEnqueue plugin of a profile that gates a pod because of objects, and its message.
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

    /// The class with only the relevant device claims of its pods; the same class if all are relevant. A bound pod needs none.
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

    /// PostFilter of a plugin with objects, if the profile enables it: its writes and its message.
    #[must_use]
    pub fn post_filter(&self, plugin: &str, pod: &PodInfo, unavailable: u64) -> Option<(Vec<Write>, &'static str)> {
        let kept = self.0.iter().find(|kept| kept.plugin == plugin)?;
        kept.cache.post_filter(pod, unavailable)
    }

    /// PodGroupPostFilter of a plugin with objects; see [`ObjectCache::group_post_filter`].
    ///
    /// # Errors
    /// The plugin fails.
    pub fn group_post_filter(
        &self,
        plugin: &str,
        group: &PodGroup,
        members: &[TriedMember<'_>],
        freed: &BTreeSet<ObjectKey>,
    ) -> Result<Option<FreedForGroup>, String> {
        let kept = self.0.iter().find(|kept| kept.plugin == plugin);
        kept.map_or(Ok(None), |kept| kept.cache.group_post_filter(group, members, freed))
    }

    /// A pod group of `scheduling.k8s.io` changed; `None`: it is gone.
    pub fn set_pod_group(&mut self, key: &GroupKey, group: Option<&Arc<PodGroup>>) {
        self.0.iter_mut().for_each(|kept| kept.cache.set_pod_group(key, group));
    }

    /// Registers a pod on a node, or nominated to one, with each plugin. Returns the attachments of affected classes.
    pub fn enter(&mut self, enter: impl Fn(&mut dyn ObjectCache) -> Attachments) -> Attachments {
        self.0.iter_mut().flat_map(|kept| enter(&mut *kept.cache)).collect()
    }

    /// Removes a pod from each plugin.
    pub fn leave(&mut self, leave: impl Fn(&mut dyn ObjectCache)) {
        self.0.iter_mut().for_each(|kept| leave(&mut *kept.cache));
    }

    /// The plans of the profile's Reserve plugins for a pod on a node, in the profile's order; reserves nothing. Empty if the pod uses no
    /// objects. Source: `RunReservePluginsReserve`.
    ///
    /// # Errors
    /// The error of the first plugin that fails, in kube-scheduler's format.
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
            reservations.extend(plan.map(|plan| Reservation { plugin, place, plan: plan.into() }));
        }
        Ok(reservations)
    }

    /// Reserve, in the order of the pod's plans. Returns the nodes that need [`Self::complete`] again.
    pub fn reserve(&mut self, reservation: &Reservation) -> BTreeSet<Arc<str>> {
        let kept = self.0.get_mut(reservation.place);
        kept.map(|kept| kept.cache.reserve(&*reservation.plan)).unwrap_or_default()
    }

    /// Reserve during an attempt at a group; see [`ObjectCache::reserve_tentatively`].
    pub fn reserve_tentatively(&mut self, reservation: &Reservation) -> BTreeSet<Arc<str>> {
        let kept = self.0.get_mut(reservation.place);
        kept.map(|kept| kept.cache.reserve_tentatively(&*reservation.plan)).unwrap_or_default()
    }

    /// Unreserve, except written parts; in reverse order. Returns the effects.
    pub fn unreserve(&mut self, reservation: &Reservation, written: &Written) -> Undone {
        let kept = self.0.get_mut(reservation.place);
        kept.map(|kept| kept.cache.unreserve(&*reservation.plan, written)).unwrap_or_default()
    }

    /// The writes of PreBind, and the maximum wait afterwards in milliseconds. `None`: disabled in the profile.
    #[must_use]
    pub fn pre_bind(&self, reservation: &Reservation, profile: &Profile) -> Option<(Vec<Write>, u64)> {
        let kept = self.0.get(reservation.place)?;
        let runs = profile.plugins.pre_bind.iter().any(|name| name == kept.plugin);
        runs.then(|| (kept.cache.writes(&*reservation.plan), kept.cache.timeout_ms(&profile.args)))
    }

    /// Whether the API has an object with a reservation's allocation; see [`ObjectCache::is_allocated`].
    ///
    /// # Errors
    /// The allocation differs or was removed.
    pub fn is_allocated(
        &self,
        reservation: &Reservation,
        key: &ObjectKey,
        written: Option<&Arc<str>>,
    ) -> Result<bool, String> {
        let kept = self.0.get(reservation.place);
        kept.map_or(Ok(true), |kept| kept.cache.is_allocated(&*reservation.plan, key, written))
    }

    /// Whether the condition of PreBind is met. `node` is `None` if it was removed.
    ///
    /// # Errors
    /// It cannot be met.
    pub fn is_bound(
        &self,
        reservation: &Reservation,
        written: &Written,
        node: Option<&NodeInfo>,
    ) -> Result<bool, PreBindError> {
        let kept = self.0.get(reservation.place);
        kept.map_or(Ok(true), |kept| kept.cache.is_bound(&*reservation.plan, written, node))
    }

    /// The class of a pod with the requests that it has on the node of its reservations, if they differ from those in the pod.
    #[must_use]
    pub fn charged(&self, reservations: &[Reservation], class: &Class) -> Option<Arc<Class>> {
        reservations
            .iter()
            .find_map(|reservation| self.0.get(reservation.place)?.cache.charged(&*reservation.plan, class))
    }

    /// The devices of a written reservation, if PreBind waits for one of them.
    #[must_use]
    pub fn awaited_devices(&self, reservation: &Reservation) -> Vec<AwaitedDevice> {
        let kept = self.0.get(reservation.place);
        kept.map(|kept| kept.cache.awaited_devices(&*reservation.plan)).unwrap_or_default()
    }

    /// The maximum wait of a PreBind has passed. Returns the error.
    #[must_use]
    pub fn time_out(&mut self, reservation: &Reservation) -> String {
        self.0.get_mut(reservation.place).map(|kept| kept.cache.time_out(&*reservation.plan)).unwrap_or_default()
    }

    /// The condition that PreBind waits for.
    #[must_use]
    pub fn awaited(&self, reservation: &Reservation) -> Option<Awaited> {
        self.0.get(reservation.place).map(|kept| kept.cache.awaited())
    }
}
