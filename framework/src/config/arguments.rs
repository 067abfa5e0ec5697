//! The arguments of plugins: `profiles[].pluginConfig[]`.
//!
//! Knows: which plugins take arguments, their defaults and their rules, also of plugins that are not built yet. Must
//! not know: what a plugin does with them.
//!
//! Source: `SetDefaults_*Args` in `pkg/scheduler/apis/config/v1/defaults.go` and
//! `pkg/scheduler/apis/config/validation/validation_pluginargs.go`, with the feature gates as they are by default.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::catalogue::{self, PLUGINS, REMOVED};
use super::decode::decode;
use super::path::Path;
use super::report::{Problem, Report, either, near_miss, quoted};
use super::wire::{self, Block};
use super::{API_VERSION, affinity, labels};
use crate::profile::{
    Args, NodeAffinityArgs, NodeResourcesBalancedAllocationArgs, NodeResourcesFitArgs, ResourceWeight, ScoringStrategy,
    ScoringStrategyKind, ShapePoint, default_resources,
};

/// The plugins that take arguments.
const CONFIGURABLE: [&str; 8] = [
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

/// Reads the arguments of a profile's plugins, which stand at `path`, and fills in what is not set.
pub(super) fn read(report: &mut Report<'_>, configs: Vec<Block<wire::PluginConfig>>, path: &Path) -> Args {
    let mut args = Args::default();
    let mut first: BTreeMap<String, usize> = BTreeMap::new();
    for (number, Block(config)) in configs.into_iter().enumerate() {
        let entry = path.index(number);
        let at = entry.key("name");
        let name = config.name.unwrap_or_default();
        if name.is_empty() {
            report.error(Problem::missing(at, "the name of a plugin"));
            continue;
        }
        if let Some(earlier) = first.get(&name) {
            let found = format!("{} a second time", quoted(&name));
            let hint = format!("it is first configured at {}", path.index(*earlier));
            report.error(Problem::value(at, found, "every plugin once").hint(hint));
            continue;
        }
        first.insert(name.clone(), number);
        if REMOVED.contains(&name.as_str()) {
            let found = format!("{}, which kube-scheduler no longer has", quoted(&name));
            let hint = "remove this entry: NodeVolumeLimits took its place".to_owned();
            report.error(Problem::value(at, found, "the name of a plugin").hint(hint));
            continue;
        }
        if !CONFIGURABLE.contains(&name.as_str()) {
            warn_of_ignored(report, &name, &at);
            continue;
        }
        let value = config.args.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        read_one(report, &name, value, &entry.key("args"), &mut args);
    }
    args
}

/// kube-scheduler hands such arguments to a plugin that does not look at them, or to no plugin at all.
fn warn_of_ignored(report: &mut Report<'_>, name: &str, path: &Path) {
    if catalogue::find(name).is_some() {
        report.warning(path, format!("the plugin {} takes no arguments, so these are ignored", quoted(name)));
        return;
    }
    let hint = near_miss(name, PLUGINS.iter().map(|plugin| plugin.name)).unwrap_or_default();
    let text = format!("kube-scheduler has no plugin {}, so these arguments are ignored; {hint}", quoted(name));
    report.warning(path, text.trim_end_matches([';', ' ']));
}

fn read_one(report: &mut Report<'_>, name: &str, value: Value, path: &Path, args: &mut Args) {
    /// Decodes the arguments of one kind, checks what they say they are, and runs what follows on them.
    macro_rules! of_kind {
        ($kind:ty, $then:expr) => {
            if let Some(Block(read)) = decode::<Block<$kind>>(report, value, path) {
                check_kind(report, name, read.api_version.as_deref(), read.kind.as_deref(), path);
                $then(report, read, path)
            }
        };
    }
    match name {
        "DefaultPreemption" => of_kind!(wire::DefaultPreemptionArgs, default_preemption),
        "DynamicResources" => of_kind!(wire::DynamicResourcesArgs, dynamic_resources),
        "InterPodAffinity" => of_kind!(wire::InterPodAffinityArgs, inter_pod_affinity),
        "PodTopologySpread" => of_kind!(wire::PodTopologySpreadArgs, pod_topology_spread),
        "VolumeBinding" => of_kind!(wire::VolumeBindingArgs, volume_binding),
        "NodeAffinity" => of_kind!(wire::NodeAffinityArgs, |report, read: wire::NodeAffinityArgs, path: &Path| {
            let path = path.key("addedAffinity");
            let added = read.added_affinity.map(|Block(added)| affinity::node_affinity(report, added, &path));
            args.node_affinity = NodeAffinityArgs { added_affinity: added };
        }),
        "NodeResourcesBalancedAllocation" => {
            of_kind!(wire::NodeResourcesBalancedAllocationArgs, |report, read, path| {
                args.node_resources_balanced_allocation = balanced_allocation(report, read, path);
            });
        }
        "NodeResourcesFit" => of_kind!(wire::NodeResourcesFitArgs, |report, read, path| {
            args.node_resources_fit = node_resources_fit(report, read, path);
        }),
        _ => {}
    }
}

/// Arguments may say what they are, but only the truth.
fn check_kind(report: &mut Report<'_>, plugin: &str, api_version: Option<&str>, kind: Option<&str>, path: &Path) {
    if let Some(found) = api_version.filter(|found| !found.is_empty() && *found != API_VERSION) {
        report.error(Problem::value(path.key("apiVersion"), quoted(found), API_VERSION));
    }
    let expected = format!("{plugin}Args");
    if let Some(found) = kind.filter(|found| !found.is_empty() && *found != expected) {
        report.error(Problem::value(path.key("kind"), quoted(found), expected));
    }
}

fn default_preemption(report: &mut Report<'_>, args: wire::DefaultPreemptionArgs, path: &Path) {
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
}

fn dynamic_resources(report: &mut Report<'_>, args: wire::DynamicResourcesArgs, path: &Path) {
    if args.filter_timeout.is_some_and(|timeout| timeout.0 < 0) {
        report.error(Problem::new(path.key("filterTimeout"), "found a negative duration", "0 or more"));
    }
    if args.binding_timeout.is_some_and(|timeout| timeout.0 < NANOSECONDS_PER_SECOND) {
        let problem = Problem::new(path.key("bindingTimeout"), "found less than a second", "at least 1s");
        report.error(problem);
    }
}

fn inter_pod_affinity(report: &mut Report<'_>, args: wire::InterPodAffinityArgs, path: &Path) {
    if let Some(weight) = args.hard_pod_affinity_weight.filter(|weight| !(0..=100).contains(weight)) {
        report.error(Problem::value(path.key("hardPodAffinityWeight"), weight, "a weight from 0 to 100"));
    }
}

fn volume_binding(report: &mut Report<'_>, args: wire::VolumeBindingArgs, path: &Path) {
    if let Some(seconds) = args.bind_timeout_seconds.filter(|seconds| *seconds < 0) {
        report.error(Problem::value(path.key("bindTimeoutSeconds"), seconds, "0 or more seconds"));
    }
    // An empty shape is replaced by the default one before it is looked at.
    if let Some(points) = args.shape.filter(|points| !points.is_empty()) {
        shape(report, points, &path.key("shape"));
    }
}

fn pod_topology_spread(report: &mut Report<'_>, args: wire::PodTopologySpreadArgs, path: &Path) {
    const TYPES: [&str; 2] = ["System", "List"];
    let constraints = args.default_constraints.unwrap_or_default();
    let defaulting = args.defaulting_type.as_deref().filter(|written| !written.is_empty()).unwrap_or("System");
    let is_written = args.defaulting_type.is_some();
    let at = path.key("defaultingType");
    if !TYPES.contains(&defaulting) {
        report.error(Problem::value(at, quoted(defaulting), either(TYPES)).hint(near_miss(defaulting, TYPES)));
    } else if defaulting == "System" && !constraints.is_empty() {
        let at = if is_written { at } else { path.key("defaultConstraints") };
        let found = "constraints with a defaultingType of System";
        report.error(Problem::value(at, found, "constraints with a defaultingType of List"));
    }
    let path = path.key("defaultConstraints");
    let mut seen = BTreeSet::new();
    for (number, Block(constraint)) in constraints.into_iter().enumerate() {
        spread_constraint(report, &constraint, &path.index(number));
        let key = constraint.topology_key.unwrap_or_default();
        let action = constraint.when_unsatisfiable.unwrap_or_default();
        if !seen.insert((key.clone(), action.clone())) {
            let found = format!("a second constraint for {} with {}", quoted(&key), quoted(&action));
            report.error(Problem::value(path.index(number), found, "every topologyKey once per whenUnsatisfiable"));
        }
    }
}

fn spread_constraint(report: &mut Report<'_>, constraint: &wire::SpreadConstraint, path: &Path) {
    const ACTIONS: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];
    let max_skew = constraint.max_skew.unwrap_or(0);
    if max_skew <= 0 {
        report.error(Problem::value(path.key("maxSkew"), max_skew, "an integer greater than 0"));
    }
    match constraint.topology_key.as_deref().unwrap_or_default() {
        "" => report.error(Problem::missing(path.key("topologyKey"), "the name of a node label")),
        key if !labels::is_name(key) => {
            report.error(Problem::value(path.key("topologyKey"), quoted(key), labels::NAME));
        }
        _ => {}
    }
    let at = path.key("whenUnsatisfiable");
    match constraint.when_unsatisfiable.as_deref().unwrap_or_default() {
        "" => report.error(Problem::missing(at, either(ACTIONS))),
        action if !ACTIONS.contains(&action) => {
            report.error(Problem::value(at, quoted(action), either(ACTIONS)).hint(near_miss(action, ACTIONS)));
        }
        _ => {}
    }
    if constraint.label_selector.is_some() {
        let expected = "none: it is derived for each pod from the services and controllers that select it";
        report.error(Problem::value(path.key("labelSelector"), "a selector", expected));
    }
}

