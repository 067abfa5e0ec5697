//! Trials on nodes: removes potential victims and puts them back one by one; a pod that cannot be put back is a victim.
//!
//! Source: `SelectVictimsOnNode` of defaultpreemption, `RunFilterPluginsWithNominatedPods`, and PreFilterExtensions.

use serde::{Deserialize, Serialize};
use std::{ops::Range, sync::Arc};

use super::{Layout, Trial, Whole, reprieve};
use crate::{
    class::{Class, ClassId},
    domains::Tables,
    evaluate::tallies,
    extension::Filter,
    matches::Matches,
    node::NodeId,
    prepared::{Order, Prepared, RESTRICTION},
    snapshot::{Slot, Snapshot},
    status::Refusal,
    trial_counts::{self, Idle, Pod, Shifts, TrialCounts, known},
};

/// The result of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DryRunResult {
    /// The preemptor fits without these pods.
    Victims {
        /// Indexes into [`Trial::victims`], ascending, so that the most important victim comes first; never empty.
        indexes: Vec<u32>,
        /// The number of victims that violate a budget.
        violations: u32,
    },
    /// The preemptor does not fit without all potential victims: the filter and its refusal, possibly an error.
    Refused(Order, Refusal),
    /// No pod on the node may be preempted.
    NoVictims,
    /// The preemptor fits with all pods in place: an error of the attempt, "expected at least one victim pod". An extender refused the
    /// node.
    Needless,
    /// The node or a victim is no longer where the trial expects it.
    Stale,
}

/// The cluster-wide input of trials: counts over domains. Valid for one preemptor until a pod or node changes.
///
/// Bound: one count for each domain and term of the class.
#[derive(Debug)]
pub struct DryRun {
    tables: Tables,
    idle: Idle,
    shifts: Shifts,
}

/// Whether a shard can try its nodes alone: no filter counts over domains.
#[must_use]
pub fn is_local(prepared: &Prepared) -> bool {
    prepared.filters().iter().all(|prepared| matches!(prepared.filter, Filter::Node(_)))
}

/// Whether a pod of the class `other` changes the filters' results for the class `own` on other nodes than its own.
#[must_use]
pub fn concerns_other_nodes(prepared: &Prepared, own: &Class, other: &Class) -> bool {
    // A claim for one pod. VolumeRestrictions may be skipped as long as no pod uses it.
    let claims =
        |class: &Class| class.volumes.iter().flat_map(|volumes| volumes.named_claims().cloned()).collect::<Vec<_>>();
    let shares = || own.namespace == other.namespace && claims(own).iter().any(|claim| claims(other).contains(claim));
    let counts = prepared.filters().iter().any(|prepared| match &prepared.filter {
        Filter::Node(filter) => filter.counts(other) != 0,
        Filter::Domain(filter) => !filter.amounts(other).is_empty(),
    });
    counts || (own.volumes.is_some() && other.volumes.is_some() && shares())
}

/// One trial; for several, create one [`DryRun`]. `nodes`: all nodes, or a shard's if [`is_local`]. Restores the snapshot and its stamps.
/// `matches` must be refreshed.
pub fn dry_run(prepared: &Prepared, nodes: &mut Snapshot, matches: &Matches, trial: &Trial) -> DryRunResult {
    DryRun::new(prepared, nodes, matches).dry_run(prepared, nodes, trial)
}

impl DryRun {
    /// Computes the counts of a class's filters. `matches` must be refreshed.
    #[must_use]
    pub fn new(prepared: &Prepared, nodes: &Snapshot, matches: &Matches) -> Self {
        let counted = if is_local(prepared) { Vec::new() } else { tallies(prepared, nodes, matches) };
        let tables = Tables::new(prepared, std::iter::once(counted.as_slice()), std::iter::empty());
        let (idle, shifts) = (trial_counts::idle(prepared, Some(&tables)), trial_counts::no_shifts(prepared));
        Self { tables, idle, shifts }
    }

    /// The refusal of a node in its current state, with pods of these classes nominated to it and without them; `None` if it is feasible.
    /// Nodes excluded by PreFilters are refused with [`RESTRICTION`].
    ///
    /// Preemption tries nodes that are refused with [`crate::status::Code::Unschedulable`]. If PreFilters exclude the preemptor's own
    /// nominated node, kube-scheduler uses the filters' refusal: [`Self::filters_refuse`].
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

    /// As [`Self::refusal`], ignoring the restriction of node names.
    pub fn filters_refuse(
        &mut self,
        prepared: &Prepared,
        nodes: &mut Snapshot,
        node: NodeId,
        beside: &[ClassId],
    ) -> Option<(Order, Refusal)> {
        let slot = nodes.slot(node)?;
        let beside = known(nodes, beside);
        self.counted(prepared).both_passes(nodes, (node, slot), &beside)
    }

    /// Counts a pod of the class on a node as [`Self::new`] does; negative `pods` remove it. The caller changes the snapshot.
    pub fn count(&mut self, prepared: &Prepared, nodes: &Snapshot, node: NodeId, class: &Class, pods: i64) {
        if let Some(slot) = nodes.slot(node) {
            self.counted(prepared).recount(nodes, slot, class, pods);
        }
    }

    /// Whether [`Self::refusal`] is `None` after calls of [`Self::count`].
    pub fn is_feasible(&mut self, prepared: &Prepared, nodes: &mut Snapshot, node: NodeId, beside: &[ClassId]) -> bool {
        self.idle = trial_counts::idle(prepared, Some(&self.tables));
        self.refusal(prepared, nodes, node, beside).is_none()
    }

