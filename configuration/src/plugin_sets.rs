//! Resolves the configured plugin sets to the ordered plugins of each extension point.
//!
//! Source: `mergePluginSet` in `pkg/scheduler/apis/config/v1/default_plugins.go`, and `updatePluginList`, `expandMultiPointPlugins` and
//! `getValidScoreWeights` in `pkg/scheduler/framework/runtime/framework.go`.

use std::collections::{BTreeMap, BTreeSet};

use flotilla_framework::{
    profile::{Plugins, WeightedPlugin},
    registry::Registry,
};

use super::catalogue::{self, PLUGINS, Point, REMOVED, REPLACED};
use super::path::Path;
use super::report::{Problem, Report, either, near_miss, quoted};
use super::states::{DEPENDENCIES, Dependency};
use super::wire;
use crate::features::FeatureGates;

const MAX_NODE_SCORE: i64 = 100;

const MULTI_POINT: &str = "multiPoint";

#[derive(Debug, Clone, Copy)]
pub(super) struct KnownPlugins<'a> {
    pub(super) gates: &'a FeatureGates,
    pub(super) registry: Registry,
    pub(super) modules: &'a BTreeSet<String>,
}

impl KnownPlugins<'_> {
    fn own(self) -> impl Iterator<Item = catalogue::Plugin> {
        let own = self.registry.iter().filter(|plugin| catalogue::find(plugin.name()).is_none());
        own.filter_map(move |plugin| catalogue::known(plugin.name(), self.registry))
    }
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    plugin: catalogue::Plugin,
    /// 0 if unset.
    weight: i32,
    /// Index in the user's list; `None` for a plugin of the default set.
    place: Option<usize>,
}

#[derive(Debug, Default)]
struct Set {
    enabled: Vec<Entry>,
    /// In their configured order; `*` for all.
    disabled: Vec<String>,
}

impl Set {
    fn disables(&self, name: &str) -> bool {
        self.disabled.iter().any(|disabled| disabled == name)
    }
}

/// The plugin sets of a profile after the merge with the default set, as kube-scheduler shows them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PluginSets {
    /// The set of `multiPoint`.
    pub multi_point: PluginSet,
    /// The sets of extension points by key; unset ones are absent.
    pub points: BTreeMap<&'static str, PluginSet>,
}

/// The plugins enabled and disabled under one key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PluginSet {
    /// Names and weights; a weight of 0 is unset.
    pub enabled: Vec<(&'static str, i32)>,
    /// Names, or `*` for all.
    pub disabled: Vec<String>,
}

impl PluginSet {
    fn of(enabled: &[Entry], disabled: &[String]) -> Self {
        let enabled = enabled.iter().map(|entry| (entry.plugin.name, entry.weight)).collect();
        Self { enabled, disabled: disabled.to_vec() }
    }
}

impl PluginSets {
    /// Whether `name` is enabled under any key except `except`.
    fn enables(&self, name: &str, except: Option<Point>) -> bool {
        let has = |set: &PluginSet| set.enabled.iter().any(|(enabled, _)| *enabled == name);
        let except = except.map(Point::key);
        has(&self.multi_point) || self.points.iter().any(|(key, set)| Some(*key) != except && has(set))
    }

    /// Whether kube-scheduler builds the plugin `name`, even if no extension point calls it.
    #[must_use]
    pub fn builds(&self, name: &str) -> bool {
        self.enables(name, None)
    }

    /// Whether a plugin gets default arguments if none are configured. kube-scheduler skips one extension point when it looks for such
    /// plugins.
    pub(super) fn gives_defaults(&self, name: &str) -> bool {
        self.enables(name, Some(Point::PodGroupPostFilter))
    }
}

