//! Decodes Kubernetes API objects from JSON values, with unknown fields and the path of errors.
//!
//! Contains: the kinds that are read, and serde. Does not depend on: scheduling, files, or the wording of errors.

mod noting;
pub mod path;

use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
    batch::v1::{CronJob, Job, JobTemplateSpec},
    core::v1::{
        LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodTemplateSpec,
        ReplicationController, ResourceQuota, Service,
    },
    node::v1::RuntimeClass,
    policy::v1::PodDisruptionBudget,
    resource::v1::{DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice},
    scheduling::{v1::PriorityClass, v1alpha3::CompositePodGroup, v1beta1::PodGroup},
    storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

pub use noting::Error;
use path::Path;

/// A kind of object that is read.
pub trait Object: DeserializeOwned {
    /// Decodes a value; also returns the paths of unknown fields, in input order.
    ///
    /// # Errors
    /// A value does not fit its type, with its path.
    fn decode(value: Value) -> Result<(Self, Vec<Path>), Error>;
}

/// Objects that can be serialized.
pub trait Written {
    /// The object as JSON.
    fn to_value(&self) -> Value;
}

/// Non-generic functions, so that each type is compiled once, in this crate.
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
    CSIDriver CSINode CSIStorageCapacity CompositePodGroup CronJob DaemonSet Deployment DeviceClass DeviceTaintRule Job JobTemplateSpec
    LimitRange Namespace Node ObjectMeta PersistentVolume PersistentVolumeClaim Pod PodDisruptionBudget PodGroup PodTemplateSpec PriorityClass
    ReplicaSet ReplicationController ResourceClaim ResourceClaimTemplate ResourceQuota ResourceSlice RuntimeClass Service StatefulSet
    StorageClass VolumeAttachment
}

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
