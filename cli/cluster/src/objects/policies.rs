//! Adds priority classes, namespaces and disruption budgets.

use std::sync::Arc;

use flotilla_framework::{excess, ingest};
use k8s_openapi::api::{core::v1 as api, policy::v1::PodDisruptionBudget, scheduling::v1::PriorityClass};

use super::Gatherer;
use crate::{defaults, place::InputPosition, problem::Problems};

impl Gatherer {
    pub(crate) fn add_priority_class(&mut self, class: &PriorityClass, place: InputPosition, problems: &mut Problems) {
        let Some(name) = self.claim("PriorityClass", &class.metadata, false, &place, problems) else { return };
        let value = (class.value.unwrap_or(0), class.preemption_policy.as_deref() == Some("Never"));
        if class.global_default.unwrap_or(false) {
            if let Some((_, first)) = &self.default_priority {
                let text =
                    format!("priority class {name:?} is a second globalDefault; expected one at most; the other is at");
                problems.error_with(place.keys(&["globalDefault"]), text, first.clone());
                return;
            }
            self.default_priority = Some((value, place));
            self.admission.default_class = Some(name.clone());
        }
        self.priorities.insert(name, value);
    }

    pub(crate) fn add_namespace(
        &mut self,
        mut namespace: api::Namespace,
        place: &InputPosition,
        problems: &mut Problems,
    ) {
        let Some(name) = self.claim("Namespace", &namespace.metadata, false, place, problems) else { return };
        defaults::namespace(&mut namespace);
        self.admission.rules.see_namespace(&namespace);
        let labels = ingest::selectors::namespace_labels(namespace.metadata.labels.as_ref());
        self.namespaces.insert(name.into(), labels);
    }

    pub(crate) fn add_budget(
        &mut self,
        mut budget: PodDisruptionBudget,
        place: &InputPosition,
        problems: &mut Problems,
    ) {
        let Some(name) = self.claim("PodDisruptionBudget", &budget.metadata, true, place, problems) else { return };
        defaults::identity(&mut budget.metadata, true);
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        if let Some(excess) = excess::objects::of_selector(selector) {
            let text = format!(
                "PodDisruptionBudget {name:?}: {excess}; all pods of the namespace that have labels are protected, and no \
                 disruption is allowed"
            );
            problems.warning(place.clone(), text);
        }
        match ingest::budgets::budget(&budget) {
            Ok(read) => {
                let key = (Arc::clone(&read.namespace), Arc::clone(&read.name));
                self.facts.see_budget(&budget, key);
                self.budgets.push(read);
            }
            Err(error) => problems.error(place.clone(), format!("PodDisruptionBudget {name:?}: {error}")),
        }
    }
}
