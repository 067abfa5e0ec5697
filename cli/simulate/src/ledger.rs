//! The decisions of a simulation, with order and time.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use flotilla_framework::class::PodInfo;
use flotilla_machine::action::{Binding, PodName, Preemption, Report};
use flotilla_model::{self as model, Deletion};
use tokio_util::sync::CancellationToken;

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
    /// How rollouts and drains ended.
    pub report: model::Report,
    /// The number of scheduled pods.
    pub decisions: usize,
    /// From the moment that the machine can decide until the last decision.
    pub took: Duration,
    /// The time of each decision since the previous one, or since the machine can decide. Earlier decisions count as 0.
    pub latencies: Vec<Duration>,
}

/// Records decisions. Cheap to clone.
#[derive(Clone)]
pub(super) struct Ledger {
    shared: Arc<Shared>,
}

struct Shared {
    book: Mutex<Book>,
    expected: usize,
    decided: AtomicUsize,
    finished: CancellationToken,
    /// A report is not final: preemption or a released claim may make the pod fit later.
    tries_again: bool,
}

#[derive(Default)]
struct Book {
    undecided: HashMap<Arc<str>, Arc<PodInfo>>,
    /// For pods with retries: the messages of the first attempt, and of the last one if it is another.
    reports: HashMap<Arc<str>, (String, Option<String>)>,
    /// The decided pods, each with the rank of its decision.
    placements: Vec<(u64, Placement)>,
    /// The decision rank of each pod in PreBind.
    ranks: HashMap<Arc<str>, u64>,
    /// The rank of the next decision.
    next_rank: u64,
    outcome: SimulationResult,
    began: Option<Instant>,
    last: Option<Instant>,
}

impl Book {
    fn take_rank(&mut self) -> u64 {
        let rank = self.next_rank;
        self.next_rank += 1;
        rank
    }
}

impl Ledger {
    pub(super) fn new(pods: &[Arc<PodInfo>], tries_again: bool) -> Self {
        let undecided: HashMap<_, _> = pods.iter().map(|pod| (Arc::clone(&pod.uid), Arc::clone(pod))).collect();
        let expected = undecided.len();
        let finished = CancellationToken::new();
        if undecided.is_empty() {
            finished.cancel();
        }
        let book = Mutex::new(Book { undecided, ..Book::default() });
        Self { shared: Arc::new(Shared { book, expected, decided: AtomicUsize::new(0), finished, tries_again }) }
    }

    /// Sets the time from which the machine can decide.
    pub(super) fn begin(&self, now: Instant) {
        let mut book = self.book();
        (book.began, book.last) = (Some(now), Some(now));
    }

    /// Reserves a rank for a pod with a node. The pod is bound after its PreBind writes, and later decisions do not wait for these.
    pub(super) fn reserved(&self, uid: &Arc<str>) {
        let mut book = self.book();
        let rank = book.take_rank();
        book.ranks.insert(Arc::clone(uid), rank);
    }

    /// Records a placement and returns the bound pod; `None` if the pod is decided already.
    pub(super) fn placed(&self, binding: &Binding, now: Instant) -> Option<Arc<PodInfo>> {
        let pod = self.decide(&binding.uid, Some(Arc::clone(&binding.node)), String::new(), now)?;
        Some(Arc::new(PodInfo { node_name: Some(Arc::clone(&binding.node)), ..(*pod).clone() }))
    }

    /// Records that a pod stays pending.
    pub(super) fn reported(&self, report: Report, now: Instant) {
        if self.shared.tries_again {
            let mut book = self.book();
            book.ranks.remove(&report.uid);
            match book.reports.entry(report.uid) {
                Entry::Vacant(entry) => _ = entry.insert((report.message, None)),
                Entry::Occupied(mut entry) => entry.get_mut().1 = Some(report.message),
            }
            return;
        }
        self.decide(&report.uid, None, report.message, now);
    }

    pub(super) fn expected(&self) -> usize {
        self.shared.expected
    }

    pub(super) fn decided(&self) -> usize {
        self.shared.decided.load(Ordering::Relaxed)
    }

    pub(super) async fn finished(&self) {
        self.shared.finished.cancelled().await;
    }

    /// Records that an undecided pod stays pending.
    pub(super) fn left(&self, pod: &PodInfo, message: String, now: Instant) {
        self.decide(&pod.uid, None, message, now);
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

    pub(super) fn evicted(&self, pod: &Arc<PodInfo>, preemption: &Preemption) {
        let PodName { namespace, name, .. } = &preemption.preemptor;
        let by = format!("{namespace}/{name}");
        let mut book = self.book();
        book.placements.retain(|(_, placement)| placement.pod.uid != pod.uid);
        book.outcome.evicted.push(Evicted { pod: Arc::clone(pod), by });
    }

    pub(super) fn removed(&self, pod: &Arc<PodInfo>, by: Deletion) {
        let mut book = self.book();
        book.placements.retain(|(_, placement)| placement.pod.uid != pod.uid);
        book.undecided.remove(&pod.uid);
        book.outcome.removed.push(Removed { pod: Arc::clone(pod), by });
    }

    pub(super) fn report_end(&self, report: model::Report) {
        self.book().outcome.report = report;
    }

    pub(super) fn add(&self, pod: &Arc<PodInfo>) {
        self.book().undecided.insert(Arc::clone(&pod.uid), Arc::clone(pod));
    }

    /// The message of a pod's last attempt.
    pub(super) fn report(&self, uid: &str) -> Option<String> {
        let book = self.book();
        let (first, last) = book.reports.get(uid)?;
        Some(last.as_ref().unwrap_or(first).clone())
    }

    /// Returns the outcome, with the gated pods.
    pub(super) fn close(&self, gated: Vec<Placement>) -> SimulationResult {
        let mut book = self.book();
        let (mut outcome, mut placements) = (std::mem::take(&mut book.outcome), std::mem::take(&mut book.placements));
        placements.sort_by_key(|(rank, _)| *rank);
        outcome.placements = placements.into_iter().map(|(_, placement)| placement).collect();
        outcome.decisions = outcome.placements.len();
        outcome.placements.extend(gated);
        outcome
    }

    fn decide(&self, uid: &str, node: Option<Arc<str>>, message: String, now: Instant) -> Option<Arc<PodInfo>> {
        let mut book = self.book();
        let pod = book.undecided.remove(uid)?;
        let began = book.began.unwrap_or(now);
        let since = book.last.replace(now).unwrap_or(now);
        book.outcome.took = now.saturating_duration_since(began);
        book.outcome.latencies.push(now.saturating_duration_since(since));
        let reports = book.reports.remove(uid);
        let first_message = reports.filter(|(_, last)| node.is_some() || last.is_some()).map(|(first, _)| first);
        let rank = book.ranks.remove(uid).unwrap_or_else(|| book.take_rank());
        book.placements.push((rank, Placement { pod: Arc::clone(&pod), node, message, first_message }));
        self.shared.decided.fetch_add(1, Ordering::Relaxed);
        if book.undecided.is_empty() {
            self.shared.finished.cancel();
        }
        Some(pod)
    }

    /// A panic elsewhere leaves the book consistent enough to read.
    fn book(&self) -> MutexGuard<'_, Book> {
        self.shared.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
