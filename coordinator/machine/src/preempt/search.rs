//! A search for victims: which nodes are left, what came of the others, and who is being asked.
//!
//! Knows: what is known so far. Must not know: who tries a node, or what follows from the end.

use std::collections::BTreeMap;

use flotilla_framework::{
    diagnosis::Diagnosis,
    node::NodeId,
    preemption::{Candidate, Layout, Outcome, Shortlist},
    shard::{Generation, RequestId, Revision},
    snapshot::Snapshot,
};

use crate::{
    event::{TimeMs, WorkerId},
    subject::{Subject, Uid},
};

/// A search. There is one of these at most: the pod at the head of the queue waits for its end.
#[derive(Debug)]
pub(crate) struct Round {
    pub(super) uid: Uid,
    pub(super) subject: Subject,
    pub(super) generation: Generation,
    /// The state of the cluster that it began in.
    pub(super) revision: Revision,
    /// The last question to workers before it began.
    pub(super) after: RequestId,
    pub(super) diagnosis: Diagnosis,
    pub(super) priority: i32,
    /// Nodes that extenders left out.
    pub(super) objected: Vec<NodeId>,
    /// What is left to try, the next one last.
    pub(super) left: Vec<NodeId>,
    pub(super) shortlist: Shortlist,
    pub(super) candidates: Vec<Candidate>,
    /// Of nodes that are no candidates.
    pub(super) failures: Vec<(NodeId, Outcome)>,
    /// Workers are being asked.
    pub(super) asked: Option<Asked>,
    /// Workers were asked, so that the choice has to be borne out.
    pub(super) is_from_workers: bool,
    /// Workers are not asked any more.
    pub(super) is_local: bool,
    /// Extenders are being asked: the number of the question, and when the answer counts as lost.
    pub(super) proposed: Option<(RequestId, TimeMs)>,
}

/// A part of the nodes that workers are asked about.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(super) request: RequestId,
    pub(super) asked_ms: TimeMs,
    /// Who owes an answer, and to which trials.
    pub(super) owing: BTreeMap<WorkerId, Vec<usize>>,
    /// The nodes in order; without a layout where no pod may go.
    pub(super) nodes: Vec<(NodeId, Option<Layout>)>,
    pub(super) outcomes: BTreeMap<usize, Outcome>,
}

// === impl Round ===

impl Round {
    /// Takes what came of trying a node.
    pub(super) fn take(&mut self, layout: &Layout, outcome: Outcome, nodes: &Snapshot) {
        match layout.candidate(&outcome, nodes) {
            Some(candidate) if self.shortlist.add(candidate.violations) => self.candidates.push(candidate),
            Some(_) => {}
            None => self.failures.push((layout.trial.node, outcome)),
        }
    }

    /// No pod on a node may go.
    pub(super) fn skip(&mut self, node: NodeId) {
        self.failures.push((node, Outcome::NoVictims));
    }
}
