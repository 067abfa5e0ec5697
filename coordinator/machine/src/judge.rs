//! The judge: what is known of nodes, classes and nominations, and the decisions that follow from it.
//!
//! Its fields are its own. Who has an event takes it in through [`Judge::cache_mut`] and [`Judge::nominator_mut`], who has
//! an answer of workers through [`Judge::states_mut`], and who needs a decision asks [`Judge::decide`]. A decision is a value:
//! the machine carries it out.
//!
//! Knows: nodes, what is charged to them, classes of pods, what workers said of them, who is nominated where. Must not know:
//! the queue, pods and what becomes of them, actions, workers' connections.

use std::sync::Arc;

use flotilla_framework::{
    contain::contain,
    evaluation::{Evaluation, Unsound},
    node::NodeId,
    prepared::Prepared,
    profile::Profile,
    registry::Registry,
    select::Nominations,
    shard::RequestId,
    snapshot::Slot,
};
use flotilla_planted::planted;

use crate::{
    event::{Configuration, WorkerId},
    status::Status,
    subject::{ProfileIndex, Subject, Uid},
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
mod families;
pub(crate) mod live;
pub(crate) mod nominator;
pub(crate) mod panics;
pub(crate) mod past;
pub(crate) mod reserve;
pub(crate) mod said;
mod sharing;
mod stand_in;
mod suits;
pub(crate) mod work;

use cache::Cache;
use class_state::ClassState;
use class_states::ClassStates;
use decision::{Attempt, Want};
use nominator::Nominator;
use panics::Panics;

/// See the module.
#[derive(Debug)]
pub(crate) struct Judge {
    registry: Registry,
    configuration: Option<Arc<Configuration>>,
    cache: Cache,
    states: ClassStates,
    nominator: Nominator,
    /// The counters that are moved here; all else is 0.
    counts: Status,
    panics: Panics,
    /// How many strings of nodes there were when classes were last looked through for those that ask for one.
    known_texts: usize,
    /// Offers that were not what their nodes are, since [`Judge::take_mismatches`].
    mismatches: Vec<Mismatch>,
    /// Where the next look at nodes begins that workers refused.
    next_verified: usize,
}

/// How many nodes are judged here, of those that workers say will all not do, before the pod is turned down. At some 150 ns
/// each they take 40 us, next to the 1 ms that writing the condition takes. Clusters of up to so many nodes are looked at
/// whole; others by and by, each time a pod is turned down: one of 100,000 nodes in 391 times.
const VERIFIED_AT_ONCE: usize = 256;

/// A worker said of a node what the node is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mismatch {
    pub(crate) worker: WorkerId,
    pub(crate) reason: String,
}

