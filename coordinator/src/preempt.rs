//! Evicts the victims of a preemption: sets their condition, deletes them and writes their events.
//!
//! Both requests name the victim's UID, so that a new pod of the same name is left alone, and both may be repeated. Temporary failures are
//! retried a few times while the preemptor waits. Then the whole preemption is tried again; deletions are not undone.
//!
//! Source: `prepareCandidateAsync` and `PreemptPod` of upstream's executor, which delete by name alone and try once.

use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use flotilla_machine::{
    action::{Preemption, Victim},
    event::Event,
};
use flotilla_planted::planted;
use flotilla_runtime::{driver::Handle, surroundings, tally};
use futures::{FutureExt as _, future::join_all};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    core::Request,
};
use serde_json::{Value, json};
use tokio::{
    sync::{Semaphore, watch},
    time::sleep,
};
use tracing::{debug, info, warn};

use crate::{
    lease::Leadership,
    metrics::Scheduled,
    outgoing::{Answered, Outgoing, Refusal},
    status::Events,
    wall,
};

/// Concurrent victims: at two requests of 5 ms each that is 3,200 a second. The binds, up to 100, keep most of the API server's capacity.
/// The machine bounds the queue to 4,096 victims. Victims that end a preemption have as many other slots, so that its preemptor
/// does not wait for the victims of later ones.
const AT_ONCE: usize = 32;
/// Limit of one request; less if the lead ends sooner.
const LONGEST: Duration = Duration::from_secs(5);
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(100);

/// Deletes victims. Cheap to clone.
#[derive(Clone)]
pub struct Evictor {
    inner: Arc<Inner>,
}

struct Inner {
    outgoing: Outgoing,
    last_victims: Semaphore,
    handle: Handle,
    events: Events,
    scheduled: Scheduled,
    counters: Counters,
    answered: Answered,
}

tally! {
    /// Counts of victims so far.
    Tally of Counters {
        /// Pods deleted.
        deleted,
        /// Pods that no longer existed, or were replaced.
        gone,
        /// Pods not deleted, also because this process no longer led.
        failed,
        /// Retried requests.
        repeated,
    }
    measured {
        /// Requests rejected with 429.
        turned_away: u64,
    }
}

impl Evictor {
    /// Creates an evictor that reports the outcome of each preemption to `handle`. It sends requests only while `leading`.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn new(
        client: kube::Client,
        handle: Handle,
        events: Events,
        scheduled: Scheduled,
        leading: watch::Receiver<Leadership>,
    ) -> Self {
        let (outgoing, counters) = (Outgoing::new(client, leading, AT_ONCE), Counters::default());
        let (last_victims, answered) = (Semaphore::new(AT_ONCE), Answered::default());
        Self { inner: Arc::new(Inner { outgoing, last_victims, handle, events, scheduled, counters, answered }) }
    }

    /// Deletes the victims; exactly one [`Event::Preempted`] follows. Never blocks.
    pub fn preempt(&self, preemption: Preemption) {
        let inner = Arc::clone(&self.inner);
        self.inner.outgoing.spawn(async move { inner.carry_out(preemption).await });
    }

    /// Returns when no preemption is in flight.
    pub async fn drained(&self) {
        self.inner.outgoing.drained().await;
    }

    /// The version up to which writes to victims are committed; `None`: the outcome of a write is unknown.
    #[must_use]
    pub fn committed(&self) -> Option<u64> {
        self.inner.answered.version()
    }

    /// Counts of victims so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.inner.counters.read(self.inner.outgoing.turned_away())
    }
}

impl Inner {
    async fn carry_out(&self, preemption: Preemption) {
        let begun = Instant::now();
        let evicted = AssertUnwindSafe(self.evict_all(&preemption)).catch_unwind().await;
        let outcome = evicted.unwrap_or_else(|_| Err("the task that deleted the victims panicked".to_owned()));
        let node = preemption.place().to_owned();
        let Preemption { id, preemptor, kind, victims, in_memory, .. } = preemption;
        let victims_len = u32::try_from(victims.len() + in_memory.len()).unwrap_or(u32::MAX);
        self.scheduled.preempted(kind, victims_len, outcome.is_ok(), begun.elapsed());
        let pod = format!("{}/{}", preemptor.namespace, preemptor.name);
        match &outcome {
            Ok(()) => debug!(pod, %node, victims = victims.len(), "victims deleted"),
            Err(reason) => warn!(pod, %node, reason, "cannot delete every victim; the pod is tried again"),
        }
        // An error means that the machine has stopped and the process is ending.
        let _ = self.handle.send_event(Event::Preempted { uid: preemptor.uid, id, failure: outcome.err() }).await;
    }

