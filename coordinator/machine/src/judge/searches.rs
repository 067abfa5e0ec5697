//! Results about nodes of earlier searches for victims, for the next pods with the same class and priority.
//!
//! A thousand pods of one class that preempt are a thousand searches of the same nodes. Between two of them only the nodes of the last
//! preemption change. A class is remembered only if its filters read nothing but the node.

use std::collections::BTreeSet;

use flotilla_framework::{
    map::Map,
    node::NodeId,
    preemption::{Candidate, DryRunResult, Layout},
    select::{NominatedClasses, Nominations},
    shard::Revision,
    snapshot::Snapshot,
    status::Code,
};

use super::cache::{Cache, What};
use crate::subject::Subject;

/// Maximum number of remembered classes and priorities; a full table is cleared. On 15,000 nodes each takes some 240 KB for the nodes, and
/// 600 KB for 1,500 candidates of four pods: 7 MB in all. If all candidates violate budgets, all nodes are tried: 50 MB in all.
const MAX_SEARCHES: usize = 8;

/// The class and the priority of the pods that preempt.
pub(crate) type Preempting = (Subject, i32);

/// The state that all results depend on, besides the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SearchState {
    pub(crate) revision: Revision,
    pub(crate) nominations: u64,
    pub(crate) budgets: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Searches {
    known: Map<Preempting, Searched>,
}

#[derive(Debug)]
pub(super) struct Searched {
    facts: u64,
    state: SearchState,
    beside: Vec<(NodeId, NominatedClasses)>,
    /// The nodes where preemption may help, with their ranks, in ascending order.
    potential: Vec<(u64, NodeId)>,
    feasible: BTreeSet<NodeId>,
    outcomes: Map<NodeId, Outcome>,
}

/// The result of a dry run on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Candidate(Candidate),
    Failure(DryRunResult),
}

/// A node with its rank and its status; `None`: the node is feasible.
pub(super) type Status = (u64, NodeId, Option<Code>);

/// The potential nodes of a search.
#[derive(Debug)]
pub(crate) struct Potential {
    pub(crate) nodes: Vec<NodeId>,
    /// The status of the pod's nominated node.
    pub(crate) own_code: Code,
    /// An earlier search has results.
    pub(crate) is_known: bool,
}

impl Outcome {
    pub(crate) fn of(layout: &Layout, result: DryRunResult, nodes: &Snapshot) -> Self {
        layout.candidate(&result, nodes).map_or(Self::Failure(result), Self::Candidate)
    }
}

impl Searches {
    pub(crate) fn clear(&mut self) {
        self.known.clear();
    }

    /// A pod on a node changed without a change of the node.
    pub(crate) fn forget_outcome(&mut self, node: NodeId) {
        for searched in self.known.values_mut() {
            searched.outcomes.swap_remove(&node);
        }
    }

    /// The result of a dry run, if nothing that it depends on changed.
    pub(crate) fn outcome(&self, of: Preempting, node: NodeId, state: SearchState) -> Option<&Outcome> {
        self.known.get(&of).filter(|searched| searched.state == state)?.outcomes.get(&node)
    }

    pub(crate) fn remember(&mut self, of: Preempting, node: NodeId, state: SearchState, outcome: &Outcome) {
        let is_error = match outcome {
            Outcome::Candidate(_) => false,
            Outcome::Failure(DryRunResult::Refused(_, refusal)) => refusal.code == Code::Error,
            Outcome::Failure(_) => true,
        };
        if !is_error && let Some(searched) = self.known.get_mut(&of).filter(|searched| searched.state == state) {
            searched.outcomes.insert(node, outcome.clone());
        }
    }

    pub(super) fn get(&self, of: Preempting) -> Option<&Searched> {
        self.known.get(&of)
    }

    pub(super) fn take(&mut self, of: Preempting) -> Option<Searched> {
        self.known.swap_remove(&of)
    }

    pub(super) fn put(&mut self, of: Preempting, searched: Searched) {
        if self.known.len() >= MAX_SEARCHES {
            self.known.clear();
        }
        self.known.insert(of, searched);
    }
}

impl Searched {
    /// A search without results, in this state.
    pub(super) fn new(facts: u64, state: SearchState, nominations: &Nominations) -> Self {
        Self {
            facts,
            state,
            beside: nominations.nodes().to_vec(),
            potential: Vec::new(),
            feasible: BTreeSet::new(),
            outcomes: Map::default(),
        }
    }

    /// The nodes that changed since the last search. Forgets their results. `None`: too much changed.
    pub(super) fn follow(
        &mut self,
        facts: u64,
        state: SearchState,
        nominations: &Nominations,
        cache: &Cache,
    ) -> Option<BTreeSet<NodeId>> {
        let mut outdated = BTreeSet::new();
        for change in cache.changes_since(self.state.revision).filter(|_| self.facts == facts)? {
            if change.what == What::Reshaped {
                return None;
            }
            outdated.insert(change.node);
        }
        outdated.extend(differing(&self.beside, nominations.nodes()));
        self.beside.clear();
        self.beside.extend_from_slice(nominations.nodes());
        if self.state.budgets != state.budgets {
            self.outcomes.clear();
        }
        outdated.iter().for_each(|node| drop(self.outcomes.swap_remove(node)));
        self.state = state;
        Some(outdated)
    }

    /// Adds the statuses of all nodes.
    pub(super) fn with(mut self, nodes: impl Iterator<Item = Status>) -> Self {
        for (rank, node, code) in nodes {
            match code {
                None => drop(self.feasible.insert(node)),
                Some(Code::Unschedulable) => self.potential.push((rank, node)),
                Some(_) => {}
            }
        }
        self.potential.sort_unstable();
        self
    }

    /// Sets the status of a node.
    pub(super) fn set(&mut self, (rank, node, code): Status) {
        let _ = if code.is_none() { self.feasible.insert(node) } else { self.feasible.remove(&node) };
        match (self.potential.binary_search(&(rank, node)), code == Some(Code::Unschedulable)) {
            (Err(at), true) => self.potential.insert(at, (rank, node)),
            (Ok(at), false) => drop(self.potential.remove(at)),
            (Ok(_), true) | (Err(_), false) => {}
        }
    }

    /// The nodes where preemption may help, in the order of ranks.
    ///
    /// # Errors
    /// This node is feasible, although workers reported that none is.
    pub(super) fn potential(&self, is_from_workers: bool) -> Result<Vec<NodeId>, NodeId> {
        match self.feasible.first().filter(|_| is_from_workers) {
            Some(node) => Err(*node),
            None => Ok(self.potential.iter().map(|(_, node)| *node).collect()),
        }
    }
}

/// The nodes with other nominations. Both lists are in ascending order.
fn differing(before: &[(NodeId, NominatedClasses)], after: &[(NodeId, NominatedClasses)]) -> Vec<NodeId> {
    let (mut before, mut after) = (before.iter().peekable(), after.iter().peekable());
    let mut nodes = Vec::new();
    while let Some(node) = [before.peek(), after.peek()].into_iter().flatten().map(|known| known.0).min() {
        let old = before.next_if(|known| known.0 == node);
        let new = after.next_if(|known| known.0 == node);
        if old != new {
            nodes.push(node);
        }
    }
    nodes
}
