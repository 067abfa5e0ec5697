//! Writes to the API server what PreBind and Unreserve of plugins have to, and which node a pod is on its way to.
//!
//! Knows: the patch for each write, its deadline, and what each answer means. Must not know: why that object or that node, or
//! what is waited for afterwards.
//!
//! kube-scheduler sends whole objects back. What is kept of them here is only what scheduling reads, so that a JSON merge
//! patch says the few fields that change; `metadata.resourceVersion` in it makes the API server refuse it, with
//! kube-scheduler's own words for a conflict, if the object is not the one that was decided on, and `metadata.uid` says
//! which object was meant in logs and audits. That is also why nothing is looked up or repeated here: a write whose answer
//! got lost was carried out or was not, and in both cases the next attempt of the pod, with what the watches tell by then,
//! goes on from there. A volume that gets a claim which goes elsewhere after all is given back by the volume controller,
//! which is what the annotation is for. Nobody gives back devices, so that claims of devices are looked up and written again (`claim`).

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
};

/// Writes on the wire at once: at 5 ms each that is 6,400 a second, more than any provisioner makes volumes. What waits
/// here is bounded by the pods that the machine lets be on this way.
const AT_ONCE: usize = 32;
/// The longest that one write may take; less where the lead ends sooner.
const LONGEST: Duration = Duration::from_secs(5);
/// A volume that was set aside by a scheduler or controller, and not by its author, has it; of whatever value.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The node that a claim's volume is to be made for.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Writes objects of plugins. Cheap to clone.
#[derive(Clone)]
pub struct Writer {
    inner: Arc<Inner>,
}

struct Inner {
    outgoing: Outgoing,
    handle: Handle,
    counters: Counters,
}

tally! {
    /// What became of the writes so far.
    Tally of Counters {
        /// Objects written.
        written,
        /// Writes that failed, were refused, or were not sent because this process did not lead any more.
        failed,
        /// Claims of devices that were looked up because of a conflict or a lost answer.
        repeated,
        /// Claims that were created for extended resources.
        created,
        /// Claims that could not be created.
        not_created,
    }
    measured {
        /// Pods for which something is being written.
        in_flight: u64,
        /// Requests that the API server turned away for a while.
        turned_away: u64,
    }
}

