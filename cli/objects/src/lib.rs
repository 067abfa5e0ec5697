//! Objects of the Kubernetes API out of JSON values: which fields are not read, and where something does not fit.
//!
//! Knows: which kinds are read, and serde. Must not know: scheduling, files, or how a mistake is worded.

mod noting;
pub mod path;

use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
    batch::v1::{CronJob, Job},
    core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController, Service},
    policy::v1::PodDisruptionBudget,
    resource::v1::{DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice},
    scheduling::{v1::PriorityClass, v1beta1::PodGroup},
    storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

pub use noting::Error;
use path::Path;

/// A kind of object that is read.
pub trait Object: DeserializeOwned {
    /// Decodes a value; also gives the paths of the fields that the kind does not have, in the order of the input.
    ///
    /// # Errors
    /// What does not fit, and where.
    fn decode(value: Value) -> Result<(Self, Vec<Path>), Error>;
}

/// Objects that are written as well as read.
pub trait Written {
    /// The object as JSON has it.
    fn to_value(&self) -> Value;
}

/// A function that is not generic is compiled here, once.
macro_rules! objects {
    ($($kind:ident)*) => {$(
        impl Object for $kind {
            fn decode(value: Value) -> Result<(Self, Vec<Path>), Error> {
                noting::decode(value)
            }
        }
    )*};
}

objects! {
    CSIDriver CSINode CSIStorageCapacity CronJob DaemonSet Deployment DeviceClass DeviceTaintRule Job Namespace Node
    PersistentVolume PersistentVolumeClaim Pod PodDisruptionBudget PodGroup PriorityClass ReplicaSet ReplicationController
    ResourceClaim ResourceClaimTemplate ResourceSlice Service StatefulSet StorageClass VolumeAttachment
}

/// What was read from YAML or JSON can be written as JSON.
fn value(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

impl Written for Node {
    fn to_value(&self) -> Value {
        value(self)
    }
}

impl Written for Pod {
    fn to_value(&self) -> Value {
        value(self)
    }
}
