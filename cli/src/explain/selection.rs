//! Which of the pending pods are asked about.
//!
//! Knows: how a pod is named on the command line, and what may have been meant. Must not know: what is asked.

use std::sync::Arc;

use flotilla_framework::class::PodInfo;

use crate::cluster::Cluster;

/// How alike two names must be for one to have been meant by the other, 1 being equal.
const ALIKE: f64 = 0.7;

/// The pods of these names, in the order of the files; all pending ones for no name.
///
/// # Errors
/// One line for each name that is no pending pod's.
pub(super) fn select<'a>(cluster: &'a Cluster, names: &[String]) -> Result<Vec<&'a Arc<PodInfo>>, Vec<String>> {
    let names: Vec<String> = names.iter().map(|name| full(name)).collect();
    let is_pending = |name: &String| cluster.pending.iter().any(|pod| pod.key() == *name);
    let unknown: Vec<String> =
        names.iter().filter(|name| !is_pending(name)).map(|name| not_pending(cluster, name)).collect();
    if !unknown.is_empty() {
        return Err(unknown);
    }
    let is_wanted = |pod: &&Arc<PodInfo>| names.is_empty() || names.contains(&pod.key());
    Ok(cluster.pending.iter().filter(is_wanted).collect())
}

fn full(name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { format!("default/{name}") }
}

fn not_pending(cluster: &Cluster, name: &str) -> String {
    if let Some(bound) = cluster.bound.iter().find(|pod| pod.key() == name) {
        let node = bound.node_name.as_deref().unwrap_or_default();
        return format!("--pod {name}: this pod is on node {node:?} already; only pending pods are explained");
    }
    let hint = match closest(cluster, name) {
        Some(meant) => format!("did you mean {meant}?"),
        None if cluster.pending.is_empty() => "no pod of the input is pending".to_owned(),
        None => format!("{} pods are pending; leave --pod out to explain them all", cluster.pending.len()),
    };
    format!("--pod {name}: no pending pod of the input has this name; {hint}")
}

/// The pending pod whose name is the most alike; the same name in another namespace is.
fn closest(cluster: &Cluster, name: &str) -> Option<String> {
    let own = |key: &str| key.rsplit('/').next().unwrap_or_default().to_owned();
    let elsewhere = cluster.pending.iter().map(|pod| pod.key()).find(|key| own(key) == own(name));
    elsewhere.or_else(|| {
        let alike = cluster.pending.iter().map(|pod| (strsim::jaro_winkler(&pod.key(), name), pod.key()));
        let best = alike
            .max_by(|(left, left_key), (right, right_key)| left.total_cmp(right).then_with(|| right_key.cmp(left_key)));
        best.filter(|(alike, _)| *alike >= ALIKE).map(|(_, key)| key)
    })
}
