//! The `addedAffinity` of a profile.
//!
//! Source: `k8s.io/component-helpers/scheduling/corev1/nodeaffinity` and `labels.NewRequirement`.

use k8s_openapi::api::core::v1;

use super::labels;
use super::path::Path;
use super::report::{Problem, Report, either, near_miss, quoted};
use super::wire::{Block, NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm};

const LABEL_OPERATORS: [&str; 6] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
const FIELD_OPERATORS: [&str; 2] = ["In", "NotIn"];

/// Reports every term that does not parse and converts the affinity to core/v1.
///
/// Skips terms without requirements and preferences of weight 0: they have no effect.
pub(super) fn node_affinity(report: &mut Report<'_>, affinity: NodeAffinity, path: &Path) -> v1::NodeAffinity {
    let required = affinity.required.map(|Block(selector)| {
        let path = path.key("requiredDuringSchedulingIgnoredDuringExecution").key("nodeSelectorTerms");
        let terms = selector.node_selector_terms.unwrap_or_default().into_iter().enumerate();
        let node_selector_terms =
            terms.map(|(number, Block(written))| term(report, written, true, &path.index(number))).collect();
        v1::NodeSelector { node_selector_terms }
    });
    let preferred = affinity.preferred.map(|terms| {
        let path = path.key("preferredDuringSchedulingIgnoredDuringExecution");
        let terms = terms.into_iter().enumerate();
        let convert = |(number, Block(written)): (usize, Block<super::wire::PreferredSchedulingTerm>)| {
            let weight = written.weight.unwrap_or(0);
            let Block(preference) = written.preference.unwrap_or_default();
            let preference = term(report, preference, weight != 0, &path.index(number).key("preference"));
            v1::PreferredSchedulingTerm { preference, weight }
        };
        terms.map(convert).collect::<Vec<_>>()
    });
    v1::NodeAffinity {
        preferred_during_scheduling_ignored_during_execution: preferred.and_then(filled),
        required_during_scheduling_ignored_during_execution: required,
    }
}

fn term(report: &mut Report<'_>, term: NodeSelectorTerm, checked: bool, path: &Path) -> v1::NodeSelectorTerm {
    type Check = fn(&mut Report<'_>, &NodeSelectorRequirement, &Path);
    let mut requirements = |list: Option<Vec<Block<NodeSelectorRequirement>>>, check: Check, path: Path| {
        let convert = |(number, Block(requirement)): (usize, Block<NodeSelectorRequirement>)| {
            if checked {
                check(report, &requirement, &path.index(number));
            }
            v1::NodeSelectorRequirement {
                key: requirement.key.unwrap_or_default(),
                operator: requirement.operator.unwrap_or_default(),
                values: requirement.values.and_then(filled),
            }
        };
        list.and_then(|list| filled(list.into_iter().enumerate().map(convert).collect()))
    };
    v1::NodeSelectorTerm {
        match_expressions: requirements(term.match_expressions, check_label, path.key("matchExpressions")),
        match_fields: requirements(term.match_fields, check_field, path.key("matchFields")),
    }
}

/// Go does not distinguish an empty list from none.
fn filled<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

fn check_operator(report: &mut Report<'_>, operator: &str, known: &[&str], path: &Path) -> bool {
    if known.contains(&operator) {
        return true;
    }
    let expected = either(known.iter().copied());
    let path = path.key("operator");
    let hint = near_miss(operator, known.iter().copied());
    report.error(match operator {
        "" => Problem::missing(path, expected),
        _ => Problem::value(path, quoted(operator), expected).hint(hint),
    });
    false
}

fn check_label(report: &mut Report<'_>, requirement: &NodeSelectorRequirement, path: &Path) {
    let operator = requirement.operator.as_deref().unwrap_or_default();
    if !check_operator(report, operator, &LABEL_OPERATORS, path) {
        return;
    }
    let key = requirement.key.as_deref().unwrap_or_default();
    if !labels::is_name(key) {
        report.error(Problem::value(path.key("key"), quoted(key), labels::NAME));
    }
    let values = requirement.values.as_deref().unwrap_or_default();
    let at = path.key("values");
    let found = count(values.len());
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            report.error(Problem::value(at.clone(), found, format!("at least one value for {operator}")));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            report.error(Problem::value(at.clone(), found, format!("no values for {operator}")));
        }
        "Gt" | "Lt" if values.len() != 1 => {
            report.error(Problem::value(at.clone(), found, format!("exactly one value for {operator}")));
        }
        _ => {}
    }
    for (number, value) in values.iter().enumerate() {
        if matches!(operator, "Gt" | "Lt") && value.parse::<i64>().is_err() {
            let expected = format!("an integer for {operator}");
            report.error(Problem::value(at.index(number), quoted(value), expected));
        } else if !labels::is_value(value) {
            report.error(Problem::value(at.index(number), quoted(value), labels::VALUE));
        }
    }
}

fn check_field(report: &mut Report<'_>, requirement: &NodeSelectorRequirement, path: &Path) {
    let operator = requirement.operator.as_deref().unwrap_or_default();
    if !check_operator(report, operator, &FIELD_OPERATORS, path) {
        return;
    }
    let number = requirement.values.as_ref().map_or(0, Vec::len);
    if number != 1 {
        report.error(Problem::value(path.key("values"), count(number), "exactly one value for a field"));
    }
}

fn count(values: usize) -> String {
    match values {
        0 => "no values".to_owned(),
        1 => "1 value".to_owned(),
        _ => format!("{values} values"),
    }
}