    /// Evicts all but the last victim in parallel, then the last one, which is of use only without the others.
    async fn evict_all(&self, preemption: &Preemption) -> Result<(), String> {
        for victim in &preemption.in_memory {
            self.events.preempted(preemption, victim, true);
        }
        let Some((last, others)) = preemption.victims.split_last() else { return Ok(()) };
        let evicted = join_all(others.iter().map(|victim| async {
            let _turn = self.outgoing.turn().await;
            self.evict(preemption, victim).await
        }));
        evicted.await.into_iter().collect::<Result<(), String>>()?;
        let _turn = self.last_victims.acquire().await;
        self.evict(preemption, last).await
    }

    async fn evict(&self, preemption: &Preemption, victim: &Victim) -> Result<(), String> {
        let counters = &self.counters;
        let told = self.request(|| condition(preemption, victim, wall::now())).await;
        let deleted = match told {
            Ok(true) => self.request(|| deletion(victim)).await,
            other => other,
        };
        let counter = match &deleted {
            Ok(true) => {
                let (pod, preemptor) = (&victim.pod, &preemption.preemptor);
                info!(
                    pod = %format_args!("{}/{}", preemptor.namespace, preemptor.name), node = preemption.place(),
                    victim = %format_args!("{}/{}", pod.namespace, pod.name), "Preemptor Pod preempted victim Pod"
                );
                self.events.preempted(preemption, victim, false);
                &counters.deleted
            }
            Ok(false) => &counters.gone,
            Err(_) => &counters.failed,
        };
        counter.add(1);
        deleted.map(drop)
    }

    /// Sends a request about a victim. `Ok(false)`: the pod no longer exists, or was replaced.
    async fn request(&self, make: impl Fn() -> Result<http::Request<Vec<u8>>, String>) -> Result<bool, String> {
        let mut pause = PAUSE;
        for attempt in 1.. {
            match self.outgoing.send(LONGEST, make()?).await.map_err(Refusal::from) {
                Ok(answer) => {
                    self.answered.note(&answer);
                    return Ok(true);
                }
                Err(Refusal::Gone(_)) => return Ok(false),
                Err(Refusal::Lasting(reason)) => return Err(reason),
                Err(trouble) => {
                    // It may have been executed.
                    self.answered.lose();
                    if attempt == TRIES {
                        return Err(trouble.to_string());
                    }
                }
            }
            self.counters.repeated.add(1);
            sleep(pause.mul_f64(surroundings::between(0.5..=1.0))).await;
            pause *= 2;
        }
        Err("no attempt is left".to_owned())
    }
}

fn path(victim: &Victim) -> String {
    format!("/api/v1/namespaces/{}/pods", victim.pod.namespace)
}

/// The condition that shows controllers a disruption instead of a failure.
fn condition(preemption: &Preemption, victim: &Victim, now: Timestamp) -> Result<http::Request<Vec<u8>>, String> {
    let mut condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": format!(
            "{}: preempting to accommodate a higher priority {}",
            preemption.scheduler_name, preemption.kind.as_str()
        ),
        "lastTransitionTime": Time(now),
    });
    if victim.generation > 0 {
        condition["observedGeneration"] = json!(victim.generation);
    }
    let patch: Value = json!({ "metadata": { "uid": victim.pod.uid }, "status": { "conditions": [condition] } });
    let patch = Patch::Strategic(patch);
    let request =
        Request::new(path(victim)).patch_subresource("status", &victim.pod.name, &PatchParams::default(), &patch);
    request.map_err(|error| error.to_string())
}

fn deletion(victim: &Victim) -> Result<http::Request<Vec<u8>>, String> {
    let uid = Some(victim.pod.uid.to_string()).filter(|_| !planted("evicts-by-name"));
    let uid = Preconditions { uid, resource_version: None };
    let parameters = DeleteParams { preconditions: Some(uid), ..DeleteParams::default() };
    Request::new(path(victim)).delete(&victim.pod.name, &parameters).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
