//! Checks of placements: the rate of a scheduler with invalid placements does not count.

use std::collections::BTreeMap;

use crate::{
    facts::Facts,
    shape::{Shape, Size},
};

/// CPU of a node (4) divided by that of a pod (100m).
const PODS_BY_CPU: u32 = 40;
const PODS: u32 = 110;
const VOLUMES: u32 = 39;
/// Of so many existing pods on a node of the shape `mixed`, one has an anti-affinity to its kind.
const MIXED_TURN: u32 = 5;

/// Placement errors, one line per kind.
pub(crate) fn misplaced(shape: Shape, size: Size, facts: &Facts) -> Vec<String> {
    let mut nodes: BTreeMap<&str, u32> = BTreeMap::new();
    for pod in facts.pods.iter().filter(|pod| pod.bound_us.is_some()) {
        *nodes.entry(&pod.node).or_default() += 1;
    }
    let index = |name: &str| name.strip_prefix("node-")?.parse::<u32>().ok();
    let unknown = nodes.keys().filter(|name| index(name).is_none_or(|index| index >= size.nodes)).count();
    let too_full = nodes
        .iter()
        .filter(|(name, count)| index(name).is_some_and(|index| **count > room(shape, standing(shape, size, index))))
        .count();
    let mut lines = Vec::new();
    if unknown > 0 {
        lines.push(format!("pods are on {unknown} nodes that do not exist"));
    }
    if too_full > 0 {
        lines.push(format!("{too_full} nodes have more pods than they may have"));
    }
    lines
}

/// Maximum number of measured pods on a node with so many existing pods.
fn room(shape: Shape, standing: u32) -> u32 {
    match shape {
        Shape::AntiAffinity => u32::from(standing == 0),
        // 4 CPUs, and 3 per pod; existing pods are preempted.
        Shape::Preemption => 1,
        Shape::Volumes => VOLUMES.saturating_sub(standing),
        // These pods have no requests.
        Shape::Spread | Shape::Steady50 | Shape::Steady200 => PODS.saturating_sub(standing),
        Shape::Basic | Shape::Affinity | Shape::Mixed | Shape::Unschedulable | Shape::StatefulSet | Shape::Job => {
            PODS_BY_CPU.saturating_sub(standing)
        }
    }
}

/// Number of existing pods on a node; perf/load/fill.go places them round-robin.
fn standing(shape: Shape, size: Size, index: u32) -> u32 {
    let turn = if shape == Shape::Mixed { MIXED_TURN } else { 1 };
    let rest = size.standing % (size.nodes * turn);
    size.standing / (size.nodes * turn) * turn + rest.saturating_sub(index * turn).min(turn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Fact;

    const SIZE: Size = Size { nodes: 3, standing: 1, pods: 4, rate: 0 };

    fn on(nodes: &[&str]) -> Facts {
        let fact = |node: &&str| Fact { bound_us: Some(1), node: (*node).to_owned(), ..Fact::default() };
        Facts { client_cpu_s: 0.0, pods: nodes.iter().map(fact).collect() }
    }

    #[test]
    fn standing_pods_are_on_nodes_in_turn() {
        let size = Size { nodes: 3, standing: 7, pods: 0, rate: 0 };
        assert_eq!([0, 1, 2].map(|index| standing(Shape::Basic, size, index)), [3, 2, 2]);
        let size = Size { standing: 23, ..size };
        assert_eq!([0, 1, 2].map(|index| standing(Shape::Mixed, size, index)), [10, 8, 5]);
    }

    #[test]
    fn pods_that_want_no_other_on_their_host_are_alone() {
        let good = on(&["node-00001", "node-00002"]);
        assert!(misplaced(Shape::AntiAffinity, SIZE, &good).is_empty());
        for bad in [["node-00001", "node-00001"], ["node-00000", "node-00001"]] {
            assert_eq!(misplaced(Shape::AntiAffinity, SIZE, &on(&bad)).len(), 1, "{bad:?}");
        }
    }

    #[test]
    fn a_node_takes_no_more_than_fits_beside_what_stands() {
        let full = vec!["node-00000"; 39];
        assert!(misplaced(Shape::Basic, SIZE, &on(&full)).is_empty());
        assert_eq!(misplaced(Shape::Basic, SIZE, &on(&[full, vec!["node-00000"]].concat())).len(), 1);
    }

    #[test]
    fn a_node_that_does_not_exist_is_told() {
        assert_eq!(misplaced(Shape::Basic, SIZE, &on(&["node-00003"])).len(), 1);
        assert_eq!(misplaced(Shape::Basic, SIZE, &on(&["elsewhere"])).len(), 1);
    }
}
