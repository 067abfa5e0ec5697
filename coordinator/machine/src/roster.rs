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

use crate::{
    action::Action,
    event::{Configuration, TimeMs, WorkerId},
    judge::class_states::ClassStates,
    preempt::Preemptions,
    quarantine::Quarantine,
};

#[derive(Debug, Default)]
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
    pub(crate) quarantine: Quarantine,
    /// Start of the leadership.
    pub(crate) since_ms: TimeMs,
    /// Whether a worker was ready in this leadership, or the grace period is over.
    had_workers: bool,
    /// The last [`Action::Alone`] was `true`.
    alone: bool,
    /// [`Action::Acknowledged`] was emitted for the current workers and configuration.
    settled: bool,
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
    /// A leadership begins.
    pub(crate) const fn lead(&mut self, now_ms: TimeMs) {
        (self.since_ms, self.had_workers, self.alone) = (now_ms, false, false);
    }

    /// Whether a new leader still waits for its first worker.
    pub(crate) const fn waits_for_first(&self) -> bool {
        !self.had_workers && !self.alone
    }

    /// Whether no worker is ready, so that the coordinator evaluates all nodes. Only a new leader waits for workers, for the grace period.
    /// Returns the change to report too.
    pub(crate) fn is_alone(&mut self, now_ms: TimeMs, grace_ms: u64) -> (bool, Option<Action>) {
        if self.is_any_ready() {
            return (false, None);
        }
        self.had_workers |= now_ms >= self.since_ms + grace_ms;
        let begins = self.had_workers && !self.alone && self.workers.is_empty();
        self.alone |= begins;
        (self.had_workers, begins.then_some(Action::Alone(true)))
    }

    /// A worker acknowledged a configuration or its shard. Returns the changes to report.
    pub(crate) fn acknowledged(&mut self, worker: WorkerId, generation: Generation) -> Vec<Action> {
        let Some(known) = self.workers.get_mut(&worker) else { return Vec::new() };
        known.generation = generation;
        known.acknowledgements = known.acknowledgements.saturating_sub(1);
        if known.acknowledgements > 0 {
            return Vec::new();
        }
        known.owes_since = None;
        self.had_workers = true;
        let no_longer_alone = std::mem::take(&mut self.alone).then_some(Action::Alone(false));
        let is_new = !self.settled && self.workers.values().all(|worker| worker.owes_since.is_none());
        self.settled |= is_new;
        let settled = is_new.then(|| Action::Acknowledged { generation, workers: self.workers.len() });
        no_longer_alone.into_iter().chain(settled).collect()
    }

    /// All workers have to acknowledge a new configuration.
    pub(crate) fn configure(&mut self, now_ms: TimeMs) {
        self.settled = false;
        for worker in self.workers.values_mut() {
            (worker.owes_since, worker.acknowledgements) = (Some(now_ms), ACKNOWLEDGEMENTS);
        }
    }

    /// The workers with answers or acknowledgements past the deadline, each with the reason to drop it.
    pub(crate) fn silent(&self, now_ms: TimeMs, deadline_ms: u64) -> Vec<(WorkerId, String)> {
        let reason = |worker: &Worker| {
            let allowed_ms = deadline_ms + worker.allowance_ms;
            if worker.late.is_some_and(|(_, since)| now_ms >= since + deadline_ms) {
                Some(format!("it has not answered for {deadline_ms} ms"))
            } else if worker.owes_since.is_some_and(|since| now_ms >= since + allowed_ms) {
                Some(format!("it has not acknowledged its shard for {allowed_ms} ms"))
            } else {
                None
            }
        };
        self.workers.iter().filter_map(|(id, worker)| Some((*id, reason(worker)?))).collect()
    }

    /// The next time at which a worker is overdue or past its deadline.
    pub(crate) fn next_deadline(
        &self,
        configuration: &Configuration,
        states: &ClassStates,
        preemptions: &Preemptions,
    ) -> Option<TimeMs> {
        let asked = states.asks().map(|ask| ask.asked_ms);
        let trials = preemptions.trials_owed().map(|(_, asked_ms, _)| asked_ms);
        let hedge = asked.chain(trials).map(|asked_ms| asked_ms + configuration.worker_hedge_ms);
        let deadline_ms = configuration.worker_deadline_ms;
        let owed = self.workers.values().flat_map(|worker| {
            let late = worker.late.map(|(_, since)| since + deadline_ms);
            late.into_iter().chain(worker.owes_since.map(|since| since + deadline_ms + worker.allowance_ms))
        });
        hedge.chain(owed).min()
    }

    pub(crate) fn join(&mut self, id: WorkerId, name: Arc<str>, now_ms: TimeMs) {
        self.settled = false;
        let hash = xxh3_64(name.as_bytes());
        let (owes_since, acknowledgements) = (Some(now_ms), ACKNOWLEDGEMENTS);
        let worker = Worker { name, hash, owes_since, acknowledgements, due: 1, ..Worker::default() };
        self.workers.insert(id, worker);
    }

    pub(crate) fn ready(&self) -> impl Iterator<Item = (WorkerId, &Worker)> {
        self.workers.iter().filter(|(_, worker)| worker.is_ready()).map(|(id, worker)| (*id, worker))
    }

    pub(crate) fn is_any_ready(&self) -> bool {
        self.workers.values().any(Worker::is_ready)
    }

    pub(crate) fn is_ready(&self, id: WorkerId) -> bool {
        self.workers.get(&id).is_some_and(Worker::is_ready)
    }

    /// The worker that a node is assigned to.
    pub(crate) fn owner(&self, node: &str) -> Option<WorkerId> {
        let weight = |worker: &Worker| xxh3_64_with_seed(node.as_bytes(), worker.hash);
        self.workers.iter().max_by_key(|&(id, worker)| (weight(worker), *id)).map(|(id, _)| *id)
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
