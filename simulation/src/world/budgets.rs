//! The controller of PodDisruptionBudgets, with the arithmetic of `flotilla-model`.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_model::{BudgetBound, BudgetStatus, Controller};
use k8s_openapi::serde::Deserialize;
use serde_json::{Value, json};

use super::{is_live, replicas::owner, selects, those};
use crate::api::{Actor, Kind, Object};

/// Controller of PodDisruptionBudgets.
pub struct Budgets {
    actor: Actor,
}

impl Budgets {
    /// A controller of all budgets.
    #[must_use]
    pub const fn new(actor: Actor) -> Self {
        Self { actor }
    }

    /// Creates a budget for the pods with this label `app`. `min_available` is a number, or a percentage such as `50%`.
    pub fn create(&self, namespace: &str, name: &str, app: &str, min_available: &Value) {
        let budget = json!({
            "metadata": { "namespace": namespace, "name": name },
            "spec": { "minAvailable": min_available, "selector": { "matchLabels": { "app": app } } },
        });
        // An existing budget of that name is fine.
        let _ = self.actor.create(Kind::PodDisruptionBudget, budget);
    }

    /// Updates the status of each budget if it has changed.
    pub fn step(&self) {
        for budget in those(self.actor.api(), Kind::PodDisruptionBudget, |_| true) {
            let status = self.status(&budget);
            // Cannot fail: the budget exists, and no other actor runs.
            let _ = self.actor.change(Kind::PodDisruptionBudget, budget.key(), |value| value["status"] = status);
        }
    }

    fn status(&self, budget: &Object) -> Value {
        let of_budget =
            |pod: &Object| pod.namespace() == budget.namespace() && selects(budget.at("/spec/selector"), pod);
        let pods = those(self.actor.api(), Kind::Pod, |pod| of_budget(pod) && is_live(pod));
        let healthy = count(pods.iter().filter(|pod| pod.phase() == "Running").count());
        let spec = Deserialize::deserialize(budget.at("/spec"));
        let bound = spec.map_or(BudgetBound::None, |spec| BudgetBound::of(&spec));
        let scales = self.scales(&pods);
        let controllers = scales.iter().map(|(kind, replicas)| Controller { kind: kind.name(), replicas: *replicas });
        // ReplicaSets and StatefulSets have a scale.
        let status = BudgetStatus::new(bound, (count(pods.len()), healthy), controllers).unwrap_or_default();
        json!({
            "expectedPods": status.expected, "currentHealthy": healthy, "desiredHealthy": status.desired_healthy,
            "disruptionsAllowed": status.disruptions_allowed,
            "observedGeneration": budget.at("/metadata/generation"),
        })
    }

    /// The controllers of pods: kind and replicas.
    fn scales(&self, pods: &[Arc<Object>]) -> Vec<(Kind, i32)> {
        let mut owners: BTreeMap<(Kind, &str), i32> = BTreeMap::new();
        for owner in pods.iter().filter_map(|pod| owner(pod)) {
            *owners.entry(owner).or_default() += 1;
        }
        let scale = |((kind, uid), pods): ((Kind, &str), i32)| {
            let set = those(self.actor.api(), kind, |set| set.uid() == uid).pop();
            let replicas = set.map(|set| set.at("/spec/replicas").as_u64().unwrap_or(1));
            (kind, replicas.map_or(pods, |replicas| i32::try_from(replicas).unwrap_or(i32::MAX)))
        };
        owners.into_iter().map(scale).collect()
    }
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