// === impl Judge ===

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
            known_texts: 0,
            mismatches: Vec::new(),
            next_verified: 0,
        }
    }

    /// Other profiles are in force: nothing that was known of classes holds any more.
    pub(crate) fn configure(&mut self, configuration: &Arc<Configuration>) {
        let old = self.configuration.replace(Arc::clone(configuration));
        if old.is_none_or(|old| old.tie_break_seed != configuration.tie_break_seed) {
            self.cache.reseed(configuration.tie_break_seed);
        }
        self.states.clear();
        self.forget_panics();
    }

    /// The cluster as it is believed to be.
    pub(crate) const fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The cluster, to be told what happened to it.
    pub(crate) const fn cache_mut(&mut self) -> &mut Cache {
        &mut self.cache
    }

    /// What is known of each class.
    pub(crate) const fn states(&self) -> &ClassStates {
        &self.states
    }

    /// What is known of each class, to be told what workers said.
    pub(crate) const fn states_mut(&mut self) -> &mut ClassStates {
        &mut self.states
    }

    /// Who is nominated where.
    pub(crate) const fn nominator(&self) -> &Nominator {
        &self.nominator
    }

    /// Who is nominated where, to be told of a nomination.
    pub(crate) const fn nominator_mut(&mut self) -> &mut Nominator {
        &mut self.nominator
    }

    /// What was done so far.
    pub(crate) const fn counts(&self) -> &Status {
        &self.counts
    }

    /// The workers that said of nodes what these are not, since this was asked last.
    pub(crate) fn take_mismatches(&mut self) -> Vec<Mismatch> {
        std::mem::take(&mut self.mismatches)
    }

    /// A profile by its place.
    pub(crate) fn profile(&self, index: ProfileIndex) -> Option<&Profile> {
        self.configuration.as_ref()?.profiles.get(index)
    }

    /// The nominations that concern a pod of a priority.
    pub(crate) fn nominations(&self, uid: &Uid, priority: i32) -> Nominations {
        match self.nominator.is_empty() {
            true => Nominations::default(),
            false => self.nominator.concerning(uid, priority, &self.cache),
        }
    }

    /// Has the plugins of a subject made ready, by the facts as they are. `false`: its profile or class is not known, or
    /// the class is too large.
    pub(super) fn open_now(&mut self, (index, class_id): Subject) -> bool {
        if self.cache.has_excess(class_id) {
            return false;
        }
        let Some(configuration) = self.configuration.clone() else { return false };
        let Some(profile) = configuration.profiles.get(index) else { return false };
        let Some(class) = self.cache.classes.get(class_id).map(Arc::clone) else { return false };
        let is_new = self.states.get((index, class_id)).is_none();
        self.states.open((index, class_id), self.registry, profile, &class, &mut self.cache);
        self.states.work.add(if is_new { work::PREPARE } else { 0 });
        true
    }

    /// What workers have to be asked before the next decision on a subject that is open, beside what they are being asked;
    /// `None`: nothing, also where they cannot be asked.
    pub(crate) fn wants(&mut self, subject: Subject) -> Option<Want> {
        if self.states.get(subject).is_none_or(|state| state.ask.is_some()) {
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

    /// Brings what workers said of a subject up to the present, or gives it up where it is too far behind.
    pub(crate) fn bring_up(&mut self, subject: Subject) {
        if let Some(state) = self.states.get_mut(subject) {
            state.repair(&self.cache);
        }
    }

    /// Whether workers are being asked what a subject wants.
    pub(crate) fn is_asked(&mut self, subject: Subject) -> bool {
        let is_asked = |judge: &Self, subject| judge.states.get(subject).is_some_and(|state| state.ask.is_some());
        is_asked(self, subject) || self.head_of(subject).is_some_and(|head| is_asked(self, head))
    }

    /// What the nodes say of a subject that is open which none of these workers holds; `None` where there are none.
    pub(crate) fn evaluate_rest(
        &mut self,
        subject: Subject,
        k: u32,
        asked: impl Fn(WorkerId) -> bool,
    ) -> Option<Evaluation> {
        let is_left = |node: &&cache::Node| !node.worker.is_some_and(&asked);
        let left = self.cache.nodes.values().filter(is_left);
        let slots: Vec<Slot> = left.filter_map(|node| self.cache.snapshot.slot(node.id)).collect();
        if slots.is_empty() {
            return None;
        }
        self.counts.evaluations_partial += 1;
        self.contained(subject, |judge| judge.states.evaluation_of(subject, &judge.cache, &slots, k)).flatten()
    }

    /// Answers here what a worker owes, as far as that can be put together with what the others answered.
    pub(crate) fn stand_in(&mut self, worker: WorkerId) {
        match contain(|| self.states.stand_in(worker, &self.cache)) {
            Ok(answered) => self.counts.evaluations_partial += answered,
            // No one subject is known to be the cause: the one that is will panic again in its own attempt.
            Err(_) => self.restore(),
        }
    }

    /// Evaluates a subject here, without any worker.
    pub(crate) fn evaluate_here(&mut self, subject: Subject) {
        self.counts.evaluations_local += 1;
        self.states.evaluate_here(subject, &self.cache);
    }

    /// Counts a dry run on one node.
    pub(crate) fn count_dry_run(&mut self, subject: Subject) {
        self.states.work.add(work::DRY_RUN);
        self.states.count_devices(subject);
    }

    /// What is known of a subject, what its pods count brought up to the present, and the cluster that pods may be put on
    /// and taken from for a while.
    pub(crate) fn with_nodes(&mut self, subject: Subject) -> Option<(&mut ClassState, &mut Cache)> {
        let state = self.states.get_mut(subject)?;
        state.matches.refresh(&state.prepared, &self.cache.snapshot);
        Some((state, &mut self.cache))
    }

    /// The plugins of a subject that is open, and the cluster that pods may be put on and taken from for a while.
    pub(crate) fn with_prepared(&mut self, subject: Subject) -> Option<(&Prepared, &mut Cache)> {
        Some((&self.states.get(subject)?.prepared, &mut self.cache))
    }

    /// Takes a worker's answer, if anyone still waits for it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn take_answer(
        &mut self,
        worker: WorkerId,
        request: RequestId,
        evaluation: Evaluation,
    ) -> Result<(), Unsound> {
        self.states.answer(worker, request, evaluation, &self.cache)
    }

    /// Who said what is known of a node, if it was said by who holds it now. Nobody is blamed for a node that has changed
    /// hands since.
    fn source_of(&mut self, subject: Subject, node: NodeId) -> Option<WorkerId> {
        let source = self.states.known(subject)?.source?;
        let holder = self.cache.holder_at(self.cache.snapshot.slot(node)?, source.request).ok()??;
        source.workers.contains(&holder).then_some(holder)
    }

    /// Whether all that is known of a subject is what workers said of the nodes as they are now.
    pub(crate) fn is_from_workers(&self, subject: Subject) -> bool {
        let live = self.states.get(subject).and_then(ClassState::own);
        live.is_some_and(|live| live.is_from_workers(self.cache.revision()))
    }

    /// Whether what is known of a subject's nodes was said by workers, but for what changed since.
    pub(crate) fn is_said_by_workers(&mut self, subject: Subject) -> bool {
        self.states.known(subject).is_some_and(|known| known.source.is_some())
    }

    /// Workers said that no node will do, and this one does: who said so of it loses its place, and the subject is evaluated
    /// here.
    pub(crate) fn refute_refusal(&mut self, subject: Subject, node: NodeId) {
        self.counts.refusals_refuted += 1;
        let source = self.source_of(subject, node);
        self.states.distrust();
        if let Some(worker) = source {
            let reason = format!("it refused node {}, which suits the pod", node.0);
            self.mismatches.push(Mismatch { worker, reason });
        }
        self.evaluate_here(subject);
    }

    /// A node that suits a subject although workers said that none does, among the next [`VERIFIED_AT_ONCE`] nodes: a part of
    /// them is looked at each time, one after the other.
    fn disproof(&mut self, subject: Subject) -> Option<NodeId> {
        if !self.is_from_workers(subject) || planted("trusts-refusals") {
            return None;
        }
        let capacity = self.cache.snapshot.capacity();
        let first = self.next_verified % capacity.max(1);
        self.next_verified = first + VERIFIED_AT_ONCE.min(capacity);
        let slots =
            (first..capacity).chain(0..first).take(VERIFIED_AT_ONCE).filter_map(|slot| Slot::try_from(slot).ok());
        self.with_nodes(subject)?;
        let nodes = &self.cache.snapshot;
        self.states.known(subject)?.first_feasible(nodes, slots)
    }

    /// Forgets what was made ready for classes that had asked for a string that no node had and one has now; for all of them
    /// where what no node has any more is cleared away.
    pub(crate) fn forget_outdated(&mut self) {
        let symbols = &self.cache.snapshot.symbols;
        let known = std::mem::replace(&mut self.known_texts, symbols.len());
        if symbols.len() > known {
            self.states.close_outdated(symbols.since(known));
        }
        if self.cache.snapshot.is_wasteful() {
            self.cache.snapshot.compact();
            self.known_texts = self.cache.snapshot.symbols.len();
            self.states.clear();
            self.counts.compacted += 1;
        }
    }

    /// Nothing that workers have said holds: one of them says what is not so.
    pub(crate) fn distrust(&mut self) {
        self.states.distrust();
    }

    /// Makes the subject's view what it is for a pod, as nominations have it. Gives the pod's own nominated node where that
    /// will do. Nothing to do, and nothing done, where no pod is nominated.
    fn lay_nominations_over(&mut self, attempt: &Attempt<'_>) -> Option<NodeId> {
        let is_empty = self.nominator.is_empty();
        let laid_over = self.states.known(attempt.subject)?.view.is_laid_over();
        if is_empty && !laid_over {
            return None;
        }
        let nominations = self.nominator.concerning(attempt.uid, attempt.priority, &self.cache);
        self.with_nodes(attempt.subject)?;
        self.states.known(attempt.subject)?.lay_over(&mut self.cache, &nominations)
    }
}
