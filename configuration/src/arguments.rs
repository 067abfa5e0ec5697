//! Arguments of plugins: `profiles[].pluginConfig[]`.
//!
//! Source: `SetDefaults_*Args` in `pkg/scheduler/apis/config/v1/defaults.go` and
//! `pkg/scheduler/apis/config/validation/validation_pluginargs.go`.

mod gang_scheduling;
mod own;
mod resources;
mod spread;

use std::collections::BTreeMap;

use flotilla_framework::modules::Source;
use flotilla_framework::pod_group;
use flotilla_framework::profile::duration::GoDuration;
use flotilla_framework::profile::{
    Args, DefaultPreemptionArgs, DynamicResourcesArgs, InterPodAffinityArgs, NodeAffinityArgs, VolumeBindingArgs,
};
use flotilla_framework::registry::Registry;
use serde_json::Value;

use super::affinity;
use super::catalogue::{self, REMOVED};
use super::decode::decode;
use super::header::API_VERSION;
use super::path::Path;
use super::plugin_sets::PluginSets;
use super::report::{Problem, Report, quoted};
use super::wire::{self, Block};
use crate::features::FeatureGates;

pub(super) const CONFIGURABLE: [&str; 8] = [
    "DefaultPreemption",
    "DynamicResources",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "PodTopologySpread",
    "VolumeBinding",
];

const NANOSECONDS_PER_SECOND: i64 = 1_000_000_000;

const FILTER_TIMEOUT_GATE: &str = "DRASchedulerFilterTimeout";
const BINDING_TIMEOUT_GATES: [&str; 2] = ["DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"];
const SHAPE_GATE: &str = "StorageCapacityScoring";
const LIMIT_GATE: &str = "VolumeLimitScaling";

#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub(super) args: Args,
    /// Unchanged arguments of unknown plugins and of kube-scheduler's plugins that take none.
    pub(super) other: BTreeMap<String, Value>,
}

pub(super) struct Context<'a> {
    pub(super) sets: &'a PluginSets,
    pub(super) gates: &'a FeatureGates,
    pub(super) registry: Registry,
    /// Resources that extenders exclude from NodeResourcesFit. They replace the configured list unless empty.
    pub(super) ignored_resources: &'a [String],
}

fn defaults(gates: &FeatureGates) -> Args {
    let mut args = Args::default();
    if !gates.enabled(FILTER_TIMEOUT_GATE) {
        args.dynamic_resources.filter_timeout = None;
    }
    if !BINDING_TIMEOUT_GATES.iter().all(|gate| gates.enabled(gate)) {
        args.dynamic_resources.binding_timeout = None;
    }
    if !gates.enabled(SHAPE_GATE) {
        args.volume_binding.shape = Vec::new();
    }
    args.takes_missing_drivers = !gates.enabled(LIMIT_GATE);
    args
}

pub(super) fn read(
    report: &mut Report<'_>,
    configs: Vec<Block<wire::PluginConfig>>,
    context: &Context<'_>,
    path: &Path,
) -> Arguments {
    let mut read = Arguments { args: defaults(context.gates), other: BTreeMap::new() };
    let mut first: BTreeMap<String, usize> = BTreeMap::new();
    for (number, Block(config)) in configs.into_iter().enumerate() {
        let entry = path.index(number);
        let at = entry.key("name");
        let name = config.name.unwrap_or_default();
        if let Some(earlier) = first.get(&name) {
            let found = format!("{} a second time", quoted(&name));
            let hint = format!("it is first configured at {}", path.index(*earlier));
            report.error(Problem::value(at, found, "every plugin once").hint(hint));
            continue;
        }
        first.insert(name.clone(), number);
        if name.is_empty() {
            nameless(report, config.args.as_ref(), &entry);
            continue;
        }
        if REMOVED.contains(&name.as_str()) {
            let found = format!("{}, which kube-scheduler no longer has", quoted(&name));
            report.error(Problem::value(at, found, "the name of a plugin").hint(catalogue::advice(&name)));
            continue;
        }
        if name == "NodeResourcesFitArgs" {
            let found = format!("{}, which is the kind of the arguments", quoted(&name));
            let hint = "write NodeResourcesFit".to_owned();
            report.error(Problem::value(at, found, "the name of a plugin").hint(hint));
            continue;
        }
        let written = config.args.filter(|args| !args.is_null());
        if CONFIGURABLE.contains(&name.as_str()) {
            let value = written.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
            read_one(report, &name, value, &entry.key("args"), context, &mut read.args);
            continue;
        }
        if name == pod_group::PLUGIN {
            if let Some(written) = written {
                read.args.gang_scheduling = gang_scheduling::read(report, written.clone(), context, &entry.key("args"));
                read.other.insert(name, written);
            }
            continue;
        }
        if own::is_own(&name, context.registry) {
            read.args.own.extend(written.map(|args| (name, args)));
            continue;
        }
        if let Some(source) = written.as_ref().filter(|_| catalogue::find(&name).is_none()).and_then(Source::of) {
            report.error(own::missing(context.registry, &source, &entry.key("args")));
            continue;
        }
        warn_of_ignored(report, &name, &at);
        read.other.extend(written.map(|args| (name, args)));
    }
    check_defaults(report, &first, context, path);
    own::check(report, &mut read.args.own, &first, context, path);
    if !context.ignored_resources.is_empty() {
        read.args.node_resources_fit.ignored_resources = context.ignored_resources.to_vec();
    }
    read
}

