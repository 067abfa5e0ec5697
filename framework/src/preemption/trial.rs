//! What is tried on one node, laid out from the pods that stand there.
//!
//! Knows: which pods may be victims, their order, and which of them have a budget against it. Must not know: whether the
//! preemptor fits.

use std::{collections::BTreeMap, sync::Arc};

use super::{Budget, Standing};
use crate::{
    class::{Class, ClassId},
    node::NodeId,
};

/// What is sent to whoever holds a node, to be tried there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// The node.
    pub node: NodeId,
    /// The classes of the potential victims, the most important first, and whether taking the pod away violates a budget.
    pub victims: Vec<(ClassId, bool)>,
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
    let mut allowed: Vec<i32> = budgets.iter().map(|budget| budget.disruptions_allowed).collect();
    let mut violates = |pod: &Standing| {
        let class = &known[&pod.class];
        for (budget, allowed) in budgets.iter().zip(&mut allowed) {
            if budget.covers(class, &pod.name) {
                *allowed = allowed.saturating_sub(1);
                if *allowed < 0 {
                    return true;
                }
            }
        }
        false
    };
    let victims = pods.iter().map(|pod| (pod.class, violates(pod))).collect();
    Layout { trial: Trial { node, victims, beside }, pods }
}
