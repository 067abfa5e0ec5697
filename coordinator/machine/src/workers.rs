//! Workers: commands, answers, deadlines and the assignment of nodes.

use std::{collections::BTreeSet, sync::Arc};

use flotilla_framework::{
    class::ClassId,
    modules::named,
    node::NodeInfo,
    shard::{Change, Command, FromWorker, Reply, RequestId, ToWorker, Unable},
};
use flotilla_planted::planted;

use crate::{
    action::Action,
    event::{TimeMs, WorkerId},
    judge::cache::Node,
    machine::Machine,
    quarantine::{Mark, Offender},
    roster::{ACKNOWLEDGEMENTS, MAX_UNASKED},
};

/// Additional time for the acknowledgement of a shard, per node and per class. A node with labels and images takes some 10 KB on the wire,
/// a class 2 KB. On a shared link of 100 Mbit/s that is 1 ms. A shard of 25,000 nodes and as many classes has 52 s. Nothing waits for it.
const ALLOWANCE_MS: u64 = 1;

/// One more millisecond per this many bytes of the profiles' modules: compiling takes some 1.5 s per MiB on a busy core.
const MODULE_BYTES_PER_MS: u64 = 512;

impl Machine {
    pub(crate) fn worker_joined(&mut self, now_ms: TimeMs, worker: WorkerId, name: Arc<str>) {
        if self.leading.is_none() || self.configuration.is_none() {
            let reason = "this coordinator is not the leader".to_owned();
            self.actions.push(Action::DropWorker { worker, reason, pause_ms: 0 });
            return;
        }
        if let Some((reason, pause_ms)) = self.kept_away(now_ms, &Mark::Address(Arc::clone(&name))) {
            self.actions.push(Action::DropWorker { worker, reason, pause_ms });
            return;
        }
        // A worker that reconnects before its old connection is lost replaces it.
        let stale = self.roster.workers.iter().find(|(_, known)| known.name == name).map(|(id, _)| *id);
        if let Some(stale) = stale {
            self.drop_worker(stale, "it has reconnected".to_owned(), 0);
        }
        self.roster.join(worker, name, now_ms);
        self.settled = false;
        self.send_configuration(worker);
        self.send_shard(worker);
    }

    pub(crate) fn worker_lost(&mut self, worker: WorkerId) {
        if self.roster.workers.remove(&worker).is_none() {
            return;
        }
        self.judge.worker_lost(worker);
        self.give_up_trials(worker);
        let orphans: Vec<Arc<str>> = self
            .judge
            .cache()
            .nodes
            .iter()
            .filter(|(_, node)| node.worker == Some(worker))
            .map(|(name, _)| Arc::clone(name))
            .collect();
        for name in orphans {
            self.assign_node(&name);
        }
    }

    /// Drops a worker for an offence, and reassigns its nodes at once. Repeated offences lead to quarantine.
    pub(crate) fn give_up(&mut self, worker: WorkerId, reason: String) {
        let Some(known) = self.roster.workers.get(&worker) else { return };
        let now_ms = self.tally.now_ms;
        let address = Mark::Address(Arc::clone(&known.name));
        let marks = std::iter::once(address).chain(known.process.map(Mark::Process));
        let until_ms = self.quarantine.offend(now_ms, marks, &reason);
        self.drop_worker(worker, reason, until_ms.saturating_sub(now_ms));
    }

    fn drop_worker(&mut self, worker: WorkerId, reason: String, pause_ms: u64) {
        if self.roster.workers.contains_key(&worker) {
            self.status.workers_dropped += 1;
            self.actions.push(Action::DropWorker { worker, reason, pause_ms });
            self.worker_lost(worker);
        }
    }

    fn kept_away(&self, now_ms: TimeMs, mark: &Mark) -> Option<(String, u64)> {
        let offender = self.quarantine.of(now_ms, mark)?;
        let left_ms = offender.until_ms.saturating_sub(now_ms);
        let Offender { times, reason, .. } = offender;
        Some((format!("dropped {times} times, in quarantine for {left_ms} ms more; last reason: {reason}"), left_ms))
    }

