//! What workers are told, and what is made of what they say.
//!
//! Knows: the order in which a worker must hear things, and when it has lost our trust. Must not know: connections.

use std::sync::Arc;

use flotilla_framework::{
    class::ClassId,
    node::NodeInfo,
    shard::{Change, Command, FromWorker, Reply, ToWorker, Unable},
};

use crate::{
    action::Action,
    event::{TimeMs, WorkerId},
    judge::cache::Node,
    machine::Machine,
};

impl Machine {
    pub(crate) fn worker_joined(&mut self, now_ms: TimeMs, worker: WorkerId, name: Arc<str>) {
        if self.leading.is_none() || self.configuration.is_none() {
            let reason = "this coordinator does not lead".to_owned();
            self.actions.push(Action::DropWorker { worker, reason });
            return;
        }
        // A worker that came back before its old connection was missed takes its own place.
        let stale = self.roster.workers.iter().find(|(_, known)| known.name == name).map(|(id, _)| *id);
        if let Some(stale) = stale {
            self.drop_worker(stale, "it has connected anew".to_owned());
        }
        self.roster.join(worker, name, now_ms);
        self.had_workers = true;
        self.settled = false;
        if std::mem::take(&mut self.alone) {
            self.actions.push(Action::Alone(false));
        }
        self.send_configuration(worker);
        self.send_shard(worker);
    }

