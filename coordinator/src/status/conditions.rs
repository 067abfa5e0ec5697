//! The `PodScheduled` condition of pods that were not placed.
//!
//! A patch names the UID and the last observed version of the pod. It therefore never changes another pod of the same name, and never
//! overwrites a later change, such as a bind.

use std::{
    collections::{HashMap, HashSet, VecDeque, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use flotilla_framework::class::Scheduled;
use flotilla_machine::action::{Nomination, Report};
use flotilla_planted::planted;
use flotilla_runtime::surroundings;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    api::{Patch, PatchParams},
    core::Request,
};
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, Semaphore, SemaphorePermit, watch},
    time::sleep,
};
use tracing::{debug, warn};

use super::{
    precedence::{Kind, Precedence, UnderWay},
    shown::{Pod, Shown},
    tally::{Counters, Tally},
};
use crate::{
    bind,
    lease::Leadership,
    outgoing::{Answered, Outgoing, Refusal, version},
    wall,
};

/// Concurrent writes. An unschedulable pod is rarely written again; a burst of 10,000 takes a second or two.
const AT_ONCE: usize = 32;
const LIMIT: Duration = Duration::from_secs(10);
/// After a failure, doubling from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(5);
/// Concurrent writes while binds are in flight, but none is queued.
const BESIDE_BINDS: usize = 2;
/// How long a condition yields at most, so that busy clusters get conditions too.
const GIVE_WAY: Duration = Duration::from_secs(1);

/// Writes conditions in the background. Cheap to clone.
///
/// At most one report is queued for each pod, the newest: the bound is the number of pods, and the machine holds more for each.
#[derive(Clone)]
pub struct Conditions {
    shared: Arc<Shared>,
    outgoing: Arc<Outgoing>,
}

struct Shared {
    pending: Mutex<Pending>,
    shown: Shown,
    wake: Notify,
    precedence: Precedence,
    beside_binds: Semaphore,
    counters: Counters,
    answered: Answered,
}

impl Conditions {
    /// Creates conditions that are written through `client` while `leading`, for pods in `shown`, after the binds that `precedence` counts.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub(super) fn new(
        client: kube::Client,
        leading: watch::Receiver<Leadership>,
        shown: Shown,
        precedence: Precedence,
    ) -> Self {
        let shared = Arc::new(Shared {
            pending: Mutex::default(),
            shown,
            wake: Notify::new(),
            precedence,
            beside_binds: Semaphore::new(BESIDE_BINDS),
            counters: Counters::default(),
            answered: Answered::default(),
        });
        let outgoing = Arc::new(Outgoing::new(client, leading, AT_ONCE));
        tokio::spawn(Arc::new(Writer { outgoing: Arc::clone(&outgoing), shared: Arc::clone(&shared) }).run());
        Self { shared, outgoing }
    }

    /// Queues a report's condition, and replaces a queued one of the same pod. Never blocks.
    pub fn write(&self, report: Report) {
        if lock(&self.shared.pending).push(report) {
            self.shared.counters.skipped.add(1);
        }
        self.shared.wake.notify_one();
    }

    /// A pod is being bound: its queued report is outdated.
    pub(super) fn bind(&self, uid: &str) -> UnderWay {
        if lock(&self.shared.pending).withdraw(uid) {
            self.shared.counters.skipped.add(1);
        }
        self.shared.precedence.begin(Kind::Bind)
    }

    /// The version up to which written nominations are committed; `None`: the outcome of a write is unknown.
    #[must_use]
    pub fn committed(&self) -> Option<u64> {
        self.shared.answered.version()
    }

    /// Counts of writes so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let waiting = lock(&self.shared.pending).len() as u64;
        self.shared.counters.read(waiting, self.outgoing.turned_away())
    }
}

/// The newest report of each queued pod. Only one write per pod is in flight, so that the newest comes last.
#[derive(Default)]
struct Pending {
    order: VecDeque<Arc<str>>,
    newest: HashMap<Arc<str>, Report>,
    writing: HashSet<Arc<str>>,
}

