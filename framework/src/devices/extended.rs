//! Extended resources that DeviceClasses provide.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::model::{
    class::DeviceClass,
    request::{AllocationMode, Ask, Request, RequestKind},
};
use crate::resources::is_extended;

/// Prefix of a class name that forms an extended resource which always maps to this class.
pub const CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// All DeviceClasses, by name and by extended resource.
///
/// Source: `deviceclass/extendedresourcecache`. Upstream's result depends on the order of events if classes name the same resource.
#[derive(Debug, Clone, Default)]
pub struct DeviceClasses {
    classes: BTreeMap<Arc<str>, Arc<DeviceClass>>,
    by_resource: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

/// Resource requests of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Asking {
    /// `name`.
    pub name: Arc<str>,
    /// Whether it is an init container but not a sidecar.
    pub is_short_lived: bool,
    /// All of `resources.requests`, sorted by name. `None` for an amount that upstream does not parse as an integer, see
    /// [`super::amount::integer`].
    pub requests: Vec<(Arc<str>, Option<i64>)>,
}

/// A ContainerExtendedResourceRequest: the request of the claim that provides a container's devices.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// `containerName`.
    pub container: Arc<str>,
    /// `resourceName`.
    pub resource: Arc<str>,
    /// `requestName`.
    pub request: Arc<str>,
}

impl DeviceClasses {
    /// Adds or replaces a class.
    pub fn apply(&mut self, class: Arc<DeviceClass>) {
        self.remove(&class.name);
        if let Some(resource) = &class.extended_resource {
            self.by_resource.entry(Arc::clone(resource)).or_default().insert(Arc::clone(&class.name));
        }
        self.classes.insert(Arc::clone(&class.name), class);
    }

    /// Removes a class.
    pub fn remove(&mut self, name: &str) {
        let Some(class) = self.classes.remove(name) else { return };
        let Some(resource) = &class.extended_resource else { return };
        if let Some(names) = self.by_resource.get_mut(resource) {
            names.remove(name);
            if names.is_empty() {
                self.by_resource.remove(resource);
            }
        }
    }

    /// The class with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<DeviceClass>> {
        self.classes.get(name)
    }

    /// Whether there are no classes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// The class that provides an extended resource: the newest, then the first by name.
    #[must_use]
    pub fn behind(&self, resource: &str) -> Option<&Arc<DeviceClass>> {
        if let Some(name) = resource.strip_prefix(CLASS_PREFIX) {
            return self.classes.get(name);
        }
        let classes = self.by_resource.get(resource)?.iter().filter_map(|name| self.classes.get(name));
        // `max_by_key` returns the last of equal elements.
        classes.rev().max_by_key(|class| class.created_s)
    }
}

/// Whether a class may provide a resource with this name. Source: `schedutil.IsDRAExtendedResourceName`.
#[must_use]
pub fn is_backable(name: &str) -> bool {
    is_extended(name) || name.starts_with(CLASS_PREFIX)
}

/// Whether devices may provide this request of a container; the amount as in [`Asking::requests`].
#[must_use]
pub fn may_be_devices(name: &str, amount: Option<i64>) -> bool {
    amount != Some(0) && is_backable(name)
}

/// Requested resources that a class may provide, sorted and unique.
#[must_use]
pub fn backable(containers: &[Asking]) -> BTreeSet<&Arc<str>> {
    let requests = containers.iter().flat_map(|container| &container.requests);
    requests.filter(|(name, amount)| may_be_devices(name, *amount)).map(|(name, _)| name).collect()
}

/// Device requests for the extended resources of a pod's containers, sorted by name, and the mappings to the containers. Init containers
/// come first in `containers`. Source: `createRequestsAndMappings` of the plugin.
pub fn requests<'a>(
    containers: &[Asking],
    resources: impl IntoIterator<Item = (&'a Arc<str>, &'a Arc<DeviceClass>)>,
) -> (Vec<Request>, Vec<Mapping>) {
    let mut requests = Vec::new();
    let mut mappings = Vec::new();
    for (resource, class) in resources {
        let of = OneResource { resource, class: &class.name };
        of.add(containers, &mut requests, &mut mappings);
    }
    requests.sort_by(|one: &Needed, other| one.name.cmp(&other.name));
    (requests.into_iter().map(Needed::request).collect(), mappings)
}

#[derive(Debug, Clone)]
struct Needed {
    name: Arc<str>,
    class: Arc<str>,
    count: i64,
}

struct OneResource<'a> {
    resource: &'a Arc<str>,
    class: &'a Arc<str>,
}

impl OneResource<'_> {
    fn add(&self, containers: &[Asking], requests: &mut Vec<Needed>, mappings: &mut Vec<Mapping>) {
        // By container. Init containers that end can use the devices of containers that start later.
        let mut lasting: Vec<Option<Needed>> = vec![None; containers.len()];
        for (index, container) in containers.iter().enumerate().filter(|(_, container)| !container.is_short_lived) {
            lasting[index] = self.needed(index, container, &[], mappings);
        }
        let mut passing: Vec<Needed> = Vec::new();
        let mut of_passing = Vec::new();
        for (index, container) in containers.iter().enumerate().filter(|(_, container)| container.is_short_lived) {
            passing.extend(self.needed(index, container, &lasting[index..], &mut of_passing));
        }
        // Short-lived init containers run in sequence, so the first largest request serves all.
        if let Some(largest) = passing.iter().rev().max_by_key(|needed| needed.count).cloned() {
            for mapping in &mut of_passing {
                if passing.iter().any(|needed| needed.name == mapping.request) {
                    mapping.request = Arc::clone(&largest.name);
                }
            }
            requests.push(largest);
        }
        requests.extend(lasting.into_iter().flatten());
        mappings.append(&mut of_passing);
    }

    /// Devices that a container needs in addition to `usable` ones. Source: `createResourceRequestAndMappings`.
    fn needed(
        &self,
        index: usize,
        container: &Asking,
        usable: &[Option<Needed>],
        mappings: &mut Vec<Mapping>,
    ) -> Option<Needed> {
        let position = container.requests.iter().position(|(name, _)| name == self.resource)?;
        let count = container.requests[position].1.filter(|count| *count != 0)?;
        let mapping = |request: &Arc<str>| Mapping {
            container: Arc::clone(&container.name),
            resource: Arc::clone(self.resource),
            request: Arc::clone(request),
        };
        let mut found = 0_i64;
        for other in usable.iter().flatten() {
            found = found.saturating_add(other.count);
            mappings.push(mapping(&other.name));
            if found >= count {
                return None;
            }
        }
        let name: Arc<str> = format!("container-{index}-request-{position}").into();
        mappings.push(mapping(&name));
        Some(Needed { name, class: Arc::clone(self.class), count: count - found })
    }
}

impl Needed {
    fn request(self) -> Request {
        let ask = Ask { class: self.class, mode: AllocationMode::Count(self.count), ..Ask::default() };
        Request { name: self.name, kind: RequestKind::Exactly(ask) }
    }
}
