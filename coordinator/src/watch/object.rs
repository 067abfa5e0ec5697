//! Objects as they come in JSON, without what nobody reads.
//!
//! Knows: the frames of lists and watches, and the metadata that scheduling may need. `managedFields` is not among it:
//! the decoder skips over it. Of namespaces, services and controllers there is little more than a selector. Must not know: what becomes of an object.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1 as api,
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference, Time},
    },
};
use kube::core::Status;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::value::RawValue;

/// The metadata of an object; of namespaces, services and controllers less is.
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

    pub(super) fn labels(&self) -> Option<&BTreeMap<String, String>> {
        self.labels.as_ref()
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

/// An object of storage of which only spec and status are read; a status that nobody reads is skipped over.
#[derive(Debug, Deserialize)]
#[serde(bound = "S: DeserializeOwned, T: DeserializeOwned")]
pub(super) struct Specified<S, T> {
    #[serde(default)]
    pub(super) metadata: Metadata,
    pub(super) spec: Option<S>,
    pub(super) status: Option<T>,
}

/// A storage class, without its parameters.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StorageClass {
    #[serde(default)]
    pub(super) metadata: Metadata,
    #[serde(default)]
    pub(super) provisioner: String,
    pub(super) volume_binding_mode: Option<String>,
    pub(super) allowed_topologies: Option<Vec<api::TopologySelectorTerm>>,
}

/// A CSIStorageCapacity.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StorageCapacity {
    #[serde(default)]
    pub(super) metadata: Metadata,
    #[serde(default)]
    pub(super) storage_class_name: String,
    pub(super) node_topology: Option<LabelSelector>,
    pub(super) capacity: Option<Quantity>,
    pub(super) maximum_volume_size: Option<Quantity>,
}

/// A namespace.
#[derive(Debug, Deserialize)]
pub(super) struct Namespace {
    #[serde(default, deserialize_with = "labelled")]
    pub(super) metadata: Metadata,
}

/// A service or a controller that selects pods by an `S`.
#[derive(Debug, Deserialize)]
#[serde(bound = "S: DeserializeOwned")]
pub(super) struct Selecting<S> {
    #[serde(default, deserialize_with = "named")]
    pub(super) metadata: Metadata,
    pub(super) spec: Option<SelectingSpec<S>>,
}

/// What is read of its spec.
#[derive(Debug, Deserialize)]
#[serde(bound = "S: DeserializeOwned")]
pub(super) struct SelectingSpec<S> {
    #[serde(default)]
    pub(super) selector: Option<S>,
}

/// The selector of a service or a replication controller.
pub(super) type SelectorMap = BTreeMap<String, String>;
/// The selector of a replica set or a stateful set.
pub(super) type Selector = LabelSelector;

impl<S> Selecting<S> {
    pub(super) fn selector(&self) -> Option<&S> {
        self.spec.as_ref()?.selector.as_ref()
    }
}

/// Of the metadata only what names an object.
fn named<'de, D: Deserializer<'de>>(from: D) -> Result<Metadata, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Named {
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
    }
    let Named { name, namespace, uid, resource_version } = Named::deserialize(from)?;
    Ok(Metadata { name, namespace, uid, resource_version, ..Metadata::default() })
}

/// Of the metadata only what names an object without a namespace, and its labels.
fn labelled<'de, D: Deserializer<'de>>(from: D) -> Result<Metadata, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Labelled {
        name: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        labels: Option<BTreeMap<String, String>>,
    }
    let Labelled { name, uid, resource_version, labels } = Labelled::deserialize(from)?;
    Ok(Metadata { name, uid, resource_version, labels, ..Metadata::default() })
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

impl HasMetadata for Namespace {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl<S, T> HasMetadata for Specified<S, T> {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl HasMetadata for StorageClass {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl HasMetadata for StorageCapacity {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl<S> HasMetadata for Selecting<S> {
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
