//! Units of preemption: pods that are evicted together or not at all, their order, and the choice of victims.
//!
//! Source: `MoreImportantVictim`, `getCrossNodesVictims`, `FilterVictimsWithPDBViolation` and `selectVictimsOnDomain`.

use std::{cmp::Reverse, sync::Arc};

use super::{Budget, PlacedPod};
use crate::class::{Class, ClassId};

/// The kind of a unit; the greater is more important. Source: `victimRank`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnitKind {
    /// A pod without a group.
    Pod,
    /// A pod that names a group, or all pods of a group.
    PodGroup,
    /// All pods below a composite group.
    CompositePodGroup,
}

/// Pods that are evicted together or not at all, or a single pod; `P` is the location of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit<P> {
    /// The priority for preemption: the group's for pods of a group, whatever their own is.
    pub priority: i32,
    /// Its kind.
    pub kind: UnitKind,
    /// The pods with their locations; never empty.
    pub pods: Vec<(PlacedPod, P)>,
}

impl<P> Unit<P> {
    /// The same pods with other locations.
    pub fn map<Q>(self, mut location: impl FnMut(P) -> Q) -> Unit<Q> {
        let Self { priority, kind, pods } = self;
        let pods = pods.into_iter().map(|(standing, known)| (standing, location(known))).collect();
        Unit { priority, kind, pods }
    }

    /// The pods without their locations.
    pub fn standing(&self) -> impl Iterator<Item = &PlacedPod> {
        self.pods.iter().map(|(standing, _)| standing)
    }

    /// The order of importance. kube-scheduler leaves the order of equal units open; here name and UID decide.
    fn importance(&self, now_ns: i64) -> Importance {
        let started = self.standing().map(|pod| pod.started_or(now_ns)).min();
        let first = self.standing().map(|pod| (Arc::clone(&pod.name), Arc::clone(&pod.uid))).min();
        (Reverse((self.priority, self.kind, self.pods.len())), started, first)
    }
}

/// The smaller is reprieved first.
type Importance = (Reverse<(i32, UnitKind, usize)>, Option<i64>, Option<(Arc<str>, Arc<str>)>);

/// Sorts units, the most important first.
pub fn sort_by_importance<P>(units: &mut [Unit<P>], now_ns: i64) {
    units.sort_by_cached_key(|unit| unit.importance(now_ns));
}

/// The number of pods of each unit that violate a budget. Pods of unknown classes use none.
#[must_use]
pub fn violations<P, C: AsRef<Class>>(
    units: &[Unit<P>],
    budgets: &[&Budget],
    class: impl Fn(ClassId) -> Option<C>,
) -> Vec<u32> {
    let mut toll = Toll::new(budgets);
    let mut violates = |pod: &&PlacedPod| class(pod.class).is_some_and(|class| toll.violates(pod, class.as_ref()));
    let count = |unit: &Unit<P>| u32::try_from(unit.standing().filter(&mut violates).count()).unwrap_or(u32::MAX);
    units.iter().map(count).collect()
}

/// Finds the necessary victims, starting with all units removed: puts back first the units that violate a budget, then the others, each
/// time the most important first. `stays` puts the unit of this index back; if the preemptor no longer fits, it removes the unit again and
/// returns `false`. Returns for each unit whether it is a victim.
pub fn reprieve(violates: &[bool], mut stays: impl FnMut(usize) -> bool) -> Vec<bool> {
    let mut must_go = vec![false; violates.len()];
    for protected in [true, false] {
        for at in (0..violates.len()).filter(|at| violates[*at] == protected) {
            must_go[at] = !stays(at);
        }
    }
    must_go
}

/// The disruptions that budgets still allow.
pub(super) struct Toll<'a> {
    budgets: &'a [&'a Budget],
    allowed: Vec<i32>,
}

impl<'a> Toll<'a> {
    pub(super) fn new(budgets: &'a [&'a Budget]) -> Self {
        Self { budgets, allowed: budgets.iter().map(|budget| budget.disruptions_allowed).collect() }
    }

    pub(super) fn violates(&mut self, pod: &PlacedPod, class: &Class) -> bool {
        for (budget, allowed) in self.budgets.iter().zip(&mut self.allowed) {
            if budget.covers(class, &pod.name) {
                *allowed = allowed.saturating_sub(1);
                if *allowed < 0 {
                    return true;
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests;
