//! The `PodGroupInitiallyScheduled` condition of pod groups.
//!
//! Source: `PatchPodGroupStatus` in `pkg/scheduler/util`.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use flotilla_framework::ingest::pod_group::CONDITION;
use flotilla_machine::action::GroupReport;
use flotilla_runtime::surroundings;
use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    api::{Patch, PatchParams},
    core::Request,
};
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, watch},
    time::sleep,
};
use tracing::{debug, warn};

use super::tally::{Counters, Tally};
use crate::{
    lease::Leadership,
    outgoing::{Outgoing, Refusal},
    versions::{self, Served},
    wall,
};

/// Concurrent writes. A group is written when its condition changes: once or twice in its life.
const AT_ONCE: usize = 8;
const LIMIT: Duration = Duration::from_secs(10);
/// After a failure, doubling from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// Writes conditions of groups in the background. Cheap to clone.
///
/// At most one report is queued for each group, the newest: the bound is the number of groups.
#[derive(Clone)]
pub struct GroupConditions {
    shared: Arc<Shared>,
    outgoing: Arc<Outgoing>,
}

#[derive(Default)]
struct Shared {
    newest: Mutex<BTreeMap<Arc<str>, GroupReport>>,
    wake: Notify,
    counters: Counters,
}

enum Written {
    /// Finished.
    Done,
    /// A retry may succeed.
    Again(GroupReport),
}

impl GroupConditions {
    /// Creates conditions that are written through `client` while `leading`, in the version that the watch has found.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub(crate) fn new(client: kube::Client, leading: watch::Receiver<Leadership>, served: Served) -> Self {
        let shared = Arc::<Shared>::default();
        let outgoing = Arc::new(Outgoing::new(client, leading, AT_ONCE));
        tokio::spawn(Writer { outgoing: Arc::clone(&outgoing), shared: Arc::clone(&shared), served }.run());
        Self { shared, outgoing }
    }

    /// Queues a report's condition, and replaces a queued one of the same group. Never blocks.
    pub fn write(&self, report: GroupReport) {
        put(&mut self.shared.newest(), report);
        self.shared.wake.notify_one();
    }

    /// Counts of writes so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let waiting = self.shared.newest().len() as u64;
        self.shared.counters.read(waiting, self.outgoing.turned_away())
    }
}

