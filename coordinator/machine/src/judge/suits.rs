//! Feasibility of one node for a pod, without a decision.

use flotilla_framework::{
    node::NodeId,
    preemption::{DryRun, is_local},
    prepared::{Feasible, NodeResult},
};

use super::Judge;
use crate::subject::{Subject, Uid};

impl Judge {
    /// Whether a node is feasible for a pod, counting the pods nominated to it. Counts over the whole cluster are checked only if the node
    /// is feasible without them. `false` also if a plugin panics.
    pub(crate) fn suits(&mut self, uid: &Uid, subject: Subject, priority: i32, name: &str) -> bool {
        self.contained(subject, |judge| judge.suits_now(uid, subject, priority, name)).unwrap_or(false)
    }

    fn suits_now(&mut self, uid: &Uid, subject: Subject, priority: i32, name: &str) -> bool {
        let Some(node) = self.cache.nodes.get(name).map(|node| node.id) else { return false };
        let Some(slot) = self.cache.snapshot.slot(node).filter(|_| self.open(subject)) else { return false };
        let beside = self.nominator.beside(uid, priority, name);
        let Some((state, cache)) = self.with_nodes(subject) else { return false };
        let prepared = &state.prepared;
        if prepared.refusal().is_some() || prepared.error().is_some() {
            return false;
        }
        let NodeResult::Feasible(found) = prepared.judge_with(&cache.snapshot, slot, &state.matches) else {
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
        let Some((state, cache)) = self.with_nodes(subject) else { return false };
        let mut dry_run = DryRun::new(&state.prepared, &cache.snapshot, &state.matches);
        dry_run.refusal(&state.prepared, &mut cache.snapshot, node, &beside).is_none()
    }

    /// The same with the class's repaired counts, without counting nodes again.
    fn feasible_by_counts(&mut self, subject: Subject, node: NodeId, found: &Feasible) -> Option<bool> {
        let state = self.states.get_mut(subject)?;
        if !state.repair(&self.cache) {
            return None;
        }
        let known = state.live.as_mut().filter(|live| !live.view.is_laid_over())?;
        Some(known.view.suits(&state.prepared, node, &found.domains))
    }
}
