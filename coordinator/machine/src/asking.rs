//! What workers are asked, about which classes, and when.
//!
//! Knows: how far to look ahead, and how many offers are wanted. Must not know: what becomes of the answers.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{evaluation::Evaluation, shard::Command};

use crate::{
    event::TimeMs,
    judge::decision::Want,
    judge::{
        ask::{Ask, Source},
        class_states::ClassStates,
    },
    machine::Machine,
    subject::Subject,
};

/// How many of the next pods are looked at for classes to ask about ahead of need. One round trip of 200 us then
/// serves up to 64 pods that are all different: 300,000 a second, more than the decisions themselves.
pub(crate) const LOOK_AHEAD: usize = 64;

/// Where all of the next [`LOOK_AHEAD`] pods have what they need, so many are decided before it is looked again. A new class
/// among the last is then asked about 48 pods before its turn.
const DECISIONS_BETWEEN_LOOKS: u64 = 16;

/// The most offers asked for of each stratum and shard; a shard that has fewer nodes sends them all.
pub(crate) const MAX_K: usize = 8_192;

impl Machine {
    /// Asks about the classes of the next pods before they are at the head of the queue.
    pub(crate) fn look_ahead(&mut self, now_ms: TimeMs) {
        if !self.can_ask() || self.judge.states().asks_len() >= LOOK_AHEAD || self.status.decisions < self.next_look {
            return;
        }
        let mut seen = 0;
        // So few are compared with each other in less time than they are looked up.
        let mut subjects: Vec<Subject> = Vec::new();
        for subject in self.queue.upcoming(LOOK_AHEAD) {
            seen += 1;
            if !subjects.contains(&subject) {
                subjects.push(subject);
            }
        }
        let mut wide = ClassStates::wide_bound(self.judge.cache().nodes.len());
        for subject in subjects {
            if wide == 0 || self.judge.states().asks_len() >= LOOK_AHEAD {
                return;
            }
            if let Some(is_wide) = self.judge.states_mut().keep_covered(subject) {
                wide -= usize::from(is_wide);
                continue;
            }
            if !self.judge.open(subject) {
                continue;
            }
            self.ask_ahead_for(subject);
            match self.judge.wants(subject) {
                Some(Want::Whole(head)) => self.ask_whole(now_ms, head),
                Some(Want::Offers(subject)) => {
                    let state = self.judge.states().get(subject);
                    wide -= usize::from(state.is_some_and(|state| state.prepared.is_wide()));
                    self.ask(now_ms, subject);
                }
                None => {}
            }
        }
        // Fewer are soon looked at, and more may come behind them.
        let pause = if seen == LOOK_AHEAD { DECISIONS_BETWEEN_LOOKS } else { 0 };
        self.next_look = self.status.decisions + pause;
    }

    /// Asks every worker that is ready about a subject, unless that is under way. The nodes of others are judged here.
    pub(crate) fn ask(&mut self, now_ms: TimeMs, subject: Subject) {
        let k = self.offers_wanted(subject);
        self.ask_for(now_ms, subject, k, false);
    }

    /// Asks every worker for all nodes that suit the head of a family.
    pub(crate) fn ask_whole(&mut self, now_ms: TimeMs, head: Subject) {
        self.ask_for(now_ms, head, u32::MAX, true);
    }

    pub(crate) fn ask_for(&mut self, now_ms: TimeMs, subject: Subject, k: u32, whole: bool) {
        let Some(configuration) = self.configuration.clone().filter(|_| self.can_ask()) else { return };
        let Some(profile) = configuration.profiles.get(subject.0) else { return };
        let Some((state, _)) = self.judge.with_nodes(subject).filter(|(state, _)| state.ask.is_none()) else {
            return;
        };
        let k = if state.wants_all { u32::MAX } else { k };
        let facts = Arc::clone(&state.facts);
        self.next_request += 1;
        let request = self.next_request;
        let asker = self.asker(request);
        let trace = asker.map_or_else(Arc::default, |asker| asker.context.to_string().into());
        let owing: BTreeMap<_, _> = self.roster.ready().map(|(id, worker)| (id, worker.nodes)).collect();
        // All nodes are held by those that are asked, as a rule.
        let held: usize = owing.values().map(|nodes| *nodes as usize).sum();
        let rest = match self.judge.cache().nodes.len() == held {
            true => None,
            false => self.judge.evaluate_rest(subject, k, |worker| owing.contains_key(&worker)),
        };
        for &worker in owing.keys() {
            self.tell_class(worker, subject.1);
            self.flush_outbox(worker);
            let command = Command::Evaluate {
                request,
                generation: configuration.generation,
                profile: Arc::clone(&profile.scheduler_name),
                class: subject.1,
                facts: Arc::clone(&facts),
                k,
                trace: Arc::clone(&trace),
            };
            self.command(worker, command);
        }
        self.status.evaluations_asked += 1;
        let answers: Vec<Evaluation> = rest.into_iter().collect();
        let (revision, newest) = (self.judge.cache().revision(), self.judge.cache().newest_node());
        let source = Source { request, workers: owing.keys().copied().collect() };
        let ask = Ask { request, revision, newest, k, asked_ms: now_ms, owing, answers, source, whole, trace: asker };
        self.judge.states_mut().asked(subject, ask);
    }

    /// Enough offers for all waiting pods of the subject, and for those that others take from under it meanwhile.
    fn offers_wanted(&self, subject: Subject) -> u32 {
        let own = self.queue.waiting(subject);
        let [active, ..] = self.queue.lengths();
        let others = if own > 8 { active - own.min(active) } else { LOOK_AHEAD };
        // Nodes that are kept free for nominated pods may be passed over.
        u32::try_from((own + others + LOOK_AHEAD + self.judge.nominator().nodes_len()).min(MAX_K)).unwrap_or(u32::MAX)
    }
}
