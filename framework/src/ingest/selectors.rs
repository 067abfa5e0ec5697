//! Reads namespace labels and the selectors of services and controllers.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector as ApiSelector, ObjectMeta};

use super::{
    fields::text,
    pods::{label_map, label_selector},
};
use crate::{excess::objects, labels::LabelSelector};

/// A namespace's labels, sorted by key.
#[must_use]
pub fn namespace_labels(labels: Option<&BTreeMap<String, String>>) -> Vec<(Arc<str>, Arc<str>)> {
    labels.into_iter().flatten().map(|(key, value)| (text(key), text(value))).collect()
}

pub(super) fn labels(metadata: &ObjectMeta) -> Vec<(Arc<str>, Arc<str>)> {
    namespace_labels(metadata.labels.as_ref())
}

/// The selector of a service or replication controller. It matches nothing if missing or [too large](objects::of_map). Source:
/// `GetPodServices` and `DefaultSelector` in kube-scheduler's plugins/helper/spread.go. Values are not validated.
#[must_use]
pub fn map_selector(selector: Option<&BTreeMap<String, String>>) -> LabelSelector {
    selector.filter(|_| objects::of_map(selector).is_none()).map_or(LabelSelector::Nothing, label_map)
}

/// The selector of a replica set or stateful set. It matches nothing if missing, invalid or [too large](objects::of_selector). Source:
/// `DefaultSelector` in kube-scheduler's plugins/helper/spread.go, which silently skips invalid and empty selectors.
#[must_use]
pub fn controller_selector(selector: Option<&ApiSelector>) -> LabelSelector {
    label_selector(selector.filter(|_| objects::of_selector(selector).is_none())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;
    use crate::labels::{LabelOperator, LabelRequirement};

    fn requirement(key: &str, operator: LabelOperator, values: &[&str]) -> LabelRequirement {
        LabelRequirement { key: text(key), operator, values: values.iter().map(text).collect() }
    }

    fn map(labels: Value) -> Option<BTreeMap<String, String>> {
        from_value(labels).expect("a map of labels")
    }

    #[test]
    fn labels_of_a_namespace_are_sorted_by_key() {
        let labels = namespace_labels(map(json!({"b": "2", "a": "1"})).as_ref());
        assert_eq!(labels, [(text("a"), text("1")), (text("b"), text("2"))]);
        assert_eq!(namespace_labels(None), []);
    }

    #[test]
    fn a_map_selects_its_labels_an_empty_one_everything_and_none_nothing() {
        let web = requirement("app", LabelOperator::In, &["web"]);
        let table = [
            (json!({"app": "web"}), LabelSelector::Matching(vec![web])),
            (json!({}), LabelSelector::EVERYTHING),
            (json!(null), LabelSelector::Nothing),
        ];
        for (selector, expected) in table {
            assert_eq!(map_selector(map(selector.clone()).as_ref()), expected, "{selector}");
        }
    }

    #[test]
    fn a_selector_of_a_controller_that_cannot_be_read_selects_nothing() {
        let web = requirement("app", LabelOperator::In, &["web"]);
        let tier = requirement("tier", LabelOperator::NotIn, &["a", "b"]);
        let expression = json!({"key": "tier", "operator": "NotIn", "values": ["b", "a"]});
        let table = [
            (
                json!({"matchLabels": {"app": "web"}, "matchExpressions": [expression]}),
                LabelSelector::Matching(vec![web, tier]),
            ),
            (json!({}), LabelSelector::EVERYTHING),
            (json!(null), LabelSelector::Nothing),
            (json!({"matchExpressions": [{"key": "tier", "operator": "Near"}]}), LabelSelector::Nothing),
            (json!({"matchLabels": {"app": "not a value"}}), LabelSelector::Nothing),
        ];
        for (selector, expected) in table {
            let read: Option<ApiSelector> = from_value(selector.clone()).expect("a selector");
            assert_eq!(controller_selector(read.as_ref()), expected, "{selector}");
        }
    }
}
