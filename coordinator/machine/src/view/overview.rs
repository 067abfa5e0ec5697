//! Overview of the machine: workers, waiting pods, recent evaluations. It reads every pod twice: some 10 ms for 150,000 per request.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use flotilla_framework::shard::{Generation, Revision};
use indexmap::IndexMap;

use crate::{
    event::{TimeMs, WorkerId},
    gates::Gate,
    judge::reserve::MAX_PREPARATIONS,
    machine::Machine,
    pods::PodStage,
    preempt::MAX_VICTIMS,
    quarantine::Offender,
    recent::SlowEvaluation,
    status::Status,
    subject::Subject,
};

/// Number of listed classes.
const CLASSES: usize = 8;

/// The overview.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overview {
    /// The current counters and gauges.
    pub status: Status,
    /// Time as leader, in milliseconds; `None`: follower.
    pub leading_for_ms: Option<TimeMs>,
    /// Time since the start, in milliseconds.
    pub uptime_ms: TimeMs,
    /// The `schedulerName` of each profile.
    pub profiles: Vec<Arc<str>>,
    /// The connected workers, in the order of their connections.
    pub workers: Vec<WorkerView>,
    /// The quarantined workers, by address.
    pub quarantined: Vec<QuarantineView>,
    /// The classes with the most waiting pods, in descending order.
    pub classes: Vec<ClassView>,
    /// Decisions per second over the last ten full seconds.
    pub decisions_per_second: f64,
    /// The slowest evaluations of the last five minutes, slowest first.
    pub slowest: Vec<SlowEvaluation>,
}

/// A connected worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerView {
    /// Its connection.
    pub worker: WorkerId,
    /// Its address.
    pub name: Arc<str>,
    /// The number of nodes in its shard.
    pub nodes: u32,
    /// The last acknowledged configuration; 0: none.
    pub generation: Generation,
    /// Time since it has to acknowledge the configuration and its shard, in milliseconds; `None`: acknowledged.
    pub owes_ms: Option<TimeMs>,
    /// It has an overdue answer, so it gets no requests and the coordinator evaluates its nodes.
    pub is_late: bool,
    /// Number of unanswered evaluations and dry runs; overdue ones count as one.
    pub in_flight: usize,
    /// Age of the oldest of them, in milliseconds.
    pub oldest_ms: TimeMs,
    /// Number of changes sent since the revision of its last message. Workers report their revision only with answers, so this is 0 without
    /// a pending answer.
    pub behind: Revision,
}

/// A quarantined worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantineView {
    /// Its address.
    pub name: Arc<str>,
    /// The remaining time, in milliseconds.
    pub left_ms: TimeMs,
    /// The number of offences.
    pub times: u32,
    /// The reason of the last one.
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

/// A class of waiting pods under one profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassView {
    /// The namespace of the named pod; other pods may be in other namespaces.
    pub namespace: Arc<str>,
    /// The name of one of its pods.
    pub pod: Arc<str>,
    /// The profile.
    pub scheduler_name: Arc<str>,
    /// Pods in activeQ.
    pub active: usize,
    /// Pods in backoffQ.
    pub backing_off: usize,
    /// Unschedulable pods.
    pub unschedulable: usize,
    /// Gated pods.
    pub gated: usize,
}

impl Machine {
    /// Whether the machine can decide nothing before one of its writes is answered, or before an event of the cluster or time changes
    /// something: no pod is to be tried, and no worker and no extender owes an answer.
    ///
    /// True also if half of the preparations or victims are in flight that it allows, so that a caller that answers writes only now never makes
    /// the machine refuse a pod for lack of them.
    #[must_use]
    pub fn waits_for_writes(&self) -> bool {
        let [active, ..] = self.queue.lengths();
        let is_asking =
            self.judge.states().asks_len() > 0 || self.extending.is_some() || self.preemptions.search.is_some();
        let is_due = active > 0 || self.idle_until.is_some();
        let is_full = self.preparations.len() >= MAX_PREPARATIONS / 2 || self.preemptions.victims() >= MAX_VICTIMS / 2;
        let can_decide = self.leading.is_some() && self.synced;
        can_decide && !is_asking && (is_full || !is_due)
    }

    /// Whether a pod or a group is in backoffQ, so that time brings it back.
    #[must_use]
    pub fn is_any_backing_off(&self) -> bool {
        let [_, backoff, _] = self.queue.lengths();
        backoff > 0
    }

    /// Builds the overview.
    #[must_use]
    pub fn overview(&self, now_ms: TimeMs) -> Overview {
        let profiles = self.settings.configuration().into_iter().flat_map(|known| known.profiles.iter());
        Overview {
            status: self.status(),
            leading_for_ms: self.leading.map(|_| now_ms.saturating_sub(self.roster.since_ms)),
            uptime_ms: now_ms,
            profiles: profiles.map(|profile| Arc::clone(&profile.scheduler_name)).collect(),
            workers: worker_views(self, now_ms),
            quarantined: self.roster.quarantine.addresses(now_ms).map(|of| quarantine_view(now_ms, of)).collect(),
            classes: class_views(self),
            decisions_per_second: self.tally.recent.per_second(now_ms),
            slowest: self.tally.recent.slowest(now_ms),
        }
    }
}

fn worker_views(machine: &Machine, now_ms: TimeMs) -> Vec<WorkerView> {
    let mut owed: BTreeMap<WorkerId, Vec<TimeMs>> = BTreeMap::new();
    for ask in machine.judge.states().asks() {
        ask.owing.keys().for_each(|&worker| owed.entry(worker).or_default().push(ask.asked_ms));
    }
    if let Some((_, asked_ms, owing)) = machine.preemptions.trials_owed() {
        owing.for_each(|worker| owed.entry(worker).or_default().push(asked_ms));
    }
    for (id, worker) in &machine.roster.workers {
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
    machine.roster.workers.iter().map(view).collect()
}

fn class_views(machine: &Machine) -> Vec<ClassView> {
    let mut counts: IndexMap<Subject, [usize; 4]> = IndexMap::new();
    for (subject, crowd) in machine.queue.crowds() {
        counts.insert(subject, [crowd.active, crowd.backing_off, crowd.parked, 0]);
    }
    for pod in machine.pods.values() {
        if let Some(gate) = pod.stage.gate() {
            counts.entry((gate.profile, pod.class)).or_default()[3] += 1;
        }
    }
    counts.sort_by(|one, its, other, others| {
        let key = |subject: &Subject, counts: &[usize; 4]| (Reverse(counts.iter().sum::<usize>()), *subject);
        key(one, its).cmp(&key(other, others))
    });
    counts.truncate(CLASSES);
    let mut examples: IndexMap<Subject, (Arc<str>, Arc<str>)> = IndexMap::new();
    for pod in machine.pods.values() {
        let (PodStage::Gated(Gate { profile, .. }) | PodStage::Queued(profile)) = pod.stage else { continue };
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
            scheduler_name: machine
                .settings
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
