//! The statuses of disruption budgets before anything changes.

use flotilla_cluster::Cluster;
use flotilla_framework::preemption::Budget;

use crate::world::World;

/// The disruption budgets of a cluster, in its order. The status of a hand-written budget is computed from the pods.
///
/// Source: `pkg/controller/disruption/disruption.go`.
#[must_use]
pub fn current_budgets(cluster: &Cluster) -> Vec<Budget> {
    let mut world = World::new(cluster, true);
    world.budgets.sync();
    world.budgets.all().cloned().collect()
}
