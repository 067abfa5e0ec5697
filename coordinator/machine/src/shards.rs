//! The shards of the workers: which nodes each holds, and the commands that keep it current.

use std::sync::Arc;

use flotilla_framework::{
    class::ClassId,
    extension::objects::Attachments,
    node::{NodeId, NodeInfo},
    shard::{Change, Command, Epoch, RequestId, ToWorker},
};

use crate::{
    action::{Action, Unreserve},
    event::{Configuration, TimeMs, WorkerId},
    judge::{
        Judge,
        cache::{Charge, Node},
    },
    preempt::{Budgets, Preemptions},
    roster::Roster,
    settings::Settings,
    status::Status,
};

/// Additional time for the acknowledgement of a shard, per node and per class. A node with labels and images takes some 10 KB on the wire,
/// a class 2 KB. On a shared link of 100 Mbit/s that is 1 ms. A shard of 25,000 nodes and as many classes has 52 s. Nothing waits for it.
const ALLOWANCE_MS: u64 = 1;

/// The parts of the machine that assign nodes, send commands and drop workers. They know no queue and no pod.
#[derive(Debug)]
pub(crate) struct Shards<'m> {
    pub(crate) settings: &'m Settings,
    pub(crate) roster: &'m mut Roster,
    pub(crate) judge: &'m mut Judge,
    pub(crate) budgets: &'m mut Budgets,
    pub(crate) preemptions: &'m mut Preemptions,
    pub(crate) actions: &'m mut Vec<Action>,
    pub(crate) status: &'m mut Status,
    /// The epoch of this leadership; a follower sends nothing.
    pub(crate) epoch: Option<Epoch>,
    pub(crate) last_request: &'m mut RequestId,
    pub(crate) now_ms: TimeMs,
}

