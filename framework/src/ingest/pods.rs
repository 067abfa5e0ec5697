//! Reads topology spread constraints, pod affinity and anti-affinity, and their selectors.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::core::v1 as api,
    apimachinery::pkg::apis::meta::v1::{LabelSelector as ApiSelector, ObjectMeta},
};

use super::{Features, fields::text};
use crate::{
    class::{AffinityTerm, Owner, OwnerKind, PodAffinity, SpreadConstraint},
    labels::{self, LabelRequirement, LabelSelector, Labels},
};

/// Reads a selector.
///
/// # Errors
/// The invalid part, in apimachinery's format.
pub fn label_selector(selector: Option<&ApiSelector>) -> Result<LabelSelector, String> {
    let Some(selector) = selector else { return Ok(LabelSelector::Nothing) };
    let equal = selector.match_labels.iter().flatten();
    let equal = equal.map(|(key, value)| LabelRequirement::read(key, "In", std::slice::from_ref(value)));
    let expressions = selector.match_expressions.iter().flatten().map(|expression| {
        let values = expression.values.as_deref().unwrap_or_default();
        LabelRequirement::read(&expression.key, &expression.operator, values)
    });
    Ok(LabelSelector::Matching(equal.chain(expressions).collect::<Result<_, _>>()?))
}

/// The selector of a label map; an empty map selects everything.
#[must_use]
pub fn label_map(map: &BTreeMap<String, String>) -> LabelSelector {
    LabelSelector::Matching(map.iter().map(|(key, value)| LabelRequirement::equal(&text(key), &text(value))).collect())
}

/// Reads a spread constraint of a pod with these labels, as a scheduler with these features. Source: `filterTopologySpreadConstraints` in
/// podtopologyspread/common.go.
#[must_use]
pub fn spread_constraint(
    pod: &Labels,
    constraint: &api::TopologySpreadConstraint,
    features: Features,
) -> SpreadConstraint {
    let selector = label_selector(constraint.label_selector.as_ref()).map(|selector| {
        let LabelSelector::Matching(mut requirements) = selector else { return selector };
        for key in constraint.match_label_keys.iter().filter(|_| features.match_label_keys).flatten() {
            if let Some(value) = labels::value(pod, key) {
                let equal = LabelRequirement::equal(&text(key), value);
                if !requirements.contains(&equal) {
                    requirements.push(equal);
                }
            }
        }
        LabelSelector::Matching(requirements)
    });
    SpreadConstraint {
        max_skew: constraint.max_skew,
        topology_key: text(&constraint.topology_key),
        required: constraint.when_unsatisfiable == "DoNotSchedule",
        selector: selector.map_err(Into::into),
        min_domains: constraint.min_domains.unwrap_or(1),
        honors_affinity: constraint.node_affinity_policy.as_deref().is_none_or(|policy| policy == "Honor"),
        honors_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
    }
}

pub(super) fn spread(pod: &Labels, spec: &api::PodSpec, features: Features) -> Vec<SpreadConstraint> {
    let constraints = spec.topology_spread_constraints.iter().flatten();
    constraints.map(|constraint| spread_constraint(pod, constraint, features)).collect()
}

pub(super) fn owner(metadata: &ObjectMeta, spec: &api::PodSpec) -> Option<Owner> {
    if spec.topology_spread_constraints.as_ref().is_some_and(|constraints| !constraints.is_empty()) {
        return None;
    }
    let mut owners = metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    let kind = match (owner.api_version.as_str(), owner.kind.as_str()) {
        ("v1", "ReplicationController") => OwnerKind::ReplicationController,
        ("apps/v1", "ReplicaSet") => OwnerKind::ReplicaSet,
        ("apps/v1", "StatefulSet") => OwnerKind::StatefulSet,
        _ => return None,
    };
    Some(Owner { kind, name: text(&owner.name) })
}

/// Source: `framework.NewPodInfo`.
pub(super) fn affinity(namespace: &str, spec: &api::PodSpec) -> PodAffinity {
    let Some(affinity) = &spec.affinity else { return PodAffinity::default() };
    let together = affinity.pod_affinity.as_ref();
    let apart = affinity.pod_anti_affinity.as_ref();
    let mut errors = Vec::new();
    let mut required = |field: &str, terms: Option<&Vec<api::PodAffinityTerm>>| {
        let terms: Result<Vec<_>, String> =
            terms.into_iter().flatten().map(|term| self::term(namespace, term)).collect();
        terms.unwrap_or_else(|error| {
            errors.push(format!("{field}: {error}"));
            Vec::new()
        })
    };
    let together_required =
        together.and_then(|terms| terms.required_during_scheduling_ignored_during_execution.as_ref());
    let apart_required = apart.and_then(|terms| terms.required_during_scheduling_ignored_during_execution.as_ref());
    let (together_required, apart_required) =
        (required("requiredAffinityTerms", together_required), required("requiredAntiAffinityTerms", apart_required));
    let mut preferred = |field: &str, terms: Option<&Vec<api::WeightedPodAffinityTerm>>| {
        let terms = terms.into_iter().flatten();
        let terms: Result<Vec<_>, String> =
            terms.map(|term| Ok((term.weight, self::term(namespace, &term.pod_affinity_term)?))).collect();
        terms.unwrap_or_else(|error| {
            errors.push(format!("{field}: {error}"));
            Vec::new()
        })
    };
    let preferred_terms =
        together.and_then(|terms| terms.preferred_during_scheduling_ignored_during_execution.as_ref());
    let preferred_anti = apart.and_then(|terms| terms.preferred_during_scheduling_ignored_during_execution.as_ref());
    let preferred_terms = preferred("preferredAffinityTerms", preferred_terms);
    let preferred_anti = preferred("preferredAntiAffinityTerms", preferred_anti);
    let error = match errors.as_slice() {
        [] => None,
        [one] => Some(text(one)),
        many => Some(text(format!("[{}]", many.join(", ")))),
    };
    PodAffinity {
        required: together_required,
        required_anti: apart_required,
        preferred: preferred_terms,
        preferred_anti,
        error,
    }
}

/// Source: `newAffinityTerm`. The API server merged `matchLabelKeys` and `mismatchLabelKeys` into the selector at creation.
fn term(namespace: &str, term: &api::PodAffinityTerm) -> Result<AffinityTerm, String> {
    let selector = label_selector(term.label_selector.as_ref())?;
    let mut namespaces: Vec<Arc<str>> = term.namespaces.iter().flatten().map(text).collect();
    if namespaces.is_empty() && term.namespace_selector.is_none() {
        namespaces.push(text(namespace));
    }
    namespaces.sort_unstable();
    namespaces.dedup();
    let namespace_selector = label_selector(term.namespace_selector.as_ref())?;
    Ok(AffinityTerm { selector, namespaces, namespace_selector, topology_key: text(&term.topology_key) })
}
