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
use flotilla_machine::action::{Nomination, NominationChange, PodName, Reason, Report};
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
/// At most one write is queued for each pod, the newest: the bound is the number of pods, and the machine holds more for each.
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

    /// Queues a write, and replaces a queued one of the same pod. Never blocks.
    pub(super) fn write(&self, write: impl Into<Write>) {
        if lock(&self.shared.pending).push(write.into()) {
            self.shared.counters.skipped.add(1);
        }
        self.shared.wake.notify_one();
    }

    /// A pod is being bound: its queued write is outdated.
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

/// A write of a pod's status.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Write {
    pod: PodName,
    condition: Option<Condition>,
    nomination: Nomination,
}

#[derive(Debug, Clone, PartialEq)]
struct Condition {
    reason: Reason,
    message: String,
    /// The pod's `metadata.generation`.
    generation: i64,
}

impl From<Report> for Write {
    fn from(report: Report) -> Self {
        let Report { uid, namespace, name, reason, message, generation, write_condition, nomination, .. } = report;
        let condition = write_condition.then_some(Condition { reason, message, generation });
        Self { pod: PodName { uid, namespace, name }, condition, nomination }
    }
}

impl From<NominationChange> for Write {
    fn from(NominationChange { pod, node }: NominationChange) -> Self {
        Self { pod, condition: None, nomination: node.map_or(Nomination::Clear, Nomination::To) }
    }
}

/// The newest write of each queued pod. Only one write per pod is in flight, so that the newest comes last.
#[derive(Default)]
struct Pending {
    order: VecDeque<Arc<str>>,
    newest: HashMap<Arc<str>, Write>,
    writing: HashSet<Arc<str>>,
}

impl Pending {
    /// Whether this write replaces an older one.
    fn push(&mut self, write: Write) -> bool {
        let uid = Arc::clone(&write.pod.uid);
        match self.newest.entry(Arc::clone(&uid)) {
            Entry::Occupied(mut known) => {
                let older = known.insert(write);
                inherit(known.get_mut(), &older);
                true
            }
            Entry::Vacant(room) => {
                room.insert(write);
                if !self.writing.contains(&uid) {
                    self.order.push_back(uid);
                }
                false
            }
        }
    }

    /// Removes a pod's queued write. One with a nomination stays: it fails if the pod is bound, and is needed if it is not.
    fn withdraw(&mut self, uid: &str) -> bool {
        if self.newest.get(uid).is_none_or(|write| write.nomination != Nomination::Keep) {
            return false;
        }
        // Its place in the order stays, and is skipped.
        self.newest.remove(uid).is_some()
    }

    fn pop(&mut self) -> Option<Write> {
        loop {
            let uid = self.order.pop_front()?;
            // The place of a removed write stays in the order; a later write of the pod is at the end.
            if !self.writing.contains(&uid)
                && let Some(write) = self.newest.remove(&uid)
            {
                self.writing.insert(uid);
                return Some(write);
            }
        }
    }

    fn done(&mut self, uid: &Arc<str>) {
        self.writing.remove(uid);
        if self.newest.contains_key(uid) {
            self.order.push_back(Arc::clone(uid));
        }
    }

    /// Whether a newer write is queued, which then includes this one.
    fn superseded(&mut self, write: &Write) -> bool {
        let newest = self.newest.get_mut(&write.pod.uid);
        newest.map(|newest| inherit(newest, write)).is_some()
    }

    fn len(&self) -> usize {
        self.newest.len()
    }
}

/// Merges an older write that was not carried out into a newer one, for fields that the newer one does not set.
fn inherit(newer: &mut Write, older: &Write) {
    if newer.nomination == Nomination::Keep {
        newer.nomination = older.nomination.clone();
    }
    if newer.condition.is_none() {
        newer.condition.clone_from(&older.condition);
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
            let write = loop {
                // Release the lock before waiting.
                let popped = lock(&self.shared.pending).pop();
                match popped {
                    Some(write) => break write,
                    None => self.shared.wake.notified().await,
                }
            };
            let writer = Arc::clone(&self);
            self.outgoing.spawn(async move {
                let _done = Done { writer: &writer, uid: Arc::clone(&write.pod.uid) };
                writer.write(&write).await;
                drop(turn);
            });
        }
    }

    /// Writes a pod's status while the pod has no node, the status is new, and no newer write is queued.
    async fn write(&self, write: &Write) {
        let pod = format_args!("{}/{}", write.pod.namespace, write.pod.name).to_string();
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
            let Some(shown) = self.shared.shown.get(&write.pod.uid).filter(|shown| is_news(write, shown)) else {
                self.shared.counters.skipped.add(1);
                return;
            };
            let under_way = self.shared.precedence.begin(Kind::Condition);
            let written = self.try_write(write, &shown).await;
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
            if lock(&self.shared.pending).superseded(write) {
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

    async fn try_write(&self, write: &Write, shown: &Pod) -> Result<(), Refusal> {
        let patch: Patch<Value> = Patch::Strategic(patch(write, shown, wall::now()));
        let path = format!("/api/v1/namespaces/{}/pods", write.pod.namespace);
        let request = Request::new(path).patch_subresource("status", &write.pod.name, &PatchParams::default(), &patch);
        let request = request.map_err(|error| Refusal::Lasting(error.to_string()))?;
        let answer = self.outgoing.send(LIMIT, request).await.map_err(Refusal::from);
        if write.nomination != Nomination::Keep {
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
        if let (Some(version), Some(condition)) = (written, &write.condition) {
            let (reason, message) = (Arc::from(condition.reason.as_str()), Arc::from(&*condition.message));
            self.shared.shown.written(&write.pod.uid, version, Scheduled { status: false, reason, message });
        }
        Ok(())
    }
}

/// Whether a write changes the pod's status.
///
/// Source: `UpdatePodCondition`, which also ignores another `observedGeneration`.
fn is_news(write: &Write, shown: &Pod) -> bool {
    let is_other = |condition: &Condition| !shown.says(condition.reason.as_str(), &condition.message);
    write.nomination != Nomination::Keep || write.condition.as_ref().is_some_and(is_other)
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

/// The strategic merge patch for a write to the observed pod.
///
/// It fails with 409 if the UID differs because a new pod has the name, or if the version differs because the pod has changed.
fn patch(write: &Write, shown: &Pod, now: Timestamp) -> Value {
    let mut patch = json!({ "metadata": { "uid": write.pod.uid }, "status": {} });
    if shown.version > 0 {
        patch["metadata"]["resourceVersion"] = json!(shown.version.to_string());
    }
    if let Some(condition) = &write.condition {
        patch["status"]["conditions"] = json!([condition.value(shown, now)]);
    }
    match &write.nomination {
        Nomination::Keep => {}
        Nomination::Clear => patch["status"]["nominatedNodeName"] = Value::Null,
        Nomination::To(node) => patch["status"]["nominatedNodeName"] = json!(node),
    }
    patch
}

impl Condition {
    fn value(&self, shown: &Pod, now: Timestamp) -> Value {
        let mut condition = json!({
            "type": "PodScheduled",
            "status": "False",
            "reason": self.reason.as_str(),
            "message": self.message,
        });
        if planted("wakes-itself") {
            condition["message"] = json!(format!("{} It is {now}.", self.message));
        }
        if self.generation > 0 {
            condition["observedGeneration"] = json!(self.generation);
        }
        if !shown.is_refused() {
            condition["lastTransitionTime"] = json!(Time(now));
        }
        condition
    }
}

/// A panic elsewhere leaves the locked data consistent: each change is one call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
