//! Parts of kube-scheduler's answers that are not compared: intended differences.

use serde_json::Value;

/// Whether kube-scheduler rejected a pod because its arithmetic left the range of scores. Flotilla intentionally continues with the limit;
/// then only filter results are compared.
pub(crate) fn is_out_of_range(answer: &Value) -> bool {
    answer["error"].as_str().is_some_and(|error| error.contains("returns an invalid score"))
}

/// One side's preemption with the node that the other side chose, if both report equally good nodes and chose one of them: kube-scheduler
/// chooses any. `None` if it has to be compared unchanged.
pub(crate) fn as_chosen(expected: &Value, found: &Value) -> Option<Value> {
    let (chosen, other) = (expected["node"].as_str()?, found["node"].as_str()?);
    let tied = expected["tied"].as_array()?;
    if !tied.contains(&found["node"]) {
        return None;
    }
    let mut same = found.clone();
    same["node"] = chosen.into();
    same["message"] =
        found["message"].as_str()?.replace(&format!(" on node {other}, "), &format!(" on node {chosen}, ")).into();
    Some(same)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_an_invalid_score_is_out_of_range() {
        let answer = |error: &str| json!({ "error": error });
        assert!(is_out_of_range(&answer("plugin \"NodeResourcesFit\" returns an invalid score -2")));
        assert!(!is_out_of_range(&answer("another")) && !is_out_of_range(&json!({})));
    }

    #[test]
    fn of_nodes_that_are_equally_good_for_preemption_either_will_do() {
        let said = |node: &str| json!({ "node": node, "message": format!("x on node {node}, y"), "tied": ["a", "b"] });
        assert_eq!(as_chosen(&said("a"), &said("b")), Some(said("a")));
        assert_eq!(as_chosen(&said("a"), &said("c")), None, "it is none of them");
        assert_eq!(as_chosen(&json!({ "message": "no" }), &said("a")), None);
    }
}
