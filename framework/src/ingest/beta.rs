//! JSON of `resource.k8s.io/v1beta1`, rewritten to the shape of v1.
//!
//! v1beta2 and v1 have the same fields. v1beta1 differs in two places: a request has the fields of `exactly` itself, and a device has its
//! fields within `basic`. Both shapes are recognized by their fields, so that the items of a list need no `apiVersion`.
//!
//! Source: k8s.io/api `resource/v1beta1/types.go` and `pkg/apis/resource/v1beta1/conversion.go`.

use serde_json::{Map, Value};

/// Fields of a request that are not part of `exactly`.
const OF_REQUEST: [&str; 3] = ["name", "exactly", "firstAvailable"];

/// Rewrites the `spec` of a ResourceClaim. A spec of v1 is unchanged.
pub fn claim_spec(spec: &mut Value) {
    for request in list(spec, "/devices/requests") {
        let Some(fields) = request.as_object_mut() else { continue };
        if fields.contains_key("exactly") || !fields.contains_key("deviceClassName") {
            continue;
        }
        let (kept, exactly): (Map<_, _>, Map<_, _>) =
            std::mem::take(fields).into_iter().partition(|(field, _)| OF_REQUEST.contains(&field.as_str()));
        *fields = kept;
        fields.insert("exactly".to_owned(), Value::Object(exactly));
    }
}

/// Rewrites the `spec` of a ResourceClaim of v1 to v1beta1.
pub fn claim_spec_as_beta(spec: &mut Value) {
    for request in list(spec, "/devices/requests") {
        let Some(fields) = request.as_object_mut() else { continue };
        if let Some(Value::Object(exactly)) = fields.remove("exactly") {
            fields.extend(exactly);
        }
    }
}

/// Rewrites the `spec` of a ResourceSlice. A spec of v1 is unchanged.
pub fn slice_spec(spec: &mut Value) {
    for device in list(spec, "/devices") {
        let Some(fields) = device.as_object_mut() else { continue };
        if let Some(Value::Object(basic)) = fields.remove("basic") {
            fields.extend(basic);
        }
    }
}

/// Whether the `spec` of a DeviceTaintRule selects devices by class or expression, which only v1alpha3 had, until Kubernetes 1.34. Without
/// these fields the rule would select other devices.
#[must_use]
pub fn selects_by_class(spec: &Value) -> bool {
    let selector = &spec["deviceSelector"];
    !selector["deviceClassName"].is_null() || selector["selectors"].as_array().is_some_and(|list| !list.is_empty())
}

fn list<'a>(spec: &'a mut Value, path: &str) -> impl Iterator<Item = &'a mut Value> {
    spec.pointer_mut(path).and_then(Value::as_array_mut).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_of_v1beta1_becomes_one_of_v1_and_back() {
        let beta = json!({ "devices": { "requests": [
            { "name": "gpu", "deviceClassName": "gpu.example.com", "count": 2, "allocationMode": "ExactCount" },
            { "name": "any", "firstAvailable": [{ "name": "big", "deviceClassName": "big.example.com" }] },
        ] } });
        let current = json!({ "devices": { "requests": [
            { "name": "gpu", "exactly": {
                "deviceClassName": "gpu.example.com", "count": 2, "allocationMode": "ExactCount",
            } },
            { "name": "any", "firstAvailable": [{ "name": "big", "deviceClassName": "big.example.com" }] },
        ] } });
        let mut read = beta.clone();
        claim_spec(&mut read);
        assert_eq!(read, current);
        claim_spec(&mut read);
        assert_eq!(read, current, "v1 is unchanged");
        claim_spec_as_beta(&mut read);
        assert_eq!(read, beta);
    }

    #[test]
    fn a_device_of_v1beta1_becomes_one_of_v1() {
        let mut spec = json!({ "devices": [
            { "name": "a", "basic": { "attributes": { "type": { "string": "gpu" } } } }, { "name": "b" },
        ] });
        let current =
            json!({ "devices": [{ "name": "a", "attributes": { "type": { "string": "gpu" } } }, { "name": "b" }] });
        slice_spec(&mut spec);
        assert_eq!(spec, current);
        slice_spec(&mut spec);
        assert_eq!(spec, current, "v1 is unchanged");
    }

    #[test]
    fn a_rule_that_selects_by_class_or_expression_is_recognized() {
        for (selector, expected) in [
            (json!(null), false),
            (json!({ "driver": "d" }), false),
            (json!({ "driver": "d", "selectors": [] }), false),
            (json!({ "deviceClassName": "c" }), true),
            (json!({ "selectors": [{ "cel": { "expression": "true" } }] }), true),
        ] {
            assert_eq!(selects_by_class(&json!({ "deviceSelector": selector })), expected, "{selector}");
        }
    }
}
