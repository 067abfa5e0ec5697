//! The class states of all subjects.

use std::sync::Arc;

use flotilla_framework::{
    class::{Class, ClassId},
    evaluate::{Columns, Scratch},
    evaluation::{Evaluation, Unsound, Wanted},
    map::Map,
    matches::Matches,
    prepared::Prepared,
    profile::Profile,
    registry::Registry,
    select::View,
    shard::RequestId,
    snapshot::Slot,
};

use super::{
    ask::{Ask, wrong_about},
    cache::Cache,
    class_state::{ClassState, Evaluator, Known},
    families::{Families, FamilyState, max_rows},
    live::Live,
    work::{NODE, PASSED, Work},
};
use crate::{event::WorkerId, subject::Subject, trace::Over};

/// Maximum number of subjects with views. Each takes up to 24 bytes per offer, 2.3 MB at 100,000 nodes; most take a few kilobytes.
const MAX_SUBJECTS: usize = 1_024;

/// Maximum number of bytes of the facts, including strings that no node has. Most subjects have a few hundred; the largest that is tried
/// takes 8 MiB.
const MAX_FACT_BYTES: usize = 64 << 20;

/// Maximum number of node results for subjects that the coordinator evaluated. At 16 bytes each they take 64 MiB: 838 subjects at 5,000
/// nodes, 41 at 100,000.
const MAX_POSITIONS: usize = 4 << 20;

#[derive(Debug, Default)]
pub(crate) struct ClassStates {
    pub(super) all: Map<Subject, ClassState>,
    pub(super) families: Families,
    released: Vec<ClassId>,
    requests: Map<RequestId, Subject>,
    scratch: Scratch,
    /// Number of checked answers, and per slot the last one that offered its node.
    looked_at: u64,
    offered: Vec<u64>,
    /// Bytes of the facts, and of strings that no node has.
    bytes: usize,
    clock: u64,
    pub(super) work: Work,
    /// Traced evaluations that ended since the last report.
    pub(super) over: Vec<Over>,
}

impl ClassStates {
    pub(crate) fn clear(&mut self) {
        self.released.extend(self.all.values().filter_map(|state| state.family.head()));
        self.all.clear();
        self.bytes = 0;
        self.requests.clear();
        self.families.clear();
    }

    /// The heads of families to release, each once per closed state.
    pub(crate) fn take_released(&mut self) -> Vec<ClassId> {
        std::mem::take(&mut self.released)
    }

    /// The class state of a subject with current facts; opens it if necessary.
    pub(crate) fn open(
        &mut self,
        subject: Subject,
        registry: Registry,
        profile: &Profile,
        class: &Class,
        cache: &mut Cache,
    ) -> &mut ClassState {
        self.clock += 1;
        let version = cache.facts_version(class);
        let stale = self
            .all
            .get(&subject)
            // An attempt that used up its work is retried once objects have changed.
            .is_some_and(|state| {
                let is_changed = state.facts_version != version;
                is_changed && (state.prepared.is_exhausted() || *state.facts != cache.facts(class))
            });
        if stale {
            self.close(subject);
        }
        if !self.all.contains_key(&subject) {
            self.make_room();
        }
        let clock = self.clock;
        let state = self.all.entry(subject).or_insert_with(|| {
            let facts = Arc::new(cache.facts(class));
            let is_sendable = facts.is_sendable() && class.is_sendable();
            let prepared = Prepared::new(registry, profile, class, &facts, cache.snapshot());
            let bytes = facts.bytes() + prepared.missing().bytes();
            self.bytes += bytes;
            ClassState {
                prepared,
                facts,
                facts_version: version,
                known: Known::Nothing,
                evaluator: if is_sendable { Evaluator::Workers } else { Evaluator::Coordinator },
                matches: Matches::default(),
                family: FamilyState::default(),
                columns: None,
                used: clock,
                wants_all: false,
                mismatches: 0,
                bytes,
                kept: 0,
                counted: 0,
            }
        });
        state.facts_version = version;
        state.used = clock;
        state
    }

