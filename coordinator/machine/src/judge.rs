//! State of nodes, classes and nominations, and the decisions on them.
//!
//! The machine passes changes of the cluster to the verbs in `cache/verbs.rs`, answers of workers to [`Judge::take_answer`], and requests
//! decisions from [`Judge::decide`]. A decision is a value; the machine carries it out.

use std::sync::Arc;

use flotilla_framework::{
    class::ClassId,
    contain::contain,
    evaluation::{Evaluation, Unsound},
    extension::Facts,
    node::NodeId,
    profile::Profile,
    registry::Registry,
    select::Nominations,
    shard::RequestId,
    snapshot::Slot,
};
use flotilla_planted::planted;

use crate::{
    event::{Configuration, TimeMs, WorkerId},
    status::Status,
    subject::{ProfileIndex, Subject, Uid},
    trace::Over,
};

pub(crate) mod ask;
pub(crate) mod cache;
mod changes;
pub(crate) mod class_state;
pub(crate) mod class_states;
pub(crate) mod classes;
mod decide;
pub(crate) mod decision;
mod extended;
pub(crate) mod extender_answers;
mod families;
mod hints;
pub(crate) mod live;
pub(crate) mod nominator;
pub(crate) mod panics;
mod post_filter;
pub(crate) mod reserve;
pub(crate) mod searches;
mod sharing;
mod stand_in;
mod trials;
pub(crate) mod work;

use ask::Ask;
use cache::Cache;
use class_state::ClassState;
use class_states::ClassStates;
use decision::{Attempt, Want};
use nominator::Nominator;
use panics::Panics;
use searches::Searches;

/// Decides pods on the coordinator's copy of the cluster. It performs no action and knows no queue.
///
/// The machine calls it in this order:
///
/// 1. [`Judge::configure`] with each configuration. All class states close.
/// 2. A verb for each change of nodes, pods, nominations and objects, such as [`Judge::apply_node`], [`Judge::charge`] and
///    [`Judge::nominate`]. Each change of a node increases the cache's revision. Class states are not updated here, but when a decision
///    needs them.
/// 3. [`Judge::wants`] for pods near the head of the queue: the request to workers that the next decision needs. The machine sends it,
///    and [`Judge::take_answer`] merges each answer.
/// 4. [`Judge::decide`] for the pod at the head. It repairs the answers to the current revision: it evaluates the nodes that changed since
///    the request. Then it selects the node and evaluates it once more on the coordinator, so that an incorrect answer binds no pod. If the
///    answers are missing, the result is the [`Need`](decision::Need).
/// 5. [`Judge::take_mismatches`] after each decision: the workers with incorrect answers, which the machine drops.
///
/// A decision is a value. The machine carries it out, for example charges the pod to its node, and returns to step 2.
///
/// A panic of a plugin fails the attempt of one pod ([`panics`]). Caches and class states are then restored.
#[derive(Debug)]
pub(crate) struct Judge {
    registry: Registry,
    configuration: Option<Arc<Configuration>>,
    cache: Cache,
    states: ClassStates,
    nominator: Nominator,
    /// The counters incremented here; all others are 0.
    counts: Status,
    panics: Panics,
    searches: Searches,
    /// The number of node strings at the last search for outdated classes.
    known_texts: usize,
    /// Incorrect offers since [`Judge::take_mismatches`].
    mismatches: Vec<Mismatch>,
    /// First slot of the next check of refusals.
    next_verified: usize,
}

/// Number of nodes that the coordinator checks itself when workers report that no node is feasible. At some 150 ns each this takes 40 us,
/// compared with 1 ms for writing the condition. Smaller clusters are checked completely, larger ones in turns: 100,000 nodes take 391
/// refusals.
const VERIFIED_AT_ONCE: usize = 256;

/// An incorrect result of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mismatch {
    pub(crate) worker: WorkerId,
    pub(crate) reason: String,
}

