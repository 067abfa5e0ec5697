//! `PodTopologySpreadArgs`: default constraints of pods.
//!
//! Source: `ValidatePodTopologySpreadArgs` in `pkg/scheduler/apis/config/validation/validation_pluginargs.go`.

use std::collections::BTreeSet;

use flotilla_framework::profile::{PodTopologySpreadArgs, PodTopologySpreadDefaulting};
use k8s_openapi::api::core::v1::TopologySpreadConstraint;

use super::super::labels;
use super::super::path::Path;
use super::super::report::{Problem, Report, either, near_miss, quoted};
use super::super::wire::{self, Block};

pub(super) fn pod_topology_spread(
    report: &mut Report<'_>,
    args: wire::PodTopologySpreadArgs,
    path: &Path,
) -> PodTopologySpreadArgs {
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
    let mut default_constraints = Vec::with_capacity(constraints.len());
    for (number, Block(written)) in constraints.into_iter().enumerate() {
        spread_constraint(report, &written, &path.index(number));
        let constraint = convert(written);
        if !seen.insert((constraint.topology_key.clone(), constraint.when_unsatisfiable.clone())) {
            let (key, action) = (quoted(&constraint.topology_key), quoted(&constraint.when_unsatisfiable));
            let found = format!("a second constraint for {key} with {action}");
            report.error(Problem::value(path.index(number), found, "every topologyKey once per whenUnsatisfiable"));
        }
        default_constraints.push(constraint);
    }
    let defaulting_type = if defaulting == "List" { PodTopologySpreadDefaulting::List } else { Default::default() };
    PodTopologySpreadArgs { default_constraints, defaulting_type }
}

fn convert(written: wire::SpreadConstraint) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        label_selector: None,
        match_label_keys: written.match_label_keys.filter(|keys| !keys.is_empty()),
        max_skew: written.max_skew.unwrap_or(0),
        min_domains: written.min_domains,
        node_affinity_policy: written.node_affinity_policy,
        node_taints_policy: written.node_taints_policy,
        topology_key: written.topology_key.unwrap_or_default(),
        when_unsatisfiable: written.when_unsatisfiable.unwrap_or_default(),
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
