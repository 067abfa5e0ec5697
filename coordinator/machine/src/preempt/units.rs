//! Potential victims on a node, if pod groups exist.
//!
//! Pods on deleted nodes are skipped; kube-scheduler fails for a group that has one.
//!
//! Source: `GetVictimsOnNode` with the feature gate GenericWorkload.

use std::{collections::BTreeSet, sync::Arc};

use flotilla_framework::{
    class::ClassId,
    node::NodeId,
    preemption::{Layout, PlacedPod, Unit, lay_out_units},
};

use super::NOW_NS;
use crate::{
    machine::Machine,
    subject::{GroupKey, Uid},
};

impl Machine {
    pub(super) fn layout_of_units(
        &mut self,
        node: NodeId,
        name: &Arc<str>,
        beside: &[ClassId],
        priority: i32,
    ) -> Option<Layout> {
        let units = self.units_on(name, priority);
        if units.is_empty() {
            return None;
        }
        let classes = &self.judge.cache().classes;
        let of = |pod: &PlacedPod| Some((pod.class, classes.get(pod.class)?.as_ref()));
        let pods = units.iter().flat_map(|unit| unit.pods.iter().chain(unit.elsewhere.iter().map(|(_, pod)| pod)));
        let budgets = self.budgets.covering(pods.filter_map(of));
        let class = |id: ClassId| classes.get(id).map(Arc::clone);
        Some(lay_out_units(node, units, beside.to_vec(), priority, NOW_NS, &budgets, class))
    }

    fn units_on(&self, name: &Arc<str>, priority: i32) -> Vec<Unit> {
        let mut units = Vec::new();
        let mut wholes: BTreeSet<GroupKey> = BTreeSet::new();
        for uid in self.residents.on(name) {
            let Some(pod) = self.pods.get(uid) else { continue };
            let object = self.object_of(pod);
            let rank = object.map_or(pod.info.priority, |object| object.priority);
            let is_whole = object.is_some_and(|object| object.disrupted_whole);
            let key = self.group_as_victim(&pod.info);
            if rank >= priority || key.as_ref().is_some_and(|key| wholes.contains(key)) {
                continue;
            }
            let mut unit = Unit { priority: rank, is_of_group: key.is_some(), pods: Vec::new(), elsewhere: Vec::new() };
            match key.filter(|_| is_whole) {
                Some(key) => {
                    self.groups.members(&key).for_each(|uid| self.add_to(&mut unit, uid, name));
                    wholes.insert(key);
                }
                None => self.add_to(&mut unit, uid, name),
            }
            if !unit.pods.is_empty() {
                units.push(unit);
            }
        }
        units
    }

    fn add_to(&self, unit: &mut Unit, uid: &Uid, here: &Arc<str>) {
        let Some(pod) = self.pods.get(uid) else { return };
        let Some(charge) = &pod.charge else { return };
        let Some(node) = self.judge.cache().nodes.get(&charge.node).map(|node| node.id) else { return };
        let mut standing = PlacedPod::of(&pod.info, charge.class);
        standing.is_preempted |= self.preemptions.is_doomed(uid);
        if charge.node == *here {
            unit.pods.push(standing);
        } else {
            unit.elsewhere.push((node, standing));
        }
    }
}