impl Judge {
    pub(crate) fn new(registry: Registry) -> Self {
        Self {
            registry,
            configuration: None,
            cache: Cache::new(registry),
            states: ClassStates::default(),
            nominator: Nominator::default(),
            counts: Status::default(),
            panics: Panics::default(),
            searches: Searches::default(),
            known_texts: 0,
            mismatches: Vec::new(),
            next_verified: 0,
        }
    }

    pub(crate) fn configure(&mut self, configuration: &Arc<Configuration>) {
        let old = self.configuration.replace(Arc::clone(configuration));
        if old.is_none_or(|old| old.tie_break_seed != configuration.tie_break_seed) {
            self.cache.reseed(configuration.tie_break_seed);
        }
        self.states.clear();
        self.searches.clear();
        self.forget_panics();
    }

    pub(crate) const fn cache(&self) -> &Cache {
        &self.cache
    }

    pub(crate) const fn states(&self) -> &ClassStates {
        &self.states
    }

    /// Begins to count the work of an event.
    pub(crate) const fn begin_event(&mut self) {
        self.states.work.begin();
    }

    /// Closes all class states: nothing is known any more, and no request is waited for.
    pub(crate) fn close_all(&mut self) {
        self.states.clear();
    }

    /// The heads of families to release, each once per closed state.
    pub(crate) fn take_released(&mut self) -> Vec<ClassId> {
        self.states.take_released()
    }

    /// See [`ClassStates::keep_covered`].
    pub(crate) fn keep_covered(&mut self, subject: Subject) -> Option<bool> {
        self.states.keep_covered(subject)
    }

    /// A request to workers was sent.
    pub(crate) fn asked(&mut self, subject: Subject, ask: Ask) {
        self.states.asked(subject, ask);
    }

    /// The requests in flight.
    pub(crate) fn asks_mut(&mut self) -> impl Iterator<Item = &mut Ask> {
        self.states.asks_mut()
    }

    /// The traced evaluations that ended since the last call.
    pub(crate) fn take_ended(&mut self) -> Vec<Over> {
        std::mem::take(&mut self.states.over)
    }

    /// The requests that a lost worker has not answered are repeated without it.
    pub(crate) fn worker_lost(&mut self, worker: WorkerId) {
        self.states.give_up(worker, "a worker is gone");
    }

    /// Evaluates the missing part of a late worker, where it can be merged with the other workers' answers, and repeats its other requests
    /// without it.
    pub(crate) fn worker_late(&mut self, worker: WorkerId) {
        match contain(|| self.states.stand_in(worker, &self.cache)) {
            Ok(answered) => self.counts.evaluations_partial += answered,
            // The causing subject is unknown; it will panic again in its own attempt.
            Err(_) => self.restore(),
        }
        self.states.give_up(worker, "a worker is late");
    }

    /// A worker cannot answer because of too many strata: only the coordinator evaluates the subject from now on.
    pub(crate) fn too_many_strata(&mut self, worker: WorkerId, request: RequestId) {
        self.states.give_up_strata(worker, request);
    }

    pub(crate) const fn nominator(&self) -> &Nominator {
        &self.nominator
    }

    pub(crate) const fn counts(&self) -> &Status {
        &self.counts
    }

    /// The workers with incorrect results since the last call.
    pub(crate) fn take_mismatches(&mut self) -> Vec<Mismatch> {
        std::mem::take(&mut self.mismatches)
    }

    pub(crate) fn profile(&self, index: ProfileIndex) -> Option<&Profile> {
        self.configuration.as_ref()?.profiles.get(index)
    }

    pub(crate) fn nominations(&self, uid: &Uid, priority: i32) -> Nominations {
        match self.nominator.is_empty() {
            true => Nominations::default(),
            false => self.nominator.concerning(uid, priority),
        }
    }

