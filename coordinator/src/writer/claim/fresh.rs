//! A claim that has changed: whether a write was executed, still applies, or does not.

use std::sync::Arc;

use flotilla_framework::{
    devices::{
        model::{
            allocation::Allocation,
            claim::{Consumer, DeviceClaim, FINALIZER},
        },
        objects::ClaimPatch,
    },
    ingest::{Features, device_objects},
};

use super::{Doing, Held};

pub(super) enum ClaimCheck {
    /// The claim is in the intended state.
    Done(Held),
    /// Write this, on this claim.
    Again(ClaimPatch, Held),
}

pub(super) fn read(answer: &[u8]) -> Result<DeviceClaim, String> {
    let claim = flotilla_encoding::claim_from_json(answer).map_err(|error| error.to_string())?;
    device_objects::claim(&claim, Features::default()).map_err(|error| error.to_string())
}

pub(super) fn uid(answer: &[u8]) -> Option<Arc<str>> {
    let claim: serde_json::Value = serde_json::from_slice(answer).ok()?;
    claim["metadata"]["uid"].as_str().map(Arc::from)
}

/// Whether a write of finalizers protects the claim from deletion.
pub(super) fn protects(patch: &ClaimPatch) -> bool {
    matches!(patch, ClaimPatch::SetFinalizers(list) if list.iter().any(|finalizer| &**finalizer == FINALIZER))
}

impl Doing<'_> {
    /// The next step for `patch`, which was meant for the claim `held`, when the claim is `fresh`.
    ///
    /// # Errors
    /// The write no longer applies.
    pub(super) fn judge(
        &self,
        patch: &ClaimPatch,
        held: &Held,
        fresh: Option<&DeviceClaim>,
    ) -> Result<ClaimCheck, String> {
        let target = self.target;
        let Some(fresh) = fresh else {
            return match patch {
                ClaimPatch::Create(_) => Ok(ClaimCheck::Again(patch.clone(), held.clone())),
                _ if self.removes() => Ok(ClaimCheck::Done(Held::default())),
                _ => Err(format!("claim {target} got deleted in the meantime")),
            };
        };
        let on = Held { uid: Arc::clone(&fresh.uid), version: Arc::clone(&fresh.resource_version) };
        if !held.uid.is_empty() && held.uid != fresh.uid {
            return match self.removes() {
                true => Ok(ClaimCheck::Done(Held::default())),
                false => Err(format!("claim {target} got deleted in the meantime")),
            };
        }
        match patch {
            ClaimPatch::Create(_) => self.is_created(fresh).map(|()| ClaimCheck::Done(on)),
            ClaimPatch::SetFinalizers(_) => self.finalizers(patch, fresh, on),
            ClaimPatch::SetStatus { allocation, consumer, .. } => {
                self.status((allocation.as_ref(), consumer), fresh, on)
            }
            ClaimPatch::RemoveReservation(uid) if !fresh.is_reserved_for(uid) => Ok(ClaimCheck::Done(on)),
            ClaimPatch::Deallocate if fresh.allocation.is_none() => Ok(ClaimCheck::Done(on)),
            ClaimPatch::Deallocate => Err(format!("claim {target} got changed in the meantime")),
            ClaimPatch::RemoveReservation(_)
            | ClaimPatch::Delete
            | ClaimPatch::TellPod { .. }
            | ClaimPatch::SetAmounts { .. } => Ok(ClaimCheck::Again(patch.clone(), on)),
        }
    }

    /// An existing claim of that name is the created one if it was made for the pod and is unused.
    fn is_created(&self, fresh: &DeviceClaim) -> Result<(), String> {
        let is_for_pod = fresh.controller.as_ref().is_some_and(|controller| *controller.uid == *self.pod.uid);
        if is_for_pod && fresh.is_extended && !fresh.is_deleting && fresh.allocation.is_none() {
            return Ok(());
        }
        Err(format!(
            "create claim for extended resources {}: there is a claim of that name, which was not made for pod {}",
            self.target, self.pod.name
        ))
    }

    /// One finalizer is added or removed. The others are kept from the claim.
    fn finalizers(&self, patch: &ClaimPatch, fresh: &DeviceClaim, on: Held) -> Result<ClaimCheck, String> {
        let has = fresh.finalizers.iter().any(|finalizer| &**finalizer == FINALIZER);
        let mut finalizers = fresh.finalizers.clone();
        if protects(patch) {
            self.is_free(fresh)?;
            finalizers.push(FINALIZER.into());
        } else {
            finalizers.retain(|finalizer| &**finalizer != FINALIZER);
        }
        match has == protects(patch) {
            true => Ok(ClaimCheck::Done(on)),
            false => Ok(ClaimCheck::Again(ClaimPatch::SetFinalizers(finalizers), on)),
        }
    }

    fn is_free(&self, fresh: &DeviceClaim) -> Result<(), String> {
        let target = self.target;
        if fresh.is_deleting {
            return Err(format!("claim {target} got deleted in the meantime"));
        }
        match fresh.allocation {
            Some(_) => Err(format!("claim {target} got allocated elsewhere in the meantime")),
            None => Ok(()),
        }
    }

    fn status(
        &self,
        (allocation, consumer): (Option<&Arc<Allocation>>, &Consumer),
        fresh: &DeviceClaim,
        on: Held,
    ) -> Result<ClaimCheck, String> {
        let target = self.target;
        let is_ours = |made: &Allocation| allocation.is_none_or(|ours| ours.results == made.results);
        if fresh.is_reserved_for(&consumer.uid) && fresh.allocation.as_deref().is_some_and(is_ours) {
            return Ok(ClaimCheck::Done(on));
        }
        if allocation.is_some() {
            self.is_free(fresh)?;
            if !fresh.finalizers.iter().any(|finalizer| &**finalizer == FINALIZER) {
                return Err(format!("claim {target} lost its finalizer in the meantime"));
            }
        } else if fresh.is_deleting {
            return Err(format!("claim {target} got deleted in the meantime"));
        } else if fresh.allocation.is_none() {
            return Err(format!("claim {target} got deallocated elsewhere in the meantime"));
        }
        let mut reserved_for = fresh.reserved_for.clone();
        reserved_for.push(consumer.clone());
        let (allocation, consumer) = (allocation.cloned(), consumer.clone());
        Ok(ClaimCheck::Again(ClaimPatch::SetStatus { allocation, reserved_for, consumer }, on))
    }
}
