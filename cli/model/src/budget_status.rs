//! The arithmetic of disruption budgets.
//!
//! Source: `pkg/controller/disruption/disruption.go`.

use flotilla_cluster::lifecycle::{Amount, BudgetBound};

/// Kinds without a scale subresource, with their resources. The controller cannot compute budgets with their pods, except from a number in
/// `minAvailable`.
const WITHOUT_SCALE: [(&str, &str); 4] =
    [("CronJob", "cronjobs.batch"), ("DaemonSet", "daemonsets.apps"), ("Job", "jobs.batch"), ("Node", "nodes")];

/// The controller of some pods of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Controller<'a> {
    /// The kind.
    pub kind: &'a str,
    /// `spec.replicas`, or the number of its pods if the controller does not exist.
    pub replicas: i32,
}

/// The computed numbers in the status of a budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BudgetStatus {
    /// `expectedPods`.
    pub expected: i32,
    /// `desiredHealthy`.
    pub desired_healthy: i32,
    /// `disruptionsAllowed`.
    pub disruptions_allowed: i32,
}

impl BudgetStatus {
    /// The status of a budget with this number of pods, healthy pods, and controllers of its pods.
    ///
    /// Source: `getExpectedPodCount`, `getExpectedScale`, `getScaleController` and `updatePdbStatus`.
    ///
    /// # Errors
    /// A controller has no scale, and the budget needs it.
    pub fn new<'a>(
        bound: BudgetBound,
        (pods, healthy): (i32, i32),
        controllers: impl IntoIterator<Item = Controller<'a>>,
    ) -> Result<Self, String> {
        let expected = match bound {
            BudgetBound::Min(Amount::Count(_)) => pods,
            BudgetBound::Min(_) | BudgetBound::Max(_) => controllers.into_iter().try_fold(0, with_scale)?,
            BudgetBound::None => 0,
        };
        let desired_healthy = match bound {
            BudgetBound::Min(amount) => scaled(amount, expected),
            BudgetBound::Max(amount) => (expected - scaled(amount, expected)).max(0),
            BudgetBound::None => 0,
        };
        let allowed = if expected > 0 { (healthy - desired_healthy).max(0) } else { 0 };
        Ok(Self { expected, desired_healthy, disruptions_allowed: allowed })
    }
}

fn with_scale(sum: i32, controller: Controller<'_>) -> Result<i32, String> {
    match WITHOUT_SCALE.iter().find(|(kind, _)| *kind == controller.kind) {
        Some((_, resource)) => Err(format!("{resource} does not implement the scale subresource")),
        None => Ok(sum.saturating_add(controller.replicas)),
    }
}

/// Percentages are rounded up.
fn scaled(amount: Amount, total: i32) -> i32 {
    match amount {
        Amount::Count(count) => count,
        Amount::Percent(percent) => {
            let product = i64::from(percent) * i64::from(total);
            i32::try_from((product + 99).div_euclid(100)).unwrap_or(i32::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_allow_what_the_disruption_controller_computes() {
        let set = |replicas| Controller { kind: "ReplicaSet", replicas };
        let job = Controller { kind: "Job", replicas: 3 };
        let (min, max) =
            (|count| BudgetBound::Min(Amount::Count(count)), |count| BudgetBound::Max(Amount::Count(count)));
        let cases = [
            ("a number counts pods", min(2), (3, 3), vec![set(5)], Ok((3, 2, 1))),
            ("also those without a controller", min(2), (3, 3), vec![], Ok((3, 2, 1))),
            (
                "a percentage counts replicas",
                BudgetBound::Min(Amount::Percent(50)),
                (3, 3),
                vec![set(5)],
                Ok((5, 3, 0)),
            ),
            ("of all controllers", BudgetBound::Min(Amount::Percent(50)), (3, 3), vec![set(2), set(2)], Ok((4, 2, 1))),
            (
                "pods without a controller have none",
                BudgetBound::Min(Amount::Percent(50)),
                (3, 3),
                vec![],
                Ok((0, 0, 0)),
            ),
            ("a maximum counts replicas", max(1), (3, 3), vec![set(3)], Ok((3, 2, 1))),
            ("a maximum above the replicas", max(4), (3, 2), vec![set(3)], Ok((3, 0, 2))),
            ("unhealthy pods use it up", max(1), (3, 1), vec![set(3)], Ok((3, 2, 0))),
            ("neither field", BudgetBound::None, (3, 3), vec![set(3)], Ok((0, 0, 0))),
            (
                "a Job has no scale",
                max(1),
                (3, 3),
                vec![job],
                Err("jobs.batch does not implement the scale subresource".to_owned()),
            ),
            ("a number needs none", min(1), (3, 3), vec![job], Ok((3, 1, 2))),
        ];
        for (what, bound, pods, controllers, expected) in cases {
            let found = BudgetStatus::new(bound, pods, controllers);
            let found = found.map(|status| (status.expected, status.desired_healthy, status.disruptions_allowed));
            assert_eq!(found, expected, "{what}");
        }
    }
}
