//! What of kube-scheduler's answers Flotilla cannot give yet, and is taken away before they are compared.
//!
//! Knows: what a plugin leaves in an answer that has nothing to say about a pod. Must not know: Flotilla's answers, which
//! are compared as they are.
//!
//! Some plugins that are not built score pods that they have nothing to say about: DynamicResources and VolumeBinding
//! give each node 0. Such a score is taken out where the plugin gives all feasible nodes the same, and out of the totals.
//! A score that tells nodes apart stays, and so differs. Once a plugin is built, nothing of it is taken away.

use flotilla_framework::config::catalogue;
use serde_json::{Map, Value};

/// Whether kube-scheduler gave up on a pod because its arithmetic left the range of scores. Flotilla goes on with the score
/// at the edge, on purpose; only what the filters say is compared then.
pub(crate) fn is_out_of_range(answer: &Value) -> bool {
    answer["error"].as_str().is_some_and(|error| error.contains("returns an invalid score"))
}

pub(crate) fn is_unbuilt(plugin: &str) -> bool {
    catalogue::find(plugin).is_some_and(|plugin| !plugin.built)
}

/// An answer of kube-scheduler without what plugins that are not built left in it.
pub(crate) fn without_unbuilt(mut answer: Value) -> Value {
    let Some(nodes) = answer.get_mut("nodes").and_then(Value::as_array_mut) else { return answer };
    for plugin in catalogue::PLUGINS.iter().filter(|plugin| !plugin.built) {
        let given =
            |node: &Value| Some((node["raw"].get(plugin.name)?.clone(), node["scores"].get(plugin.name)?.clone()));
        let mut scores = nodes.iter().filter_map(given);
        let Some(first) = scores.next() else { continue };
        if scores.any(|other| other != first) {
            continue;
        }
        for node in nodes.iter_mut().filter_map(Value::as_object_mut) {
            take_out(node, plugin.name);
        }
    }
    answer
}

fn take_out(node: &mut Map<String, Value>, plugin: &str) {
    let mut score = 0;
    for field in ["raw", "scores"] {
        let Some(scores) = node.get_mut(field).and_then(Value::as_object_mut) else { continue };
        score = scores.remove(plugin).as_ref().and_then(Value::as_i64).unwrap_or(0);
        if scores.is_empty() {
            node.remove(field);
        }
    }
    if let Some(total) = node.get("total").and_then(Value::as_i64) {
        node.insert("total".to_owned(), total.wrapping_sub(score).into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(scores: [i64; 2], is_kept: bool) -> Value {
        let node = |score: i64| {
            let mut node = json!({ "raw": { "ImageLocality": 1 }, "scores": { "ImageLocality": 2 }, "total": 2 });
            if is_kept {
                node["raw"]["DynamicResources"] = score.into();
                node["scores"]["DynamicResources"] = (score * 2).into();
                node["total"] = (2 + score * 2).into();
            }
            node
        };
        json!({ "nodes": [node(scores[0]), { "code": "Unschedulable" }, node(scores[1])] })
    }

    #[test]
    fn a_score_that_tells_no_nodes_apart_is_taken_out_where_its_plugin_is_not_built() {
        assert!(is_unbuilt("DynamicResources") && !is_unbuilt("ImageLocality"));
        for same in [0, 100] {
            assert_eq!(without_unbuilt(answer([same, same], true)), answer([0, 0], false));
        }
        assert_eq!(without_unbuilt(answer([0, 1], true)), answer([0, 1], true));
        let gated = json!({ "gated": true, "nodes": [] });
        assert_eq!(without_unbuilt(gated.clone()), gated);
    }
}
