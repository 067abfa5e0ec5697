//! State of a search for victims.

use std::collections::BTreeMap;

use flotilla_framework::{
    diagnosis::Diagnosis,
    node::NodeId,
    preemption::{Candidate, DryRunResult, Layout, Shortlist},
    shard::{Generation, RequestId, Revision},
};

use super::PreemptionResult;
use crate::{
    event::{TimeMs, WorkerId},
    judge::searches::Outcome,
    subject::{Subject, Uid},
};

/// A search. There is at most one, because the pod at the head of the queue waits for it.
#[derive(Debug)]
pub(crate) struct Round {
    pub(super) uid: Uid,
    pub(super) subject: Subject,
    pub(super) generation: Generation,
    pub(super) revision: Revision,
    /// The last request to workers before its begin.
    pub(super) after: RequestId,
    pub(super) diagnosis: Diagnosis,
    pub(super) priority: i32,
    pub(super) objected: Vec<NodeId>,
    /// Remaining nodes; the next one is last.
    pub(super) left: Vec<NodeId>,
    pub(super) shortlist: Shortlist,
    pub(super) candidates: Vec<Candidate>,
    /// Results of nodes that are no candidates.
    pub(super) failures: Vec<(NodeId, DryRunResult)>,
    pub(super) asked: Option<Asked>,
    /// Workers took part, so the choice has to be confirmed.
    pub(super) is_from_workers: bool,
    /// Workers are no longer asked.
    pub(super) is_local: bool,
    /// The pending call of extenders: number and deadline.
    pub(super) proposed: Option<(RequestId, TimeMs)>,
}

#[derive(Debug)]
pub(crate) struct Asked {
    pub(super) request: RequestId,
    pub(super) asked_ms: TimeMs,
    /// Workers that have not answered, with their trials.
    pub(super) owing: BTreeMap<WorkerId, Vec<usize>>,
    /// The nodes in order; without a layout if there is no potential victim.
    pub(super) nodes: Vec<(NodeId, Option<Layout>)>,
    pub(super) outcomes: BTreeMap<usize, DryRunResult>,
}

/// A search that is complete.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(super) uid: Uid,
    pub(super) subject: Subject,
    pub(super) diagnosis: Diagnosis,
    pub(super) result: PreemptionResult,
    /// The revision at its begin.
    pub(super) revision: Revision,
}

impl Round {
    pub(super) fn settle(self, result: PreemptionResult) -> Settled {
        let Self { uid, subject, diagnosis, revision, .. } = self;
        Settled { uid, subject, diagnosis, result, revision }
    }

    pub(super) fn add(&mut self, node: NodeId, outcome: Outcome) {
        match outcome {
            Outcome::Candidate(candidate) => {
                if self.shortlist.add(candidate.violations) {
                    self.candidates.push(candidate);
                }
            }
            Outcome::Failure(result) => self.failures.push((node, result)),
        }
    }

    pub(super) fn skip(&mut self, node: NodeId) {
        self.failures.push((node, DryRunResult::NoVictims));
    }
}