    /// Prepares the plugins of a subject on the current facts. `false`: its profile or class is unknown, or the class is too large.
    pub(super) fn open_now(&mut self, (index, class_id): Subject) -> bool {
        if self.cache.has_excess(class_id) {
            return false;
        }
        let Some(configuration) = self.configuration.clone() else { return false };
        let Some(profile) = configuration.profiles.get(index) else { return false };
        let Some(class) = self.cache.classes().get(class_id).map(Arc::clone) else { return false };
        let is_new = self.states.get((index, class_id)).is_none();
        self.states.open((index, class_id), self.registry, profile, &class, &mut self.cache);
        self.states.work.add(if is_new { work::PREPARE } else { 0 });
        true
    }

    /// The request that the next decision on an open subject needs, in addition to pending ones; `None`: none, or none is possible.
    pub(crate) fn wants(&mut self, subject: Subject) -> Option<Want> {
        if self.states.get(subject).is_none_or(|state| state.ask().is_some()) {
            return None;
        }
        if let Some(head) = self.head_of(subject) {
            return (!self.states.has_sorted_nodes(head)).then_some(Want::Whole(head));
        }
        let state = self.states.get(subject)?;
        let is_decided = state.prepared.refusal().is_some() || state.prepared.error().is_some();
        let is_known = is_decided || state.own().is_some() || !state.can_be_asked();
        (!is_known).then_some(Want::Offers(subject))
    }

    /// The time of a pending request.
    pub(crate) fn asked_ms(&self, request: RequestId) -> Option<TimeMs> {
        self.states.get(self.states.subject_of(request)?)?.ask().map(|ask| ask.asked_ms)
    }

    /// The facts and the number of offers for a request about an open subject. `None`: a request is in flight.
    pub(crate) fn request(&self, subject: Subject, k: u32) -> Option<(Arc<Facts>, u32)> {
        let state = self.states.get(subject).filter(|state| state.ask().is_none())?;
        Some((Arc::clone(&state.facts), if state.wants_all { u32::MAX } else { k }))
    }

    /// Repairs the workers' results for a subject up to the current revision, or discards them if they are too old.
    pub(crate) fn bring_up(&mut self, subject: Subject) {
        if let Some(state) = self.states.get_mut(subject) {
            state.repair(&self.cache);
        }
    }

    pub(crate) fn is_asked(&mut self, subject: Subject) -> bool {
        let is_asked = |judge: &Self, subject| judge.states.get(subject).is_some_and(|state| state.ask().is_some());
        is_asked(self, subject) || self.head_of(subject).is_some_and(|head| is_asked(self, head))
    }

    /// Evaluates an open subject on the nodes that none of these workers holds; `None` if there are no such nodes.
    pub(crate) fn evaluate_rest(
        &mut self,
        subject: Subject,
        k: u32,
        asked: impl Fn(WorkerId) -> bool,
    ) -> Option<Evaluation> {
        let is_left = |node: &&cache::Node| !node.worker.is_some_and(&asked);
        let left = self.cache.nodes().values().filter(is_left);
        let slots: Vec<Slot> = left.filter_map(|node| self.cache.snapshot().slot(node.id)).collect();
        if slots.is_empty() {
            return None;
        }
        self.counts.evaluations_partial += 1;
        self.contained(subject, |judge| judge.states.evaluation_of(subject, &judge.cache, &slots, k)).flatten()
    }

    pub(crate) fn evaluate_here(&mut self, subject: Subject) {
        self.counts.evaluations_local += 1;
        self.states.evaluate_here(subject, &self.cache);
    }

    /// The state of a subject with current counts, and the cluster for temporary charges.
    fn with_nodes(&mut self, subject: Subject) -> Option<(&mut ClassState, &mut Cache)> {
        let state = self.states.get_mut(subject)?;
        state.matches.refresh(&state.prepared, self.cache.snapshot());
        Some((state, &mut self.cache))
    }

