//! Writes of PreBind and Unreserve to the API server, and the announcement of a pod's node.
//!
//! kube-scheduler sends whole objects back. This cache holds only the fields that scheduling reads, so that a JSON merge patch has the few
//! fields that change. Its `metadata.resourceVersion` makes the API server reject it, with kube-scheduler's text for a conflict, if the
//! object has changed since the decision. Its `metadata.uid` names the object in logs and audits. Writes are therefore neither looked up
//! nor repeated here: whether or not a write without an answer was executed, the pod's next attempt continues from the watched state. If
//! the claim then gets another volume, the volume controller releases the first one because of the annotation. No controller releases
//! devices, so that ResourceClaims are looked up and written again (`claim`).

mod claim;

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use flotilla_framework::{extension::objects, volumes::objects::ClaimReference};
use flotilla_machine::{
    action::{PreBind, Unreserve},
    event::Event,
};
use flotilla_runtime::{driver::Handle, tally};
use futures::FutureExt as _;
use http::Request as HttpRequest;
use kube::{
    api::{Patch, PatchParams},
    core::Request,
};
use serde_json::{Value, json};
use tokio::sync::watch;
use tracing::{debug, warn};

use self::claim::{Pod, Progress};
use crate::{
    lease::Leadership,
    outgoing::{self, Outgoing, Refusal},
    versions::Served,
};

/// Concurrent writes: at 5 ms each 6,400 a second, more than any provisioner's. The machine bounds the pods in PreBind.
const AT_ONCE: usize = 32;
/// Limit of one write; less if the lead ends sooner.
const LONGEST: Duration = Duration::from_secs(5);
/// Set, with any value, on a volume that a scheduler or controller has bound, not its author.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The node for which a claim's volume is provisioned.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Writes objects of plugins. Cheap to clone.
#[derive(Clone)]
pub struct Writer {
    inner: Arc<Inner>,
}

struct Inner {
    outgoing: Outgoing,
    handle: Handle,
    /// The version of ResourceClaims that the watch has found.
    claims: Served,
    counters: Counters,
}

tally! {
    /// Counts of writes so far.
    Tally of Counters {
        /// Objects written.
        written,
        /// Writes that failed, were rejected, or were not sent because this process no longer led.
        failed,
        /// ResourceClaims looked up because of a conflict or a lost answer.
        repeated,
        /// Claims created for extended resources.
        created,
        /// Claims that could not be created.
        not_created,
    }
    measured {
        /// Pods with writes in flight.
        in_flight: u64,
        /// Requests rejected with 429.
        turned_away: u64,
    }
}

impl Writer {
    /// Creates a writer that reports the outcome of each PreBind to `handle`. It sends requests only while `leading`, and writes claims in
    /// the version that their watch has found.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub(crate) fn new(
        client: kube::Client,
        handle: Handle,
        leading: watch::Receiver<Leadership>,
        claims: Served,
    ) -> Self {
        let outgoing = Outgoing::new(client, leading, AT_ONCE);
        Self { inner: Arc::new(Inner { outgoing, handle, claims, counters: Counters::default() }) }
    }

    /// Performs the writes of PreBind; exactly one [`Event::Written`] follows. Never blocks.
    pub fn pre_bind(&self, pre_bind: PreBind) {
        let inner = Arc::clone(&self.inner);
        self.inner.outgoing.spawn(async move { inner.carry_out(pre_bind).await });
    }

    /// Performs the writes of Unreserve; no answer follows. Never blocks.
    pub fn unreserve(&self, unreserve: Unreserve) {
        let inner = Arc::clone(&self.inner);
        self.inner.outgoing.spawn(async move { inner.take_back(unreserve).await });
    }

    /// Returns when no write is in flight.
    pub async fn drained(&self) {
        self.inner.outgoing.drained().await;
    }

    /// Counts of writes so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let Inner { outgoing, counters, .. } = &*self.inner;
        counters.read(outgoing.under_way(), outgoing.turned_away())
    }
}

impl Inner {
    async fn carry_out(&self, pre_bind: PreBind) {
        let mut versions = Vec::with_capacity(pre_bind.writes.len());
        let written = AssertUnwindSafe(self.write_all(&pre_bind, &mut versions)).catch_unwind().await;
        let outcome = written.unwrap_or_else(|_| Err("the task that wrote it panicked".to_owned()));
        // An error means that the machine has stopped and the process is ending.
        let _ = self.handle.send_event(self.conclude(pre_bind, versions, outcome)).await;
    }

    fn conclude(&self, pre_bind: PreBind, versions: Vec<Arc<str>>, outcome: Result<(), String>) -> Event {
        self.counters.written.add(versions.len() as u64);
        let PreBind { id, uid, namespace, name, node, .. } = pre_bind;
        let pod = format_args!("{namespace}/{name}");
        match &outcome {
            Ok(()) => {
                debug!(%pod, %node, objects = versions.len(), "PreBind objects written")
            }
            Err(reason) => {
                self.counters.failed.add(1);
                warn!(%pod, %node, reason, "cannot write PreBind objects");
            }
        }
        Event::Written { uid, id, versions, failure: outcome.err() }
    }

