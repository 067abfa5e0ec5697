//! The whole machine at one glance, for people who ask: its workers, who waits for what, and what went on lately.
//!
//! Knows: what of it fits on a page. Must not know: who asks, or in which words.
//!
//! An overview looks at every pod twice: some 10 ms where there are 150,000, for each request.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use flotilla_framework::shard::{Generation, Revision};
use indexmap::IndexMap;

use crate::{
    event::{TimeMs, WorkerId},
    machine::Machine,
    pods::Stage,
    quarantine::Offender,
    recent::SlowEvaluation,
    status::Status,
    subject::Subject,
};

/// How many classes are told of, those with the most pods that wait.
const CLASSES: usize = 8;

/// What there is to see.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overview {
    /// The numbers, of this moment.
    pub status: Status,
    /// How long this process has led, in milliseconds; `None`: it does not.
    pub leading_for_ms: Option<TimeMs>,
    /// How long the machine has run, in milliseconds.
    pub uptime_ms: TimeMs,
    /// The `schedulerName` of each profile.
    pub profiles: Vec<Arc<str>>,
    /// The workers that are connected, in the order in which they came.
    pub workers: Vec<WorkerView>,
    /// The workers that are kept away, by address.
    pub quarantined: Vec<QuarantineView>,
    /// The classes with the most pods that wait, most first.
    pub classes: Vec<ClassView>,
    /// Decisions per second over the last ten whole seconds.
    pub decisions_per_second: f64,
    /// The slowest evaluations of the last five minutes, slowest first.
    pub slowest: Vec<SlowEvaluation>,
}

/// A worker that is connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerView {
    /// Its stream.
    pub worker: WorkerId,
    /// Its address.
    pub name: Arc<str>,
    /// How many nodes are in its shard.
    pub nodes: u32,
    /// The last configuration that it acknowledged; 0: none.
    pub generation: Generation,
    /// For how long it has owed the acknowledgement of the configuration and its shard, in milliseconds; `None`: it does not.
    pub owes_ms: Option<TimeMs>,
    /// It is not asked before it has answered what it owes for too long; its nodes are judged by the coordinator.
    pub is_late: bool,
    /// How many evaluations and dry runs it has not answered; those that are not waited for any more count as one.
    pub in_flight: usize,
    /// How long the oldest of them has been under way, in milliseconds.
    pub oldest_ms: TimeMs,
    /// While it owes an answer, how many changes of the cluster it has been told since the state of its last word. A worker
    /// says how far it has got with its answers only, so that this is 0 for one that owes none.
    pub behind: Revision,
}

/// A worker that is kept away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantineView {
    /// Its address.
    pub name: Arc<str>,
    /// For how much longer, in milliseconds.
    pub left_ms: TimeMs,
    /// How often it was given up.
    pub times: u32,
    /// Why it was the last time.
    pub reason: String,
}

fn quarantine_view(now_ms: TimeMs, (name, offender): (&Arc<str>, &Offender)) -> QuarantineView {
    QuarantineView {
        name: Arc::clone(name),
        left_ms: offender.until_ms.saturating_sub(now_ms),
        times: offender.times,
        reason: offender.reason.clone(),
    }
}

/// A class of pods that wait under one profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassView {
    /// The namespace of the pod that is named; its others may be of other namespaces.
    pub namespace: Arc<str>,
    /// The name of one of them.
    pub pod: Arc<str>,
    /// The profile.
    pub scheduler_name: Arc<str>,
    /// How many are in activeQ.
    pub active: usize,
    /// How many are in backoffQ.
    pub backing_off: usize,
    /// How many no node would take.
    pub unschedulable: usize,
    /// How many are kept out of the queue.
    pub gated: usize,
}

