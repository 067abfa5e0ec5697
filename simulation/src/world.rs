//! Who else acts in a cluster: kubelets, controllers, and another scheduler.
//!
//! Each looks at the store as it is and does all that it finds to do, in one step. How far it lags behind is how seldom it is asked to.
//!
//! Knows: what each of them does to objects. Must not know: coordinators, or what is checked.

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

/// The objects of a kind of which this holds.
fn those(api: &Api, kind: Kind, which: impl Fn(&Object) -> bool) -> Vec<Arc<Object>> {
    api.look(|store| store.objects(kind).filter(|object| which(object)).cloned().collect())
}

/// It has neither ended nor is it about to.
fn is_live(pod: &Object) -> bool {
    !pod.is_terminating() && !has_ended(pod)
}

fn has_ended(pod: &Object) -> bool {
    matches!(pod.phase(), "Succeeded" | "Failed")
}

/// Thousandths of a CPU, of `1`, `1.5` or `1500m`; 0 of what is none of them.
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

/// The CPU that a pod requests, thousandths.
fn requested(pod: &Object) -> u64 {
    let containers = pod.at("/spec/containers").as_array().map_or(&[][..], Vec::as_slice);
    containers.iter().map(|container| milli(&container["resources"]["requests"]["cpu"])).sum()
}

/// Whether these labels are what `matchLabels` of a selector asks for. A selector that asks for nothing selects everything.
fn selects(selector: &Value, pod: &Object) -> bool {
    let asked = selector["matchLabels"].as_object();
    asked.is_none_or(|asked| asked.iter().all(|(key, value)| pod.value()["metadata"]["labels"][key] == *value))
}

#[cfg(test)]
mod tests;
