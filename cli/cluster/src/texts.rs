//! Nodes and pods as they are told to others.
//!
//! Knows: that a reader of a whole object gets what the file says, with its defaults. Must not know: who reads it.

use std::{collections::HashMap, sync::Arc};

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::value::RawValue;

/// How an object of a type is told. What does not tell any links no code that writes all of its fields.
pub type Tell<T> = fn(&T) -> Result<Arc<RawValue>, String>;

/// The texts.
#[derive(Debug, Clone, Default)]
pub struct Texts {
    /// How a node is told, and how a pod; `None`: neither is.
    tell: Option<(Tell<Node>, Tell<Pod>)>,
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
    /// None yet; nodes and pods are told in these ways.
    #[must_use]
    pub fn new(node: Tell<Node>, pod: Tell<Pod>) -> Self {
        Self { tell: Some((node, pod)), ..Self::default() }
    }

    /// Takes a node in.
    pub(super) fn add_node(&mut self, node: &Node) {
        if let Some(Ok(text)) = self.tell.map(|(tell, _)| tell(node)) {
            self.nodes.insert(node.metadata.name.clone().unwrap_or_default(), text);
        }
    }

    /// Takes a pod in.
    pub(super) fn add_pod(&mut self, pod: &Pod) {
        if let Some(Ok(text)) = self.tell.map(|(_, tell)| tell(pod)) {
            self.pods.insert(pod.metadata.uid.clone().unwrap_or_default(), text);
        }
    }

    /// The text of a node.
    pub fn node(&self, name: &str) -> Option<&Arc<RawValue>> {
        self.nodes.get(name)
    }

    /// The text of a pod, by its UID.
    pub fn pod(&self, uid: &str) -> Option<&Arc<RawValue>> {
        self.pods.get(uid)
    }
}
