//! Writes to ResourceClaims, and their outcomes.
//!
//! Only claims record the use of devices, and an API server accepts two claims with one device. A write without a known outcome is
//! therefore looked up, as a bind is, and answered only then: until then the machine considers the devices allocated. After a conflict the
//! write is sent again for the new version, if it still applies to the changed claim, as upstream does.
//!
//! Source: `DynamicResources.bindClaim`, `deleteClaim`, `unreserveExtendedResourceClaim` and `patchPodExtendedResourceClaimStatus`.

mod fresh;
mod json;
mod request;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use flotilla_encoding::Encoding;
use flotilla_framework::{
    devices::{model::claim::DeviceClaim, objects::ClaimPatch},
    extension::objects::{ObjectKey, Write},
};
use tokio::time::sleep;
use tracing::debug;

use self::{fresh::ClaimCheck, request::Target};
use super::{Inner, LONGEST};
use crate::{
    outgoing::{self, Failure, Refusal, is_absence},
    versions,
};

/// Attempts of a write that meets conflicts, and the pause in between.
///
/// Source: `retry.DefaultRetry`.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(10);
/// How long a request may be executed after its connection has closed; a read is reliable only after that.
const AFTERLIFE: Duration = Duration::from_secs(1);
/// Backoff between two reads, doubling from the first to the last.
const FIRST_LOOK: Duration = Duration::from_millis(100);
const LAST_LOOK: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy)]
pub(super) struct Pod<'a> {
    pub(super) uid: &'a str,
    pub(super) name: &'a str,
}

/// The claims of earlier writes, from their answers.
#[derive(Debug, Default)]
pub(super) struct Progress(BTreeMap<ObjectKey, Held>);

/// The conditions of a write to a claim. Empty fields are no condition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Held {
    uid: Arc<str>,
    version: Arc<str>,
}

impl Progress {
    fn of(&self, write: &Write) -> Held {
        let told = || Held { uid: Arc::clone(&write.uid), version: Arc::clone(&write.resource_version) };
        self.0.get(&write.object).cloned().unwrap_or_else(told)
    }
}

impl Inner {
    /// Performs a write to a claim and returns its new version; empty if the claim was deleted, as intended.
    ///
    /// # Errors
    /// The reason, in upstream's text if it has any.
    pub(super) async fn write_claim(
        &self,
        pod: Pod<'_>,
        write: &Write,
        patch: &ClaimPatch,
        progress: &mut Progress,
    ) -> Result<Arc<str>, String> {
        let version = self.claims.of(versions::DEVICES);
        let target = Target { version, namespace: write.object.namespace(), name: write.object.name() };
        let held = progress.of(write);
        let doing = Doing { pod, target, patch, created: is_create(patch) };
        if let ClaimPatch::TellPod { .. } | ClaimPatch::SetAmounts { .. } = patch {
            let request = request::of(target, patch, &held)?;
            self.write_pod_status(request).await.map_err(|failure| doing.failed(&failure))?;
            return Ok(held.version);
        }
        let done = self.settle(&doing, held).await;
        if doing.created {
            let counter = if done.is_ok() { &self.counters.created } else { &self.counters.not_created };
            counter.add(1);
        }
        let held = done?;
        let version = Arc::clone(&held.version);
        // A deleted claim is no condition: the next write is for the intended claim.
        if !held.version.is_empty() {
            progress.0.insert(write.object.clone(), held);
        }
        Ok(version)
    }

