//! Trials of nodes for a pod without a decision: feasibility of one node, and dry runs of preemption.

use std::{collections::BTreeSet, sync::Arc};

use flotilla_framework::{
    class::ClassId,
    contain::contain,
    node::NodeId,
    preemption::{DryRun, DryRunResult, Layout, concerns_other_nodes, is_local},
    prepared::{Feasible, NodeResult},
    select::Nominations,
    status::Code,
};

use super::{
    Judge,
    cache::Charge,
    class_state::ClassState,
    searches::{Potential, Preempting, SearchState, Searched, Searches, Status},
    work::{self, POTENTIAL_NODE},
};
use crate::subject::{Subject, Uid};

impl Judge {
    /// Whether a node is feasible for a pod, counting the pods nominated to it. Counts over the whole cluster are checked only if the node
    /// is feasible without them. `false` also if a plugin panics.
    pub(crate) fn suits(&mut self, uid: &Uid, subject: Subject, priority: i32, name: &str) -> bool {
        self.contained(subject, |judge| judge.suits_now(uid, subject, priority, name)).unwrap_or(false)
    }

    fn suits_now(&mut self, uid: &Uid, subject: Subject, priority: i32, name: &str) -> bool {
        let Some(node) = self.cache.nodes().get(name).map(|node| node.id) else { return false };
        let Some(slot) = self.cache.snapshot().slot(node).filter(|_| self.open(subject)) else { return false };
        let beside = self.nominator.beside(uid, priority, name);
        let Some((state, cache)) = self.with_nodes(subject) else { return false };
        let prepared = &state.prepared;
        if prepared.refusal().is_some() || prepared.error().is_some() {
            return false;
        }
        let NodeResult::Feasible(found) = prepared.judge_with(cache.snapshot(), slot, &state.matches) else {
            return false;
        };
        if beside.is_empty() {
            if is_local(prepared) {
                return true;
            }
            if let Some(is_feasible) = self.feasible_by_counts(subject, node, &found) {
                return is_feasible;
            }
        }
        self.is_feasible_beside(subject, node, &beside)
    }

    /// The same with the class's repaired counts, without counting nodes again.
    fn feasible_by_counts(&mut self, subject: Subject, node: NodeId, found: &Feasible) -> Option<bool> {
        let state = self.states.get_mut(subject)?;
        if !state.repair(&self.cache) {
            return None;
        }
        let known = state.known.live_mut().filter(|live| !live.view.is_laid_over())?;
        Some(known.view.suits(&state.prepared, node, &found.domains))
    }

    fn is_feasible_beside(&mut self, subject: Subject, node: NodeId, beside: &[ClassId]) -> bool {
        let Some((state, cache)) = self.with_nodes(subject) else { return false };
        let mut dry_run = DryRun::new(&state.prepared, cache.snapshot(), &state.matches);
        dry_run.refusal(&state.prepared, cache.snapshot_mut(), node, beside).is_none()
    }

    /// Whether a node is feasible for an open subject next to nominated pods. `false` also if a plugin panics.
    pub(crate) fn fits_beside(&mut self, subject: Subject, node: NodeId, beside: &[ClassId]) -> bool {
        self.count_dry_run(subject);
        self.contained(subject, |judge| judge.is_feasible_beside(subject, node, beside)).unwrap_or(false)
    }

    /// The start of dry runs of preemption for an open subject.
    pub(crate) fn dry_run(&mut self, subject: Subject) -> Option<DryRun> {
        let (state, cache) = self.with_nodes(subject)?;
        Some(DryRun::new(&state.prepared, cache.snapshot(), &state.matches))
    }

    /// As [`Self::dry_run`], if [`Self::count`] can keep its counts current: they depend on nothing but nodes and their pods.
    pub(crate) fn counted_dry_run(&mut self, subject: Subject) -> Option<DryRun> {
        let class = self.cache.classes().get(subject.1)?;
        if class.uses_objects() || class.resize_deferred {
            return None;
        }
        self.contained(subject, |judge| judge.dry_run(subject)).flatten()
    }