impl Shards<'_> {
    /// Assigns a node to its worker by hash.
    pub(crate) fn assign_node(&mut self, name: &Arc<str>) {
        let owner = self.roster.owner(name).filter(|_| self.judge.cache().can_be_held(name));
        let is_known = self.judge.set_holder(name, owner, *self.last_request).is_some();
        if let Some(owner) = owner.filter(|_| is_known) {
            self.introduce(owner, name);
        }
    }

    /// A node changed, or a pod of a class that is too large for a message came or left. The coordinator evaluates nodes that cannot be
    /// sent; no worker holds them.
    pub(crate) fn reassign_node(&mut self, name: &Arc<str>) {
        let Some(known) = self.judge.cache().nodes().get(name) else { return };
        let can_be_held = self.judge.cache().can_be_held(name);
        match known.worker {
            Some(_) if !can_be_held => {
                let held = self.judge.set_holder(name, None, *self.last_request);
                held.into_iter().for_each(|(id, worker)| self.withdraw(id, worker));
            }
            None if can_be_held => self.assign_node(name),
            Some(_) | None => {}
        }
    }

    /// A worker no longer holds a node.
    pub(crate) fn withdraw(&mut self, id: NodeId, worker: Option<WorkerId>) {
        if let Some(worker) = worker {
            self.send_change(worker, Change::RemoveNode { id });
            self.count_node(worker, -1);
        }
    }

    pub(crate) fn send_to_holder(&mut self, name: &Arc<str>, info: &Arc<NodeInfo>) {
        let was_held = self.judge.cache().nodes().get(name).is_some_and(|node| node.worker.is_some());
        self.reassign_node(name);
        // A worker that holds it only now has received the whole node.
        let Some(Node { id, worker: Some(worker), .. }) = self.judge.cache().nodes().get(name).filter(|_| was_held)
        else {
            return;
        };
        let (id, worker) = (*id, *worker);
        self.send_change(worker, Change::UpsertNode { id, node: Arc::clone(info) });
    }

    /// Charges a pod to a node, and sends it to the node's holder.
    pub(crate) fn charge(&mut self, charge: &Charge) {
        let change = self.put_on(charge);
        if !self.judge.cache().classes().is_sendable(charge.class) {
            return self.reassign_node(&charge.node);
        }
        if let Some((worker, change)) = change {
            self.send_class(worker, charge.class);
            self.send_change(worker, change);
        }
    }

    /// Removes a pod from its node, and at the node's holder. The caller releases the class.
    pub(crate) fn discharge(&mut self, charge: &Charge) {
        if let Some((worker, change)) = self.judge.discharge(charge) {
            self.send_change(worker, change);
        }
        if !self.judge.cache().classes().is_sendable(charge.class) {
            self.reassign_node(&charge.node);
        }
    }

    /// Charges a pod to a node. Returns the change for the node's holder, without its attachments, which are sent.
    pub(crate) fn put_on(&mut self, charge: &Charge) -> Option<(WorkerId, Change)> {
        let (attachments, change) = self.judge.charge(charge);
        self.send_attachments(attachments);
        change
    }

    /// A user of a class is gone. Forgets the classes without users.
    pub(crate) fn release_class(&mut self, class: ClassId) {
        for gone in self.judge.release_class(class) {
            self.budgets.forget_class(gone);
            self.forget_class(gone);
        }
    }

    /// Writes to a claim that blocks a pod.
    pub(crate) fn free(&mut self, unreserve: Unreserve) {
        if self.epoch.is_some() {
            self.actions.push(Action::Unreserve(unreserve));
        }
    }

    pub(crate) const fn next_request(&mut self) -> RequestId {
        *self.last_request += 1;
        *self.last_request
    }

    /// Sends the volume attachments that placed classes add to nodes.
    pub(crate) fn send_attachments(&mut self, attachments: Attachments) {
        for (class, attachments) in attachments {
            let knowing = self.roster.workers.values_mut().filter(|known| known.classes.contains(&class));
            let change = || Change::SetAttachments { class, attachments: Arc::clone(&attachments) };
            knowing.for_each(|known| known.outbox.push(change()));
        }
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
            && let Some(class) = self.judge.cache().classes().get(id).map(Arc::clone)
        {
            self.command(worker, Command::RegisterClass { id, class });
            let attachments = self.judge.cache().snapshot().attachments(id);
            if !attachments.is_empty() {
                let changes = vec![Change::SetAttachments { class: id, attachments: attachments.into() }];
                self.command(worker, Command::Delta { changes });
            }
        }
    }

    /// Notifies the workers that know a class that its number is retired.
    fn forget_class(&mut self, id: ClassId) {
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
        let Some(epoch) = self.epoch else { return };
        let revision = self.judge.cache().revision();
        if let Some(known) = self.roster.workers.get_mut(&worker) {
            known.told = revision;
            known.is_sent(&command);
        }
        let word = ToWorker { epoch, revision, command };
        self.actions.push(Action::Send { worker, word });
    }

    pub(crate) fn send_configuration(&mut self, worker: WorkerId, configuration: &Configuration) {
        let command = Command::Configure {
            generation: configuration.generation,
            tie_break_seed: configuration.tie_break_seed,
            profiles: Arc::clone(&configuration.profiles),
        };
        self.command(worker, command);
    }

    /// Sends a worker its whole shard: nodes it already holds, and nodes that others give up.
    pub(crate) fn send_shard(&mut self, id: WorkerId, for_modules_ms: u64) {
        let names: Vec<Arc<str>> = self.judge.cache().nodes().keys().cloned().collect();
        let mut shard = Vec::new();
        for name in names {
            if self.roster.owner(&name) != Some(id) || !self.judge.cache().can_be_held(&name) {
                continue;
            }
            let held = self.judge.set_holder(&name, Some(id), *self.last_request);
            let Some((node_id, old)) = held else { continue };
            self.withdraw(node_id, old.filter(|old| *old != id));
            shard.push(name);
        }
        let mut changes = Vec::new();
        for name in &shard {
            changes.extend(self.introduction(id, name));
        }
        if let Some(worker) = self.roster.workers.get_mut(&id) {
            worker.nodes = u32::try_from(shard.len()).unwrap_or(u32::MAX);
            worker.allowance_ms = (shard.len() + worker.classes.len()) as u64 * ALLOWANCE_MS + for_modules_ms;
            worker.outbox.clear();
        }
        self.command(id, Command::Snapshot { first: true, last: true, changes });
    }

    /// Sends the classes of a node's pods, and returns the changes that create the node on a worker.
    fn introduction(&mut self, worker: WorkerId, name: &Arc<str>) -> Vec<Change> {
        let residents = self.judge.cache().residents(name).into_iter();
        let classes: Vec<ClassId> = residents.flat_map(|residents| residents.keys().copied()).collect();
        classes.into_iter().for_each(|class| self.send_class(worker, class));
        self.judge.cache().introduce(name)
    }

    fn introduce(&mut self, worker: WorkerId, name: &Arc<str>) {
        let changes = self.introduction(worker, name);
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
