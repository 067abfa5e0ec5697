//! Which nodes and which selectors of other objects are too large to be scheduled with.
//!
//! The API server bounds them by their bytes alone, 1.5 MiB each: a kubelet may report 75,000 resources, and a Service may select
//! by 100,000 labels.
//!
//! Knows: the bounds with their arithmetic. Must not know: what becomes of such an object, or who reports it.

use std::collections::BTreeMap;

use flotilla_planted::planted;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector as ApiSelector;

use super::{beyond, size};
use crate::{
    class::NodeTerm,
    labels::{LabelOperator, LabelRequirement, LabelSelector},
    node::NodeInfo,
};

/// How many labels a node may have. Each takes some 400 bytes with its texts, in the coordinator and in a worker: 0.4 MiB, and
/// 2 GiB if each of 5,000 nodes had as many that no other node has. Nodes with feature discovery have some 200.
pub const MAX_NODE_LABELS: usize = 1_024;

/// How many extended resources a node may have. Each takes some 500 bytes with what is charged of it: 128 KiB. Nodes with many
/// device plugins and sizes of partitions have some 50.
pub const MAX_NODE_RESOURCES: usize = 256;

/// How many taints a node may have. Each is compared with each toleration of each class, in some 10 ns: a class of 1,024
/// tolerations takes 3 ms for one set of taints. Nodes have fewer than 20.
pub const MAX_TAINTS: usize = 256;

/// How many names of images a node may have. Each takes some 200 bytes: 3 MiB. A kubelet reports 50 images of 5 names, unless
/// `nodeStatusMaxImages` says otherwise.
pub const MAX_IMAGE_NAMES: usize = 16_384;

/// How many requirements and values the selector of a Service, a controller or a PodDisruptionBudget may have. Each comes into
/// play with some 250 bytes: 512 KiB. A label of a map counts as one of both, and a pod has no more than 1,024 labels, so that a
/// Service of more selects none. People write fewer than 10.
pub const MAX_SELECTOR: usize = 2 * super::MAX_LABELS;

/// How many terms, requirements and values a selector of nodes may have that is no pod's: of a PersistentVolume, a StorageClass,
/// a CSIStorageCapacity, or all of a ResourceSlice. Each takes some 80 bytes: 0.6 MiB. A requirement is compared with each node
/// in some 20 ns: 4,096 of one value with 5,000 nodes take 0.4 s, once for each such object. It has room for the names of 8,190
/// nodes, more than the 5,000 that Kubernetes supports.
pub const MAX_NODE_SELECTOR: usize = 8_192;

/// A key that no label has: the API server admits no control characters. It differs from [`crate::signature::OTHER`].
const NO_KEY: &str = "\0\0";

/// What is too large about a node: the field, its size, and the bound. The first of several.
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

/// What is too large about a selector that is a map of labels.
#[must_use]
pub fn of_map(selector: Option<&BTreeMap<String, String>>) -> Option<String> {
    if planted("takes-selectors-of-any-size") {
        return None;
    }
    beyond("spec.selector", 2 * selector.map_or(0, BTreeMap::len), SELECTED, MAX_SELECTOR)
}

/// What is too large about a selector of pods.
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

/// What is too large about a selector of labels of nodes.
#[must_use]
pub fn of_labels(field: &str, selector: &LabelSelector) -> Option<String> {
    beyond(field, size(selector), SELECTED, MAX_NODE_SELECTOR)
}

/// What is too large about terms that select nodes.
#[must_use]
pub fn of_terms<'a>(field: &str, terms: impl IntoIterator<Item = &'a NodeTerm>) -> Option<String> {
    let requirements = |term: &'a NodeTerm| term.expressions.iter().chain(&term.fields);
    let of_term = |term: &'a NodeTerm| 1 + requirements(term).map(|one| 1 + one.values.len()).sum::<usize>();
    of_node_selector(field, terms.into_iter().map(of_term).sum())
}

/// What is too large about so many terms, requirements and values that select nodes.
#[must_use]
pub fn of_node_selector(field: &str, size: usize) -> Option<String> {
    beyond(field, size, "terms, requirements and values", MAX_NODE_SELECTOR)
}

const SELECTED: &str = "requirements and values";

/// What stands for the selector of a PodDisruptionBudget that is too large: every pod of its namespace that has labels.
#[must_use]
pub fn every_labelled_pod() -> LabelSelector {
    LabelSelector::Matching(vec![LabelRequirement {
        key: NO_KEY.into(),
        operator: LabelOperator::DoesNotExist,
        values: Vec::new(),
    }])
}