    /// Discards all views, after a worker's result was incorrect.
    pub(crate) fn distrust(&mut self) {
        self.all.values_mut().for_each(|state| state.known.forget());
        self.families.clear();
    }

    /// Discards the view of one subject, so that it is requested again.
    pub(crate) fn forget_view(&mut self, subject: Subject) {
        if let Some(state) = self.all.get_mut(&subject) {
            state.known.forget();
        }
    }

    pub(crate) fn get(&self, subject: Subject) -> Option<&ClassState> {
        self.all.get(&subject)
    }

    pub(crate) fn get_mut(&mut self, subject: Subject) -> Option<&mut ClassState> {
        self.all.get_mut(&subject)
    }

    /// Whether a subject has own answers or a request, and if so, whether it counts over domains. Marks its view as used, because the
    /// subject is decided soon.
    pub(crate) fn keep_covered(&mut self, subject: Subject) -> Option<bool> {
        let clock = self.clock;
        let state = self.all.get_mut(&subject)?;
        if state.own().is_some() || state.ask().is_some() {
            state.used = clock;
            return Some(state.prepared.is_wide());
        }
        // A view on top of a sorted list holds hardly any nodes itself.
        self.is_sorted_for(subject).then_some(false)
    }

    /// Maximum number of classes with own answers that count over domains.
    pub(crate) fn wide_bound(nodes: usize) -> usize {
        max_rows(nodes) / nodes.max(1)
    }

    pub(crate) fn close(&mut self, subject: Subject) {
        let Some(mut state) = self.all.swap_remove(&subject) else { return };
        self.bytes -= state.bytes + state.kept;
        if let Some(ask) = state.known.end() {
            self.requests.swap_remove(&ask.request);
            self.note_end(subject, &ask, Some("no longer needed"));
        }
        self.released.extend(state.family.head());
        self.families.close(subject);
    }

