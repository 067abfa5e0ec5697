//! Requests to workers: which classes, how many offers, and when.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{evaluation::Evaluation, shard::Command};

use crate::{
    event::TimeMs,
    judge::{
        Judge,
        ask::{Ask, Source},
        class_states::ClassStates,
        decision::Want,
    },
    queue::Queue,
    site::Site,
    subject::Subject,
};

/// Number of upcoming pods whose classes the coordinator requests ahead. One round trip of 200 us then serves up to 64 different pods:
/// 300,000 a second, more than the decisions themselves.
pub(crate) const LOOK_AHEAD: usize = 64;

/// Number of decisions before the next look ahead, if all of the next [`LOOK_AHEAD`] pods are covered. A new class at the end of that range
/// is then requested 48 pods before its turn.
const DECISIONS_BETWEEN_LOOKS: u64 = 16;

/// Maximum number of offers per stratum and shard; a smaller shard sends all its nodes.
pub(crate) const MAX_K: usize = 8_192;

impl Site<'_> {
    /// Asks about the next pods of the queue, once this number of decisions is reached. Returns the number at which to look ahead again.
    pub(crate) fn look_ahead(&mut self, now_ms: TimeMs, next_look: u64) -> u64 {
        if !self.shards.roster.is_any_ready()
            || self.shards.judge.states().asks_len() >= LOOK_AHEAD
            || self.shards.status.decisions < next_look
        {
            return next_look;
        }
        let mut seen = 0;
        // A linear search is faster than hashing for so few entries.
        let mut subjects: Vec<Subject> = Vec::new();
        for subject in self.queue.upcoming(LOOK_AHEAD) {
            seen += 1;
            if !subjects.contains(&subject) {
                subjects.push(subject);
            }
        }
        let mut wide = ClassStates::wide_bound(self.shards.judge.cache().nodes().len());
        for subject in subjects {
            if wide == 0 || self.shards.judge.states().asks_len() >= LOOK_AHEAD {
                return next_look;
            }
            if let Some(is_wide) = self.shards.judge.keep_covered(subject) {
                wide -= usize::from(is_wide);
                continue;
            }
            if !self.shards.judge.open(subject) {
                continue;
            }
            *self.cause = self.tracing.and_then(|_| self.queue.first_of(subject).map(Arc::clone));
            match self.shards.judge.wants(subject) {
                Some(Want::Whole(head)) => self.ask_for(now_ms, head, u32::MAX, true),
                Some(Want::Offers(subject)) => {
                    let state = self.shards.judge.states().get(subject);
                    wide -= usize::from(state.is_some_and(|state| state.prepared().is_wide()));
                    self.ask(now_ms, subject);
                }
                None => {}
            }
        }
        // A shorter queue is cheap to scan again, and more pods may arrive behind it.
        let pause = if seen == LOOK_AHEAD { DECISIONS_BETWEEN_LOOKS } else { 0 };
        self.shards.status.decisions + pause
    }

    /// Asks every ready worker about a subject, unless a request is in flight. The coordinator evaluates the remaining nodes.
    pub(crate) fn ask(&mut self, now_ms: TimeMs, subject: Subject) {
        let k = offers_wanted(self.queue, self.shards.judge, subject);
        self.ask_for(now_ms, subject, k, false);
    }

    /// Asks every ready worker. `whole`: for all feasible nodes of the head of a family.
    pub(crate) fn ask_for(&mut self, now_ms: TimeMs, subject: Subject, k: u32, whole: bool) {
        let Some(configuration) = self.settings.configuration().filter(|_| self.shards.roster.is_any_ready()) else {
            return;
        };
        let Some(profile) = configuration.profiles.get(subject.0) else { return };
        let Some((facts, k)) = self.shards.judge.request(subject, k) else { return };
        let request = self.shards.next_request();
        let asker = self.asker(request);
        let trace = asker.map_or_else(Arc::default, |asker| asker.context.to_string().into());
        let owing: BTreeMap<_, _> = self.shards.roster.ready().map(|(id, worker)| (id, worker.nodes)).collect();
        // Usually ready workers hold all nodes.
        let held: usize = owing.values().map(|nodes| *nodes as usize).sum();
        let rest = match self.shards.judge.cache().nodes().len() == held {
            true => None,
            false => self.shards.judge.evaluate_rest(subject, k, |worker| owing.contains_key(&worker)),
        };
        for &worker in owing.keys() {
            self.shards.send_class(worker, subject.1);
            self.shards.flush_outbox(worker);
            let command = Command::Evaluate {
                request,
                generation: configuration.generation,
                profile: Arc::clone(&profile.scheduler_name),
                class: subject.1,
                facts: Arc::clone(&facts),
                k,
                trace: Arc::clone(&trace),
            };
            self.shards.command(worker, command);
        }
        self.shards.status.evaluations_asked += 1;
        let answers: Vec<Evaluation> = rest.into_iter().collect();
        let (revision, newest) = (self.shards.judge.cache().revision(), self.shards.judge.cache().newest_node());
        let source = Source { request, workers: owing.keys().copied().collect() };
        let ask = Ask { request, revision, newest, k, asked_ms: now_ms, owing, answers, source, whole, trace: asker };
        self.shards.judge.asked(subject, ask);
    }
}

/// Enough offers for all waiting pods of the subject, and for nodes that other pods take meanwhile.
fn offers_wanted(queue: &Queue, judge: &Judge, subject: Subject) -> u32 {
    let own = queue.waiting(subject);
    let [active, ..] = queue.lengths();
    let others = if own > 8 { active - own.min(active) } else { LOOK_AHEAD };
    // The decision may skip nodes reserved for nominated pods.
    u32::try_from((own + others + LOOK_AHEAD + judge.nominator().nodes_len()).min(MAX_K)).unwrap_or(u32::MAX)
}
