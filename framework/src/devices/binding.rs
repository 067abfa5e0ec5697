//! Binding conditions: whether the devices of a claim are ready for the pod to be bound.
//!
//! Knows: what conditions say. Must not know: who waits for them.
//!
//! Source: `isClaimReadyForBinding`, `isClaimTimeout`.

use super::model::claim::{DeviceClaim, DeviceCondition};

/// How far the devices of a claim are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Readiness {
    /// All of them are ready, or need not get ready.
    Ready,
    /// One is not ready yet, or the claim is not allocated.
    Waiting,
    /// One will not get ready; in upstream's words.
    Failed(String),
}

/// How far the devices of a claim are.
pub(super) fn readiness(claim: &DeviceClaim) -> Readiness {
    let Some(allocation) = &claim.allocation else { return Readiness::Waiting };
    for result in allocation.results.iter().filter(|result| !result.binding_conditions.is_empty()) {
        // Upstream does not tell the shares of a device apart either.
        let status = claim.statuses.iter().find(|status| status.device == result.device);
        let Some(status) = status else { return Readiness::Waiting };
        let condition = |kind: &str| status.conditions.iter().find(|condition| *condition.kind == *kind);
        let is_true = |condition: &DeviceCondition| &*condition.status == "True";
        let failed = result.binding_failure_conditions.iter().filter_map(|kind| condition(kind));
        if let Some(failed) = failed.into_iter().find(|failed| is_true(failed)) {
            let (name, reason, message) = (&claim.name, &failed.reason, &failed.message);
            return Readiness::Failed(format!(
                "device binding failed: claim={name}, reason={reason}, message={message:?}"
            ));
        }
        if !result.binding_conditions.iter().all(|kind| condition(kind).is_some_and(is_true)) {
            return Readiness::Waiting;
        }
    }
    Readiness::Ready
}

/// Whether a claim has devices that had to be ready by a time, and that time has come. Both in seconds since 1970.
pub(super) fn is_late(claim: &DeviceClaim, timeout_s: i64, now_s: i64) -> bool {
    let Some(allocation) = &claim.allocation else { return false };
    let has_conditions = allocation.results.iter().any(|result| !result.binding_conditions.is_empty());
    has_conditions && allocation.allocated_s.is_some_and(|since_s| since_s.saturating_add(timeout_s) < now_s)
}