    pub(crate) fn close_outdated<'a>(&mut self, texts: impl Iterator<Item = &'a str> + Clone) {
        let is_outdated = |state: &ClassState| state.prepared.missing().has_any(texts.clone());
        let gone: Vec<Subject> =
            self.all.iter().filter(|(_, state)| is_outdated(state)).map(|(subject, _)| *subject).collect();
        gone.into_iter().for_each(|subject| self.close(subject));
    }

    pub(crate) fn close_class(&mut self, class: ClassId) {
        let gone: Vec<Subject> = self.all.keys().filter(|(_, known)| *known == class).copied().collect();
        gone.into_iter().for_each(|subject| self.close(subject));
    }

    pub(crate) fn asked(&mut self, subject: Subject, ask: Ask) {
        let Some(state) = self.all.get_mut(&subject) else { return };
        self.requests.insert(ask.request, subject);
        if let Some(old) = state.known.begin(ask) {
            self.requests.swap_remove(&old.request);
        }
    }

    pub(crate) fn subject_of(&self, request: RequestId) -> Option<Subject> {
        self.requests.get(&request).copied()
    }

    /// Merges a worker's answer, if the request is pending.
    ///
    /// # Errors
    /// No worker with this shard can give this answer.
    pub(crate) fn answer(
        &mut self,
        worker: WorkerId,
        request: RequestId,
        evaluation: Evaluation,
        cache: &Cache,
    ) -> Result<(), Unsound> {
        let Some(subject) = self.subject_of(request) else { return Ok(()) };
        let Self { all, looked_at, offered, .. } = self;
        let Some(state) = all.get_mut(&subject) else { return Ok(()) };
        let ClassState { known, prepared, .. } = state;
        let Some(ask) = known.ask_mut() else { return Ok(()) };
        let Some(&nodes) = ask.owing.get(&worker) else { return Ok(()) };
        offered.resize(cache.snapshot().capacity(), 0);
        *looked_at += 1;
        let mut repeats = |slot: Slot| {
            let last = offered.get_mut(slot as usize).map(|last| std::mem::replace(last, *looked_at));
            last == Some(*looked_at)
        };
        let wanted = Wanted { nodes, k: ask.k };
        let made: &Ask = ask;
        evaluation.check(prepared, wanted, |offer| wrong_about(offer, worker, made, cache, &mut repeats))?;
        ask.owing.remove(&worker);
        ask.answers.push(evaluation);
        self.conclude(subject);
        Ok(())
    }

    pub(super) fn conclude(&mut self, subject: Subject) {
        let Some(state) = self.all.get_mut(&subject) else { return };
        if state.ask().is_none_or(|ask| !ask.owing.is_empty()) {
            return;
        }
        let Some(ask) = state.known.end() else { return };
        self.requests.swap_remove(&ask.request);
        self.note_end(subject, &ask, None);
        let Some(state) = self.all.get_mut(&subject) else { return };
        if ask.whole {
            state.family.set_whole(ask.answers, ask.revision, Some(ask.source));
        } else {
            state.family.wants_own = false;
            let view = View::new(&state.prepared, ask.answers);
            let live = Live::new(view, ask.revision, !state.prepared.is_wide(), ask.trace);
            state.known.set_own(live.with_source(ask.source));
        }
        self.make_room_for_rows(subject);
    }

    /// Discards the requests that a worker has not answered; they are repeated without it.
    pub(crate) fn give_up(&mut self, worker: WorkerId, why: &'static str) {
        let mut given_up = Vec::new();
        for (subject, state) in &mut self.all {
            if state.owes(worker)
                && let Some(ask) = state.known.end()
            {
                self.requests.swap_remove(&ask.request);
                given_up.push((*subject, ask));
            }
        }
        given_up.iter().for_each(|(subject, ask)| self.note_end(*subject, ask, Some(why)));
    }

    pub(crate) fn owes(&self, worker: WorkerId, request: RequestId) -> bool {
        self.subject_of(request).and_then(|subject| self.all.get(&subject)).is_some_and(|state| state.owes(worker))
    }

    /// A worker cannot answer because of too many strata: only the coordinator evaluates the subject from now on.
    pub(crate) fn give_up_strata(&mut self, worker: WorkerId, request: RequestId) {
        if !self.owes(worker, request) {
            return;
        }
        if let Some(subject) = self.requests.swap_remove(&request)
            && let Some(state) = self.all.get_mut(&subject)
        {
            state.evaluator = Evaluator::Coordinator;
            if let Some(ask) = state.known.end() {
                self.note_end(subject, &ask, Some("more strata than an answer may hold"));
            }
        }
    }

    pub(crate) fn asks(&self) -> impl Iterator<Item = &Ask> {
        self.all.values().filter_map(ClassState::ask)
    }

    pub(crate) fn asks_mut(&mut self) -> impl Iterator<Item = &mut Ask> {
        self.all.values_mut().filter_map(|state| state.known.ask_mut())
    }

    pub(crate) const fn work(&self) -> &Work {
        &self.work
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn asks_len(&self) -> usize {
        self.requests.len()
    }

    pub(crate) fn evaluate_here(&mut self, subject: Subject, cache: &Cache) {
        let Some(evaluation) = self.evaluation_here(subject, cache) else { return };
        let Some(state) = self.all.get_mut(&subject) else { return };
        state.matches.refresh(&state.prepared, cache.snapshot());
        if state.evaluator == Evaluator::CoordinatorOnce {
            state.evaluator = Evaluator::Workers;
        }
        state.family.wants_own = false;
        let view = View::new(&state.prepared, vec![evaluation]);
        state.known.set_own(Live::new(view, cache.revision(), true, None));
        self.make_room_for_rows(subject);
    }

    /// Evaluates a subject on some slots, as a shard would.
    pub(crate) fn evaluation_of(
        &mut self,
        subject: Subject,
        cache: &Cache,
        slots: &[Slot],
        k: u32,
    ) -> Option<Evaluation> {
        let Self { all, scratch, .. } = self;
        let state = all.get(&subject)?;
        self.work.add(NODE * slots.len() as u64);
        let evaluation = Columns::answer_of(&state.prepared, cache.snapshot(), slots, (k as usize).max(1), scratch);
        self.count_devices(subject);
        Some(evaluation)
    }

    pub(super) fn count_devices(&mut self, subject: Subject) {
        let Some(state) = self.all.get_mut(&subject) else { return };
        let done = state.prepared.work();
        self.work.add_counted(done.saturating_sub(state.counted));
        state.counted = done;
    }

    pub(crate) fn evaluation_here(&mut self, subject: Subject, cache: &Cache) -> Option<Evaluation> {
        let state = self.all.get_mut(&subject)?;
        let is_new = state.columns.is_none();
        let columns = state.columns.get_or_insert_default();
        let evaluated = columns.refresh(&state.prepared, cache.snapshot(), &mut self.scratch);
        let passed = if state.prepared.is_within() { cache.snapshot().capacity() as u64 / PASSED } else { 0 };
        self.work.add(NODE * evaluated as u64 + passed);
        // The filters' results about devices.
        self.bytes -= state.kept;
        state.kept = state.prepared.bytes();
        self.bytes += state.kept;
        let everything = cache.snapshot().node_count().max(1);
        let evaluation = columns.answer_all(&state.prepared, cache.snapshot(), everything, &mut self.scratch);
        if is_new {
            self.make_room_for_columns(subject, cache.snapshot().capacity());
        }
        Some(evaluation)
    }

    /// Discards the columns of the least recently used subjects; the newest always stays.
    fn make_room_for_columns(&mut self, newest: Subject, positions: usize) {
        let kept = self.all.values().filter(|state| state.columns.is_some()).count();
        for _ in (MAX_POSITIONS / positions.max(1)).max(1)..kept {
            let others = self.all.iter_mut().filter(|(subject, state)| **subject != newest && state.columns.is_some());
            let Some((_, oldest)) = others.min_by_key(|(_, state)| state.used) else { break };
            oldest.columns = None;
        }
    }

    /// Discards the views of the least recently used subjects until the rest fits; the newest always stays.
    pub(crate) fn make_room_for_rows(&mut self, newest: Subject) {
        // A row with up to 8 keys counts once; each further key takes 16 of its 120 bytes.
        let size = |state: &ClassState| 1 + state.prepared.keys_len().saturating_sub(8) / 8;
        let nodes = |state: &ClassState| state.family.rows() + state.known.rows();
        let rows = |state: &ClassState| size(state) * nodes(state);
        if self.all.get(&newest).is_none_or(|state| rows(state) == 0) {
            return;
        }
        let bound = max_rows(self.all.values().map(nodes).max().unwrap_or(0));
        let mut total: usize = self.all.values().map(rows).sum();
        while total > bound {
            let others = self.all.iter_mut().filter(|(subject, state)| **subject != newest && rows(state) > 0);
            let Some((_, oldest)) = others.min_by_key(|(_, state)| state.used) else { break };
            total -= rows(oldest);
            oldest.known.forget();
            oldest.family.whole = None;
        }
    }

    pub(crate) fn note_end(&mut self, subject: Subject, ask: &Ask, failure: Option<&'static str>) {
        let Some(asker) = ask.trace else { return };
        let nodes = ask.answers.iter().map(|answer| u64::from(answer.covered)).sum();
        let (asked_ms, revision, workers) = (ask.asked_ms, ask.revision, ask.answers.len());
        self.over.push(Over { asker, subject, asked_ms, revision, workers, nodes, failure });
    }

    fn make_room(&mut self) {
        while self.all.len() >= MAX_SUBJECTS || self.bytes > MAX_FACT_BYTES {
            let idle = self.all.iter().filter(|(_, state)| state.ask().is_none());
            let oldest = idle.min_by_key(|(_, state)| state.used).map(|(subject, _)| *subject);
            // The limit on requests is lower, so some view has no request.
            let Some(subject) = oldest else { break };
            self.close(subject);
        }
    }
}
