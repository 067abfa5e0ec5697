//! What keeps a pod out of the queue, whatever the nodes are.
//!
//! Knows: PreEnqueue, which plugins a pod needs that are not built, and which pods are too large. Must not know: queues, or any node.

use crate::{
    class::{Class, PodInfo},
    excess,
    profile::Profile,
    registry::Registry,
};

/// The first PreEnqueue plugin of the profile that keeps a pod out, and what it says.
#[must_use]
pub fn gate(registry: Registry, profile: &Profile, pod: &PodInfo) -> Option<(&'static str, String)> {
    let built = profile.plugins.pre_enqueue.iter().filter_map(|name| registry.find(name));
    built.into_iter().find_map(|plugin| Some((plugin.name(), plugin.pre_enqueue(pod)?)))
}

/// What keeps a pod back that is too large to be tried with so many namespaces.
#[must_use]
pub fn excess(pod: &PodInfo, namespaces: usize) -> Option<String> {
    let own = pod.excess.as_deref().map(str::to_owned);
    own.or_else(|| excess::over_namespaces(&pod.class, namespaces))
        .map(|excess| format!("the pod is too large: {excess}"))
}

/// What keeps a pod back that needs a plugin which the profile has and which is not built yet.
#[must_use]
pub fn unbuilt(profile: &Profile, class: &Class) -> Option<String> {
    let filters = &profile.plugins.filter;
    let need = class.unbuilt.iter().find(|need| filters.iter().any(|name| name == need.plugin()))?;
    Some(format!(
        "pod uses {}, and plugin {} is not implemented in this version of Flotilla; leave such pods to another \
         scheduler, or disable {} in the profile to have them placed regardless",
        need.what(),
        need.plugin(),
        need.plugin()
    ))
}