fn balanced_allocation(
    report: &mut Report<'_>,
    args: wire::NodeResourcesBalancedAllocationArgs,
    path: &Path,
) -> NodeResourcesBalancedAllocationArgs {
    let path = path.key("resources");
    let resources = resources(report, args.resources, &path);
    let mut seen = BTreeSet::new();
    for (number, resource) in resources.iter().enumerate() {
        if !resource.name.is_empty() && !seen.insert(&resource.name) {
            let found = format!("{} a second time", quoted(&resource.name));
            report.error(Problem::value(path.index(number).key("name"), found, "every resource once"));
        }
        if resource.weight != 1 {
            report.error(Problem::value(path.index(number).key("weight"), resource.weight, "1"));
        }
    }
    NodeResourcesBalancedAllocationArgs { resources }
}

/// `cpu` and `memory` where nothing is listed, and a weight of 1 where none is set.
fn resources(report: &mut Report<'_>, list: Option<Vec<Block<wire::Resource>>>, path: &Path) -> Vec<ResourceWeight> {
    let Some(list) = list.filter(|list| !list.is_empty()) else { return default_resources() };
    let mut resources = Vec::with_capacity(list.len());
    for (number, Block(resource)) in list.into_iter().enumerate() {
        let name = resource.name.unwrap_or_default();
        if name.is_empty() {
            report.error(Problem::missing(path.index(number).key("name"), "the name of a resource"));
        }
        let weight = resource.weight.filter(|weight| *weight != 0).unwrap_or(1);
        resources.push(ResourceWeight { name, weight });
    }
    resources
}

