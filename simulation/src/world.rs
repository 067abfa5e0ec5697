//! Other actors in the cluster: kubelets, controllers, and another scheduler.
//!
//! Each reads the current store and does all its work in one step. Infrequent steps simulate lag.

pub mod budgets;
pub mod devices;
pub mod kubelets;
pub mod replicas;
pub mod scheduler;
pub mod volumes;

pub use budgets::Budgets;
pub use devices::Devices;
pub use kubelets::Kubelets;
pub use replicas::Replicas;
pub use scheduler::Scheduler;
pub use volumes::Volumes;

use std::sync::Arc;

use serde_json::Value;

use crate::api::{Api, Kind, Object};

fn those(api: &Api, kind: Kind, which: impl Fn(&Object) -> bool) -> Vec<Arc<Object>> {
    api.look(|store| store.objects(kind).filter(|object| which(object)).cloned().collect())
}

/// Whether it is neither ended nor terminating.
fn is_live(pod: &Object) -> bool {
    !pod.is_terminating() && !has_ended(pod)
}

fn has_ended(pod: &Object) -> bool {
    matches!(pod.phase(), "Succeeded" | "Failed")
}

/// Millis of a CPU quantity such as `1`, `1.5` or `1500m`; 0 for other formats.
fn milli(amount: &Value) -> u64 {
    let text = amount.as_str().unwrap_or_default();
    match text.strip_suffix('m') {
        Some(milli) => milli.parse().unwrap_or_default(),
        None => {
            let (whole, part) = text.split_once('.').unwrap_or((text, ""));
            let part: String = part.chars().chain("000".chars()).take(3).collect();
            whole.parse::<u64>().unwrap_or_default() * 1_000 + part.parse::<u64>().unwrap_or_default()
        }
    }
}

fn requested(pod: &Object) -> u64 {
    let containers = pod.at("/spec/containers").as_array().map_or(&[][..], Vec::as_slice);
    containers.iter().map(|container| milli(&container["resources"]["requests"]["cpu"])).sum()
}

/// Whether a pod matches a selector's `matchLabels`. An empty selector matches everything.
fn selects(selector: &Value, pod: &Object) -> bool {
    let asked = selector["matchLabels"].as_object();
    asked.is_none_or(|asked| asked.iter().all(|(key, value)| pod.value()["metadata"]["labels"][key] == *value))
}

#[cfg(test)]
mod tests;
