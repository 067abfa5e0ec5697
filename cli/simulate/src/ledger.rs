//! The decisions of a simulation, with order and time.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use flotilla_cluster::Cluster;
use flotilla_framework::{
    class::PodInfo,
    devices::{footprint::ClaimAmounts, objects::DeviceObject},
    map::{Map, Set},
    volumes::objects::StorageObject,
};
use flotilla_machine::action::{Binding, Nomination, Preemption, PreemptorKind, Report};
use flotilla_model::{self as model, Deletion};
use flotilla_runtime::fanout::Traffic;
use serde::Serialize;

/// The node of a pod, or why the pod stays pending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The pending pod.
    pub pod: Arc<PodInfo>,
    /// The node; `None`: the pod stays pending.
    pub node: Option<Arc<str>>,
    /// The message of a pod without a node.
    pub message: String,
    /// The message of the first attempt, if there were several.
    pub first_message: Option<String>,
    /// The node to which the pod is nominated after its first attempt. Only for first attempts.
    pub nominated_node: Option<Arc<str>>,
}

/// A preempted pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evicted {
    /// The pod before its eviction.
    pub pod: Arc<PodInfo>,
    /// The preemptor, as `namespace/name`.
    pub by: String,
}

/// A pod that a controller or a drain has deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// The pod before its deletion.
    pub pod: Arc<PodInfo>,
    /// Why.
    pub by: Deletion,
}

/// The result of a simulation.
#[derive(Debug, Default)]
pub struct SimulationResult {
    /// All pending pods in decision order; gated pods, which are not scheduled, come last.
    pub placements: Vec<Placement>,
    /// Preempted pods.
    pub evicted: Vec<Evicted>,
    /// Pods that were deleted for another reason than preemption.
    pub removed: Vec<Removed>,
    /// The preemptors, as `namespace/name`, that would preempt pods again and again.
    pub stopped: BTreeSet<String>,
    /// How rollouts and drains ended.
    pub report: model::Report,
    /// The number of decisions; a retried pod has several.
    pub decisions: usize,
    /// The time in which the machine decided: the sum of `latencies`.
    pub took: Duration,
    /// The time of each decision since the previous one, or since the start of its round. Decisions before the start count as 0.
    pub latencies: Vec<Duration>,
    /// Messages between the coordinator and the workers, since the workers held the cluster.
    pub worker_messages: WorkerMessages,
    /// All storage objects at the end.
    pub storage: Vec<StorageObject>,
    /// The ResourceClaims at the end.
    pub claims: Vec<DeviceObject>,
}

/// Messages between the coordinator and the workers, and their bytes without framing.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerMessages {
    /// Messages to workers.
    pub sent: u64,
    /// Bytes to workers.
    pub sent_bytes: u64,
    /// Messages from workers.
    pub received: u64,
    /// Bytes from workers.
    pub received_bytes: u64,
}

impl WorkerMessages {
    pub(crate) const fn between(before: &Traffic, after: &Traffic) -> Self {
        Self {
            sent: after.messages_sent - before.messages_sent,
            sent_bytes: after.bytes_sent - before.bytes_sent,
            received: after.messages_received - before.messages_received,
            received_bytes: after.bytes_received - before.bytes_received,
        }
    }
}

impl SimulationResult {
    /// Sets the objects of `cluster`, other than nodes and pods, that the simulation has created, changed or deleted.
    pub fn settle(&mut self, cluster: &mut Cluster) {
        cluster.storage = std::mem::take(&mut self.storage);
        cluster.devices.retain(|object| !matches!(object, DeviceObject::Claim(_)));
        cluster.devices.append(&mut self.claims);
        if !self.report.budgets.is_empty() {
            cluster.budgets.clone_from(&self.report.budgets);
        }
    }

    /// A sentence for each preemptor that would preempt pods without end.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let note = |pod: &String| {
            format!(
                "note: {pod} preempts pods, but is not bound after that, and their controllers recreate them: in a cluster \
                 this repeats without end"
            )
        };
        self.stopped.iter().map(note).collect()
    }

    /// The pods of `cluster` that were bound before the simulation and are deleted.
    pub fn gone<'a>(&self, cluster: &'a Cluster) -> impl Iterator<Item = &'a PodInfo> {
        let deleted = self.evicted.iter().map(|evicted| &evicted.pod).chain(self.removed.iter().map(|one| &one.pod));
        let deleted: Set<Arc<str>> = deleted.map(|pod| Arc::clone(&pod.uid)).collect();
        cluster.bound.iter().map(|pod| &**pod).filter(move |pod| deleted.contains(&pod.uid))
    }
}