/// The plugins of a profile, in their running and their shown form. Without `plugins` this is the default set.
pub(super) fn effective(
    report: &mut Report<'_>,
    plugins: Option<&wire::Plugins>,
    known: KnownPlugins<'_>,
    path: &Path,
) -> (Plugins, PluginSets) {
    let mistakes_before = report.mistake_count();
    let custom = read_set(report, plugins.and_then(|plugins| plugins.multi_point.as_ref()), None, known, path);
    let multi_point = merge(&custom, known.gates);
    let mut shown = PluginSets { multi_point: PluginSet::of(&multi_point, &custom.disabled), points: BTreeMap::new() };
    let mut lists: BTreeMap<&'static str, Vec<Entry>> = BTreeMap::new();
    let mut repeated = BTreeSet::new();
    let mut sets: BTreeMap<&'static str, Set> = BTreeMap::new();
    for point in Point::ALL {
        let set = read_set(report, plugins.and_then(|plugins| written(plugins, point)), Some(point), known, path);
        lists.insert(point.key(), expand(point, &set, &multi_point, &mut repeated));
        shown.points.insert(point.key(), PluginSet::of(&set.enabled, &set.disabled));
        sets.insert(point.key(), set);
    }
    shown.points.retain(|_, set| *set != PluginSet::default());
    for name in repeated {
        let place = multi_point.iter().filter(|entry| entry.plugin.name == name).filter_map(|entry| entry.place).max();
        let at = entry_path(path, None, place.unwrap_or(0)).key("name");
        report.error(Problem::value(at, format!("{} a second time", quoted(name)), "every plugin once"));
    }
    warn_of_states(report, &lists, &sets, path);
    let mut weigh_at = |point: Point| {
        let set = sets.remove(point.key()).unwrap_or_default();
        weigh(report, lists.get(point.key()).map_or(&[][..], Vec::as_slice), point, &set, &multi_point, path)
    };
    let (score, placement_score) = (weigh_at(Point::Score), weigh_at(Point::PlacementScore));
    // A misspelt plugin may leave its extension point empty; one mistake is enough to report.
    if report.mistake_count() == mistakes_before {
        check_counts(report, &lists, path);
    }
    (named(lists, score, placement_score), shown)
}

/// Warns of plugins that run at an extension point without another one that it depends on.
fn warn_of_states(
    report: &mut Report<'_>,
    lists: &BTreeMap<&'static str, Vec<Entry>>,
    sets: &BTreeMap<&'static str, Set>,
    path: &Path,
) {
    let runs = |name: &str, point: Point| {
        lists.get(point.key()).is_some_and(|list| list.iter().any(|entry| entry.plugin.name == name))
    };
    let mut told: BTreeSet<&str> = BTreeSet::new();
    for Dependency { plugin, at, needs, effect } in DEPENDENCIES {
        if !runs(plugin, at) || runs(plugin, needs) || !told.insert(plugin) {
            continue;
        }
        let off = |set: &Set| set.disabled.iter().position(|name| name == "*" || name == plugin);
        let on = |set: &Set| set.enabled.iter().find(|entry| entry.plugin.name == plugin)?.place;
        let (off, on) = (sets.get(needs.key()).and_then(off), sets.get(at.key()).and_then(on));
        let place = match (off, on) {
            (Some(place), _) => path.key(needs.key()).key("disabled").index(place).key("name"),
            (None, Some(place)) => entry_path(path, Some(at), place).key("name"),
            (None, None) => path.clone(),
        };
        let otherwise = match plugin {
            "VolumeBinding" | "DynamicResources" => format!("under {MULTI_POINT}"),
            _ => format!("at {} too", at.key()),
        };
        let (at, needs) = (at.key(), needs.key());
        let text = format!(
            "{plugin} runs at {at} but not at {needs}, so {effect}; enable it at {needs}, or disable it {otherwise}"
        );
        report.warning(&place, text);
    }
}

fn named(
    mut lists: BTreeMap<&'static str, Vec<Entry>>,
    score: Vec<WeightedPlugin>,
    placement_score: Vec<WeightedPlugin>,
) -> Plugins {
    let mut names = |point: Point| -> Vec<String> {
        let list = lists.remove(point.key()).unwrap_or_default();
        list.into_iter().map(|entry| entry.plugin.name.to_owned()).collect()
    };
    Plugins {
        pre_enqueue: names(Point::PreEnqueue),
        queue_sort: names(Point::QueueSort),
        pre_filter: names(Point::PreFilter),
        filter: names(Point::Filter),
        post_filter: names(Point::PostFilter),
        pre_score: names(Point::PreScore),
        score,
        reserve: names(Point::Reserve),
        permit: names(Point::Permit),
        pre_bind: names(Point::PreBind),
        bind: names(Point::Bind),
        post_bind: names(Point::PostBind),
        placement_generate: names(Point::PlacementGenerate),
        placement_score,
        pod_group_post_filter: names(Point::PodGroupPostFilter),
    }
}