    /// In sequence, as a later write is of no use without an earlier one; except for the announcement, which only informs others.
    async fn write_all(&self, pre_bind: &PreBind, versions: &mut Vec<Arc<str>>) -> Result<(), String> {
        if pre_bind.is_announced
            && let Err(reason) = self.write(announcement(pre_bind)).await
        {
            let PreBind { namespace, name, node, .. } = pre_bind;
            let pod = format!("{namespace}/{name}");
            debug!(pod, %node, reason, "cannot announce a pod's node; continuing with PreBind");
        }
        let (pod, mut progress) = (Pod { uid: &pre_bind.uid, name: &pre_bind.name }, Progress::default());
        for write in &pre_bind.writes {
            versions.push(self.write_one(pod, write, &mut progress).await?);
        }
        Ok(())
    }

    /// In sequence, regardless of failures.
    async fn take_back(&self, Unreserve { pod, plugin, writes }: Unreserve) {
        let (owner, mut progress) = (Pod { uid: &pod.uid, name: &pod.name }, Progress::default());
        for write in &writes {
            match self.write_one(owner, write, &mut progress).await {
                Ok(_) => self.counters.written.add(1),
                Err(reason) => {
                    self.counters.failed.add(1);
                    let (pod, object) = (format_args!("{}/{}", pod.namespace, pod.name), write.object.name());
                    warn!(%pod, plugin, %object, reason, "cannot revert PreBind writes");
                }
            }
        }
    }

    async fn write_one(
        &self,
        pod: Pod<'_>,
        write: &objects::Write,
        progress: &mut Progress,
    ) -> Result<Arc<str>, String> {
        match &write.patch {
            objects::Patch::Claim(patch) => self.write_claim(pod, write, patch, progress).await,
            objects::Patch::SetAside { claim, claim_version, bound_by_controller } => {
                self.write(set_aside(write, claim, claim_version, *bound_by_controller)).await
            }
            objects::Patch::SelectNode(node) => self.write(select_node(write, node)).await,
        }
    }

    async fn write(&self, patch: Result<HttpRequest<Vec<u8>>, String>) -> Result<Arc<str>, String> {
        let _turn = self.outgoing.turn().await;
        let written =
            self.outgoing.send(LONGEST, patch?).await.map_err(|failure| Refusal::from(failure).to_string())?;
        outgoing::version(&written).map(Arc::from).map_err(|error| error.to_string())
    }
}

/// Announces a pod's node to others, such as a cluster autoscaler.
///
/// Source: `bindingCycle`, under the feature gate NominatedNodeNameForExpectation.
fn announcement(pre_bind: &PreBind) -> Result<HttpRequest<Vec<u8>>, String> {
    let path = format!("/api/v1/namespaces/{}/pods", pre_bind.namespace);
    let patch = json!({ "metadata": { "uid": pre_bind.uid }, "status": { "nominatedNodeName": pre_bind.node } });
    let patch = Patch::Merge(patch);
    let request = Request::new(path).patch_subresource("status", &pre_bind.name, &PatchParams::default(), &patch);
    request.map_err(|error| error.to_string())
}

/// The request that binds a volume to a claim.
fn set_aside(
    write: &objects::Write,
    claim: &ClaimReference,
    claim_version: &str,
    bound_by_controller: bool,
) -> Result<HttpRequest<Vec<u8>>, String> {
    let mut metadata = conditions(write);
    if bound_by_controller {
        metadata["annotations"] = json!({ BOUND_BY_CONTROLLER: "yes" });
    }
    let claim = json!({
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
        "resourceVersion": claim_version,
    });
    let patch = json!({ "metadata": metadata, "spec": { "claimRef": claim } });
    request("/api/v1/persistentvolumes", write.object.name(), patch)
}

/// The request that names the node for which a claim's volume is provisioned.
fn select_node(write: &objects::Write, node: &str) -> Result<HttpRequest<Vec<u8>>, String> {
    let mut metadata = conditions(write);
    metadata["annotations"] = json!({ SELECTED_NODE: node });
    let path = format!("/api/v1/namespaces/{}/persistentvolumeclaims", write.object.namespace());
    request(&path, write.object.name(), json!({ "metadata": metadata }))
}

/// The object and the version that a write is conditional on.
fn conditions(write: &objects::Write) -> Value {
    json!({ "uid": write.uid, "resourceVersion": write.resource_version })
}

fn request(path: &str, name: &str, patch: Value) -> Result<HttpRequest<Vec<u8>>, String> {
    let parameters = PatchParams::default();
    Request::new(path).patch(name, &parameters, &Patch::Merge(patch)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
