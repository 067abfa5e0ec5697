//! The `PodScheduled` condition of pods that are not placed.
//!
//! Knows: the patch, which of two reports on a pod is the newer, and whether a pod has such a condition already. Must
//! not know: what the message says.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use flotilla_framework::class::PodInfo;
use flotilla_machine::action::Report;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    api::{Patch, PatchParams},
    core::Request,
};
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, Semaphore, watch},
    time::{sleep, timeout},
};
use tracing::{debug, warn};

use super::Tally;
use crate::{
    lease::{self, Leadership},
    logging,
};

/// Writes at once. An unschedulable pod is written when its message changes, which is seldom; a burst of 10,000 pods
/// that fit nowhere is written in a second or two.
const AT_ONCE: usize = 32;
/// For one write.
const LIMIT: Duration = Duration::from_secs(10);
/// After a failure: doubles from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// Writes conditions, in the background. Cheap to clone.
///
/// At most one report waits for each pod, the newest: the bound is the number of pods, and the machine holds more of
/// each.
#[derive(Clone)]
pub struct Conditions {
    shared: Arc<Shared>,
}

struct Shared {
    pending: Mutex<Pending>,
    /// Pods without a node that have the condition: theirs only changes its message, and keeps its time.
    standing: Mutex<HashSet<Arc<str>>>,
    wake: Notify,
    written: AtomicU64,
    refused: AtomicU64,
    dropped: AtomicU64,
}

impl Conditions {
    /// Conditions that are written through `client` while `leading` says that this process leads.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn new(client: kube::Client, leading: watch::Receiver<Leadership>) -> Self {
        let shared = Arc::new(Shared {
            pending: Mutex::default(),
            standing: Mutex::default(),
            wake: Notify::new(),
            written: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        });
        tokio::spawn(Arc::new(Writer { client, leading, shared: Arc::clone(&shared) }).run());
        Self { shared }
    }

    /// Writes a report's condition, instead of one that waits for the same pod. Never blocks.
    pub fn write(&self, report: Report) {
        lock(&self.shared.pending).push(report);
        self.shared.wake.notify_one();
    }

    /// A pod looks like this now.
    pub fn seen(&self, pod: &PodInfo) {
        note(&mut lock(&self.shared.standing), pod);
    }

    /// A pod is gone.
    pub fn gone(&self, uid: &str) {
        lock(&self.shared.standing).remove(uid);
    }

    /// What has been written so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Shared { written, refused, dropped, .. } = &*self.shared;
        let waiting = lock(&self.shared.pending).len() as u64;
        Tally { written: get(written), refused: get(refused), dropped: get(dropped), waiting }
    }
}

/// The newest report of each pod that waits. Of one pod only one is written at a time, so that the newest comes last.
#[derive(Default)]
struct Pending {
    order: VecDeque<Arc<str>>,
    newest: HashMap<Arc<str>, Report>,
    writing: HashSet<Arc<str>>,
}

impl Pending {
    fn push(&mut self, report: Report) {
        let uid = Arc::clone(&report.uid);
        let older = self.newest.insert(Arc::clone(&uid), report);
        if older.as_ref().is_some_and(|older| older.clear_nomination) {
            self.clear_nomination(&uid);
        }
        if older.is_none() && !self.writing.contains(&uid) {
            self.order.push_back(uid);
        }
    }

    /// The newest report of a pod takes the nomination back as well, as an older one that is not written was to.
    fn clear_nomination(&mut self, uid: &str) {
        if let Some(newest) = self.newest.get_mut(uid) {
            newest.clear_nomination = true;
        }
    }

    fn pop(&mut self) -> Option<Report> {
        let uid = self.order.pop_front()?;
        let report = self.newest.remove(&uid)?;
        self.writing.insert(uid);
        Some(report)
    }

    /// The report that was popped is written, or given up.
    fn done(&mut self, uid: &Arc<str>) {
        self.writing.remove(uid);
        if self.newest.contains_key(uid) {
            self.order.push_back(Arc::clone(uid));
        }
    }

    /// Whether a newer report than this one waits, which then does its part as well.
    fn superseded(&mut self, report: &Report) -> bool {
        if report.clear_nomination {
            self.clear_nomination(&report.uid);
        }
        self.newest.contains_key(&report.uid)
    }

    fn len(&self) -> usize {
        self.newest.len()
    }
}

struct Writer {
    client: kube::Client,
    leading: watch::Receiver<Leadership>,
    shared: Arc<Shared>,
}

