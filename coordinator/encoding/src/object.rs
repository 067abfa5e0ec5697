//! Watched kinds, reduced to the fields that scheduling reads.
//!
//! Decoders skip `managedFields`. Namespaces, services and controllers keep little more than a selector.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        core::v1 as api,
        policy::v1 as policy,
        resource::v1 as devices,
        scheduling::{v1alpha3 as composite, v1beta1 as workloads},
        storage::v1 as storage,
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{ObjectMeta, OwnerReference, Time},
    },
};
use prost::Message as _;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, IgnoredAny},
};

use crate::{DecodeError, older::TaintRuleSpec, pb};

/// The selector of a replica set or a stateful set.
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// A watched kind.
pub trait Object: DeserializeOwned + Send {
    /// The protobuf message.
    type Message: prost::Message + Default;

    /// Converts the message.
    ///
    /// # Errors
    /// The message contains invalid JSON.
    fn from_message(message: Self::Message) -> Result<Self, DecodeError>;

    /// Decodes the message of an object in a version of its API group, such as `resource.k8s.io/v1beta1`; empty: unknown.
    ///
    /// # Errors
    /// The bytes are no such message, or contain invalid JSON.
    fn decode(_api_version: &str, object: &[u8]) -> Result<Self, DecodeError> {
        Self::from_message(Self::Message::decode(object)?)
    }

    /// Its metadata.
    fn metadata(&self) -> &Metadata;
}

/// Metadata of an object; services and controllers have less.
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
    /// The name, or empty.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// The labels.
    #[must_use]
    pub fn labels(&self) -> Option<&BTreeMap<String, String>> {
        self.labels.as_ref()
    }

    /// The namespace; empty for cluster-scoped kinds.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    /// The UID, or the name without a UID, as ingest uses for nodes.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.uid.as_deref().unwrap_or_else(|| self.name())
    }

    /// `namespace/name`, or `name` for cluster-scoped kinds.
    #[must_use]
    pub fn key(&self) -> String {
        match self.namespace() {
            "" => self.name().to_owned(),
            namespace => [namespace, self.name()].join("/"),
        }
    }

    /// The resource version; a number in every API server since 1.35.
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

/// An object with a spec and a status; an unused status is skipped.
#[derive(Debug, Deserialize)]
#[serde(bound = "S: DeserializeOwned, T: DeserializeOwned")]
pub struct Specified<S, T = IgnoredAny> {
    /// Identity and labels.
    #[serde(default)]
    pub metadata: Metadata,
    /// `spec`.
    pub spec: Option<S>,
    /// `status`.
    pub status: Option<T>,
}

/// A custom resource with a spec; the API server encodes it in JSON only.
#[derive(Debug, Deserialize)]
#[serde(bound = "S: DeserializeOwned")]
pub struct Custom<S> {
    /// Identity and labels.
    #[serde(default)]
    pub metadata: Metadata,
    /// `spec`.
    pub spec: Option<S>,
}

impl<S: DeserializeOwned + Send> Object for Custom<S> {
    type Message = ();

    fn from_message((): ()) -> Result<Self, DecodeError> {
        Err(DecodeError::Custom)
    }

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

/// The status of a PodDisruptionBudget. Disrupted pods keep only their names.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetStatus {
    /// Number of further disruptions allowed.
    pub disruptions_allowed: Option<i32>,
    pub(crate) disrupted_pods: Option<BTreeMap<String, IgnoredAny>>,
}

/// A storage class, without parameters.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageClass {
    /// Identity.
    #[serde(default)]
    pub metadata: Metadata,
    /// The driver.
    #[serde(default)]
    pub provisioner: String,
    /// Whether binding waits for the first consumer.
    pub volume_binding_mode: Option<String>,
    /// Topologies of volumes.
    pub allowed_topologies: Option<Vec<api::TopologySelectorTerm>>,
}

/// A CSIStorageCapacity.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageCapacity {
    /// Identity.
    #[serde(default)]
    pub metadata: Metadata,
    /// The storage class.
    #[serde(default)]
    pub storage_class_name: String,
    /// The topology.
    pub node_topology: Option<LabelSelector>,
    /// Capacity in bytes.
    pub capacity: Option<Quantity>,
    /// Maximum volume size in bytes.
    pub maximum_volume_size: Option<Quantity>,
}

/// A namespace.
#[derive(Debug, Deserialize)]
pub struct Namespace {
    /// Identity and labels.
    #[serde(default, deserialize_with = "labelled")]
    pub metadata: Metadata,
}

/// Keeps the identity without a namespace, and the labels.
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

/// A service or controller that selects pods with an `S`.
#[derive(Debug, Deserialize)]
#[serde(bound = "S: DeserializeOwned")]
pub struct Selecting<S> {
    /// Identity.
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

/// Implements [`Object`] for kinds with a field `metadata` and a `From` of their message.
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
    Specified<composite::CompositePodGroupSpec>: CompositePodGroup,
    Specified<api::PersistentVolumeClaimSpec, api::PersistentVolumeClaimStatus>: PersistentVolumeClaim,
    Specified<api::PersistentVolumeSpec, api::PersistentVolumeStatus>: PersistentVolume,
    StorageClass: StorageClass,
    Specified<storage::CSIDriverSpec>: CsiDriver,
    StorageCapacity: CsiStorageCapacity,
    Specified<storage::CSINodeSpec>: CsiNode,
    Specified<storage::VolumeAttachmentSpec>: VolumeAttachment,
    Specified<devices::DeviceClassSpec>: DeviceClass,
    Specified<TaintRuleSpec>: DeviceTaintRule,
}
