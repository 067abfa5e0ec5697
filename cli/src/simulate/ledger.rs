//! What was decided, in what order and when.
//!
//! Knows: which pods are still to be decided on. Must not know: who decides, or how the answer is printed.

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
use tokio_util::sync::CancellationToken;

/// Where a pod went, or why it stays pending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placement {
    /// The pod.
    pub(crate) pod: Arc<PodInfo>,
    /// The node.
    pub(crate) node: Option<Arc<str>>,
    /// Why there is none.
    pub(crate) message: String,
    /// The message of the first attempt, where later attempts followed.
    pub(crate) first_message: Option<String>,
}

/// A pod that made room for another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Evicted {
    /// The pod as it was.
    pub(crate) pod: Arc<PodInfo>,
    /// The pod that it made room for, as `namespace/name`.
    pub(crate) by: String,
}

/// What came of the simulation.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// All pending pods, in the order in which they were decided; those with scheduling gates, which are not decided
    /// on, come last.
    pub(crate) placements: Vec<Placement>,
    /// Pods that made room for others, where pods preempt.
    pub(crate) evicted: Vec<Evicted>,
    /// How many of them were decided on.
    pub(crate) decisions: usize,
    /// From the moment that the machine could decide until the last decision.
    pub(crate) took: Duration,
    /// How long each decision was in the making: the time since the one before it, or since the machine could decide.
    /// A verdict that was clear before that took no time.
    pub(crate) latencies: Vec<Duration>,
}

/// Where decisions are written down. Cheap to clone.
#[derive(Clone)]
pub(super) struct Ledger {
    shared: Arc<Shared>,
}

struct Shared {
    book: Mutex<Book>,
    expected: usize,
    decided: AtomicUsize,
    finished: CancellationToken,
    /// A report is not the last word on a pod: others may make room for it, or claims of it may be freed.
    tries_again: bool,
}

#[derive(Default)]
struct Book {
    undecided: HashMap<Arc<str>, Arc<PodInfo>>,
    /// Of pods that may be tried again: the message of the first attempt, and of the last one where there were several.
    reports: HashMap<Arc<str>, (String, Option<String>)>,
    /// The pods that are decided on, each with the rank of its decision.
    placements: Vec<(u64, Placement)>,
    /// Of pods with a node whose PreBind is under way: the rank of the decision.
    ranks: HashMap<Arc<str>, u64>,
    /// The rank of the next decision: how many came before it.
    next_rank: u64,
    outcome: Outcome,
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
    /// Nothing is decided yet on these pods.
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

    /// From now on the machine can decide.
    pub(super) fn begin(&self, now: Instant) {
        let mut book = self.book();
        (book.began, book.last) = (Some(now), Some(now));
    }

    /// A pod has a node, and is bound once what its PreBind writes is written. Writes take their time, and the decisions that follow do
    /// not wait for them.
    pub(super) fn reserved(&self, uid: &Arc<str>) {
        let mut book = self.book();
        let rank = book.take_rank();
        book.ranks.insert(Arc::clone(uid), rank);
    }

    /// A pod goes to a node; the pod as it looks there. `None`: it was decided on before.
    pub(super) fn placed(&self, binding: &Binding, now: Instant) -> Option<Arc<PodInfo>> {
        let pod = self.decide(&binding.uid, Some(Arc::clone(&binding.node)), String::new(), now)?;
        Some(Arc::new(PodInfo { node_name: Some(Arc::clone(&binding.node)), ..(*pod).clone() }))
    }

    /// A pod stays pending.
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

    /// How many pods there are.
    pub(super) fn expected(&self) -> usize {
        self.shared.expected
    }

    /// How many pods are decided on.
    pub(super) fn decided(&self) -> usize {
        self.shared.decided.load(Ordering::Relaxed)
    }

    /// Returns once every pod is decided on.
    pub(super) async fn finished(&self) {
        self.shared.finished.cancelled().await;
    }

    /// A pod that is not decided on is left where it is.
    pub(super) fn left(&self, pod: &PodInfo, message: String, now: Instant) {
        self.decide(&pod.uid, None, message, now);
    }

    /// The pods that are still to be decided on, by name.
    pub(super) fn undecided(&self) -> Vec<Arc<PodInfo>> {
        let mut pods: Vec<_> = self.book().undecided.values().cloned().collect();
        pods.sort_by_cached_key(|pod| pod.key());
        pods
    }

    /// A pod that is still to be decided on, the first by name.
    pub(super) fn first_undecided(&self) -> Option<String> {
        self.book().undecided.values().map(|pod| pod.key()).min()
    }

    /// A pod makes room for another one.
    pub(super) fn evicted(&self, pod: &Arc<PodInfo>, preemption: &Preemption) {
        let PodName { namespace, name, .. } = &preemption.preemptor;
        let by = format!("{namespace}/{name}");
        let mut book = self.book();
        book.placements.retain(|(_, placement)| placement.pod.uid != pod.uid);
        book.outcome.evicted.push(Evicted { pod: Arc::clone(pod), by });
    }

    /// Another pod is to be decided on.
    pub(super) fn add(&self, pod: &Arc<PodInfo>) {
        self.book().undecided.insert(Arc::clone(&pod.uid), Arc::clone(pod));
    }

    /// The message of a pod's last attempt.
    pub(super) fn report(&self, uid: &str) -> Option<String> {
        let book = self.book();
        let (first, last) = book.reports.get(uid)?;
        Some(last.as_ref().unwrap_or(first).clone())
    }

    /// The results, with the pods that are not decided on.
    pub(super) fn close(&self, gated: Vec<Placement>) -> Outcome {
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

    /// A panic elsewhere leaves the book whole enough to be read.
    fn book(&self) -> MutexGuard<'_, Book> {
        self.shared.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
