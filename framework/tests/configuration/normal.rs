//! One form for two ways of writing the same effective configuration.
//!
//! Knows: what the Go API and Flotilla write differently without meaning anything different. Must not know: any rule.
//!
//! What is made equal, and nothing else:
//! - Plugins are what runs: each extension point with its names in order, and weights where they count. kube-scheduler
//!   writes `multiPoint` as it was merged, Flotilla writes what came of it.
//! - A field that is null, an empty text or an empty list is left out, as is one that the Go API leaves out when it is
//!   false or 0.
//! - `pluginConfig` is by plugin.
//! - The name of the Lease, where the file gives none: `kube-scheduler` there, `flotilla` here.
//! - Whole numbers are whole, however they are written.
//! - The points of pod groups count from the day on that Flotilla lists them.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::corpus::Answer;

/// The extension points where a weight counts.
const WEIGHTED: [&str; 2] = ["score", "placementScore"];

/// The extension points of pod groups.
const POD_GROUPS: [&str; 3] = ["placementGenerate", "placementScore", "podGroupPostFilter"];

/// What the Go API leaves out when it is false or 0.
const OMITTED_WHEN_ZERO: [&str; 7] = [
    "delayCacheUntilActive",
    "enableHTTPS",
    "ignorable",
    "ignoredByScheduler",
    "insecure",
    "nodeCacheCapable",
    "weight",
];

/// What kube-scheduler writes and runs, and what Flotilla writes, both in the common form.
pub(crate) fn pair(answer: &Answer, ours: &Value, file: &[u8]) -> (Value, Value) {
    let mut theirs = answer.configuration.clone().unwrap_or_default();
    let running: Vec<Value> = answer.running.as_array().cloned().unwrap_or_default();
    let listed = listed(ours);
    for (number, profile) in profiles(&mut theirs).into_iter().enumerate() {
        let runs = running.get(number).and_then(|one| one.get("plugins")).and_then(Value::as_object);
        let mut runs = runs.cloned().unwrap_or_default();
        runs.retain(|point, _| listed.contains(point) || !POD_GROUPS.contains(&point.as_str()));
        profile.insert("plugins".to_owned(), plugins(&runs));
    }
    let names_its_lease = String::from_utf8_lossy(file).contains("resourceName: kube-scheduler");
    if let Some(name) = theirs.pointer_mut("/leaderElection/resourceName")
        && name == "kube-scheduler"
        && !names_its_lease
    {
        *name = json!("flotilla");
    }
    (plain(theirs), flotilla(ours))
}

/// The extension points that Flotilla lists, also where nothing runs.
fn listed(ours: &Value) -> BTreeSet<String> {
    let profiles = ours.get("profiles").and_then(Value::as_array).into_iter().flatten();
    let points = profiles.filter_map(|profile| profile.get("plugins").and_then(Value::as_object));
    points.flat_map(Map::keys).cloned().collect()
}

fn flotilla(written: &Value) -> Value {
    let mut all = written.clone();
    for profile in profiles(&mut all) {
        let listed = profile.get("plugins").and_then(Value::as_object).cloned().unwrap_or_default();
        let expands = listed.get("multiPoint").is_some_and(|set| set.get("enabled").is_some());
        assert!(!expands, "Flotilla writes what runs at each extension point, nothing in multiPoint");
        let points = listed.iter().filter(|(point, _)| *point != "multiPoint");
        let running = points.map(|(point, set)| (point.clone(), set.get("enabled").cloned().unwrap_or_default()));
        profile.insert("plugins".to_owned(), plugins(&running.collect()));
    }
    plain(all)
}

fn profiles(all: &mut Value) -> Vec<&mut Map<String, Value>> {
    let profiles = all.get_mut("profiles").and_then(Value::as_array_mut);
    profiles.into_iter().flatten().filter_map(Value::as_object_mut).collect()
}

/// Each extension point with its plugins as texts, `Name` or `Name=weight`.
fn plugins(points: &Map<String, Value>) -> Value {
    let text = |point: &str, plugin: &Value| {
        let name = plugin.get("name").and_then(Value::as_str).unwrap_or_default();
        let weight = plugin.get("weight").and_then(Value::as_i64).unwrap_or_default();
        json!(if WEIGHTED.contains(&point) { format!("{name}={weight}") } else { name.to_owned() })
    };
    let set = |point: &str, set: &Value| -> Value {
        set.as_array().into_iter().flatten().map(|plugin| text(point, plugin)).collect()
    };
    points.iter().map(|(point, value)| (point.clone(), set(point, value))).collect::<Map<_, _>>().into()
}

/// Drops what says nothing, and orders what has no order.
fn plain(mut all: Value) -> Value {
    for profile in profiles(&mut all) {
        let configs = profile.remove("pluginConfig").unwrap_or_default();
        let by_plugin = configs.as_array().into_iter().flatten().map(|config| {
            let name = config.get("name").and_then(Value::as_str).unwrap_or_default();
            (name.to_owned(), config.get("args").cloned().unwrap_or_default())
        });
        let by_plugin: Map<String, Value> = by_plugin.collect();
        profile.insert("pluginConfig".to_owned(), by_plugin.into());
    }
    prune(&mut all);
    all
}

fn prune(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(prune);
            fields.retain(|name, value| !says_nothing(name, value));
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        Value::Number(number) => {
            let whole = number.as_f64().filter(|value| number.is_f64() && value.fract() == 0.0 && value.abs() < 1e15);
            #[expect(clippy::cast_possible_truncation, reason = "whole, and far from the limits of 64 bits")]
            if let Some(whole) = whole {
                *value = json!(whole as i64);
            }
        }
        _ => {}
    }
}

fn says_nothing(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(value) => !value && OMITTED_WHEN_ZERO.contains(&name),
        Value::Number(value) => value.as_f64() == Some(0.0) && OMITTED_WHEN_ZERO.contains(&name),
        Value::Object(_) => false,
    }
}
