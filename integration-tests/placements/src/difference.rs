//! Differences between two outcomes of a case.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde_json::Value;

use crate::{normal, outcome::CaseOutcome};

/// A field with different values on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// `namespace/name`; empty if the whole case differs.
    pub pod: String,
    /// Node; empty for a field of the pod.
    pub node: String,
    /// Field of the answer.
    pub field: String,
    /// kube-scheduler's value.
    pub expected: String,
    /// Flotilla's value.
    pub found: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pod, node, field, expected, found } = self;
        let pod = if pod.is_empty() { "the case" } else { pod };
        let node = if node.is_empty() { String::new() } else { format!(" on {node}") };
        write!(formatter, "{pod}{node}: {field}\n  kube-scheduler: {expected}\n  Flotilla:       {found}")
    }
}

/// Differences of Flotilla's outcome from kube-scheduler's. Two refusals are equal regardless of their texts.
#[must_use]
pub fn differences(expected: &CaseOutcome, found: &CaseOutcome) -> Vec<Difference> {
    let (expected, found) = match (expected, found) {
        (CaseOutcome::Refused(_), CaseOutcome::Refused(_)) => return Vec::new(),
        (CaseOutcome::Answers(expected), CaseOutcome::Answers(found)) => (expected, found),
        (expected, found) => {
            let said = |outcome: &CaseOutcome| match outcome {
                CaseOutcome::Refused(why) => format!("refused: {why}"),
                CaseOutcome::Answers(answers) => format!("{} answers", answers.len()),
            };
            let field = "whether the input is accepted".to_owned();
            let (expected, found) = (said(expected), said(found));
            return vec![Difference { pod: String::new(), node: String::new(), field, expected, found }];
        }
    };
    let pods = |answers: &[Value]| answers.iter().map(|answer| text(&answer["pod"])).collect::<Vec<_>>();
    let mut found_differences = Vec::new();
    let (expected_pods, found_pods) = (pods(expected), pods(found));
    if expected_pods != found_pods {
        note(&mut found_differences, "", "", "pods", &expected_pods.join(", "), &found_pods.join(", "));
    }
    for answer in expected {
        if let Some(other) = found.iter().find(|other| other["pod"] == answer["pod"]) {
            compare(answer, other, &mut found_differences);
        }
    }
    found_differences
}

const SCORED: [&str; 5] = ["best", "error", "raw", "scores", "total"];

fn compare(expected: &Value, found: &Value, differences: &mut Vec<Difference>) {
    let pod = text(&expected["pod"]);
    let is_unscored = normal::is_out_of_range(expected);
    let counts = |field: &&str| *field != "nodes" && !(is_unscored && SCORED.contains(field));
    for field in fields(expected, found).into_iter().filter(counts) {
        let found = if field == "preemption" { normal::as_chosen(&expected[field], &found[field]) } else { None }
            .unwrap_or_else(|| found[field].clone());
        note(differences, &pod, "", field, &text(&expected[field]), &text(&found));
    }
    let by_name = |answer: &Value| -> BTreeMap<String, Value> {
        let nodes = answer["nodes"].as_array().into_iter().flatten();
        nodes.map(|node| (text(&node["node"]), node.clone())).collect()
    };
    let (expected, found) = (by_name(expected), by_name(found));
    let names: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
    for name in names {
        let (Some(expected), Some(found)) = (expected.get(name), found.get(name)) else {
            let said = |nodes: &BTreeMap<String, Value>| if nodes.contains_key(name) { "present" } else { "absent" };
            note(differences, &pod, name, "the node", said(&expected), said(&found));
            continue;
        };
        for field in fields(expected, found).into_iter().filter(counts) {
            note(differences, &pod, name, field, &text(&expected[field]), &text(&found[field]));
        }
    }
}

fn fields<'a>(expected: &'a Value, found: &'a Value) -> BTreeSet<&'a str> {
    [expected, found]
        .into_iter()
        .filter_map(Value::as_object)
        .flat_map(|object| object.keys().map(String::as_str))
        .collect()
}

fn note(differences: &mut Vec<Difference>, pod: &str, node: &str, field: &str, expected: &str, found: &str) {
    if expected != found {
        let [pod, node, field, expected, found] = [pod, node, field, expected, found].map(str::to_owned);
        differences.push(Difference { pod, node, field, expected, found });
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(differences: &[Difference]) -> Vec<String> {
        differences.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_difference_names_pod_node_field_and_both_values() {
        let answer = |best: &str, total: i64| {
            let node = json!({ "node": "a", "scores": { "ImageLocality": total }, "total": total });
            CaseOutcome::Answers(vec![json!({ "pod": "default/p", "best": [best], "message": "", "nodes": [node] })])
        };
        assert_eq!(differences(&answer("a", 1), &answer("a", 1)), []);
        let expected = [
            "default/p: best\n  kube-scheduler: [\"a\"]\n  Flotilla:       [\"b\"]",
            "default/p on a: scores\n  kube-scheduler: {\"ImageLocality\":1}\n  Flotilla:       {\"ImageLocality\":2}",
            "default/p on a: total\n  kube-scheduler: 1\n  Flotilla:       2",
        ];
        assert_eq!(told(&differences(&answer("a", 1), &answer("b", 2))), expected);
    }

    #[test]
    fn scores_are_not_compared_where_kube_scheduler_has_none_because_its_arithmetic_left_their_range() {
        let answer = |fields: Value, code: &str, total: Value| {
            let mut answer = json!({ "pod": "p", "nodes": [{ "node": "a", "code": code, "total": total }] });
            answer.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
            CaseOutcome::Answers(vec![answer])
        };
        let error = "applying: plugin \"NodeResourcesFit\" returns an invalid score -2, it should in the range";
        let expected = answer(json!({ "error": error, "best": [] }), "Success", Value::Null);
        assert_eq!(differences(&expected, &answer(json!({ "best": ["a"] }), "Success", json!(3))), []);
        assert_eq!(differences(&expected, &answer(json!({ "best": ["a"] }), "Unschedulable", json!(3))).len(), 1);
        let other = answer(json!({ "error": "another", "best": [] }), "Success", Value::Null);
        assert_eq!(differences(&other, &answer(json!({ "best": ["a"] }), "Success", json!(3))).len(), 3);
    }

    #[test]
    fn what_one_side_leaves_out_is_a_difference() {
        let answers = |pods: &[&str], nodes: &[&str]| {
            let nodes: Vec<Value> = nodes.iter().map(|node| json!({ "node": node })).collect();
            CaseOutcome::Answers(pods.iter().map(|pod| json!({ "pod": pod, "nodes": nodes.clone() })).collect())
        };
        let without_pod = differences(&answers(&["p", "q"], &[]), &answers(&["p"], &[]));
        assert_eq!(told(&without_pod), ["the case: pods\n  kube-scheduler: p, q\n  Flotilla:       p"]);
        let without_node = differences(&answers(&["p"], &["a", "b"]), &answers(&["p"], &["a"]));
        assert_eq!(told(&without_node), ["p on b: the node\n  kube-scheduler: present\n  Flotilla:       absent"]);
    }

    #[test]
    fn a_refusal_is_only_like_a_refusal() {
        let (refused, other) = (CaseOutcome::Refused("no".to_owned()), CaseOutcome::Refused("never".to_owned()));
        assert_eq!(differences(&refused, &other), []);
        let told = told(&differences(&refused, &CaseOutcome::Answers(Vec::new())));
        let expected =
            "the case: whether the input is accepted\n  kube-scheduler: refused: no\n  Flotilla:       0 answers";
        assert_eq!(told, [expected]);
    }
}