impl Writer {
    async fn run(self: Arc<Self>) {
        let at_once = Arc::new(Semaphore::new(AT_ONCE));
        loop {
            let Ok(turn) = Arc::clone(&at_once).acquire_owned().await else { return };
            let report = loop {
                // The guard is gone before the wait begins.
                let popped = lock(&self.shared.pending).pop();
                match popped {
                    Some(report) => break report,
                    None => self.shared.wake.notified().await,
                }
            };
            let writer = Arc::clone(&self);
            tokio::spawn(async move {
                let _done = Done { writer: &writer, uid: Arc::clone(&report.uid) };
                writer.write(&report).await;
                drop(turn);
            });
        }
    }

    async fn write(&self, report: &Report) {
        let pod = format_args!("{}/{}", report.namespace, report.name).to_string();
        let mut pause = FIRST_PAUSE;
        loop {
            if self.leading.borrow().epoch_at(lease::now()).is_none() {
                self.shared.dropped.fetch_add(1, Ordering::Relaxed);
                return;
            }
            let trouble = match timeout(LIMIT, self.try_write(report)).await {
                Ok(Ok(())) => {
                    lock(&self.shared.standing).insert(Arc::clone(&report.uid));
                    self.shared.written.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Ok(Err(kube::Error::Api(status))) => match Refusal::of(status.code, &status.message) {
                    Refusal::Passing => status.message,
                    Refusal::Gone => {
                        debug!(pod, reason = status.message, "the pod is gone, so its condition is not written");
                        self.shared.refused.fetch_add(1, Ordering::Relaxed);
                        return;
                    }
                    Refusal::Lasting => {
                        let reason = status.message;
                        warn!(pod, reason, "the API server refuses the pod's condition; grant patch on pods/status");
                        self.shared.refused.fetch_add(1, Ordering::Relaxed);
                        return;
                    }
                },
                Ok(Err(error)) => logging::chain(&error),
                Err(_) => format!("no answer within {LIMIT:?}"),
            };
            if lock(&self.shared.pending).superseded(report) {
                return;
            }
            debug!(pod, reason = trouble, "cannot write the pod's condition; trying again");
            sleep(pause.mul_f64(rand::random_range(0.5..=1.0))).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    async fn try_write(&self, report: &Report) -> kube::Result<()> {
        let begins = !lock(&self.shared.standing).contains(&report.uid);
        let patch: Patch<Value> = Patch::Strategic(patch(report, begins.then(Timestamp::now)));
        let path = format!("/api/v1/namespaces/{}/pods", report.namespace);
        let request = Request::new(path).patch_subresource("status", &report.name, &PatchParams::default(), &patch);
        let request = request.map_err(kube::Error::BuildRequest)?;
        // What the pod looks like now comes through the watch: here it is not even decoded.
        self.client.request_text(request).await.map(drop)
    }
}

/// What it means that the API server does not take a condition.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// Another try may succeed.
    Passing,
    /// There is no such pod any more.
    Gone,
    /// No try will succeed.
    Lasting,
}

impl Refusal {
    /// By the HTTP code and the message. A patch with another UID than the pod's is refused because that field cannot
    /// change, or because it is taken as a precondition.
    fn of(code: u16, message: &str) -> Self {
        match code {
            404 => Self::Gone,
            409 if message.contains("UID in precondition") || message.contains("uid mismatch") => Self::Gone,
            422 if message.contains("metadata.uid") => Self::Gone,
            409 | 429 | 500.. => Self::Passing,
            _ => Self::Lasting,
        }
    }
}

/// Ends the turn of a pod, also when its writing panics.
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

/// Notes whether a pod has a condition that a write would change.
fn note(standing: &mut HashSet<Arc<str>>, pod: &PodInfo) {
    if pod.node_name.is_none() && pod.condition.is_some() {
        standing.insert(Arc::clone(&pod.uid));
    } else {
        standing.remove(&pod.uid);
    }
}

/// The strategic merge patch for a report, whose condition begins to be `False` at this time, or was so before.
///
/// The UID makes it fail with 409 on a pod of the same name that was made since.
fn patch(report: &Report, begins: Option<Timestamp>) -> Value {
    let mut condition = json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": report.reason.as_str(),
        "message": report.message,
    });
    if report.generation > 0 {
        condition["observedGeneration"] = json!(report.generation);
    }
    if let Some(begins) = begins {
        condition["lastTransitionTime"] = json!(Time(begins));
    }
    let mut patch = json!({ "metadata": { "uid": report.uid }, "status": { "conditions": [condition] } });
    if report.clear_nomination {
        patch["status"]["nominatedNodeName"] = Value::Null;
    }
    patch
}

