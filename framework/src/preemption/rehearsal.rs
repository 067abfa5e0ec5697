//! Trials on nodes: potential victims are taken away, put back one after the other, and whoever cannot be put back is a
//! victim.
//!
//! Knows: what a node says with some pods more or less on it. Must not know: priorities, budgets, or which node is best.
//!
//! Source: `SelectVictimsOnNode` of upstream's defaultpreemption, `RunFilterPluginsWithNominatedPods`, and the
//! PreFilterExtensions of plugins that count over the cluster.

use std::{ops::Range, sync::Arc};

use smallvec::SmallVec;

use super::{Layout, Trial, Whole};
use crate::{
    class::{Class, ClassId},
    domains::{Sums, Tables},
    evaluate::tallies,
    extension::Filter,
    matches::Matches,
    node::NodeId,
    prepared::{Order, Prepared, RESTRICTION},
    snapshot::{Slot, Snapshot},
    status::Refusal,
    symbols::Symbol,
};

/// What came of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The preemptor fits once these are gone.
    Victims {
        /// Places in [`Trial::victims`], ascending, so that the most important victim comes first; never empty.
        indexes: Vec<u32>,
        /// How many of them violate a budget.
        violations: u32,
    },
    /// The preemptor does not fit with all potential victims gone: the filter, and what it says; its code may be an error.
    Refused(Order, Refusal),
    /// No pod on the node may be preempted.
    NoVictims,
    /// The preemptor fits with every pod in its place. That is an error of the attempt, upstream's "expected at least one
    /// victim pod": somebody else than the filters refused the node, such as an extender.
    Needless,
    /// The node or a victim is not where the trial has it. Nothing was learned.
    Stale,
}

/// What a trial needs to know of all nodes: counts over domains, as they are.
///
/// Bound: one count for each domain and term of the class. Made once for a preemptor, and good until a pod or node moves.
#[derive(Debug)]
pub struct Rehearsal {
    tables: Tables,
    /// Filter by filter: upstream skips the plugin for this pod, because nothing that stood anywhere concerned it.
    idle: SmallVec<[bool; 16]>,
    /// Filter by filter: by how much what it counts over the whole cluster has changed.
    shifts: SmallVec<[i64; 16]>,
}

/// Whether a shard alone can try its nodes: no filter counts over domains.
#[must_use]
pub fn is_local(prepared: &Prepared) -> bool {
    prepared.filters().iter().all(|prepared| matches!(prepared.filter, Filter::Node(_)))
}

/// One trial. Whoever has several makes one [`Rehearsal`] for all of them.
///
/// `nodes` are all nodes, or a shard's where [`is_local`] says that these will do. The snapshot is as it was afterwards,
/// its stamps too. `matches` has to be refreshed.
pub fn dry_run(prepared: &Prepared, nodes: &mut Snapshot, matches: &Matches, trial: &Trial) -> Outcome {
    Rehearsal::new(prepared, nodes, matches).dry_run(prepared, nodes, trial)
}

// === impl Rehearsal ===

impl Rehearsal {
    /// Counts what the filters of a class count. `matches` has to be refreshed.
    #[must_use]
    pub fn new(prepared: &Prepared, nodes: &Snapshot, matches: &Matches) -> Self {
        let counted = if is_local(prepared) { Vec::new() } else { tallies(prepared, nodes, matches) };
        let tables = Tables::new(prepared, std::iter::once(counted.as_slice()), std::iter::empty());
        let is_idle = |filter: &Filter, first: usize| match filter {
            Filter::Domain(filter) => filter.is_idle(Sums { tables: &tables, codes: &[], locals: &[], first }),
            Filter::Node(_) => false,
        };
        let idle = prepared.filters().iter().map(|known| is_idle(&known.filter, known.first_term)).collect();
        let shifts = prepared.filters().iter().map(|_| 0).collect();
        Self { tables, idle, shifts }
    }

    /// What the filters say against a node as it is, with pods of these classes being nominated to it and without them;
    /// `None` where they say nothing. Nodes whose names PreFilters left out are refused with [`RESTRICTION`].
    ///
    /// Preemption is tried on nodes that are refused with [`crate::status::Code::Unschedulable`]. Besides, where
    /// PreFilters leave out the node that the preemptor itself is nominated to, upstream goes by what the filters say of
    /// it: [`Self::filters_refuse`].
    pub fn refusal(
        &mut self,
        prepared: &Prepared,
        nodes: &mut Snapshot,
        node: NodeId,
        beside: &[ClassId],
    ) -> Option<(Order, Refusal)> {
        let slot = nodes.slot(node)?;
        if !prepared.admits_name(nodes, slot) {
            return Some((RESTRICTION, Refusal::unresolvable(0)));
        }
        self.filters_refuse(prepared, nodes, node, beside)
    }

