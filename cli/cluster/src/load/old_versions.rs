//! Fields with another place or default in an older version of a kind than in the current one.

use flotilla_framework::ingest::beta;
use serde_json::{Map, Value, json};

/// Converts the fields of an older version, and sets its defaults.
///
/// Source: `SetDefaults_Deployment` and its siblings in `extensions/v1beta1` and `apps/v1beta1`, and `PodDisruptionBudget` of
/// `policy/v1beta1`, whose empty selector selects no pod.
pub(super) fn convert(old: &str, fields: &mut Map<String, Value>) {
    if old == "resource.k8s.io/v1beta1" {
        let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let Some(spec) = fields.get_mut("spec") else { return };
        match kind.as_str() {
            "ResourceClaim" => beta::claim_spec(spec),
            "ResourceClaimTemplate" => spec.get_mut("spec").into_iter().for_each(beta::claim_spec),
            "ResourceSlice" => beta::slice_spec(spec),
            _ => {}
        }
        return;
    }
    let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut) else { return };
    match old {
        "extensions/v1beta1" | "apps/v1beta1" => {
            let labels = spec.get("template").and_then(|template| template.pointer("/metadata/labels")).cloned();
            if let Some(labels) = labels {
                spec.entry("selector").or_insert_with(|| json!({ "matchLabels": labels }));
            }
        }
        "policy/v1beta1" if spec.get("selector").and_then(Value::as_object).is_some_and(Map::is_empty) => {
            spec.remove("selector");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_devices_in_v1beta1_become_those_of_v1() {
        let asks = json!({ "devices": { "requests": [{ "name": "gpu", "deviceClassName": "c" }] } });
        let exactly = json!({ "devices": { "requests": [{ "name": "gpu", "exactly": { "deviceClassName": "c" } }] } });
        let cases = [
            ("ResourceClaim", asks.clone(), exactly.clone()),
            ("ResourceClaimTemplate", json!({ "spec": asks }), json!({ "spec": exactly })),
            (
                "ResourceSlice",
                json!({ "devices": [{ "name": "a", "basic": { "attributes": {} } }] }),
                json!({ "devices": [{ "name": "a", "attributes": {} }] }),
            ),
            ("DeviceClass", json!({ "selectors": [] }), json!({ "selectors": [] })),
        ];
        for (kind, spec, expected) in cases {
            let mut object = Map::from_iter([("kind".to_owned(), kind.into()), ("spec".to_owned(), spec)]);
            convert("resource.k8s.io/v1beta1", &mut object);
            assert_eq!(object["spec"], expected, "{kind}");
        }
    }

    #[test]
    fn a_missing_selector_is_that_of_the_template_in_the_oldest_versions() {
        let template = json!({"metadata": {"labels": {"app": "web"}}});
        let own = json!({"matchLabels": {"app": "web"}});
        let other = json!({"matchLabels": {"tier": "front"}});
        let cases = [
            ("extensions/v1beta1", json!({"template": template}), json!({"template": template, "selector": own})),
            (
                "apps/v1beta1",
                json!({"template": template, "selector": other}),
                json!({"template": template, "selector": other}),
            ),
            ("apps/v1beta2", json!({"template": template}), json!({"template": template})),
            ("policy/v1beta1", json!({"selector": {}}), json!({})),
            ("policy/v1beta1", json!({"selector": own}), json!({"selector": own})),
        ];
        for (version, spec, expected) in cases {
            let mut object = Map::from_iter([("spec".to_owned(), spec)]);
            convert(version, &mut object);
            assert_eq!(object["spec"], expected, "{version}");
        }
    }
}
