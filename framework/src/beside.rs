//! Pods that are put on a node or taken from it for the length of a question, and what the filters say meanwhile.
//!
//! Knows: both passes with nominated pods, and what each filter counts of a pod. Must not know: who is nominated, who is to
//! be preempted, or what follows from the answer.
//!
//! Source: `RunFilterPluginsWithNominatedPods`, `addGENominatedPods`, and the PreFilterExtensions of plugins that count.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::{
    class::{Class, ClassId},
    domains::{Sums, Tables},
    extension::Filter,
    node::NodeId,
    prepared::{Order, Prepared},
    snapshot::{Slot, Snapshot},
    status::Refusal,
    symbols::Symbol,
};

/// A class with its number.
pub(crate) type Pod = (ClassId, Arc<Class>);

/// By how much what the filters of a class count over the whole cluster has changed, filter by filter.
pub(crate) type Shifts = SmallVec<[i64; 16]>;

/// Filter by filter: upstream skips the plugin for this class, because nothing that stands anywhere concerns it.
pub(crate) type Idle = SmallVec<[bool; 16]>;

/// What the filters of a class count, changed by pods that come and go for now.
#[derive(Debug)]
pub(crate) struct Beside<'a> {
    pub(crate) prepared: &'a Prepared,
    /// `None` where no filter counts over domains.
    pub(crate) tables: Option<&'a mut Tables>,
    pub(crate) shifts: &'a mut Shifts,
    pub(crate) idle: &'a Idle,
}

/// The classes that are known, as often as they are named.
pub(crate) fn known(nodes: &Snapshot, classes: &[ClassId]) -> SmallVec<[Pod; 2]> {
    classes.iter().filter_map(|&id| Some((id, Arc::clone(nodes.class(id)?)))).collect()
}

/// No shift of any filter.
pub(crate) fn no_shifts(prepared: &Prepared) -> Shifts {
    prepared.filters().iter().map(|_| 0).collect()
}

/// Which filters upstream skips as things are; none where no filter counts over domains.
pub(crate) fn idle(prepared: &Prepared, tables: Option<&Tables>) -> Idle {
    let is_idle = |filter: &Filter, first: usize| match (filter, tables) {
        (Filter::Domain(filter), Some(tables)) => filter.is_idle(Sums { tables, codes: &[], locals: &[], first }),
        _ => false,
    };
    prepared.filters().iter().map(|known| is_idle(&known.filter, known.first_term)).collect()
}

// === impl Beside ===

impl Beside<'_> {
    /// The first filter that refuses a node, with these pods on it or without them.
    pub(crate) fn both_passes(
        &mut self,
        nodes: &mut Snapshot,
        place: (NodeId, Slot),
        beside: &[Pod],
    ) -> Option<(Order, Refusal)> {
        self.first_pass(nodes, place, beside).or_else(|| self.first_refusal(nodes, place.1))
    }

    /// The first filter that refuses a node with these pods on it; `None` where there are none. The snapshot is as it was
    /// afterwards, its stamps too.
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

    /// The first filter that refuses a node as it is now.
    pub(crate) fn first_refusal(&mut self, nodes: &Snapshot, slot: Slot) -> Option<(Order, Refusal)> {
        let local = self.prepared.refused_shifted(nodes, slot, self.shifts);
        let Some(tables) = self.tables.as_deref_mut() else { return local };
        let before = local.map_or(Order::MAX, |(order, _)| order);
        let places = tables.places(&self.prepared.domains(nodes, slot));
        let codes = tables.codes(&places);
        let sums = Sums { tables, codes: &codes, locals: &[], first: 0 };
        self.prepared.judge_sums(sums, before).err().or(local)
    }

    /// Puts a pod on a node.
    pub(crate) fn add(&mut self, nodes: &mut Snapshot, (node, slot): (NodeId, Slot), (id, class): &Pod) {
        if nodes.add_pod(node, *id) {
            self.shift(nodes, slot, class, 1);
        }
    }

    /// Takes a pod from a node; whether it was there.
    pub(crate) fn remove(&mut self, nodes: &mut Snapshot, (node, slot): (NodeId, Slot), (id, class): &Pod) -> bool {
        let was_there = nodes.remove_pod(node, *id);
        if was_there {
            self.shift(nodes, slot, class, -1);
        }
        was_there
    }

    /// So many pods of a class come to a node, or leave it where that is less than none, as far as filters count them over
    /// more than the node: upstream's `AddPod` and `RemovePod` of PreFilterExtensions.
    pub(crate) fn shift(&mut self, nodes: &Snapshot, slot: Slot, class: &Class, pods: i64) {
        for ((known, &idle), shift) in self.prepared.filters().iter().zip(self.idle).zip(&mut *self.shifts) {
            match &known.filter {
                Filter::Node(filter) => *shift += pods * filter.counts(class),
                Filter::Domain(_) if idle => {}
                Filter::Domain(filter) => {
                    let Some(tables) = self.tables.as_deref_mut() else { continue };
                    for (number, amount) in filter.nominated_amounts(class) {
                        let at = known.first_term + number as usize;
                        let Some(term) = self.prepared.terms().get(at) else { continue };
                        let value = nodes.label(term.spec.key, slot);
                        let somewhere = value != Symbol::NONE || term.spec.lacking_is_empty;
                        if somewhere && filter.counts_node(number, nodes, slot) {
                            tables.add(at, nodes.symbols.text(value), amount.saturating_mul(pods));
                        }
                    }
                }
            }
        }
    }
}
