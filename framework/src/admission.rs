//! What keeps a pod out of the queue, whatever the nodes are.
//!
//! Knows: PreEnqueue, and which pods are too large. Must not know: queues, or any node.

use crate::{class::PodInfo, excess, profile::Profile, registry::Registry};

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