    async fn settle(&self, doing: &Doing<'_>, mut held: Held) -> Result<Held, String> {
        let (mut patch, mut attempt) = (doing.patch.clone(), 0);
        loop {
            attempt += 1;
            let failure = match self.send_patch(doing, &patch, &held).await? {
                Ok(answer) => return doing.answered(&answer, held),
                Err(failure) => failure,
            };
            let fresh = match Meaning::of(&failure, &patch) {
                Meaning::Gone if doing.removes() => return Ok(Held::default()),
                Meaning::Gone | Meaning::Refused => return Err(doing.failed(&failure)),
                Meaning::Conflict if attempt >= TRIES => return Err(doing.failed(&failure)),
                Meaning::Conflict => {
                    sleep(PAUSE).await;
                    self.look(doing).await?
                }
                Meaning::Unknown => match self.look_after(doing, &patch, &held).await? {
                    Some(fresh) => fresh,
                    None => return Err(doing.failed(&failure)),
                },
            };
            self.counters.repeated.add(1);
            match doing.judge(&patch, &held, fresh.as_ref())? {
                ClaimCheck::Done(held) => return Ok(held),
                ClaimCheck::Again(again, on) => (patch, held) = (again, on),
            }
        }
    }

    /// Sends a write. If a patch of finalizers would rewrite the specification, it is rejected; then the claim is replaced.
    async fn send_patch(
        &self,
        doing: &Doing<'_>,
        patch: &ClaimPatch,
        held: &Held,
    ) -> Result<Result<Bytes, Failure>, String> {
        let refused = match self.send(request::of(doing.target, patch, held)?).await {
            Err(Failure::Refused(422, message)) if message.contains("spec: ") => Failure::Refused(422, message),
            sent => return Ok(sent),
        };
        let ClaimPatch::SetFinalizers(finalizers) = patch else { return Ok(Err(refused)) };
        let received = match self.send(request::read(doing.target, Encoding::PROTOBUF)?).await {
            Ok(received) => received,
            Err(failure) => return Ok(Err(failure)),
        };
        let finalizers: Vec<&str> = finalizers.iter().map(|finalizer| &**finalizer).collect();
        let changed = flotilla_encoding::with_finalizers(&received, &finalizers);
        let (metadata, body) = changed.map_err(|error| doing.failed(&Failure::Broken(error.to_string())))?;
        if metadata.version() != Some(&*held.version) {
            return Ok(Err(Failure::Refused(409, "the object has been modified".to_owned())));
        }
        Ok(self.send(request::replace(doing.target, body)?).await)
    }

    /// Returns the claim once it has changed, or is in the intended state; `None`: an uncertain write was not executed.
    async fn look_after(
        &self,
        doing: &Doing<'_>,
        patch: &ClaimPatch,
        held: &Held,
    ) -> Result<Option<Option<DeviceClaim>>, String> {
        for is_sure in [false, true] {
            let fresh = self.look(doing).await?;
            let is_as_before = match &fresh {
                Some(claim) => *claim.resource_version == *held.version,
                None => is_create(patch),
            };
            if !is_as_before {
                return Ok(Some(fresh));
            }
            if !is_sure {
                sleep(AFTERLIFE).await;
            }
        }
        Ok(None)
    }

    async fn look(&self, doing: &Doing<'_>) -> Result<Option<DeviceClaim>, String> {
        let mut pause = FIRST_LOOK;
        loop {
            let failure = match self.send(request::read(doing.target, Encoding::JSON)?).await {
                Ok(answer) => {
                    return fresh::read(&answer).map(Some).map_err(|error| doing.failed(&Failure::Broken(error)));
                }
                Err(Failure::Refused(404, reason)) if is_absence(&reason, doing.target.name) => return Ok(None),
                Err(failure @ (Failure::Unled | Failure::Withdrawn)) => return Err(doing.failed(&failure)),
                // A refusal does not give the state of the claim.
                Err(failure @ (Failure::Refused(..) | Failure::Broken(_) | Failure::Late(_))) => failure,
            };
            debug!(claim = %doing.target, reason = %failure, "cannot look up the outcome of a claim write; retrying");
            sleep(pause).await;
            pause = (pause * 2).min(LAST_LOOK);
        }
    }