/// Records decisions. Cheap to clone.
#[derive(Clone)]
pub(super) struct Ledger {
    shared: Arc<Shared>,
}

struct Shared {
    book: Mutex<Book>,
    /// The pending pods, and those that controllers create.
    expected: AtomicUsize,
    decided: AtomicUsize,
    /// Decisions so far, on retried pods too.
    attempts: AtomicUsize,
}

/// By UID.
type Messages = Map<Arc<str>, (String, Option<String>)>;

#[derive(Default)]
struct Book {
    undecided: Map<Arc<str>, Arc<PodInfo>>,
    /// For pods that were refused: the messages of the first attempt, and of the last one if there were several.
    reports: Messages,
    /// The node to which each refused pod is nominated after its first attempt.
    nominated: Map<Arc<str>, Arc<str>>,
    /// The decided pods by UID, each with the rank of its decision.
    placements: Map<Arc<str>, (u64, Placement)>,
    /// The decision rank of each pod in PreBind, and the rank of the first attempt of each refused pod.
    ranks: Map<Arc<str>, u64>,
    /// The rank of the next decision.
    next_rank: u64,
    outcome: SimulationResult,
    last: Option<Instant>,
}

impl Book {
    /// Records a decision and returns its rank.
    fn attempted(&mut self, now: Instant) -> u64 {
        let since = self.last.replace(now).unwrap_or(now);
        let took = now.saturating_duration_since(since);
        self.outcome.took += took;
        self.outcome.latencies.push(took);
        self.next_rank += 1;
        self.next_rank
    }

    fn decide(&mut self, rank: u64, pod: &Arc<PodInfo>, node: Option<Arc<str>>, message: String) {
        let reports = self.reports.swap_remove(&pod.uid);
        let first_message = reports.filter(|(_, last)| node.is_some() || last.is_some()).map(|(first, _)| first);
        let first_message = first_message.filter(|first| *first != message);
        let placement = Placement { pod: Arc::clone(pod), node, message, first_message, nominated_node: None };
        self.placements.insert(Arc::clone(&pod.uid), (rank, placement));
    }
}

/// The decisions before an attempt that may be undone.
pub(super) struct Saved(Book);

impl Saved {
    /// A pod that was undecided.
    pub(super) fn undecided(&self, uid: &str) -> Option<&Arc<PodInfo>> {
        self.0.undecided.get(uid)
    }
}

impl Ledger {
    /// Begins an attempt that may be undone.
    pub(super) fn begin(&self) -> Saved {
        let mut book = self.book();
        let (undecided, next_rank, last) = (book.undecided.clone(), book.next_rank, book.last);
        Saved(std::mem::replace(&mut *book, Book { undecided, next_rank, last, ..Book::default() }))
    }

    /// The messages about pods that were refused.
    pub(super) fn messages(&self) -> Messages {
        self.book().reports.clone()
    }

    /// Sets the messages about undecided pods.
    pub(super) fn set_messages(&self, messages: Messages) {
        let mut book = self.book();
        let Book { undecided, reports, .. } = &mut *book;
        reports.extend(messages.into_iter().filter(|(uid, _)| undecided.contains_key(uid)));
    }

    /// Forgets the decisions of an attempt.
    pub(super) fn undo(&self, saved: Saved) {
        *self.book() = saved.0;
    }

    /// Adds the decisions of an attempt to those before it. Pods that wait before and after it keep their messages.
    pub(super) fn keep(&self, saved: Saved) {
        let mut book = self.book();
        let made = std::mem::replace(&mut *book, saved.0);
        let Book { undecided, reports, placements, ranks, next_rank, outcome, last, nominated: _ } = made;
        for (uid, report) in reports {
            if !book.undecided.contains_key(&uid) {
                book.reports.insert(uid, report);
            }
        }
        for (uid, rank) in ranks {
            book.ranks.entry(uid).or_insert(rank);
        }
        for removed in &outcome.removed {
            book.placements.swap_remove(&removed.pod.uid);
        }
        for uid in placements.keys() {
            book.reports.swap_remove(uid);
            book.ranks.swap_remove(uid);
        }
        book.placements.extend(placements);
        (book.undecided, book.next_rank, book.last) = (undecided, next_rank, last);
        book.outcome.removed.extend(outcome.removed);
        book.outcome.evicted.extend(outcome.evicted);
        book.outcome.latencies.extend(outcome.latencies);
        book.outcome.took += outcome.took;
    }

