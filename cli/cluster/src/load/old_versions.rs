//! Fields with different defaults in an older version of a kind and the current one.

use serde_json::{Map, Value, json};

/// Sets the defaults of an older version.
///
/// Source: `SetDefaults_Deployment` and its siblings in `extensions/v1beta1` and `apps/v1beta1`, and `PodDisruptionBudget` of
/// `policy/v1beta1`, whose empty selector selects no pod.
pub(super) fn convert(old: &str, fields: &mut Map<String, Value>) {
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
