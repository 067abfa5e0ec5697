//! What of kube-scheduler's answers is not compared, and what it is not asked to run.
//!
//! Knows: where Flotilla goes its own way on purpose, and which plugins are not built. Must not know: how answers are
//! compared.

use flotilla_framework::config::catalogue;
use serde_json::Value;

/// Whether kube-scheduler gave up on a pod because its arithmetic left the range of scores. Flotilla goes on with the score
/// at the edge, on purpose; only what the filters say is compared then.
pub(crate) fn is_out_of_range(answer: &Value) -> bool {
    answer["error"].as_str().is_some_and(|error| error.contains("returns an invalid score"))
}

pub(crate) fn is_unbuilt(plugin: &str) -> bool {
    catalogue::find(plugin).is_some_and(|plugin| !plugin.built)
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
    fn plugins_that_are_not_built_are_known_by_name() {
        assert!(is_unbuilt("DefaultPreemption") && !is_unbuilt("ImageLocality") && !is_unbuilt("Nonsense"));
    }
}