    async fn write_pod_status(&self, request: http::Request<Vec<u8>>) -> Result<(), Failure> {
        let mut attempt = 1;
        loop {
            let Err(failure) = self.send(request.clone()).await else { return Ok(()) };
            let is_passing = Meaning::is_unknown(&failure) || matches!(failure, Failure::Refused(409, _));
            if !is_passing || attempt == TRIES {
                return Err(failure);
            }
            attempt += 1;
            sleep(PAUSE).await;
        }
    }

    async fn send(&self, request: http::Request<Vec<u8>>) -> Result<Bytes, Failure> {
        let _turn = self.outgoing.turn().await;
        self.outgoing.send(LONGEST, request).await
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// The claim no longer exists.
    Gone,
    /// It was not executed, and never will be.
    Refused,
    /// The claim has changed, or exists already.
    Conflict,
    /// It may have been executed.
    Unknown,
}

const fn is_create(patch: &ClaimPatch) -> bool {
    matches!(patch, ClaimPatch::Create(_))
}

impl Meaning {
    fn of(failure: &Failure, patch: &ClaimPatch) -> Self {
        match failure {
            failure if Self::is_unknown(failure) => Self::Unknown,
            Failure::Refused(409, _) if is_create(patch) => Self::Conflict,
            Failure::Refused(code, message) => match Refusal::of(*code, message.clone()) {
                Refusal::Gone(_) => Self::Gone,
                _ if *code == 409 => Self::Conflict,
                _ => Self::Refused,
            },
            _ => Self::Refused,
        }
    }

    const fn is_unknown(failure: &Failure) -> bool {
        matches!(failure, Failure::Broken(_) | Failure::Late(_) | Failure::Refused(500.., _))
    }
}

#[derive(Debug, Clone, Copy)]
struct Doing<'a> {
    pod: Pod<'a>,
    target: Target<'a>,
    patch: &'a ClaimPatch,
    created: bool,
}

impl Doing<'_> {
    /// Whether it removes something, so that a missing object is fine.
    const fn removes(&self) -> bool {
        matches!(self.patch, ClaimPatch::RemoveReservation(_) | ClaimPatch::Deallocate | ClaimPatch::Delete)
    }

    /// The claim of an answer; a deleted one has no version.
    fn answered(&self, answer: &[u8], held: Held) -> Result<Held, String> {
        if matches!(self.patch, ClaimPatch::Delete) {
            return Ok(Held::default());
        }
        let version = outgoing::version(answer).map_err(|error| self.failed(&Failure::Broken(error.to_string())))?;
        let uid = if self.created { fresh::uid(answer).unwrap_or_default() } else { held.uid };
        Ok(Held { uid, version: version.into() })
    }

    /// Source: the errors of `bindClaim` and `deleteClaim`.
    fn failed(&self, failure: &Failure) -> String {
        let Self { target, patch, .. } = self;
        match patch {
            ClaimPatch::Create(_) => format!("create claim for extended resources {}/: {failure}", target.namespace),
            ClaimPatch::SetFinalizers(_) if fresh::protects(patch) => {
                format!("add finalizer to claim {target}: {failure}")
            }
            ClaimPatch::SetFinalizers(_) => format!("update resourceclaim {target}: {failure}"),
            ClaimPatch::SetStatus { allocation: Some(_), .. } => {
                format!("add allocation and reservation to claim {target}: {failure}")
            }
            ClaimPatch::SetStatus { allocation: None, .. } => format!("add reservation to claim {target}: {failure}"),
            ClaimPatch::RemoveReservation(_) => format!("remove reservation from claim {target}: {failure}"),
            ClaimPatch::Deallocate => format!("deallocate claim {target}: {failure}"),
            ClaimPatch::Delete => format!("delete claim {target}: {failure}"),
            ClaimPatch::TellPod { pod, .. } => {
                format!("update pod {}/{pod} ExtendedResourceClaimStatus: {failure}", target.namespace)
            }
            ClaimPatch::SetAmounts { pod, .. } => {
                format!("updating pod {}/{pod} NodeAllocatableResourceClaimStatuses: {failure}", target.namespace)
            }
        }
    }
}

#[cfg(test)]
mod tests;
