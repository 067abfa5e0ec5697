//! The requested and free resources of nodes.

use std::sync::Arc;

use flotilla_framework::{class::PodInfo, map::Map, node::NodeInfo, resources::Resources};
use flotilla_model::Resident;

use super::Hold;

/// The resources with compared sums.
const SUMMED: [&str; 3] = ["cpu", "memory", "pods"];

/// The largest requested share of a resource of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    /// The resource.
    pub resource: Arc<str>,
    /// In percent of the allocatable amount.
    pub percent: f64,
}

/// The free CPU, memory and pods of all nodes. A node with more requests than resources counts as full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room([i128; 3]);

impl Room {
    /// The free resources, and the largest share of each node.
    pub(super) fn of<'a>(nodes: &[Arc<NodeInfo>], pods: impl Iterator<Item = &'a Arc<PodInfo>>) -> (Self, Vec<Share>) {
        let mut on_nodes: Map<&str, Vec<&PodInfo>> = nodes.iter().map(|node| (&*node.name, Vec::new())).collect();
        for pod in pods {
            let node = pod.node_name.as_deref().and_then(|node| on_nodes.get_mut(node));
            node.into_iter().for_each(|on_node| on_node.push(pod));
        }
        let mut room = Self([0; 3]);
        let mut shares = Vec::new();
        for node in nodes {
            let pods = on_nodes.get(&*node.name).map_or(&[][..], Vec::as_slice);
            let free = free(node, pods.iter().copied());
            room.0.iter_mut().zip(free).for_each(|(sum, free)| *sum += free);
            shares.push(share(node, pods));
        }
        (room, shares)
    }

    /// The free resources of all other nodes after they have taken the pods of a node.
    pub(super) fn without(self, node: &NodeInfo, residents: &[Resident]) -> Result<Self, Hold> {
        let free = free(node, residents.iter().map(|resident| &*resident.pod));
        let moving = residents.iter().filter(|resident| !resident.goes_with_node() && resident.is_controlled);
        let requested = sum(moving.map(|resident| &*resident.pod));
        let mut left = self.0;
        for (((left, free), requested), resource) in left.iter_mut().zip(free).zip(requested).zip(SUMMED) {
            let others = *left - free;
            // A pod without requests fits on a full node.
            if requested > others.max(0) {
                return Err(Hold::Room { resource: resource.into(), requested, free: others.max(0) });
            }
            *left = others - requested;
        }
        Ok(Self(left))
    }
}

fn sum<'a>(pods: impl Iterator<Item = &'a PodInfo>) -> [i128; 3] {
    pods.fold([0; 3], |[cpu, memory, pods], pod| {
        let accounted = &pod.class.accounted;
        [cpu + i128::from(accounted.milli_cpu), memory + i128::from(accounted.memory), pods + 1]
    })
}

fn free<'a>(node: &NodeInfo, pods: impl Iterator<Item = &'a PodInfo>) -> [i128; 3] {
    let [cpu, memory, count] = sum(pods);
    let allocatable = &node.allocatable;
    let amounts = [(allocatable.milli_cpu, cpu), (allocatable.memory, memory), (node.allowed_pods, count)];
    amounts.map(|(allocatable, used)| (i128::from(allocatable) - used).max(0))
}

/// CPU counts first among equal shares.
#[expect(clippy::cast_precision_loss, reason = "a share in percent needs few digits")]
fn share(node: &NodeInfo, pods: &[&PodInfo]) -> Share {
    let of = |amount: &dyn Fn(&Resources) -> i64| -> f64 {
        let used: i128 = pods.iter().map(|pod| i128::from(amount(&pod.class.accounted))).sum();
        let allocatable = amount(&node.allocatable);
        if allocatable > 0 { used as f64 * 100.0 / allocatable as f64 } else { 0.0 }
    };
    let mut largest = Share { resource: "cpu".into(), percent: of(&|resources| resources.milli_cpu) };
    let memory = Share { resource: "memory".into(), percent: of(&|resources| resources.memory) };
    let scalars = node.allocatable.scalars.iter().map(|(name, _)| {
        let amount = |resources: &Resources| {
            let found = resources.scalars.binary_search_by(|(known, _)| known.cmp(name)).ok();
            found.and_then(|at| resources.scalars.get(at)).map_or(0, |(_, amount)| *amount)
        };
        Share { resource: Arc::clone(name), percent: of(&amount) }
    });
    for share in std::iter::once(memory).chain(scalars) {
        if share.percent > largest.percent {
            largest = share;
        }
    }
    largest
}

#[cfg(test)]
mod tests {
    use flotilla_cluster::lifecycle::PodFacts;
    use flotilla_framework::{
        class::{Class, Common},
        testing,
    };

    use super::*;

    fn node(name: &str, cpu: i64, memory: i64, gpus: i64) -> Arc<NodeInfo> {
        let allocatable = resources(cpu, memory, gpus);
        Arc::new(NodeInfo { name: name.into(), allocatable, allowed_pods: 2, ..NodeInfo::default() })
    }

    fn resources(milli_cpu: i64, memory: i64, gpus: i64) -> Resources {
        Resources { milli_cpu, memory, scalars: vec![("gpu".into(), gpus)], ..Resources::default() }
    }

    fn pod(node: &str, cpu: i64, memory: i64, gpus: i64) -> Arc<PodInfo> {
        let common = Arc::new(Common { accounted: resources(cpu, memory, gpus), ..Common::default() });
        let class = Arc::new(Class { common, ..Class::default() });
        Arc::new(PodInfo { node_name: Some(node.into()), class, ..testing::pod("p").build() })
    }

    #[test]
    fn the_largest_share_of_a_node_is_of_cpu_memory_or_an_extended_resource() {
        let nodes = [node("a", 1000, 100, 4), node("b", 1000, 100, 4), node("c", 1000, 100, 4), node("d", 0, 0, 0)];
        let pods = [pod("a", 500, 50, 0), pod("b", 100, 90, 0), pod("c", 100, 10, 3)];
        let (_, shares) = Room::of(&nodes, pods.iter());
        let shares: Vec<_> = shares.iter().map(|share| (&*share.resource, share.percent)).collect();
        assert_eq!(shares, [("cpu", 50.0), ("memory", 90.0), ("gpu", 75.0), ("cpu", 0.0)]);
    }

    #[test]
    fn the_pods_of_a_node_need_free_resources_on_the_others() {
        let nodes = [node("a", 1000, 100, 0), node("b", 1000, 100, 0), node("c", 100, 100, 0)];
        let resident = |pod: Arc<PodInfo>| Resident { pod, facts: PodFacts::default(), is_controlled: true };
        let lacks = |resource: &str, requested, free| Err(Hold::Room { resource: resource.into(), requested, free });
        let full = pod("c", 500, 0, 0);
        let cases = [
            (vec![pod("a", 700, 0, 0)], Ok(Room([300, 200, 2]))),
            (vec![pod("a", 700, 0, 0), pod("a", 400, 0, 0)], lacks("cpu", 1100, 1000)),
            (vec![pod("a", 0, 201, 0)], lacks("memory", 201, 200)),
            (vec![pod("a", 0, 0, 0); 4], lacks("pods", 4, 3)),
            (Vec::new(), Ok(Room([1000, 200, 3]))),
        ];
        for (pods, expected) in cases {
            let (room, _) = Room::of(&nodes, pods.iter().chain([&full]));
            let residents: Vec<Resident> = pods.into_iter().map(resident).collect();
            assert_eq!(room.without(&nodes[0], &residents), expected);
        }
    }
}
