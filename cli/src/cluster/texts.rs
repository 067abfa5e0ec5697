//! Nodes and pods as they are told to others.
//!
//! Knows: that a reader of a whole object gets what the file says, with its defaults. Must not know: who reads it.

use std::{collections::HashMap, sync::Arc};

use flotilla_objects::Written as _;
use flotilla_runtime::extender::{node_text, pod_text};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::value::RawValue;

/// The texts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Texts {
    nodes: HashMap<String, Arc<RawValue>>,
    /// By UID.
    pods: HashMap<String, Arc<RawValue>>,
}

impl PartialEq for Texts {
    fn eq(&self, other: &Self) -> bool {
        let same = |left: &HashMap<String, Arc<RawValue>>, right: &HashMap<String, Arc<RawValue>>| {
            left.len() == right.len()
                && left.iter().all(|(key, text)| right.get(key).is_some_and(|other| other.get() == text.get()))
        };
        same(&self.nodes, &other.nodes) && same(&self.pods, &other.pods)
    }
}

impl Texts {
    /// Takes a node in.
    pub(super) fn add_node(&mut self, node: &Node) {
        if let Ok(text) = node_text(node.to_value()) {
            self.nodes.insert(node.metadata.name.clone().unwrap_or_default(), text);
        }
    }

    /// Takes a pod in.
    pub(super) fn add_pod(&mut self, pod: &Pod) {
        if let Ok(text) = pod_text(pod.to_value()) {
            self.pods.insert(pod.metadata.uid.clone().unwrap_or_default(), text);
        }
    }

    /// The text of a node.
    pub(crate) fn node(&self, name: &str) -> Option<&Arc<RawValue>> {
        self.nodes.get(name)
    }

    /// The text of a pod, by its UID.
    pub(crate) fn pod(&self, uid: &str) -> Option<&Arc<RawValue>> {
        self.pods.get(uid)
    }
}