    /// Drops all workers; the next leader sends them everything again.
    pub(crate) fn drop_all(&mut self, reason: &str) {
        while let Some((&worker, _)) = self.roster.workers.first_key_value() {
            self.actions.push(Action::DropWorker { worker, reason: reason.to_owned(), pause_ms: 0 });
            self.worker_lost(worker);
        }
    }

    pub(crate) fn handle_reply(&mut self, worker: WorkerId, word: FromWorker) {
        if self.repeats_itself(worker) {
            return self.give_up(worker, format!("it has sent more than {MAX_UNASKED} unexpected messages"));
        }
        if let Reply::Hello { nonce, .. } = word.reply {
            return self.introduced(worker, nonce);
        }
        if Some(word.epoch) != self.leading {
            return;
        }
        let Some(known) = self.roster.workers.get_mut(&worker) else { return };
        known.said = word.revision;
        match word.reply {
            // Hello is handled above, and the machine requests no explanations.
            Reply::Hello { .. } | Reply::Explained { .. } => {}
            Reply::Applied { generation, .. } => self.acknowledged(worker, generation),
            Reply::Evaluated { request, evaluation } => {
                known.has_answered(request);
                let (asked_ms, subject) = (self.asked_ms(request), self.judge.states().subject_of(request));
                if let Err(wrong) = self.judge.take_answer(worker, request, evaluation) {
                    self.status.answers_refused += 1;
                    self.give_up(worker, wrong.to_string());
                }
                self.count_evaluation(request, asked_ms);
                self.remember_evaluation(worker, request, subject.zip(asked_ms));
            }
            Reply::DryRunResults { request, outcomes } => {
                known.has_answered(request);
                self.dry_run_results(worker, request, outcomes);
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
                self.cannot_dry_run(worker, request, &why.to_string());
                if self.judge.states().owes(worker, request) {
                    self.give_up(worker, format!("it cannot evaluate: {why}"));
                }
            }
        }
    }

    fn repeats_itself(&mut self, worker: WorkerId) -> bool {
        let Some(known) = self.roster.workers.get_mut(&worker) else { return false };
        self.status.answers_unasked += u64::from(!known.was_due());
        known.repeats_itself() && !planted("listens-without-end")
    }

    /// Sends the configuration to every worker. A worker gets no requests until it acknowledges.
    pub(crate) fn configure_workers(&mut self, now_ms: TimeMs) {
        self.settled = false;
        let workers: Vec<WorkerId> = self.roster.workers.keys().copied().collect();
        for id in workers {
            if let Some(worker) = self.roster.workers.get_mut(&id) {
                worker.owes_since = Some(now_ms);
                worker.acknowledgements = ACKNOWLEDGEMENTS;
            }
            self.send_configuration(id);
            // Ranks depend on the configured seed, so the shard is sent again.
            self.send_shard(id);
        }
    }

    pub(crate) fn can_ask(&self) -> bool {
        self.roster.ready().next().is_some()
    }

    /// Whether no worker is ready, so that the coordinator evaluates all nodes. Only a new leader waits for workers, for the grace period.
    pub(crate) fn is_alone(&mut self, now_ms: TimeMs) -> bool {
        if self.can_ask() {
            return false;
        }
        let grace = self.configuration.as_ref().map_or(0, |configuration| configuration.worker_grace_ms);
        self.had_workers |= now_ms >= self.leading_since + grace;
        let alone = self.had_workers;
        if alone && !self.alone && self.roster.workers.is_empty() {
            self.alone = true;
            self.actions.push(Action::Alone(true));
        }
        alone
    }