impl Pending {
    /// Whether this report replaces an older one.
    fn push(&mut self, report: Report) -> bool {
        let uid = Arc::clone(&report.uid);
        match self.newest.entry(Arc::clone(&uid)) {
            Entry::Occupied(mut known) => {
                let older = known.insert(report);
                inherit(known.get_mut(), &older);
                true
            }
            Entry::Vacant(room) => {
                room.insert(report);
                if !self.writing.contains(&uid) {
                    self.order.push_back(uid);
                }
                false
            }
        }
    }

    /// Removes a pod's queued report. One with a nomination stays: it fails if the pod is bound, and is needed if it is not.
    fn withdraw(&mut self, uid: &str) -> bool {
        if self.newest.get(uid).is_none_or(|report| report.nomination != Nomination::Keep) {
            return false;
        }
        // Its place in the order stays, and is skipped.
        self.newest.remove(uid).is_some()
    }

    fn pop(&mut self) -> Option<Report> {
        loop {
            let uid = self.order.pop_front()?;
            // The place of a removed report stays in the order; a later report of the pod is at the end.
            if !self.writing.contains(&uid)
                && let Some(report) = self.newest.remove(&uid)
            {
                self.writing.insert(uid);
                return Some(report);
            }
        }
    }

    fn done(&mut self, uid: &Arc<str>) {
        self.writing.remove(uid);
        if self.newest.contains_key(uid) {
            self.order.push_back(Arc::clone(uid));
        }
    }

    /// Whether a newer report is queued, which then includes this one.
    fn superseded(&mut self, report: &Report) -> bool {
        let newest = self.newest.get_mut(&report.uid);
        newest.map(|newest| inherit(newest, report)).is_some()
    }

    fn len(&self) -> usize {
        self.newest.len()
    }
}

/// Merges an unwritten older report into a newer one, for fields the newer one does not set.
fn inherit(newer: &mut Report, older: &Report) {
    if newer.nomination == Nomination::Keep {
        newer.nomination = older.nomination.clone();
    }
    if !newer.write_condition && older.write_condition {
        newer.write_condition = true;
        newer.reason = older.reason;
        newer.generation = older.generation;
        newer.message.clone_from(&older.message);
    }
}

struct Writer {
    outgoing: Arc<Outgoing>,
    shared: Arc<Shared>,
}

impl Writer {
    async fn run(self: Arc<Self>) {
        loop {
            let turn = self.outgoing.turn().await;
            let report = loop {
                // Release the lock before waiting.
                let popped = lock(&self.shared.pending).pop();
                match popped {
                    Some(report) => break report,
                    None => self.shared.wake.notified().await,
                }
            };
            let writer = Arc::clone(&self);
            self.outgoing.spawn(async move {
                let _done = Done { writer: &writer, uid: Arc::clone(&report.uid) };
                writer.write(&report).await;
                drop(turn);
            });
        }
    }

