//! Preemption for a pod group. Source: `PodGroupEvaluator.Preempt`, `getCrossNodesVictims`, `MoreImportantVictim`, `selectVictimsOnDomain`.

use std::sync::Arc;

use super::{
    Budget, PlacedPod,
    trial::{Toll, importance},
};
use crate::class::{Class, ClassId};

/// Pods that are evicted together or not at all; `P` is the location of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupUnit<P> {
    /// The priority for preemption: that of their group, if any.
    pub priority: i32,
    /// Whether the pods belong to a group.
    pub is_of_group: bool,
    /// The pods with their locations; never empty.
    pub pods: Vec<(PlacedPod, P)>,
}

impl<P> GroupUnit<P> {
    /// The same pods with other locations.
    pub fn map<Q>(self, mut location: impl FnMut(P) -> Q) -> GroupUnit<Q> {
        let Self { priority, is_of_group, pods } = self;
        let pods = pods.into_iter().map(|(standing, known)| (standing, location(known))).collect();
        GroupUnit { priority, is_of_group, pods }
    }

    fn standing(&self) -> impl Iterator<Item = &PlacedPod> {
        self.pods.iter().map(|(standing, _)| standing)
    }
}

/// Sorts units, the most important first. kube-scheduler leaves the order of equal units open; here name and UID decide.
pub fn sort_by_importance<P>(units: &mut [GroupUnit<P>]) {
    units.sort_by_cached_key(|unit| importance(unit.priority, unit.is_of_group, || unit.standing(), i64::MAX));
}

/// Whether each unit violates a budget with any pod. Pods of unknown classes use none. Source: `FilterVictimsWithPDBViolation`.
#[must_use]
pub fn violating<'a, P>(
    units: &[GroupUnit<P>],
    budgets: &[&Budget],
    class: impl Fn(ClassId) -> Option<&'a Arc<Class>>,
) -> Vec<bool> {
    let mut toll = Toll::new(budgets);
    let mut violates = |pod: &&PlacedPod| class(pod.class).is_some_and(|class| toll.violates(pod, class));
    units.iter().map(|unit| unit.standing().filter(&mut violates).count() > 0).collect()
}

/// Finds the necessary victims, starting with all units removed: puts back first the units that violate a budget, then the others, each
/// time the most important first. `stays` puts a unit back; if the group no longer fits, it removes the unit again and returns `false`.
/// Returns for each unit whether it is a victim.
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