fn written(plugins: &wire::Plugins, point: Point) -> Option<&wire::Block<wire::PluginSet>> {
    match point {
        Point::PreEnqueue => plugins.pre_enqueue.as_ref(),
        Point::QueueSort => plugins.queue_sort.as_ref(),
        Point::PreFilter => plugins.pre_filter.as_ref(),
        Point::Filter => plugins.filter.as_ref(),
        Point::PostFilter => plugins.post_filter.as_ref(),
        Point::PreScore => plugins.pre_score.as_ref(),
        Point::Score => plugins.score.as_ref(),
        Point::Reserve => plugins.reserve.as_ref(),
        Point::Permit => plugins.permit.as_ref(),
        Point::PreBind => plugins.pre_bind.as_ref(),
        Point::Bind => plugins.bind.as_ref(),
        Point::PostBind => plugins.post_bind.as_ref(),
        Point::PlacementGenerate => plugins.placement_generate.as_ref(),
        Point::PlacementScore => plugins.placement_score.as_ref(),
        Point::PodGroupPostFilter => plugins.pod_group_post_filter.as_ref(),
    }
}

/// The path of an entry of an `enabled` list; without a point it is that of `multiPoint`.
fn entry_path(plugins: &Path, point: Option<Point>, place: usize) -> Path {
    plugins.key(point.map_or(MULTI_POINT, Point::key)).key("enabled").index(place)
}

/// Reports unusable entries and returns the others.
fn read_set(
    report: &mut Report<'_>,
    set: Option<&wire::Block<wire::PluginSet>>,
    point: Option<Point>,
    known: KnownPlugins<'_>,
    plugins: &Path,
) -> Set {
    let mut read = Set::default();
    let Some(wire::Block(set)) = set else { return read };
    for (place, wire::Block(entry)) in set.enabled.iter().flatten().enumerate() {
        let path = entry_path(plugins, point, place).key("name");
        let name = entry.name.as_deref().unwrap_or_default();
        let Some(plugin) = usable(report, name, point, known, &path) else { continue };
        let is_repeated = read.enabled.iter().any(|other| other.plugin.name == plugin.name);
        if is_repeated && point.is_some() {
            report.error(Problem::value(path, format!("{} a second time", quoted(name)), "every plugin once"));
            continue;
        }
        read.enabled.push(Entry { plugin, weight: entry.weight.unwrap_or(0), place: Some(place) });
    }
    let disabled = plugins.key(point.map_or(MULTI_POINT, Point::key)).key("disabled");
    for (place, wire::Block(entry)) in set.disabled.iter().flatten().enumerate() {
        let path = disabled.index(place).key("name");
        let name = entry.name.as_deref().unwrap_or_default();
        if name != "*" && catalogue::known(name, known.registry).is_none() {
            let hint = catalogue::advice(name).unwrap_or_default();
            let text =
                format!("kube-scheduler has no plugin {}, so disabling it changes nothing; {hint}", quoted(name));
            report.warning(&path, text.trim_end_matches([';', ' ']));
        }
        read.disabled.push(name.to_owned());
    }
    read
}

/// The plugin `name` if it can be enabled at `point`; otherwise reports the reason.
fn usable(
    report: &mut Report<'_>,
    name: &str,
    point: Option<Point>,
    known: KnownPlugins<'_>,
    path: &Path,
) -> Option<catalogue::Plugin> {
    let fits = |plugin: &catalogue::Plugin| point.is_none_or(|point| plugin.runs_at(point));
    let all = || PLUGINS.iter().copied().chain(known.own()).filter(fits);
    let candidates = || all().map(|plugin| plugin.name);
    let available = || all().filter(|plugin| plugin.is_default(known.gates)).map(|plugin| plugin.name);
    let key = point.map_or(MULTI_POINT, Point::key);
    let expected = match either(available()) {
        none if none.is_empty() => format!("no plugin at {key}: Flotilla has none that runs there"),
        names => names,
    };
    if name.is_empty() {
        report.error(Problem::missing(path.clone(), expected));
        return None;
    }
    let Some(plugin) = catalogue::known(name, known.registry) else {
        // The error is reported at the arguments that name the module.
        if known.modules.contains(name) {
            return None;
        }
        let is_old = REMOVED.contains(&name) || REPLACED.iter().any(|(old, _)| *old == name);
        let (found, hint) = if is_old {
            (format!("{}, which kube-scheduler no longer has", quoted(name)), catalogue::advice(name))
        } else if name == "*" {
            let hint = "\"*\" means all plugins only under `disabled`".to_owned();
            ("\"*\", which is not the name of a plugin".to_owned(), Some(hint))
        } else {
            let otherwise = || Some(catalogue::NOT_COMPILED_IN.to_owned());
            let hint = near_miss(name, candidates()).or_else(|| catalogue::advice(name)).or_else(otherwise);
            (format!("{}, which is not a plugin of kube-scheduler", quoted(name)), hint)
        };
        report.error(Problem::value(path.clone(), found, expected).hint(hint));
        return None;
    };
    if !fits(&plugin) {
        let runs_at = match either(plugin.points.iter().map(|point| point.key())) {
            none if none.is_empty() => format!("the plugin {name} names no extension point in Plugin::points"),
            points => format!("{name} runs at {points}"),
        };
        let found = format!("{}, which does not run at {key}", quoted(name));
        report.error(Problem::value(path.clone(), found, expected).hint(runs_at));
        return None;
    }
    if let Some(gate) = plugin.gate.filter(|gate| !known.gates.enabled(gate)) {
        let found = format!("plugin {} needs the feature gate {gate}, which is off", quoted(name));
        let hint = format!("set --feature-gates={gate}=true, or remove this entry");
        report.error(Problem::new(path.clone(), found, expected).hint(hint).not_implemented());
    }
    Some(plugin)
}