    pub(super) fn new(pods: &[Arc<PodInfo>]) -> Self {
        let undecided: Map<_, _> = pods.iter().map(|pod| (Arc::clone(&pod.uid), Arc::clone(pod))).collect();
        let expected = AtomicUsize::new(undecided.len());
        let book = Mutex::new(Book { undecided, ..Book::default() });
        let (decided, attempts) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { shared: Arc::new(Shared { book, expected, decided, attempts }) }
    }

    /// Sets the time from which the machine can decide, at the start or after a round.
    pub(super) fn resume(&self, now: Instant) {
        self.book().last = Some(now);
    }

    /// Reserves a rank for a pod with a node, and returns the pod. The pod is bound after its PreBind writes, and later decisions do not wait
    /// for these.
    pub(super) fn reserved(&self, uid: &Arc<str>, now: Instant) -> Option<Arc<PodInfo>> {
        let mut book = self.book();
        let pod = book.undecided.get(uid).cloned()?;
        let rank = book.attempted(now);
        book.ranks.insert(Arc::clone(uid), rank);
        self.shared.attempts.fetch_add(1, Ordering::Relaxed);
        Some(pod)
    }

    /// Writes the amounts that the devices of a pod take to its status.
    pub(super) fn set_amounts(&self, uid: &Arc<str>, claims: &[ClaimAmounts]) {
        let mut book = self.book();
        let Some(pod) = book.undecided.get_mut(uid) else { return };
        let Some(footprint) = pod.class.devices.as_ref().and_then(|devices| devices.footprint.clone()) else { return };
        let class = Arc::new(footprint.class_with(&pod.class, claims));
        *pod = Arc::new(PodInfo { class, ..PodInfo::clone(pod) });
    }

    /// Records a placement and returns the bound pod; `None` if the pod is decided already.
    pub(super) fn placed(&self, binding: &Binding, now: Instant) -> Option<Arc<PodInfo>> {
        let mut book = self.book();
        let pod = book.undecided.swap_remove(&binding.uid)?;
        let refused = book.reports.contains_key(&pod.uid);
        let rank = match book.ranks.swap_remove(&pod.uid).filter(|_| !refused) {
            Some(rank) => rank,
            None => {
                self.shared.attempts.fetch_add(1, Ordering::Relaxed);
                book.attempted(now)
            }
        };
        book.decide(rank, &pod, Some(Arc::clone(&binding.node)), String::new());
        self.shared.decided.fetch_add(1, Ordering::Relaxed);
        Some(Arc::new(PodInfo { node_name: Some(Arc::clone(&binding.node)), ..(*pod).clone() }))
    }

