//! Normalizes effective configurations, to compare the output of `--write-config-to` and the plugins of each extension point.
//!
//! Exactly these differences are removed:
//! - Null fields, empty texts and empty lists, and fields that the Go API omits if false or 0.
//! - `pluginConfig` is keyed by plugin.
//! - The default name of the Lease: `kube-scheduler` or `flotilla`.
//! - The notation of whole numbers.

use flotilla_configuration::Configuration;
use flotilla_framework::profile::Plugins;
use serde_json::{Map, Value, json};

use crate::corpus::Answer;

/// Fields that the Go API omits if false or 0.
const OMITTED_WHEN_ZERO: [&str; 7] = [
    "delayCacheUntilActive",
    "enableHTTPS",
    "ignorable",
    "ignoredByScheduler",
    "insecure",
    "nodeCacheCapable",
    "weight",
];

pub(crate) fn pair(answer: &Answer, ours: &Configuration, file: &[u8]) -> (Value, Value) {
    let mut theirs = answer.configuration.clone().unwrap_or_default();
    let names_its_lease = String::from_utf8_lossy(file).contains("resourceName: kube-scheduler");
    if let Some(name) = theirs.pointer_mut("/leaderElection/resourceName")
        && name == "kube-scheduler"
        && !names_its_lease
    {
        *name = json!("flotilla");
    }
    let runs = answer.running.as_array().into_iter().flatten();
    let runs: Vec<Value> = runs.filter_map(|one| one.get("plugins").and_then(Value::as_object)).map(named).collect();
    let our_runs: Vec<Value> = ours.profiles.iter().map(|profile| running(&profile.plugins)).collect();
    (
        json!({ "written": plain(theirs), "running": runs }),
        json!({ "written": plain(ours.to_v1()), "running": our_runs }),
    )
}

/// Plugins of each nonempty extension point as `Name` or `Name=weight`.
fn named(points: &Map<String, Value>) -> Value {
    let text = |plugin: &Value| {
        let name = plugin.get("name").and_then(Value::as_str).unwrap_or_default();
        match plugin.get("weight").and_then(Value::as_i64) {
            Some(weight) if weight != 0 => json!(format!("{name}={weight}")),
            _ => json!(name),
        }
    };
    let list = |set: &Value| -> Value { set.as_array().into_iter().flatten().map(text).collect() };
    let all = points.iter().map(|(point, set)| (point.clone(), list(set)));
    all.filter(|(_, list)| *list != json!([])).collect::<Map<_, _>>().into()
}

fn running(plugins: &Plugins) -> Value {
    let Value::Object(points) = json!(plugins) else { return Value::Null };
    let list = |set: &Value| -> Value {
        let plugin = |plugin: &Value| match plugin {
            Value::String(name) => json!({ "name": name }),
            weighted => weighted.clone(),
        };
        set.as_array().into_iter().flatten().map(plugin).collect()
    };
    named(&points.iter().map(|(point, set)| (point.clone(), list(set))).collect())
}

fn profiles(all: &mut Value) -> Vec<&mut Map<String, Value>> {
    let profiles = all.get_mut("profiles").and_then(Value::as_array_mut);
    profiles.into_iter().flatten().filter_map(Value::as_object_mut).collect()
}

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