/// Merges the user's `multiPoint` set into the default one.
///
/// A default plugin that the user enables again keeps its place and gets the user's weight. If the user also disables it, by name or `*`,
/// it moves to the end with the user's other plugins.
fn merge(custom: &Set, gates: &FeatureGates) -> Vec<Entry> {
    // The last entry of a name replaces the default; an earlier one is reported later as a repetition.
    let last: BTreeMap<&str, Entry> = custom.enabled.iter().map(|entry| (entry.plugin.name, *entry)).collect();
    let mut replaced = BTreeSet::new();
    let mut merged = Vec::new();
    if !custom.disables("*") {
        for plugin in PLUGINS.iter().filter(|plugin| plugin.is_default(gates) && !custom.disables(plugin.name)) {
            let own = last.get(plugin.name).copied();
            replaced.extend(own.and_then(|entry| entry.place));
            merged.push(own.unwrap_or(Entry { plugin: *plugin, weight: plugin.weight, place: None }));
        }
    }
    let is_left = |entry: &&Entry| entry.place.is_none_or(|place| !replaced.contains(&place));
    merged.extend(custom.enabled.iter().filter(is_left));
    merged
}

/// The plugins of one extension point: explicit ones that `multiPoint` has too, then the rest of `multiPoint`, then the rest of the
/// explicit ones.
fn expand(point: Point, explicit: &Set, multi: &[Entry], repeated: &mut BTreeSet<&'static str>) -> Vec<Entry> {
    if explicit.disables("*") {
        return explicit.enabled.clone();
    }
    let is_explicit = |name: &str| explicit.enabled.iter().any(|entry| entry.plugin.name == name);
    let mut overridden = BTreeSet::new();
    let mut spread: Vec<Entry> = Vec::new();
    for entry in multi {
        let name = entry.plugin.name;
        if !entry.plugin.runs_at(point) || explicit.disables(name) {
            continue;
        }
        if is_explicit(name) {
            overridden.insert(name);
        } else if spread.iter().any(|other| other.plugin.name == name) {
            repeated.insert(name);
        } else {
            spread.push(*entry);
        }
    }
    let (first, rest): (Vec<Entry>, Vec<Entry>) =
        explicit.enabled.iter().partition(|entry| overridden.contains(entry.plugin.name));
    first.into_iter().chain(spread).chain(rest).collect()
}