    /// Writes a report's condition while the pod has no node, the condition is new, and no newer report is queued.
    async fn write(&self, report: &Report) {
        let pod = format_args!("{}/{}", report.namespace, report.name).to_string();
        let mut pause = FIRST_PAUSE;
        if planted("wakes-itself") {
            // Without a pause a simulation would spend all its steps on this pod.
            sleep(FIRST_PAUSE / 2).await;
        }
        loop {
            let beside_binds = self.give_way().await;
            if self.outgoing.lead().is_none() {
                self.shared.counters.dropped.add(1);
                return;
            }
            let Some(shown) = self.shared.shown.get(&report.uid).filter(|shown| is_news(report, shown)) else {
                self.shared.counters.skipped.add(1);
                return;
            };
            let under_way = self.shared.precedence.begin(Kind::Condition);
            let written = self.try_write(report, &shown).await;
            drop((under_way, beside_binds));
            let trouble = match written {
                Ok(()) => {
                    self.shared.counters.written.add(1);
                    return;
                }
                Err(Refusal::Passing(reason)) => reason,
                Err(Refusal::Late(limit)) => format!("no answer within {limit:?}"),
                Err(Refusal::Gone(reason)) => {
                    debug!(pod, reason, "the pod no longer exists; its condition is not written");
                    self.shared.counters.refused.add(1);
                    return;
                }
                Err(Refusal::Lasting(reason)) => {
                    warn!(pod, reason, "the API server rejects the pod's condition; grant patch on pods/status");
                    self.shared.counters.refused.add(1);
                    return;
                }
            };
            if lock(&self.shared.pending).superseded(report) {
                self.shared.counters.skipped.add(1);
                return;
            }
            debug!(pod, reason = trouble, "cannot write the pod's condition; retrying");
            sleep(pause.mul_f64(surroundings::between(0.5..=1.0))).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    /// Returns once no bind is in flight, or after a second. Returns earlier if no bind is queued and few other conditions are in flight;
    /// the permit then counts as one of them.
    async fn give_way(&self) -> Option<SemaphorePermit<'_>> {
        let precedence = &self.shared.precedence;
        let beside_binds = async {
            precedence.binds_at_most(bind::AT_ONCE).await;
            self.shared.beside_binds.acquire().await.ok()
        };
        tokio::select! {
            biased;
            () = precedence.binds_at_most(0) => None,
            permit = beside_binds => permit,
            () = sleep(GIVE_WAY) => None,
        }
    }

    async fn try_write(&self, report: &Report, shown: &Pod) -> Result<(), Refusal> {
        let patch: Patch<Value> = Patch::Strategic(patch(report, shown, wall::now()));
        let path = format!("/api/v1/namespaces/{}/pods", report.namespace);
        let request = Request::new(path).patch_subresource("status", &report.name, &PatchParams::default(), &patch);
        let request = request.map_err(|error| Refusal::Lasting(error.to_string()))?;
        let answer = self.outgoing.send(LIMIT, request).await.map_err(Refusal::from);
        if report.nomination != Nomination::Keep {
            match &answer {
                Ok(answer) => self.shared.answered.note(answer),
                Err(Refusal::Gone(_) | Refusal::Lasting(_)) => {}
                // It may have been executed.
                Err(Refusal::Passing(_) | Refusal::Late(_)) => self.shared.answered.lose(),
            }
        }
        let answer = answer?;
        // The watch shows the pod too; an unreadable answer is not a failure.
        let written = version(&answer).ok().and_then(|version| version.parse().ok());
        if let Some(version) = written {
            let (reason, message) = (Arc::from(report.reason.as_str()), Arc::from(&*report.message));
            self.shared.shown.written(&report.uid, version, Scheduled { status: false, reason, message });
        }
        Ok(())
    }
}

/// Whether a report differs from the pod's condition.
///
/// Source: `UpdatePodCondition`, which also ignores another `observedGeneration`.
fn is_news(report: &Report, shown: &Pod) -> bool {
    report.nomination != Nomination::Keep || !shown.says(report.reason.as_str(), &report.message)
}

/// Frees a pod for its next write, also after a panic.
struct Done<'a> {
    writer: &'a Writer,
    uid: Arc<str>,
}

impl Drop for Done<'_> {
    fn drop(&mut self) {
        lock(&self.writer.shared.pending).done(&self.uid);
        self.writer.shared.wake.notify_one();
    }
}

/// The strategic merge patch for a report on the observed pod.
///
/// It fails with 409 if the UID differs because a new pod has the name, or if the version differs because the pod has changed.
fn patch(report: &Report, shown: &Pod, now: Timestamp) -> Value {
    let mut condition = json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": report.reason.as_str(),
        "message": report.message,
    });
    if planted("wakes-itself") {
        condition["message"] = json!(format!("{} It is {now}.", report.message));
    }
    if report.generation > 0 {
        condition["observedGeneration"] = json!(report.generation);
    }
    if !shown.is_refused() {
        condition["lastTransitionTime"] = json!(Time(now));
    }
    let mut patch = json!({ "metadata": { "uid": report.uid }, "status": {} });
    if shown.version > 0 {
        patch["metadata"]["resourceVersion"] = json!(shown.version.to_string());
    }
    if report.write_condition {
        patch["status"]["conditions"] = json!([condition]);
    }
    match &report.nomination {
        Nomination::Keep => {}
        Nomination::Clear => patch["status"]["nominatedNodeName"] = Value::Null,
        Nomination::To(node) => patch["status"]["nominatedNodeName"] = json!(node),
    }
    patch
}

/// A panic elsewhere leaves the locked data consistent: each change is one call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
