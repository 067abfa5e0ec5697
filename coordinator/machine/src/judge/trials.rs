//! Trials of nodes for a pod without a decision: feasibility of one node, and dry runs of preemption.

use flotilla_framework::{
    class::ClassId,
    contain::contain,
    node::NodeId,
    preemption::{DryRun, DryRunResult, Layout, is_local},
    prepared::{Feasible, NodeResult},
    select::Nominations,
    status::Code,
};

use super::{
    Judge,
    class_state::ClassState,
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

    /// The nodes where preemption may help, in the order of ranks, and the status of the pod's nominated node `own`. `objected`: nodes that
    /// only extenders rejected.
    ///
    /// # Errors
    /// This node is feasible, although workers reported that none is.
    pub(crate) fn potential_nodes(
        &mut self,
        (uid, priority): (&Uid, i32),
        subject: Subject,
        own: Option<NodeId>,
        objected: &[NodeId],
    ) -> Result<(Vec<NodeId>, Code), NodeId> {
        let nominations = self.nominations(uid, priority);
        self.states.work.add(POTENTIAL_NODE * self.cache.nodes().len() as u64);
        let found = self.contained(subject, |judge| judge.potential_now(subject, &nominations, own, objected));
        found.flatten().unwrap_or(Ok((Vec::new(), Code::UnschedulableAndUnresolvable)))
    }

    fn potential_now(
        &mut self,
        subject: Subject,
        nominations: &Nominations,
        own: Option<NodeId>,
        objected: &[NodeId],
    ) -> Option<Result<(Vec<NodeId>, Code), NodeId>> {
        let is_from_workers = self.is_from_workers(subject);
        let (ClassState { prepared, matches, .. }, cache) = self.with_nodes(subject)?;
        if prepared.refusal().is_some() {
            return None;
        }
        let (mut own_code, mut potential) = (Code::UnschedulableAndUnresolvable, Vec::new());
        let snapshot = cache.snapshot_mut();
        let mut dry_run = DryRun::new(prepared, snapshot, matches);
        let slots: Vec<_> = snapshot.live().collect();
        for slot in slots {
            let Some(node) = snapshot.id(slot) else { continue };
            let beside = nominations.beside(node);
            let code = match dry_run.refusal(prepared, snapshot, node, beside) {
                Some((_, refusal)) => Some(refusal.code),
                None if is_from_workers => return Some(Err(node)),
                None => objected.contains(&node).then_some(Code::Unschedulable),
            };
            if own == Some(node) {
                let refusal = dry_run.filters_refuse(prepared, snapshot, node, beside);
                own_code = refusal.map_or(Code::Unschedulable, |(_, refusal)| refusal.code);
            }
            if code == Some(Code::Unschedulable) {
                potential.push((snapshot.rank(slot), node));
            }
        }
        potential.sort_unstable();
        Some(Ok((potential.into_iter().map(|(_, node)| node).collect(), own_code)))
    }
}