impl Shared {
    /// A panic elsewhere leaves the locked data consistent: each change is one call.
    fn newest(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, GroupReport>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Replaces an older report. The API server may not have received the older one's status.
fn put(newest: &mut BTreeMap<Arc<str>, GroupReport>, mut report: GroupReport) {
    if let Some(older) = newest.get(&report.uid) {
        report.begins |= older.begins;
    }
    newest.insert(Arc::clone(&report.uid), report);
}

/// Puts back a report that could not be written, unless a newer one is queued.
fn put_back(newest: &mut BTreeMap<Arc<str>, GroupReport>, report: GroupReport) {
    match newest.get_mut(&report.uid) {
        Some(newer) => newer.begins |= report.begins,
        None => drop(newest.insert(Arc::clone(&report.uid), report)),
    }
}

struct Writer {
    outgoing: Arc<Outgoing>,
    shared: Arc<Shared>,
    served: Served,
}

impl Writer {
    /// Writes a whole batch before the next one, so that only one write per group is in flight.
    async fn run(self) {
        let mut pause = FIRST_PAUSE;
        loop {
            // Release the lock before waiting.
            let batch = std::mem::take(&mut *self.shared.newest());
            if batch.is_empty() {
                self.shared.wake.notified().await;
                continue;
            }
            let writes = futures::stream::iter(batch.into_values()).map(|report| self.write(report));
            let written: Vec<Written> = writes.buffer_unordered(AT_ONCE).collect().await;
            let mut failed = false;
            for again in written {
                if let Written::Again(report) = again {
                    put_back(&mut self.shared.newest(), report);
                    failed = true;
                }
            }
            if failed {
                sleep(pause.mul_f64(surroundings::between(0.5..=1.0))).await;
                pause = (pause * 2).min(LAST_PAUSE);
            } else {
                pause = FIRST_PAUSE;
            }
        }
    }

    async fn write(&self, report: GroupReport) -> Written {
        let group = format!("{}/{}", report.namespace, report.name);
        if self.outgoing.lead().is_none() {
            self.shared.counters.dropped.add(1);
            return Written::Done;
        }
        let trouble = match self.try_write(&report).await {
            Ok(()) => {
                self.shared.counters.written.add(1);
                return Written::Done;
            }
            Err(Refusal::Passing(reason)) => reason,
            Err(Refusal::Late(limit)) => format!("no answer within {limit:?}"),
            Err(Refusal::Gone(reason)) => {
                debug!(group, reason, "the pod group no longer exists; its condition is not written");
                self.shared.counters.refused.add(1);
                return Written::Done;
            }
            Err(Refusal::Lasting(reason)) => {
                warn!(group, reason, "the API server rejects the condition; grant patch on podgroups/status");
                self.shared.counters.refused.add(1);
                return Written::Done;
            }
        };
        debug!(group, reason = trouble, "cannot write the pod group's condition; retrying");
        Written::Again(report)
    }

    async fn try_write(&self, report: &GroupReport) -> Result<(), Refusal> {
        let patch: Patch<Value> = Patch::Strategic(patch(report, report.begins.then(wall::now)));
        let version = self.served.of(versions::POD_GROUPS);
        let path = format!("/apis/{version}/namespaces/{}/podgroups", report.namespace);
        let request = Request::new(path).patch_subresource("status", &report.name, &PatchParams::default(), &patch);
        let request = request.map_err(|error| Refusal::Lasting(error.to_string()))?;
        // The watch shows the changed group.
        self.outgoing.send(LIMIT, request).await.map(drop).map_err(Refusal::from)
    }
}

/// The strategic merge patch for a report. `begins`: the start of a changed status. The UID makes it fail on a new group of the same name.
fn patch(report: &GroupReport, begins: Option<Timestamp>) -> Value {
    let mut condition = json!({
        "type": CONDITION,
        "status": if report.status { "True" } else { "False" },
        "reason": report.reason,
        "message": report.message,
        "observedGeneration": report.generation,
    });
    if let Some(begins) = begins {
        condition["lastTransitionTime"] = json!(Time(begins));
    }
    json!({ "metadata": { "uid": report.uid }, "status": { "conditions": [condition] } })
}

#[cfg(test)]
mod tests {
    use flotilla_framework::pod_group::GroupApi;

    use super::*;

    fn report(message: &str, begins: bool) -> GroupReport {
        GroupReport {
            namespace: "default".into(),
            name: "g".into(),
            api: GroupApi::Kubernetes,
            uid: "u".into(),
            generation: 2,
            status: false,
            reason: "Unschedulable",
            message: message.to_owned(),
            begins,
        }
    }

    #[test]
    fn of_two_reports_on_a_group_the_newer_is_written_and_has_the_time_that_the_older_was_to_have() {
        let mut newest = BTreeMap::new();
        put(&mut newest, report("old", true));
        put(&mut newest, report("new", false));
        put_back(&mut newest, report("older", false));
        let written: Vec<_> = newest.into_values().map(|report| (report.message, report.begins)).collect();
        assert_eq!(written, [("new".to_owned(), true)]);
    }

    #[test]
    fn the_patch_names_the_uid_and_has_a_time_only_when_the_status_begins() {
        let mut expected = json!({
            "metadata": { "uid": "u" },
            "status": { "conditions": [{
                "type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable", "message": "m",
                "observedGeneration": 2,
            }] },
        });
        assert_eq!(patch(&report("m", false), None), expected);
        expected["status"]["conditions"][0]["lastTransitionTime"] = json!("1970-01-01T00:00:01Z");
        assert_eq!(patch(&report("m", true), Timestamp::from_second(1).ok()), expected);
    }
}