impl Machine {
    /// Looks at everything once.
    #[must_use]
    pub fn overview(&self, now_ms: TimeMs) -> Overview {
        let profiles = self.configuration.iter().flat_map(|known| known.profiles.iter());
        Overview {
            status: self.status(),
            leading_for_ms: self.leading.map(|_| now_ms.saturating_sub(self.leading_since)),
            uptime_ms: now_ms,
            profiles: profiles.map(|profile| Arc::clone(&profile.scheduler_name)).collect(),
            workers: self.worker_views(now_ms),
            quarantined: self.quarantine.addresses(now_ms).map(|of| quarantine_view(now_ms, of)).collect(),
            classes: self.class_views(),
            decisions_per_second: self.tally.recent.per_second(now_ms),
            slowest: self.tally.recent.slowest(now_ms),
        }
    }

    fn worker_views(&self, now_ms: TimeMs) -> Vec<WorkerView> {
        let mut owed: BTreeMap<WorkerId, Vec<TimeMs>> = BTreeMap::new();
        for ask in self.judge.states().asks() {
            ask.owing.keys().for_each(|&worker| owed.entry(worker).or_default().push(ask.asked_ms));
        }
        if let Some((_, asked_ms, owing)) = self.trials_owed() {
            owing.for_each(|worker| owed.entry(worker).or_default().push(asked_ms));
        }
        for (id, worker) in &self.roster.workers {
            owed.entry(*id).or_default().extend(worker.late.map(|(_, asked_ms)| asked_ms));
        }
        let view = |(&id, worker): (&WorkerId, &crate::roster::Worker)| {
            let owed = owed.get(&id).map(Vec::as_slice).unwrap_or_default();
            let oldest = owed.iter().min().map_or(0, |asked_ms| now_ms.saturating_sub(*asked_ms));
            let owes_any = !owed.is_empty() || worker.owes_since.is_some();
            WorkerView {
                worker: id,
                name: Arc::clone(&worker.name),
                nodes: worker.nodes,
                generation: worker.generation,
                owes_ms: worker.owes_since.map(|since| now_ms.saturating_sub(since)),
                is_late: worker.late.is_some(),
                in_flight: owed.len(),
                oldest_ms: oldest,
                behind: if owes_any { worker.told.saturating_sub(worker.said) } else { 0 },
            }
        };
        self.roster.workers.iter().map(view).collect()
    }

    fn class_views(&self) -> Vec<ClassView> {
        let mut counts: IndexMap<Subject, [usize; 4]> = IndexMap::new();
        for (subject, crowd) in self.queue.crowds() {
            counts.insert(subject, [crowd.active, crowd.backing_off, crowd.parked, 0]);
        }
        for pod in self.pods.values() {
            if let Stage::Gated(profile) = pod.stage {
                counts.entry((profile, pod.class)).or_default()[3] += 1;
            }
        }
        counts.sort_by(|one, its, other, others| {
            let key = |subject: &Subject, counts: &[usize; 4]| (Reverse(counts.iter().sum::<usize>()), *subject);
            key(one, its).cmp(&key(other, others))
        });
        counts.truncate(CLASSES);
        let mut examples: IndexMap<Subject, (Arc<str>, Arc<str>)> = IndexMap::new();
        for pod in self.pods.values() {
            let (Stage::Gated(profile) | Stage::Queued(profile)) = pod.stage else { continue };
            let subject = (profile, pod.class);
            if counts.contains_key(&subject) && !examples.contains_key(&subject) {
                examples.insert(subject, (Arc::clone(&pod.info.class.namespace), Arc::clone(&pod.info.name)));
            }
        }
        let view = |(subject, [active, backing_off, unschedulable, gated]): (Subject, [usize; 4])| {
            let (namespace, pod) = examples.get(&subject).cloned().unwrap_or_default();
            ClassView {
                namespace,
                pod,
                scheduler_name: self
                    .profile(subject.0)
                    .map(|known| Arc::clone(&known.scheduler_name))
                    .unwrap_or_default(),
                active,
                backing_off,
                unschedulable,
                gated,
            }
        };
        counts.into_iter().filter(|(_, counts)| counts.iter().any(|count| *count > 0)).map(view).collect()
    }
}
