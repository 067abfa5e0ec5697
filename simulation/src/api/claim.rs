//! Validation of updates of ResourceClaims. Source: `ValidateResourceClaimUpdate` and `ValidateResourceClaimStatusUpdate` in
//! k8s.io/kubernetes `pkg/apis/resource/validation/validation.go`.

use serde_json::Value;

use super::{kind::Kind, object::Object, refusal::Refusal};

/// Validates an update of a claim.
///
/// # Errors
/// The spec or an allocation changes, or a consumer is added to a claim without an allocation or being deleted.
pub fn check(old: &Object, new: &Value) -> Result<(), Refusal> {
    let refused = |what: &str| Err(Refusal::invalid(Kind::ResourceClaim, old.name(), what));
    if new["spec"] != old.value()["spec"] {
        return refused("spec: Invalid value: field is immutable");
    }
    let (was, is) = (old.at("/status/allocation"), &new["status"]["allocation"]);
    if !was.is_null() && !is.is_null() && was != is {
        return refused("status.allocation: Invalid value: field is immutable");
    }
    let consumers = consumers(&new["status"]);
    if is.is_null() && !consumers.is_empty() {
        return refused("status.reservedFor: Forbidden: may not be specified when `allocated` is not set");
    }
    let before = self::consumers(old.at("/status"));
    if old.is_terminating() && consumers.iter().any(|consumer| !before.contains(consumer)) {
        return refused(
            "status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set",
        );
    }
    Ok(())
}

fn consumers(status: &Value) -> &[Value] {
    status["reservedFor"].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_allocation_is_written_once_and_only_an_allocated_claim_has_consumers() {
        let (one, other) = (json!({ "devices": { "results": [] } }), json!({ "devices": {} }));
        let claim = |allocation: &Value, reserved_for: Value, deleted: Value| {
            json!({
                "metadata": { "namespace": "a", "name": "c", "uid": "u", "deletionTimestamp": deleted },
                "spec": { "devices": {} },
                "status": { "allocation": allocation, "reservedFor": reserved_for },
            })
        };
        let (none, pod) = (Value::Null, json!([{ "resource": "pods", "name": "p", "uid": "p1" }]));
        let live = |allocation: &Value, reserved_for: &Value| claim(allocation, reserved_for.clone(), Value::Null);
        let going = |reserved_for: &Value| claim(&one, reserved_for.clone(), json!("2026-01-01T00:00:00Z"));
        let mut specified = live(&none, &none);
        specified["spec"] = json!({ "devices": { "requests": [] } });
        for (before, after, is_taken) in [
            (live(&none, &none), live(&one, &pod), true),
            (live(&one, &pod), live(&none, &none), true),
            (live(&one, &pod), live(&other, &pod), false),
            (live(&none, &none), live(&none, &pod), false),
            (live(&none, &none), specified, false),
            (going(&pod), going(&none), true),
            (going(&none), going(&pod), false),
        ] {
            let checked = check(&Object::new(Kind::ResourceClaim, 1, before.clone()), &after);
            assert_eq!(checked.is_ok(), is_taken, "{before} {after}");
        }
    }
}