    /// Records that an attempt refused a pod.
    pub(super) fn reported(&self, report: Report, now: Instant) {
        let mut book = self.book();
        let rank = book.attempted(now);
        book.ranks.entry(Arc::clone(&report.uid)).or_insert(rank);
        match book.reports.get_mut(&report.uid) {
            Some((_, last)) => *last = Some(report.message),
            None => {
                let shown = || book.undecided.get(&report.uid)?.nominated_node_name.clone();
                let node = match report.nomination {
                    Nomination::To(node) => Some(node),
                    Nomination::Clear => None,
                    Nomination::Keep => shown(),
                };
                book.nominated.extend(node.map(|node| (Arc::clone(&report.uid), node)));
                book.reports.insert(report.uid, (report.message, None));
            }
        }
        self.shared.attempts.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a preemption is from the first attempt of its pods. A pod is reported before its preemption, the pods of a group after it.
    pub(super) fn is_first_attempt(&self, preemption: &Preemption) -> bool {
        let book = self.book();
        let is_first = |uid: &Arc<str>| match (preemption.kind, book.reports.get(uid)) {
            (PreemptorKind::Pod, Some((_, last))) => last.is_none(),
            (_, report) => report.is_none(),
        };
        preemption.pods.iter().all(is_first)
    }

    /// The number of pods that are to be decided.
    pub(super) fn expected(&self) -> usize {
        self.shared.expected.load(Ordering::Relaxed)
    }

    pub(super) fn decided(&self) -> usize {
        self.shared.decided.load(Ordering::Relaxed)
    }

    /// The number of decisions, on retried pods too.
    pub(super) fn attempts(&self) -> usize {
        self.shared.attempts.load(Ordering::Relaxed)
    }

    pub(super) fn is_any_undecided(&self) -> bool {
        !self.book().undecided.is_empty()
    }

    /// Records that an undecided pod stays pending.
    pub(super) fn left(&self, pod: &Arc<PodInfo>, message: String) {
        let mut book = self.book();
        if book.undecided.swap_remove(&pod.uid).is_none() {
            return;
        }
        let next = book.next_rank + 1;
        let rank = book.ranks.swap_remove(&pod.uid).unwrap_or(next);
        book.next_rank = next;
        book.decide(rank, pod, None, message);
        self.shared.decided.fetch_add(1, Ordering::Relaxed);
    }

    /// The undecided pods, by name.
    pub(super) fn undecided(&self) -> Vec<Arc<PodInfo>> {
        let mut pods: Vec<_> = self.book().undecided.values().cloned().collect();
        pods.sort_by_cached_key(|pod| pod.key());
        pods
    }

    /// The first undecided pod by name.
    pub(super) fn first_undecided(&self) -> Option<String> {
        self.book().undecided.values().map(|pod| pod.key()).min()
    }

    /// Records that a pod is preempted. `by`: the preemptor, as `namespace/name`.
    pub(super) fn preempted(&self, pod: &Arc<PodInfo>, by: &str) {
        let mut book = self.book();
        book.placements.swap_remove(&pod.uid);
        book.undecided.swap_remove(&pod.uid);
        book.outcome.evicted.push(Evicted { pod: Arc::clone(pod), by: by.to_owned() });
    }

    /// Records that a preemptor, as `namespace/name`, may preempt no more pods.
    pub(super) fn stopped(&self, pod: String) {
        self.book().outcome.stopped.insert(pod);
    }

    /// Records that a controller or a drain deletes a pod.
    pub(super) fn removed(&self, pod: &Arc<PodInfo>, by: Deletion) {
        let mut book = self.book();
        book.placements.swap_remove(&pod.uid);
        book.undecided.swap_remove(&pod.uid);
        book.outcome.removed.push(Removed { pod: Arc::clone(pod), by });
    }

    pub(super) fn report_end(&self, report: model::Report) {
        self.book().outcome.report = report;
    }

    /// Adds a pod that a controller has created.
    pub(super) fn add(&self, pod: &Arc<PodInfo>) {
        self.book().undecided.insert(Arc::clone(&pod.uid), Arc::clone(pod));
        self.shared.expected.fetch_add(1, Ordering::Relaxed);
    }

    /// The message of a pod's last attempt.
    pub(super) fn report(&self, uid: &str) -> Option<String> {
        let book = self.book();
        let (first, last) = book.reports.get(uid)?;
        Some(last.as_ref().unwrap_or(first).clone())
    }

    /// Returns the outcome of the first attempts, with the gated pods.
    pub(super) fn close_first(&self, gated: Vec<Placement>) -> SimulationResult {
        let nominated = std::mem::take(&mut self.book().nominated);
        let mut outcome = self.close(gated);
        for placement in &mut outcome.placements {
            placement.nominated_node = nominated.get(&placement.pod.uid).cloned();
            if let Some(message) = placement.first_message.take() {
                (placement.node, placement.message) = (None, message);
            }
        }
        outcome
    }

    /// Returns the outcome, with the gated pods.
    pub(super) fn close(&self, gated: Vec<Placement>) -> SimulationResult {
        let mut book = self.book();
        let mut outcome = std::mem::take(&mut book.outcome);
        let mut placements: Vec<_> = std::mem::take(&mut book.placements).into_values().collect();
        placements.sort_by_key(|(rank, _)| *rank);
        outcome.placements = placements.into_iter().map(|(_, placement)| placement).collect();
        outcome.decisions = outcome.latencies.len();
        // A pod that comes back to its node may be preempted by the same pod again.
        let mut seen = Set::default();
        outcome.evicted.retain(|one| seen.insert((one.pod.key(), one.pod.node_name.clone(), one.by.clone())));
        outcome.placements.extend(gated);
        outcome
    }

    /// A panic elsewhere leaves the book consistent enough to read.
    fn book(&self) -> MutexGuard<'_, Book> {
        self.shared.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
