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
    class::PodInfo,
    node::NodeId,
    pod_group::{AsVictim, GroupApi, Hierarchy as _},
    preemption::{PlacedPod, Unit, UnitKind, violations},
};

use crate::{
    judge::cache::Charge,
    pods::Pod,
    site::Site,
    subject::{GroupKey, Uid},
};

/// Where a potential victim is.
pub(crate) type Location = (NodeId, Charge);

impl Site<'_> {
    /// The units with these pods that a preemptor of this priority may evict, with their pods elsewhere.
    pub(crate) fn units_of<'a>(&self, pods: impl Iterator<Item = &'a Uid>, priority: i32) -> Vec<Unit<Location>> {
        let mut units: Vec<Unit<Location>> = Vec::new();
        let mut wholes: BTreeMap<GroupKey, usize> = BTreeMap::new();
        for pod in pods.filter_map(|uid| self.pods.get(uid)) {
            let Some(one) = self.located(pod) else { continue };
            let victim = self.as_victim(pod);
            let rank = victim.as_ref().map_or(pod.info.priority, |victim| victim.priority);
            if rank >= priority {
                continue;
            }
            let is_of_group = self.group_as_victim(&pod.info).is_some();
            let usual = if is_of_group { UnitKind::PodGroup } else { UnitKind::Pod };
            let kind = victim.as_ref().map_or(usual, AsVictim::kind);
            if let Some(key) = victim.and_then(|victim| victim.whole) {
                if let Some(at) = wholes.get(&key) {
                    units[*at].pods.push(one);
                    continue;
                }
                wholes.insert(key, units.len());
            }
            units.push(Unit { priority: rank, kind, pods: vec![one] });
        }
        for (key, at) in wholes {
            let known: BTreeSet<Uid> = units[at].standing().map(|pod| Arc::clone(&pod.uid)).collect();
            let mates = self.groups.members(&key).filter(|uid| !known.contains(*uid));
            units[at].pods.extend(mates.filter_map(|uid| self.located(self.pods.get(uid)?)));
        }
        units
    }

    /// The priority at which a pod is preempted: that of the root above its group of `scheduling.k8s.io`, if it has one.
    ///
    /// Source: `GetPodPriority`.
    pub(crate) fn rank_of(&self, pod: &Pod) -> i32 {
        self.as_victim(pod).map_or(pod.info.priority, |victim| victim.priority)
    }

    /// How a pod is preempted with its group. Pods of `scheduling.x-k8s.io` are preempted as pods without a group, as by kube-scheduler.
    fn as_victim(&self, pod: &Pod) -> Option<AsVictim> {
        self.groups.as_victim(&self.group_as_victim(&pod.info)?)
    }

    fn group_as_victim(&self, info: &PodInfo) -> Option<GroupKey> {
        self.settings.group_of(info).filter(|key| key.api == GroupApi::Kubernetes)
    }

    fn located(&self, pod: &Pod) -> Option<(PlacedPod, Location)> {
        let charge = pod.charge.as_ref()?;
        let node = self.shards.judge.cache().nodes().get(&charge.node)?.id;
        let mut standing = PlacedPod::of(&pod.info, charge.class);
        standing.is_preempted |= self.shards.preemptions.is_doomed(&pod.info.uid);
        Some((standing, (node, charge.clone())))
    }

    /// Whether each unit violates a budget with any pod.
    pub(crate) fn violating<P>(&mut self, units: &[Unit<P>]) -> Vec<bool> {
        let classes = self.shards.judge.cache().classes();
        let known = units.iter().flat_map(Unit::standing);
        let budgets =
            self.shards.budgets.covering(known.filter_map(|pod| Some((pod.class, classes.get(pod.class)?.as_ref()))));
        violations(units, &budgets, |id| classes.get(id)).into_iter().map(|violations| violations > 0).collect()
    }
}