/// Sets the weight of every scoring plugin: the point's weight, else that of `multiPoint`, else 1.
fn weigh(
    report: &mut Report<'_>,
    plugins: &[Entry],
    point: Point,
    explicit: &Set,
    multi: &[Entry],
    path: &Path,
) -> Vec<WeightedPlugin> {
    let entries = explicit.enabled.iter().map(|entry| (Some(point), entry));
    let entries = entries.chain(multi.iter().filter(|entry| entry.plugin.runs_at(point)).map(|entry| (None, entry)));
    let mut weights: BTreeMap<&str, i64> = BTreeMap::new();
    let mut total: i64 = 0;
    let mut negative = Vec::new();
    for (at, entry) in entries {
        if weights.contains_key(entry.plugin.name) {
            continue;
        }
        let weight = if entry.weight == 0 { 1 } else { i64::from(entry.weight) };
        weights.insert(entry.plugin.name, weight);
        // kube-scheduler's overflow check itself overflows once the sum is negative, so it rejects every further weight.
        if total < 0
            && let Some(place) = negative.pop()
        {
            let expected = "weights of which no sum, from the first on, is negative";
            let hint = "to keep a plugin from scoring, name it under disabled".to_owned();
            report.error(Problem::value(place, "a weight that makes their sum negative", expected).hint(hint));
            break;
        }
        total += weight * MAX_NODE_SCORE;
        if let (true, Some(place)) = (weight < 0, entry.place) {
            negative.push(entry_path(path, at, place).key("weight"));
        }
    }
    for place in negative {
        let hint = "to keep a plugin from scoring, name it under disabled".to_owned();
        let found = "negative weights are not implemented in this version of Flotilla";
        report.error(Problem::new(place, found, "a weight of 1 or more").hint(hint).not_implemented());
    }
    let weigh = |entry: &Entry| weights.get(entry.plugin.name).copied();
    let weighted = plugins.iter().filter_map(|entry| Some((entry.plugin.name.to_owned(), weigh(entry)?)));
    weighted.map(|(name, weight)| WeightedPlugin { name, weight }).collect()
}

/// Exactly one plugin orders the queue and at least one binds.
fn check_counts(report: &mut Report<'_>, lists: &BTreeMap<&'static str, Vec<Entry>>, path: &Path) {
    let count = |point: Point| lists.get(point.key()).map_or(0, Vec::len);
    let queue_sort = count(Point::QueueSort);
    if queue_sort != 1 {
        let found = format!("found {queue_sort} plugins that order the queue");
        let problem = Problem::new(path.key("queueSort"), found, "exactly one");
        report.error(problem.hint("enable PrioritySort under queueSort or under multiPoint".to_owned()));
    }
    if count(Point::Bind) == 0 {
        let problem = Problem::new(path.key("bind"), "found no plugin that binds", "at least one");
        report.error(problem.hint("enable DefaultBinder under bind or under multiPoint".to_owned()));
    }
    let placement_generate = count(Point::PlacementGenerate);
    if placement_generate > 1 {
        let found = format!("found {placement_generate} plugins that propose placements");
        report.error(Problem::new(path.key("placementGenerate"), found, "at most one"));
    }
}

/// All profiles share one queue, so they need the same queue order.
pub(super) fn check_common_queue_sort(report: &mut Report<'_>, profiles: &[wire::Block<wire::Profile>], root: &Path) {
    let Some((wire::Block(first), others)) = profiles.split_first() else { return };
    let (enabled, disabled) = queue_sort(first);
    if enabled.len() > 1 {
        let at = root.index(0).key("plugins").key("queueSort").key("enabled");
        report.error(Problem::value(at, format!("{} plugins", enabled.len()), "at most one plugin to order the queue"));
    }
    // Null equals unset, and it does not matter whether the plugin reads its arguments.
    let args = |profile: &wire::Profile| {
        let mut configs = profile.plugin_config.iter().flatten();
        let config = configs.find(|config| config.0.name.as_deref() == Some("PrioritySort"))?;
        config.0.args.clone().filter(|args| !args.is_null())
    };
    for (number, wire::Block(profile)) in others.iter().enumerate() {
        let path = root.index(number + 1);
        let same = "the same as in the first profile: all profiles share one queue";
        if queue_sort(profile) != (enabled.clone(), disabled.clone()) {
            let at = path.key("plugins").key("queueSort");
            report.error(Problem::new(at, "found another way to order the queue", same));
        }
        if args(profile) != args(first) {
            let at = path.key("pluginConfig");
            report.error(Problem::new(at, "found other arguments for the plugin that orders the queue", same));
        }
    }
}

/// The explicit queueSort set, normalized as Go compares it: unset equals empty.
fn queue_sort(profile: &wire::Profile) -> (Vec<(String, i32)>, Vec<String>) {
    let set = profile.plugins.as_ref().and_then(|plugins| plugins.0.queue_sort.as_ref());
    let Some(wire::Block(set)) = set else { return Default::default() };
    let name = |entry: &wire::Block<wire::Plugin>| entry.0.name.clone().unwrap_or_default();
    let enabled = set.enabled.iter().flatten().map(|entry| (name(entry), entry.0.weight.unwrap_or(0)));
    (enabled.collect(), set.disabled.iter().flatten().map(name).collect())
}