    /// Stops waiting for overdue workers: the coordinator evaluates their nodes. Requests with answers that cannot be merged are repeated
    /// without these workers.
    pub(crate) fn hedge(&mut self, now_ms: TimeMs) {
        if planted("waits-for-late-workers") {
            return;
        }
        let Some(hedge_ms) = self.configuration.as_ref().map(|configuration| configuration.worker_hedge_ms) else {
            return;
        };
        let is_late = |asked_ms: TimeMs| now_ms >= asked_ms + hedge_ms;
        let asks = self.judge.states().asks().filter(|ask| is_late(ask.asked_ms));
        let mut late: Vec<(WorkerId, RequestId, TimeMs)> =
            asks.flat_map(|ask| ask.owing.keys().map(|&worker| (worker, ask.request, ask.asked_ms))).collect();
        if let Some((request, asked_ms, owing)) = self.trials_owed().filter(|(_, asked_ms, _)| is_late(*asked_ms)) {
            late.extend(owing.map(|worker| (worker, request, asked_ms)));
        }
        for (id, request, asked_ms) in late {
            if let Some(worker) = self.roster.workers.get_mut(&id) {
                worker.is_late_with(request, asked_ms);
            }
            self.status.answers_late += 1;
            self.judge.worker_late(id);
            self.give_up_trials(id);
        }
    }

    /// Drops workers with answers or acknowledgements past the deadline.
    pub(crate) fn enforce_deadlines(&mut self, now_ms: TimeMs) {
        if planted("waits-for-late-workers") {
            return;
        }
        let Some(deadline) = self.configuration.as_ref().map(|configuration| configuration.worker_deadline_ms) else {
            return;
        };
        let mut silent = Vec::new();
        for (id, worker) in &self.roster.workers {
            let allowed_ms = deadline + worker.allowance_ms;
            if worker.late.is_some_and(|(_, since)| now_ms >= since + deadline) {
                silent.push((*id, format!("it has not answered for {deadline} ms")));
            } else if worker.owes_since.is_some_and(|since| now_ms >= since + allowed_ms) {
                silent.push((*id, format!("it has not acknowledged its shard for {allowed_ms} ms")));
            }
        }
        for (worker, reason) in silent {
            self.give_up(worker, reason);
        }
    }

    /// The next time at which a worker is overdue or past its deadline.
    pub(crate) fn next_deadline(&self) -> Option<TimeMs> {
        let configuration = self.configuration.as_ref()?;
        let asked = self.judge.states().asks().map(|ask| ask.asked_ms);
        let trials = self.trials_owed().map(|(_, asked_ms, _)| asked_ms);
        let hedge = asked.chain(trials).map(|asked_ms| asked_ms + configuration.worker_hedge_ms);
        let deadline_ms = configuration.worker_deadline_ms;
        let owed = self.roster.workers.values().flat_map(|worker| {
            let late = worker.late.map(|(_, since)| since + deadline_ms);
            late.into_iter().chain(worker.owes_since.map(|since| since + deadline_ms + worker.allowance_ms))
        });
        hedge.chain(owed).min()
    }

    /// Handles the Hello of a worker: drops it if its process is quarantined.
    fn introduced(&mut self, worker: WorkerId, process: u64) {
        if let Some(known) = self.roster.workers.get_mut(&worker) {
            known.process = Some(process);
        }
        if let Some((reason, pause_ms)) = self.kept_away(self.tally.now_ms, &Mark::Process(process)) {
            self.drop_worker(worker, reason, pause_ms);
        }
    }

    /// Assigns a node to its worker by hash.
    pub(crate) fn assign_node(&mut self, name: &Arc<str>) {
        let owner = self.roster.owner(name).filter(|_| self.judge.cache().can_be_held(name));
        let is_known = self.judge.cache_mut().set_holder(name, owner, self.next_request).is_some();
        if let Some(owner) = owner.filter(|_| is_known) {
            self.introduce(owner, name);
        }
    }