fn node_resources_fit(report: &mut Report<'_>, args: wire::NodeResourcesFitArgs, path: &Path) -> NodeResourcesFitArgs {
    let ignored_resources = args.ignored_resources.unwrap_or_default();
    let ignored_resource_groups = args.ignored_resource_groups.unwrap_or_default();
    for (number, name) in ignored_resources.iter().enumerate() {
        if !labels::is_name(name) {
            let at = path.key("ignoredResources").index(number);
            report.error(Problem::value(at, quoted(name), labels::NAME));
        }
    }
    for (number, group) in ignored_resource_groups.iter().enumerate() {
        let at = path.key("ignoredResourceGroups").index(number);
        if group.contains('/') {
            let hint = "write only what stands before the '/'".to_owned();
            report.error(Problem::value(at, quoted(group), "a group without a '/'").hint(hint));
        } else if !labels::is_name(group) {
            report.error(Problem::value(at, quoted(group), labels::NAME));
        }
    }
    let path = path.key("scoringStrategy");
    let scoring_strategy =
        args.scoring_strategy.map(|Block(strategy)| scoring_strategy(report, strategy, &path)).unwrap_or_default();
    NodeResourcesFitArgs { ignored_resources, ignored_resource_groups, scoring_strategy }
}

fn scoring_strategy(report: &mut Report<'_>, strategy: wire::ScoringStrategy, path: &Path) -> ScoringStrategy {
    const TYPES: [&str; 3] = ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"];
    let written = strategy.kind.unwrap_or_default();
    let kind = match written.as_str() {
        "LeastAllocated" => Some(ScoringStrategyKind::LeastAllocated),
        "MostAllocated" => Some(ScoringStrategyKind::MostAllocated),
        "RequestedToCapacityRatio" => Some(ScoringStrategyKind::RequestedToCapacityRatio),
        _ => None,
    };
    if kind.is_none() {
        let at = path.key("type");
        report.error(match written.as_str() {
            "" => Problem::missing(at, either(TYPES)),
            _ => Problem::value(at, quoted(&written), either(TYPES)).hint(near_miss(&written, TYPES)),
        });
    }
    let resources = resources(report, strategy.resources, &path.key("resources"));
    for (number, resource) in resources.iter().enumerate() {
        if !(1..=100).contains(&resource.weight) {
            let at = path.key("resources").index(number).key("weight");
            report.error(Problem::value(at, resource.weight, "a weight from 1 to 100"));
        }
    }
    let ratio_path = path.key("requestedToCapacityRatio");
    let points = match (kind, strategy.requested_to_capacity_ratio) {
        (Some(ScoringStrategyKind::RequestedToCapacityRatio), Some(Block(ratio))) => {
            shape(report, ratio.shape.unwrap_or_default(), &ratio_path.key("shape"))
        }
        (Some(ScoringStrategyKind::RequestedToCapacityRatio), None) => {
            report.error(Problem::missing(ratio_path, "a shape, because type is RequestedToCapacityRatio"));
            Vec::new()
        }
        (Some(_), Some(_)) => {
            let hint = "set type to RequestedToCapacityRatio to use it".to_owned();
            report.error(Problem::value(ratio_path, "a shape", format!("none, because type is {written}")).hint(hint));
            Vec::new()
        }
        (None, _) | (_, None) => Vec::new(),
    };
    ScoringStrategy { kind: kind.unwrap_or(ScoringStrategyKind::LeastAllocated), resources, shape: points }
}

