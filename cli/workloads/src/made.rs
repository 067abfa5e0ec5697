//! The input of the controllers, and what one of them creates.

use std::sync::Arc;

use flotilla_framework::node::NodeInfo;
use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{PersistentVolumeClaim, Pod},
};

use crate::{owned::OwnedPod, rollout::Rollout};

/// The other objects of the cluster.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// The pods that controllers have created, and those that they may adopt.
    pub pods: &'a [OwnedPod],
    /// All nodes.
    pub nodes: &'a [Arc<NodeInfo>],
}

/// The objects that a controller would create for one workload.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Made {
    /// The missing pods, in creation order.
    pub pods: Vec<Pod>,
    /// The claims of a StatefulSet's pods, existing ones included.
    pub claims: Vec<PersistentVolumeClaim>,
    /// The ReplicaSet of a Deployment's template, if it is missing.
    pub replica_set: Option<ReplicaSet>,
    /// Pods that the controller would delete, as `namespace/name`.
    pub surplus: Vec<String>,
    /// Pods of a StatefulSet that have ended, as `namespace/name`. The controller deletes them, because `pods` has others of their names.
    pub ended: Vec<String>,
    /// The replacement of pods of an old template. Its new pods are not among `pods`.
    pub rollout: Option<Rollout>,
    /// All pods of a StatefulSet with the policy OrderedReady, by ordinal, as `namespace/name`. Empty for other workloads.
    pub order: Vec<String>,
    /// The Deployment is paused and has no ReplicaSet, so that it has no pods.
    pub is_paused: bool,
}