    /// Merges a worker's answer, if a request still waits for it.
    ///
    /// # Errors
    /// The answer is invalid.
    pub(crate) fn take_answer(
        &mut self,
        worker: WorkerId,
        request: RequestId,
        evaluation: Evaluation,
    ) -> Result<(), Unsound> {
        self.states.answer(worker, request, evaluation, &self.cache)
    }

    /// The worker that reported the state of a node, if it still holds the node. After a change of the holder no worker is responsible.
    fn source_of(&mut self, subject: Subject, node: NodeId) -> Option<WorkerId> {
        let source = self.states.known(subject)?.source?;
        let holder = self.cache.holder_at(self.cache.snapshot().slot(node)?, source.request).ok()??;
        source.workers.contains(&holder).then_some(holder)
    }

    /// Whether all results for a subject come from workers and are current, so that a refusal has to be verified.
    fn is_from_workers(&self, subject: Subject) -> bool {
        let live = self.states.get(subject).and_then(ClassState::own);
        live.is_some_and(|live| live.is_from_workers(self.cache.revision())) && !planted("trusts-refusals")
    }

    /// Whether the results for a subject came from workers, apart from later repairs.
    pub(crate) fn is_reported_by_workers(&mut self, subject: Subject) -> bool {
        self.states.known(subject).is_some_and(|known| known.source.is_some())
    }

    /// Workers reported that no node is feasible, but this one is: drops its holder, and evaluates the subject on the coordinator.
    pub(crate) fn refute_refusal(&mut self, subject: Subject, node: NodeId) {
        self.counts.refusals_refuted += 1;
        let source = self.source_of(subject, node);
        self.states.distrust();
        if let Some(worker) = source {
            let reason = format!("it reported node {} as infeasible, which is feasible", node.0);
            self.mismatches.push(Mismatch { worker, reason });
        }
        self.evaluate_here(subject);
    }

    /// A feasible node that workers reported as infeasible, among the next [`VERIFIED_AT_ONCE`] nodes; each call checks the next part.
    fn disproof(&mut self, subject: Subject) -> Option<NodeId> {
        if !self.is_from_workers(subject) {
            return None;
        }
        let capacity = self.cache.snapshot().capacity();
        let first = self.next_verified % capacity.max(1);
        self.next_verified = first + VERIFIED_AT_ONCE.min(capacity);
        let slots =
            (first..capacity).chain(0..first).take(VERIFIED_AT_ONCE).filter_map(|slot| Slot::try_from(slot).ok());
        self.with_nodes(subject)?;
        let nodes = self.cache.snapshot();
        self.states.known(subject)?.first_feasible(nodes, slots)
    }

    /// Closes class states that asked for a string which is new among the nodes; closes all of them after a compaction of unused strings.
    fn forget_outdated(&mut self) {
        let symbols = &self.cache.snapshot().symbols;
        let known = std::mem::replace(&mut self.known_texts, symbols.len());
        if symbols.len() > known {
            self.states.close_outdated(symbols.since(known));
        }
        if self.cache.snapshot().is_wasteful() {
            self.cache.snapshot_mut().compact();
            self.known_texts = self.cache.snapshot().symbols.len();
            self.states.clear();
            self.counts.compacted += 1;
        }
    }

    pub(crate) fn distrust(&mut self) {
        self.states.distrust();
    }

    /// Overlays the nominations that concern a pod on the subject's view. Returns the pod's nominated node if it is feasible. Does nothing
    /// if no pod is nominated.
    fn lay_nominations_over(&mut self, attempt: &Attempt<'_>) -> Option<NodeId> {
        let is_empty = self.nominator.is_empty();
        let laid_over = self.states.known(attempt.subject)?.view.is_laid_over();
        if is_empty && !laid_over {
            return None;
        }
        let nominations = self.nominator.concerning(&attempt.pod.uid, attempt.pod.priority);
        self.with_nodes(attempt.subject)?;
        self.states.known(attempt.subject)?.lay_over(&mut self.cache, &nominations)
    }
}