    /// A node changed, or a pod of a class that is too large for a message came or left. The coordinator evaluates nodes that cannot be
    /// sent; no worker holds them.
    pub(crate) fn reassign_node(&mut self, name: &Arc<str>) {
        let Some(known) = self.judge.cache().nodes.get(name) else { return };
        let can_be_held = self.judge.cache().can_be_held(name);
        match known.worker {
            Some(_) if !can_be_held => {
                let (id, held) = (known.id, known.worker);
                self.judge.cache_mut().set_holder(name, None, self.next_request);
                if let Some(worker) = held {
                    self.send_change(worker, Change::RemoveNode { id });
                    self.count_node(worker, -1);
                }
            }
            None if can_be_held => self.assign_node(name),
            Some(_) | None => {}
        }
    }

    pub(crate) fn withdraw_node(&mut self, node: &Node) {
        if let Some(worker) = node.worker {
            self.send_change(worker, Change::RemoveNode { id: node.id });
            self.count_node(worker, -1);
        }
    }

    pub(crate) fn send_to_holder(&mut self, name: &Arc<str>, info: &Arc<NodeInfo>) {
        let was_held = self.judge.cache().nodes.get(name).is_some_and(|node| node.worker.is_some());
        self.reassign_node(name);
        // A worker that holds it only now has received the whole node.
        let Some(Node { id, worker: Some(worker), .. }) = self.judge.cache().nodes.get(name).filter(|_| was_held)
        else {
            return;
        };
        let (id, worker) = (*id, *worker);
        self.send_change(worker, Change::UpsertNode { id, node: Arc::clone(info) });
    }

    pub(crate) fn send_change(&mut self, worker: WorkerId, change: Change) {
        if let Some(worker) = self.roster.workers.get_mut(&worker) {
            worker.outbox.push(change);
        }
    }

    /// Sends a class to a worker before changes that name it.
    pub(crate) fn send_class(&mut self, worker: WorkerId, id: ClassId) {
        let Some(known) = self.roster.workers.get_mut(&worker) else { return };
        if known.classes.insert(id)
            && let Some(class) = self.judge.cache().classes.get(id).map(Arc::clone)
        {
            self.command(worker, Command::RegisterClass { id, class });
            let attachments = self.judge.cache().snapshot.attachments(id);
            if !attachments.is_empty() {
                let changes = vec![Change::SetAttachments { class: id, attachments: attachments.into() }];
                self.command(worker, Command::Delta { changes });
            }
        }
    }

    /// Notifies the workers that know a class that its number is retired.
    pub(crate) fn forget_class(&mut self, id: ClassId) {
        let knowing: Vec<WorkerId> = self
            .roster
            .workers
            .iter_mut()
            .filter_map(|(worker, known)| known.classes.swap_remove(&id).then_some(*worker))
            .collect();
        for worker in knowing {
            // Changes that name the class have to arrive first.
            self.flush_outbox(worker);
            self.command(worker, Command::ForgetClass { id });
        }
    }

    pub(crate) fn flush_outboxes(&mut self) {
        let full: Vec<WorkerId> =
            self.roster.workers.iter().filter(|(_, worker)| !worker.outbox.is_empty()).map(|(id, _)| *id).collect();
        full.into_iter().for_each(|worker| self.flush_outbox(worker));
    }

    pub(crate) fn flush_outbox(&mut self, worker: WorkerId) {
        let Some(known) = self.roster.workers.get_mut(&worker) else { return };
        let changes = std::mem::take(&mut known.outbox);
        if !changes.is_empty() {
            self.command(worker, Command::Delta { changes });
        }
    }

    pub(crate) fn command(&mut self, worker: WorkerId, command: Command) {
        let Some(epoch) = self.leading else { return };
        let revision = self.judge.cache().revision();
        if let Some(known) = self.roster.workers.get_mut(&worker) {
            known.told = revision;
            known.is_sent(&command);
        }
        let word = ToWorker { epoch, revision, command };
        self.actions.push(Action::Send { worker, word });
    }

