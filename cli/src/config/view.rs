//! A configuration as plugins by extension point, and arguments and settings by path.

use std::collections::BTreeMap;

use flotilla_configuration::{Configuration, catalogue::Point};
use flotilla_framework::profile::Plugins;
use serde::Serialize;
use serde_json::{Map, Value};

/// Values by path, such as `leaderElection.leaseDuration` or `scoringStrategy.resources[0].weight`.
pub(super) type Values = BTreeMap<String, Value>;

#[derive(Debug)]
pub(super) struct View {
    /// In the order of the configuration.
    pub(super) profiles: Vec<ProfileView>,
    /// All other fields.
    pub(super) settings: Values,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ProfileView {
    pub(super) name: String,
    /// The plugins of every extension point that has any, in execution order.
    pub(super) points: Vec<(String, Vec<Plugin>)>,
    /// The arguments of every plugin that runs and has some.
    pub(super) args: BTreeMap<String, Values>,
    /// All other fields.
    pub(super) settings: Values,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Plugin {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) weight: Option<i64>,
}

impl View {
    pub(super) fn of(configuration: &Configuration) -> Self {
        let mut fields = object(configuration.to_v1());
        let profiles = fields.remove("profiles");
        ["apiVersion", "kind"].iter().for_each(|key| _ = fields.remove(*key));
        let profiles = list(profiles).into_iter().zip(&configuration.profiles);
        Self {
            profiles: profiles.map(|(written, profile)| ProfileView::of(written, &profile.plugins)).collect(),
            settings: flat(fields),
        }
    }

    /// The profile of kube-scheduler's default configuration.
    pub(super) fn stock_profile() -> ProfileView {
        let stock = Self::of(&Configuration::default());
        stock.profiles.into_iter().next().unwrap_or_else(|| ProfileView::of(Value::Null, &Plugins::default()))
    }

    pub(super) fn profile(&self, name: &str) -> Option<&ProfileView> {
        self.profiles.iter().find(|profile| profile.name == name)
    }
}

impl ProfileView {
    fn of(written: Value, plugins: &Plugins) -> Self {
        let mut fields = object(written);
        let name = text(fields.remove("schedulerName"));
        fields.remove("plugins");
        let mut running = object(serde_json::to_value(plugins).unwrap_or_default());
        let mut points = Vec::new();
        for point in Point::ALL {
            let plugins: Vec<Plugin> = list(running.remove(point.key())).into_iter().map(Plugin::of).collect();
            if !plugins.is_empty() {
                points.push((point.key().to_owned(), plugins));
            }
        }
        let mut args = BTreeMap::new();
        for config in list(fields.remove("pluginConfig")) {
            let mut config = object(config);
            let mut own = object(config.remove("args").unwrap_or_default());
            ["apiVersion", "kind"].iter().for_each(|key| _ = own.remove(*key));
            args.insert(text(config.remove("name")), flat(own));
        }
        Self { name, points, args, settings: flat(fields) }
    }

    pub(super) fn at(&self, point: &str) -> &[Plugin] {
        self.points.iter().find(|(key, _)| key == point).map_or(&[], |(_, plugins)| plugins)
    }
}

impl Plugin {
    /// Parses a name, or an object with a name and a weight.
    fn of(entry: Value) -> Self {
        if entry.is_string() {
            return Self { name: text(Some(entry)), weight: None };
        }
        let mut entry = object(entry);
        let weight = entry.remove("weight").and_then(|weight| weight.as_i64());
        Self { name: text(entry.remove("name")), weight }
    }
}

/// A plugin with a changed position within its extension point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Move {
    pub(super) name: String,
    /// Counted from 1.
    pub(super) old: usize,
    /// Counted from 1.
    pub(super) new: usize,
}

/// The fewest plugins that must move to turn the old order of the common plugins into the new one.
pub(super) fn moves(old: &[Plugin], new: &[Plugin]) -> Vec<Move> {
    let place = |plugin: &Plugin| old.iter().position(|other| other.name == plugin.name);
    let common: Vec<(usize, usize)> =
        new.iter().enumerate().filter_map(|(new, plugin)| Some((place(plugin)?, new))).collect();
    // For each plugin, the longest sequence in old order that ends with it.
    let mut rows: Vec<Vec<usize>> = Vec::with_capacity(common.len());
    for (number, (old, _)) in common.iter().enumerate() {
        let before = rows.iter().zip(&common).filter(|(_, (earlier, _))| earlier < old).map(|(row, _)| row);
        let mut row = before.max_by_key(|row| row.len()).cloned().unwrap_or_default();
        row.push(number);
        rows.push(row);
    }
    let stayed = rows.into_iter().max_by_key(Vec::len).unwrap_or_default();
    let moved = common.iter().enumerate().filter(|(number, _)| !stayed.contains(number));
    let told = |(_, (old, at)): (usize, &(usize, usize))| {
        Some(Move { name: new.get(*at)?.name.clone(), old: old + 1, new: at + 1 })
    };
    moved.filter_map(told).collect()
}

fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(fields) = value { fields } else { Map::new() }
}

fn list(value: Option<Value>) -> Vec<Value> {
    if let Some(Value::Array(elements)) = value { elements } else { Vec::new() }
}

fn text(value: Option<Value>) -> String {
    if let Some(Value::String(text)) = value { text } else { String::new() }
}

fn flat(fields: Map<String, Value>) -> Values {
    let mut values = Values::new();
    fields.into_iter().for_each(|(key, value)| flatten(key, value, &mut values));
    values
}

/// Lists of scalars stay whole, because single elements are not meaningful.
fn flatten(path: String, value: Value, values: &mut Values) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            fields.into_iter().for_each(|(key, value)| flatten(format!("{path}.{key}"), value, values));
        }
        Value::Array(elements) if elements.iter().any(|element| element.is_object() || element.is_array()) => {
            let elements = elements.into_iter().enumerate();
            elements.for_each(|(index, value)| flatten(format!("{path}[{index}]"), value, values));
        }
        value => _ = values.insert(path, value),
    }
}

/// A value as text; `none` for a missing one.
pub(super) fn shown(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "none".to_owned(),
        Some(Value::String(text)) if !text.is_empty() => crate::output::printable(text).into_owned(),
        Some(value) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugins(names: &str) -> Vec<Plugin> {
        names.chars().map(|name| Plugin { name: name.to_string(), weight: None }).collect()
    }

    #[test]
    fn only_those_moved_without_which_the_order_would_be_the_old_one() {
        let cases = [
            ("abcd", "abcd", ""),
            ("abcd", "dabc", "d 4 1"),
            ("abcd", "bcda", "a 1 4"),
            ("abcd", "xacyd", ""),
            ("abcd", "badc", "b 2 1, d 4 3"),
            ("", "ab", ""),
        ];
        for (old, new, expected) in cases {
            let moves = moves(&plugins(old), &plugins(new));
            let told: Vec<String> = moves.iter().map(|one| format!("{} {} {}", one.name, one.old, one.new)).collect();
            assert_eq!(told.join(", "), expected, "{old} {new}");
        }
    }
}
