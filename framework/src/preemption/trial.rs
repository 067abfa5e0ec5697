//! Layouts of trials: potential victims on one node, their order, and their budget violations.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use super::{
    Budget, PlacedPod,
    unit::{Toll, Unit, sort_by_importance, violations},
};
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
/// A unit is a potential victim if all of its pods are. Units with a pod of an unknown class are not victims. Source:
/// `SelectVictimsOnNode`, `MoreImportantVictim` and `FilterVictimsWithPDBViolation` with the feature gate GenericWorkload.
#[must_use]
pub fn lay_out_units(
    node: NodeId,
    mut units: Vec<Unit<NodeId>>,
    beside: Vec<ClassId>,
    preemptor_priority: i32,
    now_ns: i64,
    budgets: &[&Budget],
    classes: impl Fn(ClassId) -> Option<Arc<Class>>,
) -> Layout {
    units.retain(|unit| unit.priority < preemptor_priority && unit.standing().all(|pod| classes(pod.class).is_some()));
    for unit in &mut units {
        // The pods on the tried node come first.
        unit.pods.sort_unstable_by(|(left, left_at), (right, right_at)| {
            (*left_at != node).cmp(&(*right_at != node)).then_with(|| left.importance(right, now_ns))
        });
    }
    sort_by_importance(&mut units, now_ns);
    let violations = violations(&units, budgets, classes);
    let mut layout = Layout {
        trial: Trial { node, victims: Vec::new(), units: Vec::new(), beside },
        pods: Vec::new(),
        wholes: Vec::new(),
    };
    for (Unit { mut pods, .. }, violations) in units.into_iter().zip(violations) {
        let elsewhere = pods.split_off(pods.partition_point(|(_, at)| *at == node));
        layout.trial.units.push(u32::try_from(pods.len()).unwrap_or(u32::MAX));
        layout.trial.victims.extend(pods.iter().map(|(pod, _)| (pod.class, violations > 0)));
        layout.pods.extend(pods.into_iter().map(|(pod, _)| pod));
        let elsewhere = elsewhere.into_iter().map(|(pod, at)| (at, pod)).collect();
        layout.wholes.push(Whole { elsewhere, violations });
    }
    layout
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