    /// Counts `pods` pods on a node; negative removes them. The Snapshot changes apart from this.
    pub(crate) fn count(&mut self, subject: Subject, dry_run: &mut DryRun, charge: &Charge, pods: i64) {
        let node = self.cache.nodes().get(&charge.node).map(|node| node.id);
        let class = charge.with_devices.as_ref().or_else(|| self.cache.classes().get(charge.class));
        let Some((node, class)) = node.zip(class.map(Arc::clone)) else { return };
        self.contained(subject, |judge| {
            let prepared = &judge.states.get(subject)?.prepared;
            dry_run.count(prepared, judge.cache.snapshot(), node, &class, pods);
            Some(())
        });
    }

    /// As [`Self::fits_beside`], with counts that [`Self::count`] keeps current.
    pub(crate) fn fits_counted(
        &mut self,
        subject: Subject,
        dry_run: &mut DryRun,
        node: NodeId,
        beside: &[ClassId],
    ) -> bool {
        self.states.work.add(work::DRY_RUN);
        let fits = self.contained(subject, |judge| {
            let prepared = &judge.states.get(subject)?.prepared;
            Some(dry_run.is_feasible(prepared, judge.cache.snapshot_mut(), node, beside))
        });
        fits.flatten().unwrap_or(false)
    }

    /// Whether a pod of the class changes filters' results for an open subject on other nodes than its own. `true` also if a plugin panics.
    pub(crate) fn concerns_other_nodes(&mut self, subject: Subject, class: ClassId) -> bool {
        let concerns = self.contained(subject, |judge| {
            let classes = judge.cache.classes();
            let (own, other) = (classes.get(subject.1)?, classes.get(class)?);
            Some(concerns_other_nodes(&judge.states.get(subject)?.prepared, own, other))
        });
        concerns.flatten().unwrap_or(true)
    }

    /// A dry run on one node, or the panic of a plugin: the caller then calls [`Self::recover`]. `None`: the subject is not open.
    pub(crate) fn dry_run_whole(
        &mut self,
        subject: Subject,
        dry_run: &mut DryRun,
        layout: &Layout,
    ) -> Option<Result<DryRunResult, String>> {
        let prepared = &self.states.get(subject)?.prepared;
        Some(contain(|| dry_run.dry_run_whole(prepared, self.cache.snapshot_mut(), layout)))
    }

    pub(crate) fn count_dry_run(&mut self, subject: Subject) {
        self.states.work.add(work::DRY_RUN);
        self.states.count_devices(subject);
    }

    /// The nodes where preemption may help, in the order of ranks. `own`: the pod's nominated node. `objected`: nodes that only extenders
    /// rejected.
    ///
    /// # Errors
    /// This node is feasible, although workers reported that none is.
    pub(crate) fn potential_nodes(
        &mut self,
        (uid, priority): (&Uid, i32),
        subject: Subject,
        own: Option<NodeId>,
        objected: &[NodeId],
        budgets: u64,
    ) -> Result<Potential, NodeId> {
        let nominations = self.nominations(uid, priority);
        let found = self.contained(subject, |judge| {
            let is_from_workers = judge.is_from_workers(subject);
            let (potential, own_code, is_known) = if objected.is_empty() && judge.may_remember(subject) {
                let of = (subject, priority);
                let (is_known, own_code) = judge.search_again(of, (&nominations, own), budgets)?;
                (judge.searches.get(of)?.potential(is_from_workers), own_code, is_known)
            } else {
                let (statuses, own_code) = judge.statuses(subject, (&nominations, own), None)?;
                let is_objected = |node: &NodeId| !is_from_workers && objected.contains(node);
                let status = |(rank, node, code): Status| {
                    (rank, node, code.or_else(|| is_objected(&node).then_some(Code::Unschedulable)))
                };
                let searched = Searched::new(0, judge.search_state(budgets), &nominations);
                let searched = searched.with(statuses.into_iter().map(status));
                (searched.potential(is_from_workers), own_code, false)
            };
            Some(potential.map(|nodes| Potential { nodes, own_code, is_known }))
        });
        let nothing = Potential { nodes: Vec::new(), own_code: Code::UnschedulableAndUnresolvable, is_known: false };
        found.flatten().unwrap_or(Ok(nothing))
    }

