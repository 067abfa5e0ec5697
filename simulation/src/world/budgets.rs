//! The controller of PodDisruptionBudgets. Source: k8s.io/kubernetes `pkg/controller/disruption`.

use serde_json::{Value, json};

use super::{is_live, selects, those};
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
        let expected = pods.len() as u64;
        let healthy = pods.iter().filter(|pod| pod.phase() == "Running").count() as u64;
        let desired = match (budget.at("/spec/minAvailable"), budget.at("/spec/maxUnavailable")) {
            (Value::Null, Value::Null) => expected,
            (Value::Null, most) => expected.saturating_sub(share(most, expected)),
            (least, _) => share(least, expected),
        };
        json!({
            "expectedPods": expected, "currentHealthy": healthy, "desiredHealthy": desired,
            "disruptionsAllowed": healthy.saturating_sub(desired),
            "observedGeneration": budget.at("/metadata/generation"),
        })
    }
}

/// A number, or a percentage of `of`, rounded up.
fn share(wanted: &Value, of: u64) -> u64 {
    let percent = wanted.as_str().and_then(|text| text.strip_suffix('%')?.parse::<u64>().ok());
    percent.map_or_else(|| wanted.as_u64().unwrap_or_default(), |percent| (percent * of).div_ceil(100))
}
