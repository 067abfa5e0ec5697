//! Reasons to keep a pod out of the queue that do not depend on nodes: PreEnqueue and size.

use crate::{class::PodInfo, excess, profile::Profile, registry::Registry};

/// The first PreEnqueue plugin of the profile that gates a pod, and its message.
#[must_use]
pub fn gate(registry: Registry, profile: &Profile, pod: &PodInfo) -> Option<(&'static str, String)> {
    let built = profile.plugins.pre_enqueue.iter().filter_map(|name| registry.find(name));
    built.into_iter().find_map(|plugin| Some((plugin.name(), plugin.pre_enqueue(pod)?)))
}

/// The reason why a pod is too large to be scheduled with this many namespaces.
#[must_use]
pub fn excess(pod: &PodInfo, namespaces: usize) -> Option<String> {
    let own = pod.excess.as_deref().map(str::to_owned);
    own.or_else(|| excess::over_namespaces(&pod.class, namespaces))
        .map(|excess| format!("the pod is too large: {excess}"))
}
