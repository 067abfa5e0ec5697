//! Workers: connections, answers and deadlines.

use std::sync::Arc;

use flotilla_framework::{
    node::NodeId,
    shard::{FromWorker, Reply, RequestId, Unable},
};

use crate::{
    action::Action,
    event::{TimeMs, WorkerId},
    machine::Machine,
    quarantine::Mark,
    roster::{MAX_UNASKED, Worker},
    shards::Shards,
};

impl Machine {
    /// Moves the start of the deadlines of requests made by the event at `began_ms` to `now_ms`, the time they were sent. Otherwise a slow
    /// event would make the workers late.
    pub fn asked_at(&mut self, began_ms: TimeMs, now_ms: TimeMs) {
        let left = |since: &mut TimeMs| {
            if *since == began_ms {
                *since = now_ms.max(began_ms);
            }
        };
        self.judge.asks_mut().for_each(|ask| left(&mut ask.asked_ms));
        self.roster.workers.values_mut().filter_map(|worker| worker.owes_since.as_mut()).for_each(left);
        if let Some(since) = self.preemptions.trials_asked() {
            left(since);
        }
    }

    pub(crate) fn handle_reply(&mut self, worker: WorkerId, word: FromWorker) {
        if let Some(known) = self.roster.workers.get_mut(&worker) {
            self.status.answers_unasked += u64::from(!known.was_due());
        }
        if self.roster.workers.get(&worker).is_some_and(Worker::repeats_itself) {
            let reason = format!("it has sent more than {MAX_UNASKED} unexpected messages");
            return self.shards().give_up(worker, reason);
        }
        if let Reply::Hello { nonce, .. } = word.reply {
            return self.shards().introduced(worker, nonce);
        }
        if Some(word.epoch) != self.leading {
            return;
        }
        let Some(known) = self.roster.workers.get_mut(&worker) else { return };
        known.said = word.revision;
        match word.reply {
            // Hello is handled above, and the machine requests no explanations.
            Reply::Hello { .. } | Reply::Explained { .. } => {}
            Reply::Applied { generation, .. } => {
                if generation == self.settings.generation().unwrap_or(0) {
                    self.actions.extend(self.roster.acknowledged(worker, generation));
                }
            }
            Reply::Evaluated { request, evaluation } => {
                known.has_answered(request);
                let asked = self.judge.states().subject_of(request).zip(self.judge.asked_ms(request));
                if let Err(wrong) = self.judge.take_answer(worker, request, evaluation) {
                    self.status.answers_refused += 1;
                    self.shards().give_up(worker, wrong.to_string());
                }
                self.count_evaluation(worker, request, asked);
            }
            Reply::DryRunResults { request, outcomes } => {
                known.has_answered(request);
                self.shards().dry_run_results(worker, request, outcomes);
            }
            Reply::Unable { request, why: Unable::TooManyStrata } => {
                known.has_answered(request);
                self.judge.too_many_strata(worker, request);
            }
            Reply::Unable { request, why: Unable::Panicked } => {
                known.has_answered(request);
                self.judge.panicked_on(worker, request);
            }
            Reply::Unable { request, why } => {
                known.has_answered(request);
                self.shards().cannot_dry_run(worker, request, &why.to_string());
                if self.judge.states().owes(worker, request) {
                    self.shards().give_up(worker, format!("it cannot evaluate: {why}"));
                }
            }
        }
    }
}