/// At least one point, utilization strictly increasing from 0 to 100, scores from 0 to 10.
fn shape(report: &mut Report<'_>, points: Vec<Block<wire::ShapePoint>>, path: &Path) -> Vec<ShapePoint> {
    let convert = |Block(point): Block<wire::ShapePoint>| ShapePoint {
        utilization: point.utilization.unwrap_or(0),
        score: point.score.unwrap_or(0),
    };
    let points: Vec<ShapePoint> = points.into_iter().map(convert).collect();
    if points.is_empty() {
        report.error(Problem::missing(path.clone(), "at least one point"));
    }
    // One point out of order puts many others out of order too: the first is where to look.
    let disorder = points.windows(2).position(|pair| matches!(pair, [a, b] if a.utilization >= b.utilization));
    if let Some((number, point)) = disorder.and_then(|before| Some((before + 1, points.get(before + 1)?))) {
        let at = path.index(number).key("utilization");
        report.error(Problem::value(at, point.utilization, "more than in the point before"));
    }
    for (number, point) in points.iter().enumerate() {
        if !(0..=100).contains(&point.utilization) {
            let at = path.index(number).key("utilization");
            report.error(Problem::value(at, point.utilization, "a utilization from 0 to 100"));
        }
        if !(0..=10).contains(&point.score) {
            report.error(Problem::value(path.index(number).key("score"), point.score, "a score from 0 to 10"));
        }
    }
    points
}
