//! Arguments of plugins that evaluate resources, and shapes that map utilization to a score.
//!
//! Source: `ValidateNodeResourcesFitArgs`, `ValidateNodeResourcesBalancedAllocationArgs` and `validateFunctionShape` in
//! `pkg/scheduler/apis/config/validation/validation_pluginargs.go`.

use std::collections::BTreeSet;

use flotilla_framework::profile::{
    NodeResourcesBalancedAllocationArgs, NodeResourcesFitArgs, ResourceWeight, ScoringStrategy, ScoringStrategyKind,
    ShapePoint, default_resources,
};

use super::super::labels;
use super::super::path::Path;
use super::super::report::{Problem, Report, either, near_miss, quoted};
use super::super::wire::{self, Block};

pub(super) fn balanced_allocation(
    report: &mut Report<'_>,
    args: wire::NodeResourcesBalancedAllocationArgs,
    path: &Path,
) -> NodeResourcesBalancedAllocationArgs {
    let path = path.key("resources");
    let resources = resources(report, args.resources, &path);
    let mut seen = BTreeSet::new();
    for (number, resource) in resources.iter().enumerate() {
        if !seen.insert(&resource.name) {
            let found = format!("{} a second time", quoted(&resource.name));
            report.error(Problem::value(path.index(number).key("name"), found, "every resource once"));
        }
        if resource.weight != 1 {
            report.error(Problem::value(path.index(number).key("weight"), resource.weight, "1"));
        }
    }
    NodeResourcesBalancedAllocationArgs { resources }
}

/// Default: `cpu` and `memory`, each with weight 1.
fn resources(report: &mut Report<'_>, list: Option<Vec<Block<wire::Resource>>>, path: &Path) -> Vec<ResourceWeight> {
    let Some(list) = list.filter(|list| !list.is_empty()) else { return default_resources() };
    let mut resources = Vec::with_capacity(list.len());
    for (number, Block(resource)) in list.into_iter().enumerate() {
        let name = resource.name.unwrap_or_default();
        if name.is_empty() {
            report.warning(&path.index(number).key("name"), "a resource without a name is not a resource of any node");
        }
        let weight = resource.weight.filter(|weight| *weight != 0).unwrap_or(1);
        resources.push(ResourceWeight { name, weight });
    }
    resources
}

pub(super) fn node_resources_fit(
    report: &mut Report<'_>,
    args: wire::NodeResourcesFitArgs,
    path: &Path,
) -> NodeResourcesFitArgs {
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
            let hint = "write only the part before the '/'".to_owned();
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
pub(super) fn shape(report: &mut Report<'_>, points: Vec<Block<wire::ShapePoint>>, path: &Path) -> Vec<ShapePoint> {
    let convert = |Block(point): Block<wire::ShapePoint>| ShapePoint {
        utilization: point.utilization.unwrap_or(0),
        score: point.score.unwrap_or(0),
    };
    let points: Vec<ShapePoint> = points.into_iter().map(convert).collect();
    if points.is_empty() {
        report.error(Problem::missing(path.clone(), "at least one point"));
    }
    // One misplaced point disorders many others; only the first is reported.
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
