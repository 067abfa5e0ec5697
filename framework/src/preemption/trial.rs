//! What is tried on one node, laid out from the pods that stand there.
//!
//! Knows: which pods may be victims, their order, and which of them have a budget against it. Must not know: whether the
//! preemptor fits.

use std::{cmp::Reverse, collections::BTreeMap, ops::Range, sync::Arc};

use super::{Budget, Standing};
use crate::{
    class::{Class, ClassId},
    node::NodeId,
};

/// What is sent to the worker that holds a node, to be tried there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// The node.
    pub node: NodeId,
    /// The classes of the potential victims, the most important first, and whether taking the pod away violates a budget.
    pub victims: Vec<(ClassId, bool)>,
    /// How many of the victims go together or not at all, unit by unit in their order; none of them is 0. Empty where each
    /// victim goes by itself.
    pub units: Vec<u32>,
    /// The classes of pods that are nominated to the node and that the preemptor has to give way to, one for each pod.
    pub beside: Vec<ClassId>,
}

/// A trial with the pods that its victims stand for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// What is sent.
    pub trial: Trial,
    /// The pods, in the order of [`Trial::victims`].
    pub pods: Vec<Standing>,
    /// What else there is to each of [`Trial::units`], in their order.
    pub wholes: Vec<Whole>,
}

/// Pods that go together or not at all, or one pod that goes by itself, where pod groups count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// By which it is preempted: the group's for pods of a group, whatever their own is.
    pub priority: i32,
    /// Its pods name a group. Such a unit is more important than a pod without one, also where the pod goes by itself.
    pub is_of_group: bool,
    /// The pods on the node that is tried.
    pub pods: Vec<Standing>,
    /// The pods on other nodes.
    pub elsewhere: Vec<(NodeId, Standing)>,
}

/// What a unit is beyond its pods on the node that is tried.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Whole {
    /// Its pods on other nodes.
    pub elsewhere: Vec<(NodeId, Standing)>,
    /// How many of all its pods violate a budget.
    pub violations: u32,
}

/// The trial of a node with these pods on it for a preemptor of a priority.
///
/// `budgets` are asked in this order, and a pod that violates one is not counted in those after it: upstream takes them
/// as a map has them, and here they are given sorted by namespace and name. `classes` gives the class of a number; a pod
/// of a class that it does not know is left alone. A trial without victims is no use on any node.
///
/// Source: `SelectVictimsOnNode` up to the first filter, and `FilterVictimsWithPDBViolation`. Upstream works out the
/// violations only where the preemptor fits without all potential victims; they are the same before.
#[must_use]
pub fn lay_out<'a>(
    node: NodeId,
    standing: impl IntoIterator<Item = &'a Standing>,
    beside: Vec<ClassId>,
    preemptor_priority: i32,
    now_ns: i64,
    budgets: &[&Budget],
    classes: impl Fn(ClassId) -> Option<Arc<Class>>,
) -> Layout {
    let mut pods: Vec<Standing> =
        standing.into_iter().filter(|pod| pod.priority < preemptor_priority).cloned().collect();
    pods.sort_unstable_by(|left, right| left.importance(right, now_ns));
    let known: BTreeMap<ClassId, Arc<Class>> =
        pods.iter().filter_map(|pod| Some((pod.class, classes(pod.class)?))).collect();
    pods.retain(|pod| known.contains_key(&pod.class));
    let mut toll = Toll::new(budgets);
    let victims = pods.iter().map(|pod| (pod.class, toll.violates(pod, &known[&pod.class]))).collect();
    Layout { trial: Trial { node, victims, units: Vec::new(), beside }, pods, wholes: Vec::new() }
}

/// The same where pods of a group may go together: the units that have pods on the node.
///
/// A unit goes if all of it may; upstream leaves the order of units open that are alike in all else, and here the first
/// name and UID decide. A unit with a pod of an unknown class is left alone.
///
/// Source: `SelectVictimsOnNode`, `MoreImportantVictim` and `FilterVictimsWithPDBViolation` with the feature gate
/// GenericWorkload.
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
        let violates = |pod: &&Standing| classes(pod.class).is_some_and(|class| toll.violates(pod, &class));
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

/// How many pods each budget lets go still.
pub(super) struct Toll<'a> {
    budgets: &'a [&'a Budget],
    allowed: Vec<i32>,
}

// === impl Toll ===

impl<'a> Toll<'a> {
    pub(super) fn new(budgets: &'a [&'a Budget]) -> Self {
        Self { budgets, allowed: budgets.iter().map(|budget| budget.disruptions_allowed).collect() }
    }

    /// Whether the next pod to go violates a budget.
    pub(super) fn violates(&mut self, pod: &Standing, class: &Class) -> bool {
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

// === impl Unit ===

impl Unit {
    fn all(&self) -> impl Iterator<Item = &Standing> {
        self.pods.iter().chain(self.elsewhere.iter().map(|(_, pod)| pod))
    }
}

/// How important pods are that go together; the smaller is spared first.
pub(super) type Importance = (Reverse<(i32, bool, usize)>, Option<i64>, Option<(Arc<str>, Arc<str>)>);

/// Pods that go together in this order are spared one after the other: those that `pods` gives.
///
/// Source: `MoreImportantVictim`; upstream leaves the order of those open that are alike, and here name and UID decide.
pub(super) fn importance<'a, I: Iterator<Item = &'a Standing>>(
    priority: i32,
    is_of_group: bool,
    pods: impl Fn() -> I,
    now_ns: i64,
) -> Importance {
    let started = pods().map(|pod| pod.started_or(now_ns)).min();
    let first = pods().map(|pod| (Arc::clone(&pod.name), Arc::clone(&pod.uid))).min();
    (Reverse((priority, is_of_group, pods().count())), started, first)
}

// === impl Trial ===

impl Trial {
    /// The places of the victims of each unit.
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

    /// Whether the units are of these victims and no others.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let pods = self.units.iter().try_fold(0_usize, |sum, &length| sum.checked_add(length as usize));
        self.units.is_empty() || (pods == Some(self.victims.len()) && !self.units.contains(&0))
    }
}
