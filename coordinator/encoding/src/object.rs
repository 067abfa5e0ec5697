//! Objects without what nobody reads.
//!
//! Knows: the kinds that are watched, and the metadata that scheduling may need. `managedFields` is not among it: a decoder
//! skips it. Of namespaces, services and controllers there is little more than a selector. Must not know: what becomes of an
//! object.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        core::v1 as api, policy::v1 as policy, resource::v1 as devices, scheduling::v1beta1 as workloads,
        storage::v1 as storage,
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{ObjectMeta, OwnerReference, Time},
    },
};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, IgnoredAny},
};

use crate::{DecodeError, pb};

/// The selector of a replica set or a stateful set.
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// A kind of objects.
pub trait Object: DeserializeOwned + Send {
    /// What protobuf is decoded into.
    type Message: prost::Message + Default;

    /// The object that such a message is.
    ///
    /// # Errors
    /// It has JSON within that is none.
    fn from_message(message: Self::Message) -> Result<Self, DecodeError>;

    /// Its metadata.
    fn metadata(&self) -> &Metadata;
}

/// The metadata of an object; of services and controllers less is.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    pub(crate) name: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) generation: Option<i64>,
    pub(crate) creation_timestamp: Option<Time>,
    pub(crate) deletion_timestamp: Option<Time>,
    pub(crate) labels: Option<BTreeMap<String, String>>,
    pub(crate) annotations: Option<BTreeMap<String, String>>,
    pub(crate) owner_references: Option<Vec<OwnerReference>>,
    pub(crate) finalizers: Option<Vec<String>>,
}

impl Metadata {
    /// The name; empty: it has none.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// The labels.
    #[must_use]
    pub fn labels(&self) -> Option<&BTreeMap<String, String>> {
        self.labels.as_ref()
    }

    /// The namespace; empty: the kind has none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    /// The UID; the name where there is none, as ingest has it for nodes.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.uid.as_deref().unwrap_or_else(|| self.name())
    }

    /// `namespace/name`, or `name` where there are no namespaces.
    #[must_use]
    pub fn key(&self) -> String {
        match self.namespace() {
            "" => self.name().to_owned(),
            namespace => [namespace, self.name()].join("/"),
        }
    }

    /// The version; it is a number in every API server since 1.35.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
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
            finalizers: metadata.finalizers,
            ..Self::default()
        }
    }
}

/// Of the metadata only what names an object.
pub(crate) fn named<'de, D: Deserializer<'de>>(from: D) -> Result<Metadata, D::Error> {
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

/// A pod.
pub type Pod = Specified<api::PodSpec, api::PodStatus>;

/// A node.
pub type Node = Specified<api::NodeSpec, api::NodeStatus>;

/// An object of which only spec and status are read; a status that nobody reads is skipped.
#[derive(Debug, Deserialize)]
#[serde(bound = "S: DeserializeOwned, T: DeserializeOwned")]
pub struct Specified<S, T = IgnoredAny> {
    /// What names it, and its labels.
    #[serde(default)]
    pub metadata: Metadata,
    /// What is wanted.
    pub spec: Option<S>,
    /// What is.
    pub status: Option<T>,
}

/// The status of a PodDisruptionBudget. Of the pods that were disrupted only the names are read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetStatus {
    /// How many more pods may be disrupted.
    pub disruptions_allowed: Option<i32>,
    pub(crate) disrupted_pods: Option<BTreeMap<String, IgnoredAny>>,
}

/// A storage class, without its parameters.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageClass {
    /// What names it.
    #[serde(default)]
    pub metadata: Metadata,
    /// The driver.
    #[serde(default)]
    pub provisioner: String,
    /// Whether volumes wait for pods.
    pub volume_binding_mode: Option<String>,
    /// Where volumes may be.
    pub allowed_topologies: Option<Vec<api::TopologySelectorTerm>>,
}

/// A CSIStorageCapacity.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageCapacity {
    /// What names it.
    #[serde(default)]
    pub metadata: Metadata,
    /// The class of which there is room.
    #[serde(default)]
    pub storage_class_name: String,
    /// Where.
    pub node_topology: Option<LabelSelector>,
    /// How much, bytes.
    pub capacity: Option<Quantity>,
    /// The largest volume, bytes.
    pub maximum_volume_size: Option<Quantity>,
}

/// A namespace.
#[derive(Debug, Deserialize)]
pub struct Namespace {
    /// What names it, and its labels.
    #[serde(default, deserialize_with = "labelled")]
    pub metadata: Metadata,
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

/// A service or a controller that selects pods by an `S`.
#[derive(Debug, Deserialize)]
#[serde(bound = "S: DeserializeOwned")]
pub struct Selecting<S> {
    /// What names it.
    #[serde(default, deserialize_with = "named")]
    pub metadata: Metadata,
    pub(crate) spec: Option<SelectingSpec<S>>,
}

#[derive(Debug, Deserialize)]
#[serde(bound = "S: DeserializeOwned")]
pub(crate) struct SelectingSpec<S> {
    #[serde(default)]
    pub(crate) selector: Option<S>,
}

/// The selector of a service or a replication controller.
pub type SelectorMap = BTreeMap<String, String>;

impl<S> Selecting<S> {
    /// The selector.
    pub fn selector(&self) -> Option<&S> {
        self.spec.as_ref()?.selector.as_ref()
    }
}

/// A kind with a field `metadata`, whose message says by `From` what it is.
macro_rules! objects {
    ($($object:ty: $message:ident,)*) => {$(
        impl Object for $object {
            type Message = pb::$message;

            fn from_message(message: pb::$message) -> Result<Self, DecodeError> {
                message.try_into().map_err(DecodeError::from)
            }

            fn metadata(&self) -> &Metadata {
                &self.metadata
            }
        }
    )*};
}

objects! {
    Pod: Pod,
    Node: Node,
    Namespace: Namespace,
    Selecting<SelectorMap>: MapSelecting,
    Selecting<LabelSelector>: Selecting,
    Specified<policy::PodDisruptionBudgetSpec, BudgetStatus>: PodDisruptionBudget,
    Specified<workloads::PodGroupSpec, workloads::PodGroupStatus>: PodGroup,
    Specified<api::PersistentVolumeClaimSpec, api::PersistentVolumeClaimStatus>: PersistentVolumeClaim,
    Specified<api::PersistentVolumeSpec, api::PersistentVolumeStatus>: PersistentVolume,
    StorageClass: StorageClass,
    Specified<storage::CSIDriverSpec>: CsiDriver,
    StorageCapacity: CsiStorageCapacity,
    Specified<storage::CSINodeSpec>: CsiNode,
    Specified<storage::VolumeAttachmentSpec>: VolumeAttachment,
    Specified<devices::ResourceClaimSpec, devices::ResourceClaimStatus>: ResourceClaim,
    Specified<devices::DeviceClassSpec>: DeviceClass,
    Specified<devices::ResourceSliceSpec>: ResourceSlice,
    Specified<devices::DeviceTaintRuleSpec>: DeviceTaintRule,
}