/// Reports plugins that kube-scheduler builds without the arguments that they require.
fn check_defaults(report: &mut Report<'_>, written: &BTreeMap<String, usize>, context: &Context<'_>, path: &Path) {
    let gets = |name: &str| written.contains_key(name) || context.sets.gives_defaults(name);
    for name in CONFIGURABLE.into_iter().filter(|name| context.sets.builds(name) && !gets(name)) {
        let found = format!("found no arguments for {}", quoted(name));
        let hint = "kube-scheduler fills in the default ones only for a plugin that is enabled at some extension point \
                    besides podGroupPostFilter";
        report.error(Problem::new(path.clone(), found, format!("an entry `name: {name}`")).hint(hint.to_owned()));
    }
    if !context.ignored_resources.is_empty() && !gets("NodeResourcesFit") {
        let found = "found no arguments for NodeResourcesFit, which an extender's ignoredByScheduler changes";
        let expected = "the plugin NodeResourcesFit, or an entry `name: NodeResourcesFit` here";
        report.error(Problem::new(path.clone(), found, expected));
    }
}

/// kube-scheduler accepts an entry without a name and ignores its arguments.
fn nameless(report: &mut Report<'_>, args: Option<&Value>, entry: &Path) {
    let inner = args.and_then(|args| args.get("name")).and_then(Value::as_str);
    match inner {
        Some(name) => {
            let text = format!(
                "`name` is one level too deep, so these arguments are ignored; write `name: {name}` next to args"
            );
            report.warning(&entry.key("args").key("name"), text);
        }
        None => report.warning(entry, "this entry has no name, so its arguments are ignored; add the name of a plugin"),
    }
}

/// kube-scheduler ignores such arguments: the plugin does not read them, or does not exist.
fn warn_of_ignored(report: &mut Report<'_>, name: &str, path: &Path) {
    if catalogue::find(name).is_some() {
        report.warning(path, format!("the plugin {} takes no arguments, so these are ignored", quoted(name)));
        return;
    }
    let hint = catalogue::advice(name).unwrap_or_default();
    let text = format!("kube-scheduler has no plugin {}, so these arguments are ignored; {hint}", quoted(name));
    report.warning(path, text.trim_end_matches([';', ' ']));
}

fn read_one(report: &mut Report<'_>, name: &str, value: Value, path: &Path, context: &Context<'_>, args: &mut Args) {
    /// Decodes the arguments of one kind, checks their `apiVersion` and `kind`, and runs `$then` on them.
    macro_rules! of_kind {
        ($kind:ty, $then:expr) => {
            if let Some(Block(read)) = decode::<Block<$kind>>(report, value, path) {
                check_kind(report, name, read.api_version.as_deref(), read.kind.as_deref(), path);
                $then(report, read, path)
            }
        };
    }
    match name {
        "DefaultPreemption" => of_kind!(wire::DefaultPreemptionArgs, |report, read, path| {
            args.default_preemption = default_preemption(report, &read, path);
        }),
        "DynamicResources" => of_kind!(wire::DynamicResourcesArgs, |report, read, path| {
            dynamic_resources(report, &read, context.gates, path, &mut args.dynamic_resources);
        }),
        "InterPodAffinity" => of_kind!(wire::InterPodAffinityArgs, |report, read, path| {
            args.inter_pod_affinity = inter_pod_affinity(report, &read, path);
        }),
        "PodTopologySpread" => of_kind!(wire::PodTopologySpreadArgs, |report, read, path| {
            args.pod_topology_spread = spread::pod_topology_spread(report, read, path);
        }),
        "VolumeBinding" => of_kind!(wire::VolumeBindingArgs, |report, read, path| {
            volume_binding(report, read, context.gates, path, &mut args.volume_binding);
        }),
        "NodeAffinity" => of_kind!(wire::NodeAffinityArgs, |report, read: wire::NodeAffinityArgs, path: &Path| {
            let path = path.key("addedAffinity");
            let added = read.added_affinity.map(|Block(added)| affinity::node_affinity(report, added, &path));
            args.node_affinity = NodeAffinityArgs { added_affinity: added };
        }),
        "NodeResourcesBalancedAllocation" => {
            of_kind!(wire::NodeResourcesBalancedAllocationArgs, |report, read, path| {
                args.node_resources_balanced_allocation = resources::balanced_allocation(report, read, path);
            });
        }
        "NodeResourcesFit" => {
            of_kind!(wire::NodeResourcesFitArgs, |report: &mut Report<'_>,
                                                  mut read: wire::NodeResourcesFitArgs,
                                                  path| {
                if !context.ignored_resources.is_empty() {
                    read.ignored_resources = None;
                }
                let errors_before = report.error_count();
                args.node_resources_fit = resources::node_resources_fit(report, read, path);
                // Only the plugin itself validates these arguments, when it is built.
                if !context.sets.builds(name) {
                    report.excuse(errors_before);
                }
            })
        }
        _ => {}
    }
}