impl Writer {
    /// A writer that tells `handle` what became of each PreBind. It sends nothing when `leading` does not say that this
    /// process leads.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn new(client: kube::Client, handle: Handle, leading: watch::Receiver<Leadership>) -> Self {
        let outgoing = Outgoing::new(client, leading, AT_ONCE);
        Self { inner: Arc::new(Inner { outgoing, handle, counters: Counters::default() }) }
    }

    /// Writes what PreBind has to, which is answered by exactly one [`Event::Written`]. Never blocks.
    pub fn pre_bind(&self, pre_bind: PreBind) {
        let inner = Arc::clone(&self.inner);
        self.inner.outgoing.spawn(async move { inner.carry_out(pre_bind).await });
    }

    /// Writes what Unreserve has to, which is not answered. Never blocks.
    pub fn unreserve(&self, unreserve: Unreserve) {
        let inner = Arc::clone(&self.inner);
        self.inner.outgoing.spawn(async move { inner.take_back(unreserve).await });
    }

    /// Returns when nothing is being written any more.
    pub async fn drained(&self) {
        self.inner.outgoing.drained().await;
    }

    /// What became of the writes so far.
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
        // Nobody is left to hear of it when the machine has stopped, and the process is ending.
        let _ = self.handle.tell(self.conclude(pre_bind, versions, outcome)).await;
    }

    fn conclude(&self, pre_bind: PreBind, versions: Vec<Arc<str>>, outcome: Result<(), String>) -> Event {
        self.counters.written.add(versions.len() as u64);
        let PreBind { id, uid, namespace, name, node, .. } = pre_bind;
        let pod = format_args!("{namespace}/{name}");
        match &outcome {
            Ok(()) => {
                debug!(%pod, %node, objects = versions.len(), "written before the bind, waiting for what follows")
            }
            Err(reason) => {
                self.counters.failed.add(1);
                warn!(%pod, %node, reason, "cannot write what comes before the bind");
            }
        }
        Event::Written { uid, id, versions, failure: outcome.err() }
    }

    /// One after the other, as a later one is of no use without an earlier one; but for the announcement, which is only a
    /// word to others.
    async fn write_all(&self, pre_bind: &PreBind, versions: &mut Vec<Arc<str>>) -> Result<(), String> {
        if let Err(reason) = self.write(announcement(pre_bind)).await {
            let PreBind { namespace, name, node, .. } = pre_bind;
            let pod = format!("{namespace}/{name}");
            debug!(pod, %node, reason, "cannot announce the node of a pod; what it needs there is written regardless");
        }
        let (pod, mut progress) = (Pod { uid: &pre_bind.uid, name: &pre_bind.name }, Progress::default());
        for write in &pre_bind.writes {
            versions.push(self.write_one(pod, write, &mut progress).await?);
        }
        Ok(())
    }

    /// One after the other, whatever becomes of each.
    async fn take_back(&self, Unreserve { pod, plugin, writes }: Unreserve) {
        let (owner, mut progress) = (Pod { uid: &pod.uid, name: &pod.name }, Progress::default());
        for write in &writes {
            match self.write_one(owner, write, &mut progress).await {
                Ok(_) => self.counters.written.add(1),
                Err(reason) => {
                    self.counters.failed.add(1);
                    let (pod, object) = (format_args!("{}/{}", pod.namespace, pod.name), write.object.name());
                    warn!(%pod, plugin, %object, reason, "cannot take back what was written before the bind");
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

    /// Sends a patch and gives the version that the object has then.
    async fn write(&self, patch: Result<HttpRequest<Vec<u8>>, String>) -> Result<Arc<str>, String> {
        let _turn = self.outgoing.turn().await;
        let written =
            self.outgoing.send(LONGEST, patch?).await.map_err(|failure| Refusal::from(failure).to_string())?;
        outgoing::version(&written).map(Arc::from).map_err(|error| error.to_string())
    }
}

/// Tells others, such as a cluster autoscaler, which node a pod is about to be bound to.
///
/// Source: `bindingCycle`, under the feature gate NominatedNodeNameForExpectation.
fn announcement(pre_bind: &PreBind) -> Result<HttpRequest<Vec<u8>>, String> {
    let path = format!("/api/v1/namespaces/{}/pods", pre_bind.namespace);
    let patch = json!({ "metadata": { "uid": pre_bind.uid }, "status": { "nominatedNodeName": pre_bind.node } });
    let patch = Patch::Merge(patch);
    let request = Request::new(path).patch_subresource("status", &pre_bind.name, &PatchParams::default(), &patch);
    request.map_err(|error| error.to_string())
}

/// The request that sets a volume aside for a claim.
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

/// The request that names the node for which the volume of a claim is to be made.
fn select_node(write: &objects::Write, node: &str) -> Result<HttpRequest<Vec<u8>>, String> {
    let mut metadata = conditions(write);
    metadata["annotations"] = json!({ SELECTED_NODE: node });
    let path = format!("/api/v1/namespaces/{}/persistentvolumeclaims", write.object.namespace());
    request(&path, write.object.name(), json!({ "metadata": metadata }))
}

/// Of which object, and of which version of it, a write is.
fn conditions(write: &objects::Write) -> Value {
    json!({ "uid": write.uid, "resourceVersion": write.resource_version })
}

fn request(path: &str, name: &str, patch: Value) -> Result<HttpRequest<Vec<u8>>, String> {
    let parameters = PatchParams::default();
    Request::new(path).patch(name, &parameters, &Patch::Merge(patch)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
