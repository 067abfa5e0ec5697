//! Changes of plugins, their arguments and their default weights up to v1.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::super::path::Path;
use super::super::super::report::{either, quoted};
use super::super::edit::Edit;
use super::{Note, Plan, Version, api_version, profiles};

#[derive(Clone, Copy)]
enum Fate {
    /// Another plugin replaces it.
    Successor(&'static str),
    /// No replacement; nothing breaks without it.
    Dropped(&'static str),
    /// Placement changes without it, so the author has to choose.
    ByHand(&'static str),
}

/// Removed plugins of 1.18 to 1.25.
const GONE: [(&str, Fate); 13] = [
    ("AzureDiskLimits", Fate::Successor("NodeVolumeLimits")),
    ("CinderLimits", Fate::Successor("NodeVolumeLimits")),
    ("EBSLimits", Fate::Successor("NodeVolumeLimits")),
    ("GCEPDLimits", Fate::Successor("NodeVolumeLimits")),
    ("SelectorSpread", Fate::Successor("PodTopologySpread")),
    ("DefaultPodTopologySpread", Fate::Successor("PodTopologySpread")),
    ("NodeResourcesLeastAllocated", Fate::Successor("NodeResourcesFit")),
    ("NodePreferAvoidPods", Fate::Dropped("taint such nodes with the effect PreferNoSchedule")),
    (
        "NodeResourcesMostAllocated",
        Fate::ByHand(
            "enable NodeResourcesFit under plugins.score with the same weight, and give its args a scoringStrategy with \
             type: MostAllocated and the same resources",
        ),
    ),
    (
        "RequestedToCapacityRatio",
        Fate::ByHand(
            "enable NodeResourcesFit under plugins.score with the same weight, and give its args a scoringStrategy with \
             type: RequestedToCapacityRatio, the same resources and requestedToCapacityRatio: {shape: ...}",
        ),
    ),
    ("NodeResourceLimits", Fate::ByHand("remove it: kube-scheduler no longer scores nodes by the limits of pods")),
    ("NodeLabel", Fate::ByHand("use the addedAffinity of NodeAffinity, or node affinity in the pods")),
    ("ServiceAffinity", Fate::ByHand("use pod affinity in the pods")),
];

/// Default plugins with weight 1 up to v1beta2, and their current weight.
const WEIGHTS: [(&str, i64); 3] = [("TaintToleration", 3), ("NodeAffinity", 2), ("InterPodAffinity", 2)];

fn fate(name: &str) -> Option<Fate> {
    GONE.iter().find(|(gone, _)| *gone == name).map(|(_, fate)| *fate)
}

pub(super) fn profile(plan: &mut Plan, profile: &Value, version: Version, path: &Path) {
    let configs = profile.get("pluginConfig").and_then(Value::as_array);
    for (number, config) in configs.into_iter().flatten().enumerate() {
        plugin_config(plan, config, version, &path.key("pluginConfig").index(number));
    }
    let sets = profile.get("plugins").and_then(Value::as_object);
    for (point, set) in sets.into_iter().flatten() {
        let path = path.key("plugins").key(point);
        if point == "unreserve" {
            unreserve(plan, set, path);
        } else {
            plugin_set(plan, set, sets.and_then(|sets| sets.get("multiPoint")), &path);
        }
    }
    if version < Version::V1Beta3 {
        default_weights(plan, profile, path.clone());
    }
}

/// Reserve plugins implement unreserve too.
fn unreserve(plan: &mut Plan, set: &Value, path: Path) {
    if names(set, "enabled").is_empty() && names(set, "disabled").is_empty() {
        plan.remove(path, "removed, v1 has no such extension point");
    } else {
        let hint = "move its plugins to reserve, unless they are there already, and remove it";
        plan.by_hand(path, "found unreserve, which v1 does not have".to_owned(), "reserve", hint);
    }
}

fn names<'a>(set: &'a Value, list: &str) -> Vec<&'a str> {
    let entries = set.get(list).and_then(Value::as_array).into_iter().flatten();
    entries.map(|entry| entry.get("name").unwrap_or(entry).as_str().unwrap_or_default()).collect()
}

fn is_name(set: &Value, list: &str, number: usize) -> bool {
    set.get(list).and_then(|list| list.get(number)).is_some_and(Value::is_string)
}

/// Plans the edits of a document that is valid except for plugins given by name only.
pub(super) fn name_all(plan: &mut Plan, document: &Value, root: &Path) {
    for (number, profile) in profiles(document).iter().enumerate() {
        let path = root.key("profiles").index(number).key("plugins");
        for (point, set) in profile.get("plugins").and_then(Value::as_object).into_iter().flatten() {
            for list in ["enabled", "disabled"] {
                for (number, name) in names(set, list).iter().enumerate() {
                    keep(plan, set, list, number, name, &path.key(point));
                }
            }
        }
    }
}

fn keep(plan: &mut Plan, set: &Value, list: &str, number: usize, name: &str, path: &Path) {
    if is_name(set, list, number) {
        plan.name(path.key(list).index(number), name, format!("{name} is now name: {name}"));
    }
}

fn succeed(plan: &mut Plan, set: &Value, list: &str, number: usize, (name, successor): (&str, &str), path: &Path) {
    let (entry, text) = (path.key(list).index(number), format!("{name} is now {successor}"));
    match is_name(set, list, number) {
        true => plan.name(entry, successor, text),
        false => plan.replace(entry.key("name"), successor, text),
    }
}

fn plugin_set(plan: &mut Plan, set: &Value, multi_point: Option<&Value>, path: &Path) {
    let (enabled, disabled) = (names(set, "enabled"), names(set, "disabled"));
    let everywhere = multi_point.map(|set| names(set, "disabled")).unwrap_or_default();
    let mut off: BTreeSet<&str> = disabled.iter().chain(&everywhere).copied().collect();
    // Several plugins may share a successor, which is listed once.
    let mut listed: BTreeSet<&str> = enabled.iter().copied().collect();
    for (number, name) in enabled.iter().enumerate() {
        let entry = path.key("enabled").index(number);
        match fate(name) {
            None => keep(plan, set, "enabled", number, name, path),
            Some(Fate::ByHand(hint)) => gone_by_hand(plan, name, entry.key("name"), hint),
            Some(Fate::Dropped(advice)) => {
                plan.remove(entry, format!("{name} removed, which kube-scheduler no longer has; {advice}"));
            }
            Some(Fate::Successor(successor)) if listed.contains(successor) => {
                plan.remove(entry, format!("{name} removed, {successor} took its place"));
            }
            Some(Fate::Successor(successor)) if off.contains(successor) => {
                let hint = format!("{successor} took its place, and is switched off here: enable that, or remove this");
                gone_by_hand(plan, name, entry.key("name"), &hint);
            }
            // Of the default plugins, only the one that scores resources may be listed here for its weight.
            Some(Fate::Successor(successor)) if off.contains("*") || successor == "NodeResourcesFit" => {
                listed.insert(successor);
                succeed(plan, set, "enabled", number, (name, successor), path);
            }
            Some(Fate::Successor(successor)) => {
                plan.remove(entry, format!("{name} removed, {successor} took its place and runs by default"));
            }
        }
    }
    off.append(&mut listed);
    for (number, name) in disabled.iter().enumerate() {
        let entry = path.key("disabled").index(number);
        match fate(name) {
            None => keep(plan, set, "disabled", number, name, path),
            // The removed plugin was the default for the scores that NodeResourcesFit computes now.
            Some(Fate::Successor(successor @ "NodeResourcesFit")) if !off.contains(successor) => {
                off.insert(successor);
                succeed(plan, set, "disabled", number, (name, successor), path);
            }
            Some(_) => plan.remove(entry, format!("{name} removed, which kube-scheduler no longer has")),
        }
    }
}

fn gone_by_hand(plan: &mut Plan, name: &str, path: Path, hint: &str) {
    let found = format!("found {}, which kube-scheduler no longer has", quoted(name));
    plan.by_hand(path, found, "a plugin of kube-scheduler", hint);
}

fn plugin_config(plan: &mut Plan, config: &Value, version: Version, path: &Path) {
    let none = Value::Null;
    let args = config.get("args").unwrap_or(&none);
    let name = config.get("name").and_then(Value::as_str).unwrap_or_default();
    match fate(name) {
        Some(Fate::Successor("NodeResourcesFit")) => {
            let hint = "name NodeResourcesFit, and put the resources under scoringStrategy with type: LeastAllocated";
            return gone_by_hand(plan, name, path.key("name"), hint);
        }
        Some(Fate::ByHand(hint)) => return gone_by_hand(plan, name, path.key("name"), hint),
        Some(_) => {
            return plan
                .remove(path.clone(), format!("the arguments of {name} removed, which kube-scheduler no longer has"));
        }
        None => {}
    }
    api_version(plan, args, &path.key("args"));
    let has_constraints = args.get("defaultConstraints").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    let is_open = args.get("defaultingType").is_none();
    if name == "PodTopologySpread" && version < Version::V1Beta2 && has_constraints && is_open {
        let at = path.key("args").key("defaultConstraints");
        let text = "defaultingType: List added, which constraints used to imply".to_owned();
        plan.changes.push(Note { path: at.clone(), text });
        plan.edits.push(Edit::Insert(at, "defaultingType", "List"));
    }
}

/// Notices for default weights that changed and that the profile relies on.
pub(super) fn default_weights(plan: &mut Plan, profile: &Value, path: Path) {
    let none = Value::Null;
    let score = profile.get("plugins").and_then(|plugins| plugins.get("score")).unwrap_or(&none);
    let (enabled, disabled) = (names(score, "enabled"), names(score, "disabled"));
    let relied = |name: &str| !disabled.contains(&"*") && !disabled.contains(&name) && !enabled.contains(&name);
    let changed = WEIGHTS.iter().filter(|(name, _)| relied(name));
    let changed: Vec<String> = changed.map(|(name, weight)| format!("{name} (1, now {weight})")).collect();
    if !changed.is_empty() {
        let which = either(changed.iter().map(String::as_str)).replace(" or ", " and ");
        let text = format!(
            "by default others weigh more than before: {which}; to keep the old weights, list the plugins with \
             weight: 1 under plugins.score.enabled"
        );
        plan.notice(path, text);
    }
}
