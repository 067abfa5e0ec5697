//! Filters with nominated pods: adds pods to a node or removes them for one evaluation, then restores the snapshot.
//!
//! Source: `RunFilterPluginsWithNominatedPods`, `addGENominatedPods`, and the PreFilterExtensions of plugins that count.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::{
    class::{Class, ClassId},
    domains::{Sums, Tables},
    extension::Filter,
    node::NodeId,
    prepared::{Order, Prepared, PreparedFilter},
    snapshot::{Slot, Snapshot},
    status::Refusal,
};

pub(crate) type Pod = (ClassId, Arc<Class>);

/// Per filter: the change of its cluster-wide count.
pub(crate) type Shifts = SmallVec<[i64; 16]>;

/// Per filter: kube-scheduler skips the plugin for this class, because no existing pod concerns it.
pub(crate) type Idle = SmallVec<[bool; 16]>;

/// The counts of a class's filters while pods are added or removed temporarily.
#[derive(Debug)]
pub(crate) struct TrialCounts<'a> {
    pub(crate) prepared: &'a Prepared,
    /// `None` where no filter counts over domains.
    pub(crate) tables: Option<&'a mut Tables>,
    pub(crate) shifts: &'a mut Shifts,
    pub(crate) idle: &'a Idle,
}

pub(crate) fn known(nodes: &Snapshot, classes: &[ClassId]) -> SmallVec<[Pod; 2]> {
    classes.iter().filter_map(|&id| Some((id, Arc::clone(nodes.class(id)?)))).collect()
}

pub(crate) fn no_shifts(prepared: &Prepared) -> Shifts {
    prepared.filters().iter().map(|_| 0).collect()
}

pub(crate) fn idle(prepared: &Prepared, tables: Option<&Tables>) -> Idle {
    let is_idle = |filter: &Filter, first: usize| match (filter, tables) {
        (Filter::Domain(filter), Some(tables)) => filter.is_idle(Sums { tables, codes: &[], locals: &[], first }),
        _ => false,
    };
    prepared.filters().iter().map(|known| is_idle(&known.filter, known.first_term)).collect()
}

impl TrialCounts<'_> {
    pub(crate) fn both_passes(
        &mut self,
        nodes: &mut Snapshot,
        place: (NodeId, Slot),
        beside: &[Pod],
    ) -> Option<(Order, Refusal)> {
        self.first_pass(nodes, place, beside).or_else(|| self.first_refusal(nodes, place.1))
    }

    /// The first filter that refuses a node with these pods on it; `None` without pods. Restores the snapshot and its stamps.
    pub(crate) fn first_pass(
        &mut self,
        nodes: &mut Snapshot,
        place: (NodeId, Slot),
        beside: &[Pod],
    ) -> Option<(Order, Refusal)> {
        if beside.is_empty() {
            return None;
        }
        let stamps = nodes.stamps(place.1);
        beside.iter().for_each(|pod| self.add(nodes, place, pod));
        let refusal = self.first_refusal(nodes, place.1);
        for pod in beside {
            self.remove(nodes, place, pod);
        }
        nodes.restore_stamps(place.1, stamps);
        refusal
    }

    pub(crate) fn first_refusal(&mut self, nodes: &Snapshot, slot: Slot) -> Option<(Order, Refusal)> {
        let local = self.prepared.refused_shifted(nodes, slot, self.shifts);
        let Some(tables) = self.tables.as_deref_mut() else { return local };
        let before = local.map_or(Order::MAX, |(order, _)| order);
        let places = tables.places(&self.prepared.domains(nodes, slot));
        let codes = tables.codes(&places);
        let sums = Sums { tables, codes: &codes, locals: &[], first: 0 };
        self.prepared.judge_sums(sums, before).err().or(local)
    }

    pub(crate) fn add(&mut self, nodes: &mut Snapshot, (node, slot): (NodeId, Slot), (id, class): &Pod) {
        if nodes.add_pod(node, *id) {
            self.shift(nodes, slot, class, 1);
        }
    }

    pub(crate) fn remove(&mut self, nodes: &mut Snapshot, (node, slot): (NodeId, Slot), (id, class): &Pod) -> bool {
        let was_there = nodes.remove_pod(node, *id);
        if was_there {
            self.shift(nodes, slot, class, -1);
        }
        was_there
    }

    /// Counts `pods` pods of a class on a node, negative to remove them, beyond the node: `AddPod` and `RemovePod` of PreFilterExtensions.
    pub(crate) fn shift(&mut self, nodes: &Snapshot, slot: Slot, class: &Class, pods: i64) {
        for ((known, &idle), shift) in self.prepared.filters().iter().zip(self.idle).zip(&mut *self.shifts) {
            match &known.filter {
                Filter::Node(filter) => *shift += pods * filter.counts(class),
                Filter::Domain(_) if idle => {}
                Filter::Domain(filter) => {
                    let Some(tables) = self.tables.as_deref_mut() else { continue };
                    let amounts = filter.nominated_amounts(class);
                    add(tables, (self.prepared, known), (nodes, slot), &amounts, pods);
                }
            }
        }
    }

    /// As [`Self::shift`], but as PreFilter counts the pod.
    pub(crate) fn recount(&mut self, nodes: &Snapshot, slot: Slot, class: &Class, pods: i64) {
        let Some(tables) = self.tables.as_deref_mut() else { return };
        for known in self.prepared.filters() {
            if let Filter::Domain(filter) = &known.filter {
                add(tables, (self.prepared, known), (nodes, slot), &filter.amounts(class), pods);
            }
        }
    }
}

/// Adds the amounts of `pods` pods on a node to the counts of a filter.
fn add(
    tables: &mut Tables,
    (prepared, known): (&Prepared, &PreparedFilter),
    (nodes, slot): (&Snapshot, Slot),
    amounts: &[(u16, i64)],
    pods: i64,
) {
    let Filter::Domain(filter) = &known.filter else { return };
    for &(number, amount) in amounts {
        let at = known.first_term + number as usize;
        let Some(term) = prepared.terms().get(at) else { continue };
        let value = nodes.label(term.spec.key, slot);
        if term.counts(value, filter.as_ref(), nodes, slot) {
            tables.add(at, nodes.symbols.text(value), amount.saturating_mul(pods));
        }
    }
}