impl Shards<'_> {
    pub(crate) fn worker_joined(&mut self, worker: WorkerId, name: Arc<str>) {
        let refusal = match self.epoch.zip(self.settings.configuration()) {
            Some(_) => self.roster.quarantine.refusal(self.now_ms, &Mark::Address(Arc::clone(&name))),
            None => Some(("this coordinator is not the leader".to_owned(), 0)),
        };
        if let Some((reason, pause_ms)) = refusal {
            self.actions.push(Action::DropWorker { worker, reason, pause_ms });
            return;
        }
        // A worker that reconnects before its old connection is lost replaces it.
        let stale = self.roster.workers.iter().find(|(_, known)| known.name == name).map(|(id, _)| *id);
        if let Some(stale) = stale {
            self.drop_worker(stale, "it has reconnected".to_owned(), 0);
        }
        self.roster.join(worker, name, self.now_ms);
        self.send_all(worker);
    }

    pub(crate) fn worker_lost(&mut self, worker: WorkerId) {
        if self.roster.workers.remove(&worker).is_none() {
            return;
        }
        self.judge.worker_lost(worker);
        self.preemptions.give_up_trials(worker);
        let nodes = self.judge.cache().nodes().iter();
        let orphans: Vec<Arc<str>> =
            nodes.filter(|(_, node)| node.worker == Some(worker)).map(|(name, _)| Arc::clone(name)).collect();
        for name in orphans {
            self.assign_node(&name);
        }
    }

    /// Drops a worker for an offence, and reassigns its nodes at once. Repeated offences lead to quarantine.
    pub(crate) fn give_up(&mut self, worker: WorkerId, reason: String) {
        let Some(known) = self.roster.workers.get(&worker) else { return };
        let address = Mark::Address(Arc::clone(&known.name));
        let marks = std::iter::once(address).chain(known.process.map(Mark::Process));
        let until_ms = self.roster.quarantine.offend(self.now_ms, marks, &reason);
        self.drop_worker(worker, reason, until_ms.saturating_sub(self.now_ms));
    }

    /// Drops the workers that returned incorrect offers. `false`: there were none.
    pub(crate) fn drop_mismatched(&mut self) -> bool {
        let mismatches = self.judge.take_mismatches();
        let any = !mismatches.is_empty();
        mismatches.into_iter().for_each(|mismatch| self.give_up(mismatch.worker, mismatch.reason));
        any
    }

    /// Drops the holder of a node for an incorrect result, unless the node changed its holder after that request.
    pub(crate) fn drop_holder_of(&mut self, node: NodeId, after: RequestId, reason: &str) {
        let cache = self.judge.cache();
        let holder = cache.snapshot().slot(node).and_then(|slot| cache.holder_at(slot, after + 1).ok()?);
        self.judge.distrust();
        if let Some(worker) = holder {
            self.give_up(worker, reason.to_owned());
        }
    }

    fn drop_worker(&mut self, worker: WorkerId, reason: String, pause_ms: u64) {
        if self.roster.workers.contains_key(&worker) {
            self.status.workers_dropped += 1;
            self.actions.push(Action::DropWorker { worker, reason, pause_ms });
            self.worker_lost(worker);
        }
    }

    /// Drops all workers; the next leader sends them everything again.
    pub(crate) fn drop_all(&mut self, reason: &str) {
        while let Some((&worker, _)) = self.roster.workers.first_key_value() {
            self.actions.push(Action::DropWorker { worker, reason: reason.to_owned(), pause_ms: 0 });
            self.worker_lost(worker);
        }
    }

    /// Sends the configuration to every worker. A worker gets no requests until it acknowledges.
    pub(crate) fn configure_workers(&mut self) {
        self.roster.configure(self.now_ms);
        let workers: Vec<WorkerId> = self.roster.workers.keys().copied().collect();
        // Ranks depend on the configured seed, so the shards are sent again.
        workers.into_iter().for_each(|worker| self.send_all(worker));
    }

    /// See [`Roster::is_alone`](crate::roster::Roster::is_alone).
    pub(crate) fn is_alone(&mut self, now_ms: TimeMs) -> bool {
        let grace_ms = self.settings.configuration().map_or(0, |configuration| configuration.worker_grace_ms);
        let (is_alone, begins) = self.roster.is_alone(now_ms, grace_ms);
        self.actions.extend(begins);
        is_alone
    }

    /// Stops waiting for overdue workers: the coordinator evaluates their nodes. Requests with answers that cannot be merged are repeated
    /// without these workers.
    pub(crate) fn hedge(&mut self, now_ms: TimeMs) {
        let Some(hedge_ms) = self.settings.configuration().map(|configuration| configuration.worker_hedge_ms) else {
            return;
        };
        let is_late = |asked_ms: TimeMs| now_ms >= asked_ms + hedge_ms;
        let asks = self.judge.states().asks().filter(|ask| is_late(ask.asked_ms));
        let mut late: Vec<(WorkerId, RequestId, TimeMs)> =
            asks.flat_map(|ask| ask.owing.keys().map(|&worker| (worker, ask.request, ask.asked_ms))).collect();
        if let Some((request, asked_ms, owing)) =
            self.preemptions.trials_owed().filter(|(_, asked_ms, _)| is_late(*asked_ms))
        {
            late.extend(owing.map(|worker| (worker, request, asked_ms)));
        }
        for (id, request, asked_ms) in late {
            if let Some(worker) = self.roster.workers.get_mut(&id) {
                worker.is_late_with(request, asked_ms);
            }
            self.status.answers_late += 1;
            self.judge.worker_late(id);
            self.preemptions.give_up_trials(id);
        }
    }

    /// Drops workers with answers or acknowledgements past the deadline.
    pub(crate) fn enforce_deadlines(&mut self, now_ms: TimeMs) {
        let deadline_ms = self.settings.configuration().map(|configuration| configuration.worker_deadline_ms);
        let silent = deadline_ms.map(|deadline_ms| self.roster.silent(now_ms, deadline_ms));
        silent.into_iter().flatten().for_each(|(worker, reason)| self.give_up(worker, reason));
    }

    /// Handles the Hello of a worker: drops it if its process is quarantined.
    fn introduced(&mut self, worker: WorkerId, process: u64) {
        if let Some(known) = self.roster.workers.get_mut(&worker) {
            known.process = Some(process);
        }
        if let Some((reason, pause_ms)) = self.roster.quarantine.refusal(self.now_ms, &Mark::Process(process)) {
            self.drop_worker(worker, reason, pause_ms);
        }
    }

    fn send_all(&mut self, worker: WorkerId) {
        let settings = self.settings;
        let Some(configuration) = settings.configuration() else { return };
        self.send_configuration(worker, configuration);
        self.send_shard(worker, settings.allowance_for_modules_ms());
    }
}