    /// As [`Self::refusal`], whatever names PreFilters left.
    pub fn filters_refuse(
        &mut self,
        prepared: &Prepared,
        nodes: &mut Snapshot,
        node: NodeId,
        beside: &[ClassId],
    ) -> Option<(Order, Refusal)> {
        let slot = nodes.slot(node)?;
        let stamps = nodes.stamps(slot);
        let refusal = self.both_passes(prepared, nodes, (node, slot), &known(nodes, beside));
        nodes.restore_stamps(slot, stamps);
        refusal
    }

    /// One trial. The snapshot is as it was afterwards, its stamps too.
    pub fn dry_run(&mut self, prepared: &Prepared, nodes: &mut Snapshot, trial: &Trial) -> Outcome {
        self.try_out(prepared, nodes, trial, &[])
    }

    /// One trial, with what goes on other nodes along with its victims. Those nodes are as they were throughout: of their
    /// pods only what filters count over the whole cluster is taken away. Where [`is_local`] says that no filter counts,
    /// it is as [`Self::dry_run`].
    pub fn dry_run_whole(&mut self, prepared: &Prepared, nodes: &mut Snapshot, layout: &Layout) -> Outcome {
        self.try_out(prepared, nodes, &layout.trial, &layout.wholes)
    }

    fn try_out(&mut self, prepared: &Prepared, nodes: &mut Snapshot, trial: &Trial, wholes: &[Whole]) -> Outcome {
        let Some(slot) = nodes.slot(trial.node) else { return Outcome::Stale };
        if trial.victims.is_empty() {
            return Outcome::NoVictims;
        }
        let pods: Option<Vec<Pod>> =
            trial.victims.iter().map(|&(id, _)| Some((id, Arc::clone(nodes.class(id)?)))).collect();
        let Some(pods) = pods.filter(|_| trial.is_sound()) else { return Outcome::Stale };
        let parties = parties(trial, wholes, nodes);
        let beside = known(nodes, &trial.beside);
        let stamps = nodes.stamps(slot);
        let place = (trial.node, slot);
        let gone: Vec<bool> = pods.iter().map(|pod| self.remove(prepared, nodes, place, pod)).collect();
        parties.iter().for_each(|party| self.shift_elsewhere(prepared, nodes, party, -1));
        let mut outcome = Outcome::Stale;
        let mut spared = vec![false; parties.len()];
        if gone.iter().all(|&gone| gone) {
            outcome = match self.both_passes(prepared, nodes, place, &beside) {
                Some((order, refusal)) => Outcome::Refused(order, refusal),
                None => {
                    self.reprieve(prepared, nodes, place, &parties, (&pods, &beside), &mut spared);
                    victims(trial, &parties, &spared)
                }
            };
        }
        for (party, _) in parties.iter().zip(spared).filter(|(_, spared)| !spared) {
            for at in party.span.clone().filter(|&at| gone[at]) {
                self.add(prepared, nodes, place, &pods[at]);
            }
            self.shift_elsewhere(prepared, nodes, party, 1);
        }
        nodes.restore_stamps(slot, stamps);
        outcome
    }

    /// Puts back whom it can: those with a budget against their going first, then the others, each time the most
    /// important first.
    fn reprieve(
        &mut self,
        prepared: &Prepared,
        nodes: &mut Snapshot,
        place: (NodeId, Slot),
        parties: &[Party],
        (pods, beside): (&[Pod], &[Pod]),
        spared: &mut [bool],
    ) {
        for violating in [true, false] {
            let turn = parties.iter().zip(&mut *spared).filter(|(party, _)| party.violates == violating);
            for (party, spared) in turn {
                let pods = &pods[party.span.clone()];
                pods.iter().for_each(|pod| self.add(prepared, nodes, place, pod));
                self.shift_elsewhere(prepared, nodes, party, 1);
                if self.both_passes(prepared, nodes, place, beside).is_none() {
                    *spared = true;
                } else {
                    for pod in pods {
                        self.remove(prepared, nodes, place, pod);
                    }
                    self.shift_elsewhere(prepared, nodes, party, -1);
                }
            }
        }
    }

    fn shift_elsewhere(&mut self, prepared: &Prepared, nodes: &Snapshot, party: &Party, pods: i64) {
        party.elsewhere.iter().for_each(|(slot, class)| self.shift(prepared, nodes, *slot, class, pods));
    }

