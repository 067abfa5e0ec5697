//! Objects as they come in JSON, without what nobody reads.
//!
//! Knows: the frames of lists and watches, and the metadata that scheduling may need. `managedFields` is not among it:
//! the decoder skips over it. Must not know: what becomes of an object.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1 as api,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time},
};
use kube::core::Status;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The metadata of a pod or node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

impl Metadata {
    pub(super) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    pub(super) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    /// The UID; the name where there is none, as ingest has it for nodes.
    pub(super) fn uid(&self) -> &str {
        self.uid.as_deref().unwrap_or_else(|| self.name())
    }

    /// `namespace/name`, or `name` where there are no namespaces.
    pub(super) fn key(&self) -> String {
        match self.namespace() {
            "" => self.name().to_owned(),
            namespace => format!("{namespace}/{}", self.name()),
        }
    }

    /// The version, if it is a number, as it is in every API server since 1.35.
    pub(super) fn version(&self) -> Option<&str> {
        self.resource_version.as_deref().filter(|version| !version.is_empty())
    }
}

impl From<Metadata> for ObjectMeta {
    fn from(metadata: Metadata) -> Self {
        Self {
            name: metadata.name,
            namespace: metadata.namespace,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            generation: metadata.generation,
            creation_timestamp: metadata.creation_timestamp,
            deletion_timestamp: metadata.deletion_timestamp,
            labels: metadata.labels,
            annotations: metadata.annotations,
            owner_references: metadata.owner_references,
            ..Self::default()
        }
    }
}

/// A pod.
#[derive(Debug, Deserialize)]
pub(super) struct Pod {
    #[serde(default)]
    pub(super) metadata: Metadata,
    pub(super) spec: Option<api::PodSpec>,
    pub(super) status: Option<api::PodStatus>,
}

/// A node.
#[derive(Debug, Deserialize)]
pub(super) struct Node {
    #[serde(default)]
    pub(super) metadata: Metadata,
    pub(super) spec: Option<api::NodeSpec>,
    pub(super) status: Option<api::NodeStatus>,
}

/// Anything that has metadata: all that is read of an object that does not decode.
#[derive(Debug, Deserialize)]
pub(super) struct Anything {
    #[serde(default)]
    pub(super) metadata: Metadata,
}

/// An object with metadata.
pub(super) trait HasMetadata {
    fn metadata(&self) -> &Metadata;
}

impl HasMetadata for Pod {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl HasMetadata for Node {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

/// A part of a list. Its objects are decoded one by one, so that one that does not decode spoils no other.
#[derive(Debug, Deserialize)]
pub(super) struct Page {
    pub(super) metadata: PageMetadata,
    #[serde(default)]
    pub(super) items: Option<Vec<Box<RawValue>>>,
}

/// The metadata of a part of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PageMetadata {
    pub(super) resource_version: Option<String>,
    #[serde(rename = "continue")]
    pub(super) more: Option<String>,
}

/// A line of a watch. The API server writes `type` before `object`, so that nothing is buffered.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", content = "object", rename_all = "UPPERCASE")]
pub(super) enum Line<T> {
    Added(T),
    Modified(T),
    Deleted(T),
    Bookmark(Box<Anything>),
    Error(Box<Status>),
}
