//! Potential victims, if pod groups exist.
//!
//! Pods on deleted nodes are skipped; kube-scheduler fails for a group that has one.
//!
//! Source: `GetVictimsOnNode` with the feature gate GenericWorkload, and `getCrossNodesVictims`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_framework::{
    node::NodeId,
    preemption::{PlacedPod, Unit, violations},
};

use crate::{
    judge::cache::Charge,
    machine::Machine,
    pods::Pod,
    subject::{GroupKey, Uid},
};

/// Where a potential victim is.
pub(crate) type Location = (NodeId, Charge);

impl Machine {
    /// The units with these pods that a preemptor of this priority may evict, with their pods elsewhere.
    pub(crate) fn units_of<'a>(&self, pods: impl Iterator<Item = &'a Uid>, priority: i32) -> Vec<Unit<Location>> {
        let mut units: Vec<Unit<Location>> = Vec::new();
        let mut wholes: BTreeMap<GroupKey, usize> = BTreeMap::new();
        for pod in pods.filter_map(|uid| self.pods.get(uid)) {
            let Some(one) = self.located(pod) else { continue };
            let object = self.object_of(pod);
            let rank = object.map_or(pod.info.priority, |object| object.priority);
            if rank >= priority {
                continue;
            }
            let key = self.group_as_victim(&pod.info);
            let is_of_group = key.is_some();
            if let Some(key) = key.filter(|_| object.is_some_and(|object| object.disrupted_whole)) {
                if let Some(at) = wholes.get(&key) {
                    units[*at].pods.push(one);
                    continue;
                }
                wholes.insert(key, units.len());
            }
            units.push(Unit { priority: rank, is_of_group, pods: vec![one] });
        }
        for (key, at) in wholes {
            let known: BTreeSet<Uid> = units[at].standing().map(|pod| Arc::clone(&pod.uid)).collect();
            let mates = self.groups.members(&key).filter(|uid| !known.contains(*uid));
            units[at].pods.extend(mates.filter_map(|uid| self.located(self.pods.get(uid)?)));
        }
        units
    }

    fn located(&self, pod: &Pod) -> Option<(PlacedPod, Location)> {
        let charge = pod.charge.as_ref()?;
        let node = self.judge.cache().nodes.get(&charge.node)?.id;
        let mut standing = PlacedPod::of(&pod.info, charge.class);
        standing.is_preempted |= self.preemptions.is_doomed(&pod.info.uid);
        Some((standing, (node, charge.clone())))
    }

    /// Whether each unit violates a budget with any pod.
    pub(crate) fn violating<P>(&mut self, units: &[Unit<P>]) -> Vec<bool> {
        let classes = &self.judge.cache().classes;
        let known = units.iter().flat_map(Unit::standing);
        let budgets =
            self.budgets.covering(known.filter_map(|pod| Some((pod.class, classes.get(pod.class)?.as_ref()))));
        violations(units, &budgets, |id| classes.get(id)).into_iter().map(|violations| violations > 0).collect()
    }
}
