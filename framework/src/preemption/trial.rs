//! Layouts of trials: potential victims on one node, their order, and their budget violations.

use std::{cmp::Reverse, collections::BTreeMap, ops::Range, sync::Arc};

use super::{Budget, PlacedPod};
use crate::{
    class::{Class, ClassId},
    node::NodeId,
};

/// A trial on one node, as sent to its worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// The node.
    pub node: NodeId,
    /// The classes of the potential victims, the most important first, and whether evicting the pod violates a budget.
    pub victims: Vec<(ClassId, bool)>,
    /// The sizes of the units of victims that are evicted together, in the order of the victims; none is 0. Empty if each victim is a unit.
    pub units: Vec<u32>,
    /// The classes of the pods that are nominated to the node with the preemptor's priority or a higher one, one for each pod.
    pub beside: Vec<ClassId>,
}

/// A trial with the pods behind its victims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The trial.
    pub trial: Trial,
    /// The pods, in the order of [`Trial::victims`].
    pub pods: Vec<PlacedPod>,
    /// The remaining data of each of [`Trial::units`], in their order.
    pub wholes: Vec<Whole>,
}

/// With pod groups: pods that are evicted together or not at all, or a single pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// The priority for preemption: the group's for pods of a group, whatever their own is.
    pub priority: i32,
    /// The pods name a group. Such a unit is more important than a pod without one, even if it is a single pod.
    pub is_of_group: bool,
    /// The pods on the tried node.
    pub pods: Vec<PlacedPod>,
    /// The pods on other nodes.
    pub elsewhere: Vec<(NodeId, PlacedPod)>,
}

/// The part of a unit outside the tried node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Whole {
    /// Its pods on other nodes.
    pub elsewhere: Vec<(NodeId, PlacedPod)>,
    /// The number of its pods, on all nodes, that violate a budget.
    pub violations: u32,
}

/// The trial of a node with these pods for a preemptor of this priority.
///
/// `budgets` apply in this order, and a pod that violates one does not count in later ones. kube-scheduler uses the order of a map; here
/// they are sorted by namespace and name. `classes` returns a class by number; pods of unknown classes are not victims. A trial without
/// victims is useless. Source: `SelectVictimsOnNode` up to the first filter, and `FilterVictimsWithPDBViolation`, which kube-scheduler runs
/// only if the preemptor fits; the result is the same.
#[must_use]
pub fn lay_out<'a>(
    node: NodeId,
    standing: impl IntoIterator<Item = &'a PlacedPod>,
    beside: Vec<ClassId>,
    preemptor_priority: i32,
    now_ns: i64,
    budgets: &[&Budget],
    classes: impl Fn(ClassId) -> Option<Arc<Class>>,
) -> Layout {
    let mut pods: Vec<PlacedPod> =
        standing.into_iter().filter(|pod| pod.priority < preemptor_priority).cloned().collect();
    pods.sort_unstable_by(|left, right| left.importance(right, now_ns));
    let known: BTreeMap<ClassId, Arc<Class>> =
        pods.iter().filter_map(|pod| Some((pod.class, classes(pod.class)?))).collect();
    pods.retain(|pod| known.contains_key(&pod.class));
    let mut toll = Toll::new(budgets);
    let victims = pods.iter().map(|pod| (pod.class, toll.violates(pod, &known[&pod.class]))).collect();
    Layout { trial: Trial { node, victims, units: Vec::new(), beside }, pods, wholes: Vec::new() }
}

/// As [`lay_out`], with pod groups: the units that have pods on the node.
///
/// A unit is a potential victim if all of its pods are. kube-scheduler leaves the order of equal units open; here the first name and UID
/// decide. Units with a pod of an unknown class are not victims. Source: `SelectVictimsOnNode`, `MoreImportantVictim` and
/// `FilterVictimsWithPDBViolation` with the feature gate GenericWorkload.
#[must_use]
pub fn lay_out_units(
    node: NodeId,
    mut units: Vec<Unit>,
    beside: Vec<ClassId>,
    preemptor_priority: i32,
    now_ns: i64,
    budgets: &[&Budget],
    classes: impl Fn(ClassId) -> Option<Arc<Class>>,
) -> Layout {
    units.retain(|unit| unit.priority < preemptor_priority && unit.all().all(|pod| classes(pod.class).is_some()));
    for unit in &mut units {
        unit.pods.sort_unstable_by(|left, right| left.importance(right, now_ns));
        unit.elsewhere.sort_unstable_by(|(_, left), (_, right)| left.importance(right, now_ns));
    }
    units.sort_by_cached_key(|unit| importance(unit.priority, unit.is_of_group, || unit.all(), now_ns));
    let mut toll = Toll::new(budgets);
    let mut layout = Layout {
        trial: Trial { node, victims: Vec::new(), units: Vec::new(), beside },
        pods: Vec::new(),
        wholes: Vec::new(),
    };
    for unit in units {
        let violates = |pod: &&PlacedPod| classes(pod.class).is_some_and(|class| toll.violates(pod, &class));
        let violations = count(unit.all().filter(violates));
        layout.trial.units.push(count(unit.pods.iter()));
        layout.trial.victims.extend(unit.pods.iter().map(|pod| (pod.class, violations > 0)));
        layout.pods.extend(unit.pods);
        layout.wholes.push(Whole { elsewhere: unit.elsewhere, violations });
    }
    layout
}

fn count<T>(items: impl Iterator<Item = T>) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}

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

impl Unit {
    fn all(&self) -> impl Iterator<Item = &PlacedPod> {
        self.pods.iter().chain(self.elsewhere.iter().map(|(_, pod)| pod))
    }
}

/// The importance of a unit; the smaller is reprieved first.
pub(super) type Importance = (Reverse<(i32, bool, usize)>, Option<i64>, Option<(Arc<str>, Arc<str>)>);

/// The importance of a unit's pods. Source: `MoreImportantVictim`, which leaves the order of equal units open; here name and UID decide.
pub(super) fn importance<'a, I: Iterator<Item = &'a PlacedPod>>(
    priority: i32,
    is_of_group: bool,
    pods: impl Fn() -> I,
    now_ns: i64,
) -> Importance {
    let started = pods().map(|pod| pod.started_or(now_ns)).min();
    let first = pods().map(|pod| (Arc::clone(&pod.name), Arc::clone(&pod.uid))).min();
    (Reverse((priority, is_of_group, pods().count())), started, first)
}

impl Trial {
    /// The indexes of the victims of each unit.
    #[must_use]
    pub fn spans(&self) -> Vec<Range<usize>> {
        if self.units.is_empty() {
            return (0..self.victims.len()).map(|at| at..at + 1).collect();
        }
        let mut start = 0;
        let span = |length: &u32| {
            let end = start + *length as usize;
            std::mem::replace(&mut start, end)..end
        };
        self.units.iter().map(span).collect()
    }

    /// Whether the units cover exactly these victims.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let pods = self.units.iter().try_fold(0_usize, |sum, &length| sum.checked_add(length as usize));
        self.units.is_empty() || (pods == Some(self.victims.len()) && !self.units.contains(&0))
    }
}