fn check_kind(report: &mut Report<'_>, plugin: &str, api_version: Option<&str>, kind: Option<&str>, path: &Path) {
    if let Some(found) = api_version.filter(|found| !found.is_empty() && *found != API_VERSION) {
        report.error(Problem::value(path.key("apiVersion"), quoted(found), API_VERSION));
    }
    let expected = format!("{plugin}Args");
    if let Some(found) = kind.filter(|found| !found.is_empty() && *found != expected) {
        report.error(Problem::value(path.key("kind"), quoted(found), expected));
    }
}

fn default_preemption(
    report: &mut Report<'_>,
    args: &wire::DefaultPreemptionArgs,
    path: &Path,
) -> DefaultPreemptionArgs {
    let percentage = args.min_candidate_nodes_percentage.unwrap_or(10);
    let absolute = args.min_candidate_nodes_absolute.unwrap_or(100);
    let percentage_path = path.key("minCandidateNodesPercentage");
    let absolute_path = path.key("minCandidateNodesAbsolute");
    if !(0..=100).contains(&percentage) {
        report.error(Problem::value(percentage_path.clone(), percentage, "a percentage from 0 to 100"));
    }
    if absolute < 0 {
        report.error(Problem::value(absolute_path.clone(), absolute, "0 or more"));
    }
    if percentage == 0 && absolute == 0 {
        let expected = "more than 0 here or in minCandidateNodesAbsolute";
        report.error(Problem::value(percentage_path, percentage, expected));
        let expected = "more than 0 here or in minCandidateNodesPercentage";
        report.error(Problem::value(absolute_path, absolute, expected));
    }
    DefaultPreemptionArgs { min_candidate_nodes_percentage: percentage, min_candidate_nodes_absolute: absolute }
}

fn dynamic_resources(
    report: &mut Report<'_>,
    written: &wire::DynamicResourcesArgs,
    gates: &FeatureGates,
    path: &Path,
    args: &mut DynamicResourcesArgs,
) {
    let is_off = |gate: &&&str| !gates.enabled(gate);
    let turned_off = |report: &mut Report<'_>, key: &str, gate: &str| {
        let found = format!("a timeout while the feature gate {gate} is off");
        report.error(Problem::value(path.key(key), found, "none"));
    };
    if let Some(timeout) = written.filter_timeout {
        if is_off(&&FILTER_TIMEOUT_GATE) {
            turned_off(report, "filterTimeout", FILTER_TIMEOUT_GATE);
        } else if timeout.0 < 0 {
            report.error(Problem::new(path.key("filterTimeout"), "found a negative duration", "0 or more"));
        }
        args.filter_timeout = Some(GoDuration { nanoseconds: timeout.0 });
    }
    if let Some(timeout) = written.binding_timeout {
        if let Some(gate) = BINDING_TIMEOUT_GATES.iter().find(is_off) {
            turned_off(report, "bindingTimeout", gate);
        } else if timeout.0 < NANOSECONDS_PER_SECOND {
            let problem = Problem::new(path.key("bindingTimeout"), "found less than a second", "at least 1s");
            report.error(problem);
        }
        args.binding_timeout = Some(GoDuration { nanoseconds: timeout.0 });
    }
}

fn inter_pod_affinity(report: &mut Report<'_>, args: &wire::InterPodAffinityArgs, path: &Path) -> InterPodAffinityArgs {
    let weight = args.hard_pod_affinity_weight.unwrap_or(1);
    if !(0..=100).contains(&weight) {
        report.error(Problem::value(path.key("hardPodAffinityWeight"), weight, "a weight from 0 to 100"));
    }
    InterPodAffinityArgs {
        hard_pod_affinity_weight: weight,
        ignore_preferred_terms_of_existing_pods: args.ignore_preferred_terms_of_existing_pods.unwrap_or(false),
    }
}

fn volume_binding(
    report: &mut Report<'_>,
    written: wire::VolumeBindingArgs,
    gates: &FeatureGates,
    path: &Path,
    args: &mut VolumeBindingArgs,
) {
    if let Some(seconds) = written.bind_timeout_seconds {
        if seconds < 0 {
            report.error(Problem::value(path.key("bindTimeoutSeconds"), seconds, "0 or more seconds"));
        }
        args.bind_timeout_seconds = seconds;
    }
    match written.shape {
        Some(_) if !gates.enabled(SHAPE_GATE) => {
            let found = format!("a shape while the feature gate {SHAPE_GATE} is off");
            report.error(Problem::value(path.key("shape"), found, "none"));
        }
        // The default shape replaces an empty one before validation.
        Some(points) if !points.is_empty() => args.shape = resources::shape(report, points, &path.key("shape")),
        _ => {}
    }
}
