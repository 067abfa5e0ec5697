//! Patches. Source: RFC 7386, RFC 6902, and k8s.io/apimachinery `pkg/util/strategicpatch` with the `patchMergeKey` tags of k8s.io/api.

use serde_json::Value;

/// Patch type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// `application/merge-patch+json`.
    Merge,
    /// `application/strategic-merge-patch+json`.
    Strategic,
    /// `application/json-patch+json`.
    Operations,
}

/// Lists merged by key in pods, nodes, pod groups and claims.
const KEYS: [(&str, &str); 6] = [
    ("conditions", "type"),
    ("ownerReferences", "uid"),
    ("containers", "name"),
    ("volumes", "name"),
    ("addresses", "type"),
    ("reservedFor", "uid"),
];
/// Field of a list element that requests its deletion.
const DIRECTIVE: &str = "$patch";

/// Patches a value.
pub fn merge(style: Style, target: &mut Value, patch: &Value) {
    if style == Style::Operations {
        return patch.as_array().into_iter().flatten().for_each(|operation| carry_out(target, operation));
    }
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (name, change) in patch {
        if change.is_null() {
            fields.remove(name);
            continue;
        }
        let key = KEYS.iter().find(|(list, _)| list == name).map(|(_, key)| *key);
        let field = fields.entry(name.as_str()).or_insert(Value::Null);
        match (style, key, change) {
            (Style::Strategic, Some(key), Value::Array(changes)) => merge_list(key, field, changes),
            _ => merge(style, field, change),
        }
    }
}

/// Executes a JSON patch operation on object fields, the only kind that a coordinator sends.
fn carry_out(target: &mut Value, operation: &Value) {
    let path = operation["path"].as_str().unwrap_or_default();
    let Some((place, field)) = path.rsplit_once('/') else { return };
    let place = place.split('/').skip(1).fold(target, |value, part| &mut value[part]);
    match operation["op"].as_str() {
        Some("remove") => _ = place.as_object_mut().and_then(|fields| fields.remove(field)),
        _ => place[field] = operation["value"].clone(),
    }
}

fn merge_list(key: &str, target: &mut Value, changes: &[Value]) {
    if !target.is_array() {
        *target = Value::Array(Vec::new());
    }
    let Value::Array(elements) = target else { return };
    for change in changes {
        let place = elements.iter().position(|element| element[key] == change[key]);
        match (place, change[DIRECTIVE] == "delete") {
            (Some(place), true) => _ = elements.remove(place),
            (Some(place), false) => merge(Style::Strategic, &mut elements[place], change),
            (None, true) => {}
            (None, false) => {
                let mut new = Value::Null;
                merge(Style::Strategic, &mut new, change);
                elements.push(new);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_sets_takes_away_and_leaves_the_rest() {
        let before =
            json!({ "a": { "b": 1, "c": 2 }, "conditions": [{ "type": "x", "status": "True" }, { "type": "y" }] });
        let list = json!([{ "type": "x", "reason": "r" }, { "type": "z" }]);
        let patch = json!({ "a": { "b": null, "d": { "e": null, "f": 3 } }, "conditions": list });
        let a = json!({ "c": 2, "d": { "f": 3 } });
        for (style, conditions) in [
            (Style::Merge, list),
            (
                Style::Strategic,
                json!([{ "type": "x", "status": "True", "reason": "r" }, { "type": "y" }, { "type": "z" }]),
            ),
        ] {
            let mut after = before.clone();
            merge(style, &mut after, &patch);
            assert_eq!(after, json!({ "a": a, "conditions": conditions }), "{style:?}");
        }
        let mut after = before;
        let away = json!({ "conditions": [{ "$patch": "delete", "type": "x" }, { "$patch": "delete", "type": "q" }] });
        merge(Style::Strategic, &mut after, &away);
        assert_eq!(after["conditions"], json!([{ "type": "y" }]));
    }

    #[test]
    fn operations_add_replace_and_take_away_fields() {
        let mut after = json!({ "metadata": { "uid": "a", "name": "n" } });
        let operations = json!([
            { "op": "replace", "path": "/metadata/uid", "value": "b" },
            { "op": "add", "path": "/status/allocation", "value": { "devices": {} } },
            { "op": "remove", "path": "/metadata/name" },
        ]);
        merge(Style::Operations, &mut after, &operations);
        assert_eq!(after, json!({ "metadata": { "uid": "b" }, "status": { "allocation": { "devices": {} } } }));
    }
}