    /// One trial. Restores the snapshot and its stamps.
    pub fn dry_run(&mut self, prepared: &Prepared, nodes: &mut Snapshot, trial: &Trial) -> DryRunResult {
        self.try_out(prepared, nodes, trial, &[])
    }

    /// One trial, with the victims' group members on other nodes: only the cluster-wide counts of filters change there.
    pub fn dry_run_whole(&mut self, prepared: &Prepared, nodes: &mut Snapshot, layout: &Layout) -> DryRunResult {
        self.try_out(prepared, nodes, &layout.trial, &layout.wholes)
    }

    fn try_out(&mut self, prepared: &Prepared, nodes: &mut Snapshot, trial: &Trial, wholes: &[Whole]) -> DryRunResult {
        let Some(slot) = nodes.slot(trial.node) else { return DryRunResult::Stale };
        if trial.victims.is_empty() {
            return DryRunResult::NoVictims;
        }
        let pods: Option<Vec<Pod>> =
            trial.victims.iter().map(|&(id, _)| Some((id, Arc::clone(nodes.class(id)?)))).collect();
        let Some(pods) = pods.filter(|_| trial.is_sound()) else { return DryRunResult::Stale };
        let units = units(trial, wholes, nodes);
        let beside = known(nodes, &trial.beside);
        let stamps = nodes.stamps(slot);
        let place = (trial.node, slot);
        let gone: Vec<bool> = pods.iter().map(|pod| self.counted(prepared).remove(nodes, place, pod)).collect();
        units.iter().for_each(|unit| self.shift_elsewhere(prepared, nodes, unit, -1));
        let mut outcome = DryRunResult::Stale;
        let mut must_go = vec![true; units.len()];
        if gone.iter().all(|&gone| gone) {
            outcome = match self.counted(prepared).both_passes(nodes, place, &beside) {
                Some((order, refusal)) => DryRunResult::Refused(order, refusal),
                None => {
                    let violates: Vec<bool> = units.iter().map(|unit| unit.violates).collect();
                    must_go =
                        reprieve(&violates, |at| self.stays(prepared, nodes, place, &units[at], (&pods, &beside)));
                    victims(trial, &units, &must_go)
                }
            };
        }
        for (unit, _) in units.iter().zip(must_go).filter(|(_, must_go)| *must_go) {
            for at in unit.span.clone().filter(|&at| gone[at]) {
                self.counted(prepared).add(nodes, place, &pods[at]);
            }
            self.shift_elsewhere(prepared, nodes, unit, 1);
        }
        nodes.restore_stamps(slot, stamps);
        outcome
    }

    /// Puts a unit back, and removes it again if the preemptor no longer fits.
    fn stays(
        &mut self,
        prepared: &Prepared,
        nodes: &mut Snapshot,
        place: (NodeId, Slot),
        unit: &TrialUnit,
        (pods, beside): (&[Pod], &[Pod]),
    ) -> bool {
        let pods = &pods[unit.span.clone()];
        pods.iter().for_each(|pod| self.counted(prepared).add(nodes, place, pod));
        self.shift_elsewhere(prepared, nodes, unit, 1);
        let fits = self.counted(prepared).both_passes(nodes, place, beside).is_none();
        if !fits {
            for pod in pods {
                self.counted(prepared).remove(nodes, place, pod);
            }
            self.shift_elsewhere(prepared, nodes, unit, -1);
        }
        fits
    }

    fn shift_elsewhere(&mut self, prepared: &Prepared, nodes: &Snapshot, unit: &TrialUnit, pods: i64) {
        let mut counted = self.counted(prepared);
        unit.elsewhere.iter().for_each(|(slot, class)| counted.shift(nodes, *slot, class, pods));
    }

    fn counted<'a>(&'a mut self, prepared: &'a Prepared) -> TrialCounts<'a> {
        let tables = (!is_local(prepared)).then_some(&mut self.tables);
        TrialCounts { prepared, tables, shifts: &mut self.shifts, idle: &self.idle }
    }
}

/// A unit of a trial, located in the snapshot.
struct TrialUnit {
    span: Range<usize>,
    violates: bool,
    elsewhere: Vec<(Slot, Arc<Class>)>,
}

fn units(trial: &Trial, wholes: &[Whole], nodes: &Snapshot) -> Vec<TrialUnit> {
    let known = |(node, class): (NodeId, ClassId)| Some((nodes.slot(node)?, Arc::clone(nodes.class(class)?)));
    let mut wholes = wholes.iter();
    let unit = |span: Range<usize>| {
        let elsewhere = wholes.next().into_iter().flat_map(|whole| &whole.elsewhere);
        TrialUnit {
            violates: trial.victims[span.clone()].iter().any(|(_, violates)| *violates),
            elsewhere: elsewhere.filter_map(|(node, pod)| known((*node, pod.class))).collect(),
            span,
        }
    };
    trial.spans().into_iter().map(unit).collect()
}

fn victims(trial: &Trial, units: &[TrialUnit], must_go: &[bool]) -> DryRunResult {
    let going = units.iter().zip(must_go).filter(|(_, must_go)| **must_go);
    let places = going.flat_map(|(unit, _)| unit.span.clone());
    let (indexes, violating): (Vec<u32>, Vec<bool>) =
        places.map(|at| (u32::try_from(at).unwrap_or(u32::MAX), trial.victims[at].1)).unzip();
    if indexes.is_empty() {
        return DryRunResult::Needless;
    }
    let violations = violating.into_iter().filter(|&violates| violates).count();
    DryRunResult::Victims { indexes, violations: u32::try_from(violations).unwrap_or(u32::MAX) }
}