    /// The first filter that refuses a node, with these pods on it or without them.
    fn both_passes(
        &mut self,
        prepared: &Prepared,
        nodes: &mut Snapshot,
        place: (NodeId, Slot),
        beside: &[Pod],
    ) -> Option<(Order, Refusal)> {
        if !beside.is_empty() {
            beside.iter().for_each(|pod| self.add(prepared, nodes, place, pod));
            let refusal = self.first_refusal(prepared, nodes, place.1);
            for pod in beside {
                self.remove(prepared, nodes, place, pod);
            }
            if refusal.is_some() {
                return refusal;
            }
        }
        self.first_refusal(prepared, nodes, place.1)
    }

    fn first_refusal(&mut self, prepared: &Prepared, nodes: &Snapshot, slot: Slot) -> Option<(Order, Refusal)> {
        let local = prepared.refused_shifted(nodes, slot, &self.shifts);
        if is_local(prepared) {
            return local;
        }
        let before = local.map_or(Order::MAX, |(order, _)| order);
        let places = self.tables.places(&prepared.domains(nodes, slot));
        let codes = self.tables.codes(&places);
        let sums = Sums { tables: &self.tables, codes: &codes, locals: &[], first: 0 };
        prepared.judge_sums(sums, before).err().or(local)
    }

    fn add(&mut self, prepared: &Prepared, nodes: &mut Snapshot, (node, slot): (NodeId, Slot), (id, class): &Pod) {
        if nodes.add_pod(node, *id) {
            self.shift(prepared, nodes, slot, class, 1);
        }
    }

    fn remove(
        &mut self,
        prepared: &Prepared,
        nodes: &mut Snapshot,
        (node, slot): (NodeId, Slot),
        (id, class): &Pod,
    ) -> bool {
        let was_there = nodes.remove_pod(node, *id);
        if was_there {
            self.shift(prepared, nodes, slot, class, -1);
        }
        was_there
    }

    /// Upstream's `AddPod` and `RemovePod` of PreFilterExtensions.
    fn shift(&mut self, prepared: &Prepared, nodes: &Snapshot, slot: Slot, class: &Class, pods: i64) {
        for ((known, &idle), shift) in prepared.filters().iter().zip(&self.idle).zip(&mut self.shifts) {
            match &known.filter {
                Filter::Node(filter) => *shift += pods * filter.counts(class),
                Filter::Domain(_) if idle => {}
                Filter::Domain(filter) => {
                    for (number, amount) in filter.nominated_amounts(class) {
                        let at = known.first_term + number as usize;
                        let Some(term) = prepared.terms().get(at) else { continue };
                        let value = nodes.label(term.spec.key, slot);
                        let somewhere = value != Symbol::NONE || term.spec.lacking_is_empty;
                        if somewhere && filter.counts_node(number, nodes, slot) {
                            self.tables.add(at, nodes.symbols.text(value), amount.saturating_mul(pods));
                        }
                    }
                }
            }
        }
    }
}

type Pod = (ClassId, Arc<Class>);

/// The classes that are known, as often as they are named.
fn known(nodes: &Snapshot, classes: &[ClassId]) -> Vec<Pod> {
    classes.iter().filter_map(|&id| Some((id, Arc::clone(nodes.class(id)?)))).collect()
}

/// Victims that go together.
struct Party {
    /// Their places in the trial.
    span: Range<usize>,
    violates: bool,
    /// What goes with them on other nodes that are known.
    elsewhere: Vec<(Slot, Arc<Class>)>,
}

fn parties(trial: &Trial, wholes: &[Whole], nodes: &Snapshot) -> Vec<Party> {
    let known = |(node, class): (NodeId, ClassId)| Some((nodes.slot(node)?, Arc::clone(nodes.class(class)?)));
    let mut wholes = wholes.iter();
    let party = |span: Range<usize>| {
        let elsewhere = wholes.next().into_iter().flat_map(|whole| &whole.elsewhere);
        Party {
            violates: trial.victims[span.clone()].iter().any(|(_, violates)| *violates),
            elsewhere: elsewhere.filter_map(|(node, pod)| known((*node, pod.class))).collect(),
            span,
        }
    };
    trial.spans().into_iter().map(party).collect()
}

fn victims(trial: &Trial, parties: &[Party], spared: &[bool]) -> Outcome {
    let going = parties.iter().zip(spared).filter(|(_, spared)| !**spared);
    let places = going.flat_map(|(party, _)| party.span.clone());
    let (indexes, violating): (Vec<u32>, Vec<bool>) =
        places.map(|at| (u32::try_from(at).unwrap_or(u32::MAX), trial.victims[at].1)).unzip();
    if indexes.is_empty() {
        return Outcome::Needless;
    }
    let violations = violating.into_iter().filter(|&violates| violates).count();
    Outcome::Victims { indexes, violations: u32::try_from(violations).unwrap_or(u32::MAX) }
}