/// A panic elsewhere leaves what is locked here whole: each change is one call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use flotilla_machine::action::Reason;

    use super::*;

    fn report(uid: &str, message: &str) -> Report {
        Report {
            uid: Arc::from(uid),
            namespace: Arc::from("default"),
            name: Arc::from("web-1"),
            scheduler_name: Arc::from("default-scheduler"),
            generation: 0,
            reason: Reason::Unschedulable,
            message: message.to_owned(),
            write_condition: true,
            clear_nomination: false,
            write_event: true,
            attempt: 1,
            began_ms: None,
        }
    }

    #[test]
    fn of_two_reports_on_a_pod_that_wait_only_the_newer_is_written() {
        let mut pending = Pending::default();
        pending.push(report("u1", "old"));
        pending.push(report("u2", "other"));
        pending.push(report("u1", "new"));
        let written: Vec<_> = std::iter::from_fn(|| pending.pop()).map(|report| report.message).collect();
        assert_eq!(written, ["new", "other"]);
    }

    #[test]
    fn a_nomination_that_was_to_be_taken_back_is_taken_back_by_whichever_report_is_written() {
        let mut pending = Pending::default();
        pending.push(Report { clear_nomination: true, ..report("u1", "old") });
        pending.push(report("u1", "new"));
        let written = pending.pop().expect("a report");
        let status = &patch(&written, None)["status"];
        assert_eq!(status["conditions"][0]["message"], "new");
        assert_eq!(status.get("nominatedNodeName"), Some(&Value::Null));
    }

    #[test]
    fn a_newer_report_waits_until_the_older_one_is_written() {
        let mut pending = Pending::default();
        pending.push(report("u1", "old"));
        assert!(pending.pop().is_some());
        pending.push(report("u1", "new"));
        assert_eq!(pending.pop(), None);
        assert!(pending.superseded(&report("u1", "old")));
        pending.done(&Arc::from("u1"));
        assert_eq!(pending.pop().map(|report| report.message).as_deref(), Some("new"));
        pending.done(&Arc::from("u1"));
        assert_eq!((pending.pop(), pending.len(), pending.writing.len()), (None, 0, 0));
    }

    #[test]
    fn the_patch_names_the_uid_and_has_a_time_only_when_the_condition_begins() {
        let mut report = report("u1", "0/1 nodes are available: 1 Insufficient cpu.");
        let bare = json!({
            "metadata": { "uid": "u1" },
            "status": { "conditions": [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": "0/1 nodes are available: 1 Insufficient cpu.",
            }] },
        });
        assert_eq!(patch(&report, None), bare);
        report.generation = 2;
        let full = patch(&report, Some(Timestamp::from_second(1).expect("within range")));
        assert_eq!(full["status"]["conditions"][0]["observedGeneration"], 2);
        assert_eq!(full["status"]["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:01Z");
    }

    #[test]
    fn a_pod_with_another_uid_is_told_from_a_conflict_that_passes() {
        let other = "Pod \"web-1\" is invalid: metadata.uid: Invalid value: \"u1\": field is immutable";
        assert_eq!(Refusal::of(422, other), Refusal::Gone);
        let other =
            "Operation cannot be fulfilled: Precondition failed: UID in precondition: u1, UID in object meta: u2";
        assert_eq!(Refusal::of(409, other), Refusal::Gone);
        assert_eq!(Refusal::of(404, ""), Refusal::Gone);
        for (code, message) in [(409, "the object has been modified"), (429, ""), (500, ""), (503, "")] {
            assert_eq!(Refusal::of(code, message), Refusal::Passing, "{code}");
        }
        assert_eq!(Refusal::of(403, ""), Refusal::Lasting);
        assert_eq!(Refusal::of(422, "status.conditions"), Refusal::Lasting);
    }

    #[test]
    fn a_condition_stands_until_the_pod_is_bound_or_gone() {
        use flotilla_framework::class::Scheduled;

        let mut standing = HashSet::new();
        let mut pod = PodInfo {
            uid: Arc::from("u1"),
            name: Arc::from("web-1"),
            class: Arc::default(),
            scheduler_name: Arc::from("default-scheduler"),
            priority: 0,
            extended_resources: Vec::new(),
            gates: Vec::new(),
            node_name: None,
            nominated_node_name: None,
            deleting: false,
            finished: false,
            generation: 1,
            condition: None,
            limits: None,
        };
        note(&mut standing, &pod);
        assert!(!standing.contains("u1"), "it has none yet");
        let (reason, message) = (Arc::from("SchedulingGated"), Arc::from(""));
        pod.condition = Some(Scheduled { status: false, reason, message });
        note(&mut standing, &pod);
        assert!(standing.contains("u1"));
        pod.node_name = Some(Arc::from("n1"));
        note(&mut standing, &pod);
        assert!(standing.is_empty(), "it is nobody's concern here any more");
    }
}
