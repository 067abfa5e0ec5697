//! Recounts columns from the pods on each node, and compares snapshots.

use std::collections::BTreeMap;

use super::{Slot, Snapshot};
use crate::{class::HostPort, node::NodeId, resources::Resources};

/// The sums of one node, too wide to overflow.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sums<'a> {
    milli_cpu: i128,
    memory: i128,
    ephemeral_storage: i128,
    nonzero_milli_cpu: i128,
    nonzero_memory: i128,
    pods: i128,
    scalars: BTreeMap<&'a str, i128>,
    ports: Vec<&'a HostPort>,
}

impl Snapshot {
    /// The first node with a column that differs from the sum over its pods, and that column. Takes time by nodes and classes on each.
    #[must_use]
    pub fn miscounted(&self) -> Option<(NodeId, &'static str)> {
        self.live().find_map(|slot| Some((self.id(slot)?, self.miscounted_at(slot)?)))
    }

    fn miscounted_at(&self, slot: Slot) -> Option<&'static str> {
        let mut sums = Sums::default();
        for &(class, count) in self.tenants(slot) {
            let Some(class) = self.class(class) else { return Some("classes") };
            let times = |amount: i64| i128::from(amount) * i128::from(count);
            sums.milli_cpu += times(class.accounted.milli_cpu);
            sums.memory += times(class.accounted.memory);
            sums.ephemeral_storage += times(class.accounted.ephemeral_storage);
            sums.nonzero_milli_cpu += times(class.nonzero_milli_cpu);
            sums.nonzero_memory += times(class.nonzero_memory);
            sums.pods += i128::from(count);
            for (name, amount) in &class.accounted.scalars {
                *sums.scalars.entry(name).or_default() += times(*amount);
            }
            (0..count).for_each(|_| sums.ports.extend(&class.host_ports));
        }
        let (at, accounts) = (slot as usize, &self.accounts);
        let columns = [
            ("CPU", accounts.milli_cpu[at], sums.milli_cpu),
            ("memory", accounts.memory[at], sums.memory),
            ("ephemeral storage", accounts.ephemeral_storage[at], sums.ephemeral_storage),
            ("non-zero CPU", accounts.nonzero_milli_cpu[at], sums.nonzero_milli_cpu),
            ("non-zero memory", accounts.nonzero_memory[at], sums.nonzero_memory),
            ("pods", accounts.pods[at], sums.pods),
        ];
        // Columns saturate at the largest number.
        let is_wrong = |(_, column, sum): &(&str, i64, i128)| i128::from(*column) != (*sum).min(i64::MAX.into());
        if let Some((name, ..)) = columns.into_iter().find(is_wrong) {
            return Some(name);
        }
        let charged = accounts.requested(slot).scalars;
        let charged = charged.iter().filter(|(_, amount)| *amount != 0).map(|(name, amount)| (&**name, *amount));
        let sums_of = sums.scalars.iter().map(|(name, sum)| (*name, i64::try_from(*sum).unwrap_or(i64::MAX)));
        let sums_of: BTreeMap<&str, i64> = sums_of.filter(|(_, amount)| *amount != 0).collect();
        if charged.collect::<BTreeMap<_, _>>() != sums_of {
            return Some("extended resources");
        }
        let mut ports: Vec<&HostPort> = self.ports[at].iter().collect();
        ports.sort_unstable();
        sums.ports.sort_unstable();
        (ports != sums.ports).then_some("host ports")
    }

    /// Whether a node has these allocatable amounts and this number of allowed pods.
    #[must_use]
    pub fn allocates(&self, slot: Slot, allocatable: &Resources, allowed_pods: i64) -> bool {
        let (at, accounts) = (slot as usize, &self.accounts);
        let scalar = |(name, amount): &(std::sync::Arc<str>, i64)| accounts.scalar_amounts(name, slot).0 == *amount;
        accounts.allocatable_milli_cpu[at] == allocatable.milli_cpu
            && accounts.allocatable_memory[at] == allocatable.memory
            && accounts.allocatable_ephemeral_storage[at] == allocatable.ephemeral_storage
            && accounts.allowed_pods[at] == allowed_pods
            && allocatable.scalars.iter().all(scalar)
    }

    /// The first node that differs from the same node in `whole`, and the difference. `whole` must have all of these nodes.
    #[must_use]
    pub fn differs_from(&self, whole: &Self) -> Option<(NodeId, &'static str)> {
        self.live().find_map(|slot| {
            let id = self.id(slot)?;
            let Some(other) = whole.slot(id) else { return Some((id, "whether it is there")) };
            self.differs_at(slot, whole, other).map(|what| (id, what))
        })
    }

    fn differs_at(&self, slot: Slot, whole: &Self, other: Slot) -> Option<&'static str> {
        let (at, there) = (slot as usize, other as usize);
        let (own, its) = (&self.accounts, &whole.accounts);
        let pairs = |own: &super::Accounts, at: usize| {
            [
                own.allocatable_milli_cpu[at],
                own.allocatable_memory[at],
                own.allocatable_ephemeral_storage[at],
                own.allowed_pods[at],
                own.nonzero_milli_cpu[at],
                own.nonzero_memory[at],
                own.pods[at],
            ]
        };
        let name = |nodes: &Self, slot| nodes.symbols.text(nodes.name(slot)).to_owned();
        let taints = |nodes: &Self, at: usize| nodes.taint_sets.get_index(nodes.taints[at] as usize).cloned();
        let checks = [
            ("name", name(self, slot) == name(whole, other)),
            ("hash", self.hash(slot) == whole.hash(other)),
            ("pods by class", self.tenants(slot) == whole.tenants(other)),
            ("amounts", pairs(own, at) == pairs(its, there) && own.requested(slot) == its.requested(other)),
            ("unschedulable", self.unschedulable(slot) == whole.unschedulable(other)),
            (
                "the policy of preemption for resizes",
                self.resize_preemption_disabled(slot) == whole.resize_preemption_disabled(other),
            ),
            ("taints", taints(self, at) == taints(whole, there)),
        ];
        checks.into_iter().find(|(_, same)| !same).map(|(what, _)| what)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        class::ClassId,
        testing::{node, pod},
    };

    type Spoiled = (&'static str, fn(&mut Snapshot));

    fn crowded() -> Snapshot {
        let mut nodes = Snapshot::new(7);
        nodes.upsert_node(NodeId(1), &node("a").capacity("example.com/gpu", "4").build());
        let classes = [
            pod("one").request("cpu", "100m").request("example.com/gpu", "1").host_port(80).build().class,
            pod("two").request("memory", "1Gi").request("example.com/loose", "2").build().class,
        ];
        for (id, class) in (1..).zip(&classes) {
            nodes.register_class(ClassId(id), Arc::clone(class));
        }
        [1, 1, 2].into_iter().for_each(|class| assert!(nodes.add_pod(NodeId(1), ClassId(class))));
        nodes
    }

    #[test]
    fn every_column_is_the_sum_over_the_pods_of_the_node() {
        let mut nodes = crowded();
        assert_eq!(nodes.miscounted(), None);
        nodes.remove_pod(NodeId(1), ClassId(1));
        assert_eq!(nodes.miscounted(), None);
        let wrong: [Spoiled; 4] = [
            ("CPU", |nodes| nodes.accounts.milli_cpu[0] += 1),
            ("memory", |nodes| nodes.accounts.memory[0] -= 1),
            ("pods", |nodes| nodes.accounts.pods[0] = 0),
            ("host ports", |nodes| nodes.ports[0].clear()),
        ];
        for (what, spoil) in wrong {
            let mut nodes = crowded();
            spoil(&mut nodes);
            assert_eq!(nodes.miscounted(), Some((NodeId(1), what)));
        }
    }

    #[test]
    fn a_part_of_the_nodes_says_what_the_whole_says_of_them() {
        let (part, mut whole) = (crowded(), crowded());
        assert_eq!(part.differs_from(&whole), None);
        whole.add_pod(NodeId(1), ClassId(2));
        assert_eq!(part.differs_from(&whole), Some((NodeId(1), "pods by class")));
        assert_eq!(part.differs_from(&Snapshot::new(7)), Some((NodeId(1), "whether it is there")));
    }
}