    /// Whether the results about a node depend on nothing but the node and its pods.
    fn may_remember(&self, (profile, class): Subject) -> bool {
        let state = self.states.get((profile, class));
        let class = self.cache.classes().get(class);
        state.is_some_and(|state| is_local(&state.prepared))
            && class.is_some_and(|class| !class.uses_objects() && !class.resize_deferred)
    }

    /// Brings the remembered results up to date. Returns whether there were any, and the status of the pod's nominated node.
    fn search_again(
        &mut self,
        of: Preempting,
        (nominations, own): (&Nominations, Option<NodeId>),
        budgets: u64,
    ) -> Option<(bool, Code)> {
        let (facts, state) = (self.facts_version(of.0), self.search_state(budgets));
        let mut earlier = self.searches.take(of);
        let outdated = earlier.as_mut().and_then(|known| known.follow(facts, state, nominations, &self.cache));
        let (statuses, own_code) = self.statuses(of.0, (nominations, own), outdated.as_ref())?;
        let is_known = outdated.is_some();
        let searched = match earlier.filter(|_| is_known) {
            Some(mut searched) => {
                statuses.into_iter().for_each(|status| searched.set(status));
                searched
            }
            None => Searched::new(facts, state, nominations).with(statuses.into_iter()),
        };
        self.searches.put(of, searched);
        Some((is_known, own_code))
    }

    /// The state that remembered dry runs depend on. `budgets`: their version.
    pub(crate) const fn search_state(&self, budgets: u64) -> SearchState {
        SearchState { revision: self.cache.revision(), nominations: self.nominator.version(), budgets }
    }

    pub(crate) const fn searches(&self) -> &Searches {
        &self.searches
    }

    pub(crate) const fn searches_mut(&mut self) -> &mut Searches {
        &mut self.searches
    }

    /// The statuses of these nodes, or of all, and of the pod's nominated node `own`. `None`: PreFilter rejects the pod.
    fn statuses(
        &mut self,
        subject: Subject,
        (nominations, own): (&Nominations, Option<NodeId>),
        nodes: Option<&BTreeSet<NodeId>>,
    ) -> Option<(Vec<Status>, Code)> {
        let count = nodes.map_or_else(|| self.cache.nodes().len(), BTreeSet::len);
        self.states.work.add(POTENTIAL_NODE * count as u64);
        let (ClassState { prepared, matches, .. }, cache) = self.with_nodes(subject)?;
        if prepared.refusal().is_some() {
            return None;
        }
        let snapshot = cache.snapshot_mut();
        let mut dry_run = DryRun::new(prepared, snapshot, matches);
        let own_code = own.filter(|own| snapshot.slot(*own).is_some()).map(|own| {
            let refusal = dry_run.filters_refuse(prepared, snapshot, own, nominations.beside(own));
            refusal.map_or(Code::Unschedulable, |(_, refusal)| refusal.code)
        });
        let slots: Vec<_> = match nodes {
            Some(nodes) => nodes.iter().filter_map(|node| snapshot.slot(*node)).collect(),
            None => snapshot.live().collect(),
        };
        let status = |slot| {
            let node = snapshot.id(slot)?;
            let refusal = dry_run.refusal(prepared, snapshot, node, nominations.beside(node));
            Some((snapshot.hash(slot), node, refusal.map(|(_, refusal)| refusal.code)))
        };
        let statuses = slots.into_iter().filter_map(status).collect();
        Some((statuses, own_code.unwrap_or(Code::UnschedulableAndUnresolvable)))
    }
}
