//! The scopes of quotas.

use flotilla_framework::class::{AffinityTerm, PodInfo};
use k8s_openapi::api::core::v1 as api;

use crate::admission::amounts::{Amounts, Side};

/// One requirement of a quota.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Scope {
    name: String,
    operator: String,
    values: Vec<String>,
}

/// The fields that scopes read.
#[derive(Debug)]
pub(super) enum Facts<'a> {
    Pod {
        is_best_effort: bool,
        is_terminating: bool,
        priority_class: &'a str,
        crosses_namespaces: bool,
    },
    /// A claim, with its volume attributes class.
    Claim(&'a str),
}

impl Scope {
    pub(super) fn new(selector: &api::ScopedResourceSelectorRequirement) -> Self {
        let api::ScopedResourceSelectorRequirement { operator, scope_name, values } = selector.clone();
        Self { name: scope_name, operator, values: values.unwrap_or_default() }
    }

    pub(super) fn exists(name: &str) -> Self {
        Self { name: name.to_owned(), operator: "Exists".to_owned(), values: Vec::new() }
    }

    /// Source: `podMatchesScopeFunc` and `pvcMatchesScopeFunc`.
    pub(super) fn matches(&self, facts: &Facts<'_>) -> bool {
        match (facts, &*self.name) {
            (Facts::Pod { is_terminating, .. }, "Terminating") => *is_terminating,
            (Facts::Pod { is_terminating, .. }, "NotTerminating") => !is_terminating,
            (Facts::Pod { is_best_effort, .. }, "BestEffort") => *is_best_effort,
            (Facts::Pod { is_best_effort, .. }, "NotBestEffort") => !is_best_effort,
            (Facts::Pod { priority_class, .. }, "PriorityClass") => self.selects(priority_class),
            (Facts::Pod { crosses_namespaces, .. }, "CrossNamespacePodAffinity") => *crosses_namespaces,
            (Facts::Claim(class), "VolumeAttributesClass") => self.selects(class),
            _ => false,
        }
    }

    fn selects(&self, value: &str) -> bool {
        let is_listed = self.values.iter().any(|known| known == value);
        match &*self.operator {
            "In" => !value.is_empty() && is_listed,
            "NotIn" => value.is_empty() || !is_listed,
            "Exists" => !value.is_empty(),
            "DoesNotExist" => value.is_empty(),
            _ => false,
        }
    }
}

impl<'a> Facts<'a> {
    pub(super) fn of_pod(spec: &'a api::PodSpec, default_class: Option<&'a str>) -> Self {
        let class = spec.priority_class_name.as_deref().filter(|class| !class.is_empty());
        Self::Pod {
            is_best_effort: is_best_effort(spec),
            is_terminating: spec.active_deadline_seconds.is_some_and(|seconds| seconds >= 0),
            priority_class: class.or(default_class).unwrap_or_default(),
            crosses_namespaces: crosses_namespaces(spec),
        }
    }

    /// The facts about a pod that exists, as far as the framework keeps them: a deadline is not kept.
    pub(super) fn of_info(pod: &PodInfo, class: Option<&'a str>) -> Self {
        let requests = &pod.class.requests;
        let limits = pod.limits.as_deref();
        let terms = &pod.class.pod_affinity;
        let preferred = terms.preferred.iter().chain(&terms.preferred_anti).map(|(_, term)| term);
        let mut all = terms.required.iter().chain(&terms.required_anti).chain(preferred);
        let is_own = |term: &AffinityTerm| {
            matches!(term.namespaces.as_slice(), [one] if *one == pod.class.namespace)
                && term.namespace_selector == flotilla_framework::labels::LabelSelector::Nothing
        };
        Self::Pod {
            is_best_effort: requests.milli_cpu == 0
                && requests.memory == 0
                && limits.is_none_or(|limits| limits.milli_cpu == 0 && limits.memory == 0),
            is_terminating: false,
            priority_class: class.unwrap_or_default(),
            crosses_namespaces: !all.all(is_own),
        }
    }
}

/// Source: `GetPodQOS`.
fn is_best_effort(spec: &api::PodSpec) -> bool {
    let is_zero =
        |list: Amounts| list.iter().all(|(name, amount)| !matches!(&**name, "cpu" | "memory") || amount.is_zero());
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let mut all = containers.map(|container| container.resources.as_ref()).chain([spec.resources.as_ref()]);
    all.all(|resources| [Side::Requests, Side::Limits].iter().all(|side| is_zero(side.of(resources))))
}

/// Source: `usesCrossNamespacePodAffinity`.
fn crosses_namespaces(spec: &api::PodSpec) -> bool {
    let Some(affinity) = &spec.affinity else { return false };
    let crosses = |term: &api::PodAffinityTerm| {
        term.namespaces.as_ref().is_some_and(|names| !names.is_empty()) || term.namespace_selector.is_some()
    };
    let weighted = |terms: &Option<Vec<api::WeightedPodAffinityTerm>>| {
        terms.iter().flatten().any(|term| crosses(&term.pod_affinity_term))
    };
    let (near, far) = (affinity.pod_affinity.as_ref(), affinity.pod_anti_affinity.as_ref());
    near.is_some_and(|near| {
        near.required_during_scheduling_ignored_during_execution.iter().flatten().any(crosses)
            || weighted(&near.preferred_during_scheduling_ignored_during_execution)
    }) || far.is_some_and(|far| {
        far.required_during_scheduling_ignored_during_execution.iter().flatten().any(crosses)
            || weighted(&far.preferred_during_scheduling_ignored_during_execution)
    })
}
