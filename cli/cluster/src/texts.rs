//! Nodes and pods as JSON for extenders.

use std::{collections::HashMap, sync::Arc};

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::value::RawValue;

/// Serializes an object. A function pointer, so that builds without extenders do not link the serializers.
pub type Serializer<T> = fn(&T) -> Result<Arc<RawValue>, String>;

/// The JSON of nodes and pods.
#[derive(Debug, Clone, Default)]
pub struct Texts {
    /// The serializers of nodes and pods.
    tell: Option<(Serializer<Node>, Serializer<Pod>)>,
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
    /// Keeps nodes and pods with these serializers.
    #[must_use]
    pub fn new(node: Serializer<Node>, pod: Serializer<Pod>) -> Self {
        Self { tell: Some((node, pod)), ..Self::default() }
    }

    pub(super) fn add_node(&mut self, node: &Node) {
        if let Some(Ok(text)) = self.tell.map(|(tell, _)| tell(node)) {
            self.nodes.insert(node.metadata.name.clone().unwrap_or_default(), text);
        }
    }

    pub(super) fn add_pod(&mut self, pod: &Pod) {
        if let Some(Ok(text)) = self.tell.map(|(_, tell)| tell(pod)) {
            self.pods.insert(pod.metadata.uid.clone().unwrap_or_default(), text);
        }
    }

    /// The JSON of a node.
    pub fn node(&self, name: &str) -> Option<&Arc<RawValue>> {
        self.nodes.get(name)
    }

    /// The JSON of a pod, by UID.
    pub fn pod(&self, uid: &str) -> Option<&Arc<RawValue>> {
        self.pods.get(uid)
    }
}
