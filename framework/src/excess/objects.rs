//! Limits on nodes and on selectors of other objects. The API server only limits each object to 1.5 MiB, for example 75,000 resources.

use std::collections::BTreeMap;

use flotilla_planted::planted;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector as ApiSelector;

use super::{beyond, size};
use crate::{
    class::NodeTerm,
    labels::{LabelOperator, LabelRequirement, LabelSelector},
    node::NodeInfo,
};

/// Labels of a node. Each takes some 400 bytes with its texts, in the coordinator and in a worker: 0.4 MiB, and 2 GiB if each of 5,000
/// nodes had only labels that no other node has. Nodes with feature discovery have some 200.
pub const MAX_NODE_LABELS: usize = 1_024;

/// Extended resources of a node. Each takes some 500 bytes with charges: 128 KiB. Nodes with many device plugins have some 50.
pub const MAX_NODE_RESOURCES: usize = 256;

/// Taints of a node. Each is compared with each toleration in some 10 ns: 3 ms for 1,024 tolerations and one taint set. Usual: under 20.
pub const MAX_TAINTS: usize = 256;

/// Image names of a node. Each takes some 200 bytes: 3 MiB. A kubelet reports 50 images of 5 names, unless `nodeStatusMaxImages` differs.
pub const MAX_IMAGE_NAMES: usize = 16_384;

/// Requirements and values in the selector of a Service, a controller or a PodDisruptionBudget. Each in play takes some 250 bytes: 512 KiB.
/// A label of a map counts as both. A Service with more than 1,024 labels selects no pod, as no pod has more. Usual: fewer than 10.
pub const MAX_SELECTOR: usize = 2 * super::MAX_LABELS;

/// Terms, requirements and values of a node selector in a PersistentVolume, a StorageClass, a CSIStorageCapacity, or all of a
/// ResourceSlice. Each takes some 80 bytes: 0.6 MiB. A requirement is evaluated on a node in some 20 ns: 4,096 of one value with 5,000
/// nodes take 0.4 s, once for each such object. The names of 8,190 nodes fit, more than the 5,000 that Kubernetes supports.
pub const MAX_NODE_SELECTOR: usize = 8_192;

/// A key that no label has: the API server rejects control characters. It differs from [`crate::signature::OTHER`].
const NO_KEY: &str = "\0\0";

/// The first field of a node that is beyond its limit: path, size and limit.
#[must_use]
pub fn of_node(node: &NodeInfo) -> Option<String> {
    if planted("takes-nodes-of-any-size") {
        return None;
    }
    let images = node.images.iter().map(|(names, _)| 1 + names.len()).sum();
    [
        ("metadata.labels", node.labels.len(), "labels", MAX_NODE_LABELS),
        ("status.allocatable", node.allocatable.scalars.len(), "extended resources", MAX_NODE_RESOURCES),
        ("spec.taints", node.taints.len(), "taints", MAX_TAINTS),
        ("status.images", images, "images and names", MAX_IMAGE_NAMES),
    ]
    .into_iter()
    .find_map(|(field, size, what, limit)| beyond(field, size, what, limit))
}

/// The excess of a selector that is a map of labels.
#[must_use]
pub fn of_map(selector: Option<&BTreeMap<String, String>>) -> Option<String> {
    if planted("takes-selectors-of-any-size") {
        return None;
    }
    beyond("spec.selector", 2 * selector.map_or(0, BTreeMap::len), SELECTED, MAX_SELECTOR)
}

/// The excess of a pod selector.
#[must_use]
pub fn of_selector(selector: Option<&ApiSelector>) -> Option<String> {
    if planted("takes-selectors-of-any-size") {
        return None;
    }
    let selector = selector?;
    let labels = selector.match_labels.as_ref().map_or(0, BTreeMap::len);
    let expressions = selector.match_expressions.iter().flatten();
    let of_expressions: usize = expressions.map(|one| 1 + one.values.as_ref().map_or(0, Vec::len)).sum();
    beyond("spec.selector", 2 * labels + of_expressions, SELECTED, MAX_SELECTOR)
}

/// The excess of a selector of node labels.
#[must_use]
pub fn of_labels(field: &str, selector: &LabelSelector) -> Option<String> {
    beyond(field, size(selector), SELECTED, MAX_NODE_SELECTOR)
}

/// The excess of node selector terms.
#[must_use]
pub fn of_terms<'a>(field: &str, terms: impl IntoIterator<Item = &'a NodeTerm>) -> Option<String> {
    let requirements = |term: &'a NodeTerm| term.expressions.iter().chain(&term.fields);
    let of_term = |term: &'a NodeTerm| 1 + requirements(term).map(|one| 1 + one.values.len()).sum::<usize>();
    of_node_selector(field, terms.into_iter().map(of_term).sum())
}

/// The excess of a node selector with this many terms, requirements and values.
#[must_use]
pub fn of_node_selector(field: &str, size: usize) -> Option<String> {
    beyond(field, size, "terms, requirements and values", MAX_NODE_SELECTOR)
}

const SELECTED: &str = "requirements and values";

/// Replaces the selector of a PodDisruptionBudget that is too large: every pod of its namespace that has labels.
#[must_use]
pub fn every_labelled_pod() -> LabelSelector {
    LabelSelector::Matching(vec![LabelRequirement {
        key: NO_KEY.into(),
        operator: LabelOperator::DoesNotExist,
        values: Vec::new(),
    }])
}
