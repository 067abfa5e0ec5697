//! The workers and the nodes that they hold.
//!
//! Rendezvous hashing (Thaler and Ravishankar, 1998): each node goes to the worker with the highest hash for it. A worker that joins or
//! leaves moves only its own nodes.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{
    class::ClassId,
    map::Set,
    shard::{Change, Command, Generation, RequestId, Revision},
};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::event::{TimeMs, WorkerId};

#[derive(Debug)]
pub(crate) struct Worker {
    /// Nodes are assigned by the hash of this name.
    pub(crate) name: Arc<str>,
    hash: u64,
    /// Start of the wait for acknowledgements of the configuration and the shard, their number, and the additional time allowed.
    pub(crate) owes_since: Option<TimeMs>,
    pub(crate) acknowledgements: u8,
    pub(crate) allowance_ms: u64,
    /// The newest overdue request, and the time of the oldest.
    pub(crate) late: Option<(RequestId, TimeMs)>,
    pub(crate) process: Option<u64>,
    pub(crate) generation: Generation,
    /// The revision of the last command sent to it, and the revision of its last message.
    pub(crate) told: Revision,
    pub(crate) said: Revision,
    pub(crate) nodes: u32,
    pub(crate) classes: Set<ClassId>,
    pub(crate) outbox: Vec<Change>,
    /// Number of expected messages: one per command with an answer, and the Hello.
    due: u64,
    unasked: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Roster {
    pub(crate) workers: BTreeMap<WorkerId, Worker>,
}

/// Acknowledgements of a configuration and a shard: one each.
pub(crate) const ACKNOWLEDGEMENTS: u8 = 2;

/// Limit of unexpected messages before a worker is dropped. A correct worker sends none, because each command has at most one answer. 64
/// messages take the machine less than 1 ms.
pub(crate) const MAX_UNASKED: u32 = 64;

impl Worker {
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

    /// Counts a message. `false`: it was unexpected.
    pub(crate) fn was_due(&mut self) -> bool {
        let is_due = self.due > 0;
        self.due = self.due.saturating_sub(1);
        self.unasked += u32::from(!is_due);
        is_due
    }

    pub(crate) const fn repeats_itself(&self) -> bool {
        self.unasked > MAX_UNASKED
    }

    /// Whether it acknowledged the configuration and its shard, and has no overdue answer.
    pub(crate) const fn is_ready(&self) -> bool {
        self.owes_since.is_none() && self.late.is_none()
    }

    pub(crate) fn is_late_with(&mut self, request: RequestId, asked_ms: TimeMs) {
        let (newest, oldest_ms) = self.late.unwrap_or((request, asked_ms));
        self.late = Some((newest.max(request), oldest_ms.min(asked_ms)));
    }

    /// Records an answer. Answers arrive in the order of the requests.
    pub(crate) fn has_answered(&mut self, request: RequestId) {
        self.late.take_if(|(newest, _)| *newest <= request);
    }
}

impl Roster {
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

    pub(crate) fn ready(&self) -> impl Iterator<Item = (WorkerId, &Worker)> {
        self.workers.iter().filter(|(_, worker)| worker.is_ready()).map(|(id, worker)| (*id, worker))
    }

    pub(crate) fn is_ready(&self, id: WorkerId) -> bool {
        self.workers.get(&id).is_some_and(Worker::is_ready)
    }

    /// The worker that a node is assigned to.
    pub(crate) fn owner(&self, node: &str) -> Option<WorkerId> {
        let weight = |worker: &Worker| xxh3_64_with_seed(node.as_bytes(), worker.hash);
        self.workers.iter().max_by_key(|&(id, worker)| (weight(worker), *id)).map(|(id, _)| *id)
    }

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
