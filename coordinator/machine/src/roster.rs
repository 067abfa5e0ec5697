//! The workers and which of them holds which node.
//!
//! Knows: rendezvous hashing (Thaler and Ravishankar, 1998): each node goes to the worker whose hash with it is
//! highest, so that a worker that comes or goes moves only its own nodes. Must not know: what a worker is sent.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{
    class::ClassId,
    map::Set,
    shard::{Change, Command, Generation, RequestId, Revision},
};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::event::{TimeMs, WorkerId};

/// A connected worker.
#[derive(Debug)]
pub(crate) struct Worker {
    /// Nodes are dealt out by the hash of this name.
    pub(crate) name: Arc<str>,
    hash: u64,
    /// Since when it owes the acknowledgement of a configuration and its shard, how many words there are to come of it, and
    /// how much longer than an answer it may take.
    pub(crate) owes_since: Option<TimeMs>,
    pub(crate) acknowledgements: u8,
    pub(crate) allowance_ms: u64,
    /// What it has not answered in time and since when it owes that: the newest question, and the time of the oldest.
    pub(crate) late: Option<(RequestId, TimeMs)>,
    /// The number that its process drew when it started, once it has said so.
    pub(crate) process: Option<u64>,
    /// The configuration that it acknowledged last; 0: none.
    pub(crate) generation: Generation,
    /// The state of the cluster that it was told last, and the one that its last word was of.
    pub(crate) told: Revision,
    pub(crate) said: Revision,
    /// How many nodes it holds.
    pub(crate) nodes: u32,
    /// The classes it has been told.
    pub(crate) classes: Set<ClassId>,
    /// What it has not been told yet.
    pub(crate) outbox: Vec<Change>,
    /// How many messages it still has to send: one for each command that is answered, and its greeting.
    due: u64,
    /// How many messages it sent that were not due.
    unasked: u32,
}

/// The workers.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    pub(crate) workers: BTreeMap<WorkerId, Worker>,
}

/// How many words there are to come of a worker that gets a configuration and its shard: one for each.
pub(crate) const ACKNOWLEDGEMENTS: u8 = 2;

/// How many messages a worker may send that were not asked for, before it is given up. A correct worker sends none: each command
/// has one answer or none. 64 of them take the machine less than 1 ms.
pub(crate) const MAX_UNASKED: u32 = 64;

// === impl Worker ===

impl Worker {
    /// It gets a command.
    pub(crate) fn is_sent(&mut self, command: &Command) {
        let is_answered = matches!(
            command,
            Command::Configure { .. }
                | Command::Snapshot { last: true, .. }
                | Command::Evaluate { .. }
                | Command::DryRun { .. }
                | Command::Explain { .. }
        );
        self.due += u64::from(is_answered);
    }

    /// It has sent a message. `false`: none was due.
    pub(crate) fn was_due(&mut self) -> bool {
        let is_due = self.due > 0;
        self.due = self.due.saturating_sub(1);
        self.unasked += u32::from(!is_due);
        is_due
    }

    /// Whether it has sent more messages than it may that were not due.
    pub(crate) const fn repeats_itself(&self) -> bool {
        self.unasked > MAX_UNASKED
    }

    /// Whether it is asked: it has acknowledged the configuration and its shard, and owes no answer for too long.
    pub(crate) const fn is_ready(&self) -> bool {
        self.owes_since.is_none() && self.late.is_none()
    }

    /// It has not answered a question in time.
    pub(crate) fn is_late_with(&mut self, request: RequestId, asked_ms: TimeMs) {
        let (newest, oldest_ms) = self.late.unwrap_or((request, asked_ms));
        self.late = Some((newest.max(request), oldest_ms.min(asked_ms)));
    }

    /// It has answered a question. Answers come in the order of the questions.
    pub(crate) fn has_answered(&mut self, request: RequestId) {
        self.late.take_if(|(newest, _)| *newest <= request);
    }
}

// === impl Roster ===

impl Roster {
    /// Adds a worker that holds nothing yet and owes an acknowledgement.
    pub(crate) fn join(&mut self, id: WorkerId, name: Arc<str>, now_ms: TimeMs) {
        let hash = xxh3_64(name.as_bytes());
        let (classes, outbox) = (Set::default(), Vec::new());
        let worker = Worker {
            name,
            hash,
            owes_since: Some(now_ms),
            acknowledgements: ACKNOWLEDGEMENTS,
            allowance_ms: 0,
            late: None,
            process: None,
            generation: 0,
            told: 0,
            said: 0,
            nodes: 0,
            classes,
            outbox,
            due: 1,
            unasked: 0,
        };
        self.workers.insert(id, worker);
    }

    /// The workers that are asked.
    pub(crate) fn ready(&self) -> impl Iterator<Item = (WorkerId, &Worker)> {
        self.workers.iter().filter(|(_, worker)| worker.is_ready()).map(|(id, worker)| (*id, worker))
    }

    /// Whether a worker is asked.
    pub(crate) fn is_ready(&self, id: WorkerId) -> bool {
        self.workers.get(&id).is_some_and(Worker::is_ready)
    }

    /// Whose a node is among the workers that there are.
    pub(crate) fn owner(&self, node: &str) -> Option<WorkerId> {
        let weight = |worker: &Worker| xxh3_64_with_seed(node.as_bytes(), worker.hash);
        self.workers.iter().max_by_key(|&(id, worker)| (weight(worker), *id)).map(|(id, _)| *id)
    }

    /// Whether every worker has acknowledged what it was last told of the configuration and its shard.
    pub(crate) fn is_settled(&self) -> bool {
        self.workers.values().all(|worker| worker.owes_since.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roster(names: &[&str]) -> Roster {
        let mut roster = Roster::default();
        for (id, name) in (1..).zip(names) {
            roster.join(WorkerId(id), (*name).into(), 0);
        }
        roster
    }

    #[test]
    fn a_worker_that_joins_takes_nodes_only_for_itself() {
        let (two, three) = (roster(&["a", "b"]), roster(&["a", "b", "c"]));
        let mut moved = 0;
        for index in 0..3000 {
            let node = format!("node-{index}");
            let (before, after) = (two.owner(&node), three.owner(&node));
            if before != after {
                assert_eq!(after, Some(WorkerId(3)), "{node} moved between two that stayed");
                moved += 1;
            }
        }
        assert!((800..1200).contains(&moved), "a third of the nodes should move, not {moved} of 3000");
    }

    #[test]
    fn without_workers_a_node_has_no_holder() {
        assert_eq!(roster(&[]).owner("node"), None);
    }
}