    pub(crate) fn worker_lost(&mut self, worker: WorkerId) {
        if self.roster.workers.remove(&worker).is_none() {
            return;
        }
        self.judge.states_mut().give_up(worker);
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

    /// Gives a worker up: it is told nothing more, and its nodes go to the others at once.
    pub(crate) fn drop_worker(&mut self, worker: WorkerId, reason: String) {
        if self.roster.workers.contains_key(&worker) {
            self.status.workers_dropped += 1;
            self.actions.push(Action::DropWorker { worker, reason });
            self.worker_lost(worker);
        }
    }

    /// Drops all workers; the next leader sends them everything again.
    pub(crate) fn drop_all(&mut self, reason: &str) {
        while let Some((&worker, _)) = self.roster.workers.first_key_value() {
            self.actions.push(Action::DropWorker { worker, reason: reason.to_owned() });
            self.worker_lost(worker);
        }
    }

    pub(crate) fn heard(&mut self, worker: WorkerId, word: FromWorker) {
        if Some(word.epoch) != self.leading {
            return;
        }
        let Some(known) = self.roster.workers.get_mut(&worker) else { return };
        known.said = word.revision;
        match word.reply {
            // The machine does not ask for accounts.
            Reply::Hello { .. } | Reply::Explained { .. } => {}
            Reply::Applied { generation, .. } => self.acknowledged(worker, generation),
            Reply::Evaluated { request, evaluation } => {
                let (asked_ms, subject) = (self.asked_ms(request), self.judge.states().subject_of(request));
                if let Err(wrong) = self.judge.take_answer(worker, request, evaluation) {
                    self.status.answers_refused += 1;
                    self.drop_worker(worker, wrong.to_string());
                }
                self.count_evaluation(request, asked_ms);
                self.remember_evaluation(worker, request, subject.zip(asked_ms));
            }
            Reply::Rehearsed { request, outcomes } => self.rehearsed(worker, request, outcomes),
            Reply::Unable { request, why: Unable::TooManyStrata } => self.judge.states_mut().give_up_strata(request),
            Reply::Unable { request, why } => {
                self.cannot_dry_run(worker, request, &why.to_string());
                if self.judge.states().subject_of(request).is_some() {
                    self.drop_worker(worker, format!("it cannot evaluate: {why}"));
                }
            }
        }
    }

    /// Tells every worker the configuration; until all have acknowledged it nothing is asked of them.
    pub(crate) fn configure_workers(&mut self, now_ms: TimeMs) {
        self.settled = false;
        let workers: Vec<WorkerId> = self.roster.workers.keys().copied().collect();
        for id in workers {
            if let Some(worker) = self.roster.workers.get_mut(&id) {
                worker.owes_since = Some(now_ms);
            }
            self.send_configuration(id);
            // Ranks hang on the configured seed, so the shard is laid anew with it.
            self.send_shard(id);
        }
    }

    /// Whether evaluations can be asked for: there are workers, and all know what they have to.
    pub(crate) fn can_ask(&self) -> bool {
        !self.roster.workers.is_empty() && self.roster.is_settled()
    }

    /// Whether there is no worker to wait for, so that the coordinator evaluates by itself.
    pub(crate) fn is_alone(&mut self, now_ms: TimeMs) -> bool {
        let grace = self.configuration.as_ref().map_or(0, |configuration| configuration.worker_grace_ms);
        let alone = self.roster.workers.is_empty() && (self.had_workers || now_ms >= self.leading_since + grace);
        if alone && !self.alone {
            self.alone = true;
            self.actions.push(Action::Alone(true));
        }
        alone
    }

    /// Gives up workers that owe an answer for too long.
    pub(crate) fn enforce_deadlines(&mut self, now_ms: TimeMs) {
        let Some(deadline) = self.configuration.as_ref().map(|configuration| configuration.worker_deadline_ms) else {
            return;
        };
        let late = |since: TimeMs| now_ms >= since + deadline;
        let mut silent: Vec<WorkerId> = self
            .judge
            .states()
            .asks()
            .filter(|ask| late(ask.asked_ms))
            .flat_map(|ask| ask.owing.keys().copied())
            .collect();
        if let Some((_, owing)) = self.trials_owed().filter(|(asked_ms, _)| late(*asked_ms)) {
            silent.extend(owing);
        }
        let owing = self.roster.workers.iter().filter(|(_, worker)| worker.owes_since.is_some_and(late));
        silent.extend(owing.map(|(id, _)| *id));
        for worker in silent {
            self.drop_worker(worker, format!("it has owed an answer for {deadline} ms"));
        }
    }

    /// Gives a node to the worker whose it is now.
    pub(crate) fn assign_node(&mut self, name: &Arc<str>) {
        let owner = self.roster.owner(name);
        let is_known = self.judge.cache_mut().set_holder(name, owner, self.next_request).is_some();
        if let Some(owner) = owner.filter(|_| is_known) {
            self.introduce(owner, name);
        }
    }

    /// Takes a node that is gone from the worker that holds it.
    pub(crate) fn withdraw_node(&mut self, node: &Node) {
        if let Some(worker) = node.worker {
            self.tell(worker, Change::RemoveNode { id: node.id });
            self.count_node(worker, -1);
        }
    }

    /// Tells the worker that holds a node how it looks now.
    pub(crate) fn tell_holder(&mut self, name: &str, info: &Arc<NodeInfo>) {
        let Some(Node { id, worker: Some(worker), .. }) = self.judge.cache().nodes.get(name) else { return };
        let (id, worker) = (*id, *worker);
        self.tell(worker, Change::UpsertNode { id, node: Arc::clone(info) });
    }

    /// Tells a worker of a change, with the next flush.
    pub(crate) fn tell(&mut self, worker: WorkerId, change: Change) {
        if let Some(worker) = self.roster.workers.get_mut(&worker) {
            worker.outbox.push(change);
        }
    }

    /// Makes sure that a worker knows a class before it hears its number.
    pub(crate) fn tell_class(&mut self, worker: WorkerId, id: ClassId) {
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

    /// Tells all who know a class that its number will not be used again.
    pub(crate) fn forget_class(&mut self, id: ClassId) {
        let knowing: Vec<WorkerId> = self
            .roster
            .workers
            .iter_mut()
            .filter_map(|(worker, known)| known.classes.swap_remove(&id).then_some(*worker))
            .collect();
        for worker in knowing {
            // Changes that still name the class have to be heard first.
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

    /// Says something to a worker right away.
    pub(crate) fn command(&mut self, worker: WorkerId, command: Command) {
        let Some(epoch) = self.leading else { return };
        let revision = self.judge.cache().revision();
        if let Some(known) = self.roster.workers.get_mut(&worker) {
            known.told = revision;
        }
        let word = ToWorker { epoch, revision, command };
        self.actions.push(Action::Send { worker, word });
    }

    fn acknowledged(&mut self, worker: WorkerId, generation: u64) {
        let current = self.configuration.as_ref().map_or(0, |configuration| configuration.generation);
        let Some(known) = self.roster.workers.get_mut(&worker).filter(|_| generation == current) else { return };
        known.owes_since = None;
        known.generation = generation;
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

    /// Gives a worker its whole shard: the nodes that it holds already, and those that others give up to it.
    fn send_shard(&mut self, id: WorkerId) {
        let names: Vec<Arc<str>> = self.judge.cache().nodes.keys().cloned().collect();
        let mut shard = Vec::new();
        for name in names {
            if self.roster.owner(&name) != Some(id) {
                continue;
            }
            let held = self.judge.cache_mut().set_holder(&name, Some(id), self.next_request);
            let Some((node_id, old)) = held else { continue };
            if let Some(old) = old.filter(|old| *old != id) {
                self.tell(old, Change::RemoveNode { id: node_id });
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
            classes.into_iter().for_each(|class| self.tell_class(id, class));
            changes.extend(self.judge.cache().introduce(name));
        }
        if let Some(worker) = self.roster.workers.get_mut(&id) {
            worker.nodes = u32::try_from(shard.len()).unwrap_or(u32::MAX);
            worker.outbox.clear();
        }
        self.command(id, Command::Snapshot { first: true, last: true, changes });
    }

    fn introduce(&mut self, worker: WorkerId, name: &Arc<str>) {
        let classes: Vec<ClassId> =
            self.judge.cache().residents(name).into_iter().flat_map(|residents| residents.keys().copied()).collect();
        classes.into_iter().for_each(|class| self.tell_class(worker, class));
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
