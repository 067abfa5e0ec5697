//! Preemption for a pod group: who may go anywhere in the cluster, in which order they are spared, and who has to go.
//!
//! Knows: units, their importance, budgets. Must not know: how it is found out whether the group still fits, or where a pod
//! stands.
//!
//! Source: `PodGroupEvaluator.Preempt`, `getCrossNodesVictims`, `MoreImportantVictim`, `selectVictimsOnDomain`.

use std::sync::Arc;

use super::{
    Budget, Standing,
    trial::{Toll, importance},
};
use crate::class::{Class, ClassId};

/// Pods that go together or not at all; `P` says where each of them stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupUnit<P> {
    /// The priority that they are preempted by: that of their group, if they have one.
    pub priority: i32,
    /// Whether they are pods of a group.
    pub is_of_group: bool,
    /// The pods, each with where it stands; never empty.
    pub pods: Vec<(Standing, P)>,
}

impl<P> GroupUnit<P> {
    fn standing(&self) -> impl Iterator<Item = &Standing> {
        self.pods.iter().map(|(standing, _)| standing)
    }
}

/// Puts units in the order in which they are spared, the most important first. Upstream leaves the order of units open that
/// are alike; here name and UID decide.
pub fn sort_by_importance<P>(units: &mut [GroupUnit<P>]) {
    units.sort_by_cached_key(|unit| importance(unit.priority, unit.is_of_group, || unit.standing(), i64::MAX));
}

/// Which units some budget is against: one pod of a unit is enough. A pod of an unknown class uses no budget.
///
/// Source: `FilterVictimsWithPDBViolation`.
#[must_use]
pub fn violating<'a, P>(
    units: &[GroupUnit<P>],
    budgets: &[&Budget],
    class: impl Fn(ClassId) -> Option<&'a Arc<Class>>,
) -> Vec<bool> {
    let mut toll = Toll::new(budgets);
    let mut violates = |pod: &&Standing| class(pod.class).is_some_and(|class| toll.violates(pod, class));
    units.iter().map(|unit| unit.standing().filter(&mut violates).count() > 0).collect()
}

/// Finds the units that have to go, all of them being gone: first those that a budget is against are put back, then all
/// others, each time the most important first. `stays` puts a unit back, and takes it away again where the group does not
/// fit beside it any more; then it gives `false`. The answer says of each unit whether it has to go.
pub fn reprieve<P>(
    units: &[GroupUnit<P>],
    violates: &[bool],
    mut stays: impl FnMut(&GroupUnit<P>) -> bool,
) -> Vec<bool> {
    let mut must_go = vec![false; units.len()];
    for protected in [true, false] {
        let turn = units.iter().zip(&mut must_go).zip(violates).filter(|(_, violates)| **violates == protected);
        turn.for_each(|((unit, must_go), _)| *must_go = !stays(unit));
    }
    must_go
}

#[cfg(test)]
mod tests;
