//! Binding conditions of the devices of a claim. Source: `isClaimReadyForBinding`.

use super::model::claim::{DeviceClaim, DeviceCondition};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Readiness {
    /// All devices are ready or need no preparation.
    Ready,
    /// A device is not ready yet, or the claim is not allocated.
    Waiting,
    /// A device failed. Upstream's text.
    Failed(String),
}

pub(super) fn readiness(claim: &DeviceClaim) -> Readiness {
    let Some(allocation) = &claim.allocation else { return Readiness::Waiting };
    for result in allocation.results.iter().filter(|result| !result.binding_conditions.is_empty()) {
        // Upstream does not distinguish the shares of a device either.
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