    fn acknowledged(&mut self, worker: WorkerId, generation: u64) {
        let current = self.configuration.as_ref().map_or(0, |configuration| configuration.generation);
        let Some(known) = self.roster.workers.get_mut(&worker).filter(|_| generation == current) else { return };
        known.generation = generation;
        known.acknowledgements = known.acknowledgements.saturating_sub(1);
        if known.acknowledgements > 0 {
            return;
        }
        known.owes_since = None;
        self.had_workers = true;
        if std::mem::take(&mut self.alone) {
            self.actions.push(Action::Alone(false));
        }
        if self.roster.is_settled() && !self.settled {
            self.settled = true;
            let workers = self.roster.workers.len();
            self.actions.push(Action::Acknowledged { generation, workers });
        }
    }

    fn send_configuration(&mut self, worker: WorkerId) {
        let Some(configuration) = self.configuration.clone() else { return };
        let command = Command::Configure {
            generation: configuration.generation,
            tie_break_seed: configuration.tie_break_seed,
            profiles: Arc::clone(&configuration.profiles),
        };
        self.command(worker, command);
    }

    fn allowance_for_modules_ms(&self) -> u64 {
        let Some((configuration, modules)) = self.configuration.as_ref().zip(self.registry.modules()) else { return 0 };
        let named: BTreeSet<_> = configuration.profiles.iter().flat_map(named).map(|(_, digest)| digest).collect();
        let bytes: usize = named.into_iter().filter_map(|digest| modules.bytes(digest)).map(|bytes| bytes.len()).sum();
        bytes as u64 / MODULE_BYTES_PER_MS
    }

    /// Sends a worker its whole shard: nodes it already holds, and nodes that others give up.
    fn send_shard(&mut self, id: WorkerId) {
        let names: Vec<Arc<str>> = self.judge.cache().nodes.keys().cloned().collect();
        let mut shard = Vec::new();
        for name in names {
            if self.roster.owner(&name) != Some(id) || !self.judge.cache().can_be_held(&name) {
                continue;
            }
            let held = self.judge.cache_mut().set_holder(&name, Some(id), self.next_request);
            let Some((node_id, old)) = held else { continue };
            if let Some(old) = old.filter(|old| *old != id) {
                self.send_change(old, Change::RemoveNode { id: node_id });
                self.count_node(old, -1);
            }
            shard.push(name);
        }
        let mut changes = Vec::new();
        for name in &shard {
            let classes: Vec<ClassId> = self
                .judge
                .cache()
                .residents(name)
                .into_iter()
                .flat_map(|residents| residents.keys().copied())
                .collect();
            classes.into_iter().for_each(|class| self.send_class(id, class));
            changes.extend(self.judge.cache().introduce(name));
        }
        let for_modules_ms = self.allowance_for_modules_ms();
        if let Some(worker) = self.roster.workers.get_mut(&id) {
            worker.nodes = u32::try_from(shard.len()).unwrap_or(u32::MAX);
            worker.allowance_ms = (shard.len() + worker.classes.len()) as u64 * ALLOWANCE_MS + for_modules_ms;
            worker.outbox.clear();
        }
        self.command(id, Command::Snapshot { first: true, last: true, changes });
    }

    fn introduce(&mut self, worker: WorkerId, name: &Arc<str>) {
        let classes: Vec<ClassId> =
            self.judge.cache().residents(name).into_iter().flat_map(|residents| residents.keys().copied()).collect();
        classes.into_iter().for_each(|class| self.send_class(worker, class));
        let changes = self.judge.cache().introduce(name);
        if let Some(known) = self.roster.workers.get_mut(&worker) {
            known.outbox.extend(changes);
        }
        self.count_node(worker, 1);
    }

    fn count_node(&mut self, worker: WorkerId, step: i32) {
        if let Some(known) = self.roster.workers.get_mut(&worker) {
            known.nodes = known.nodes.saturating_add_signed(step);
        }
    }
}
