//! The pods that the controllers of Kubernetes make of Deployments, StatefulSets, DaemonSets, ReplicaSets, Jobs and CronJobs.
//!
//! Knows: which pods a controller wants, and how it makes one of a template. Must not know: files, or how pods are placed.
//!
//! What is made is the end of the controllers' work: all pods are there, be they ready or not, and of a Deployment only those of
//! its present template. Where controllers draw a name or a hash by chance or from Go's memory layout, it comes from the name of
//! the owner here, so that the same objects give the same pods.

mod adopt;
mod daemon_set;
mod job;
mod names;
mod owned;
mod replicas;
mod stateful_set;
mod template;

use std::{collections::BTreeSet, sync::Arc};

use flotilla_framework::node::NodeInfo;
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
        batch::v1::{CronJob, Job},
        core::v1::{PersistentVolumeClaim, Pod, ReplicationController},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

pub use owned::OwnedPod;

/// An object that pods are made of.
#[expect(clippy::large_enum_variant, reason = "each is moved once, from its document into a list")]
#[derive(Debug, Clone, PartialEq)]
pub enum Workload {
    /// `batch/v1 CronJob`: one run of it.
    CronJob(CronJob),
    /// `apps/v1 DaemonSet`.
    DaemonSet(DaemonSet),
    /// `apps/v1 Deployment`.
    Deployment(Deployment),
    /// `batch/v1 Job`.
    Job(Job),
    /// `apps/v1 ReplicaSet`.
    ReplicaSet(ReplicaSet),
    /// `v1 ReplicationController`.
    ReplicationController(ReplicationController),
    /// `apps/v1 StatefulSet`.
    StatefulSet(StatefulSet),
}

/// What there is beside the workloads.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// The pods that controllers have made already, and those that one may take for its own.
    pub pods: &'a [OwnedPod],
    /// All nodes.
    pub nodes: &'a [Arc<NodeInfo>],
}

/// What controllers would make of one workload.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Made {
    /// The pods that are missing, in the order in which the controller makes them.
    pub pods: Vec<Pod>,
    /// The claims of a StatefulSet's pods, those that are there already too.
    pub claims: Vec<PersistentVolumeClaim>,
    /// The ReplicaSet that a Deployment makes for its pods where it has none.
    pub replica_set: Option<ReplicaSet>,
    /// Pods that the controller would delete, as `namespace/name`.
    pub surplus: Vec<String>,
}

impl Workload {
    /// The name of its kind.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::CronJob(_) => "CronJob",
            Self::DaemonSet(_) => "DaemonSet",
            Self::Deployment(_) => "Deployment",
            Self::Job(_) => "Job",
            Self::ReplicaSet(_) => "ReplicaSet",
            Self::ReplicationController(_) => "ReplicationController",
            Self::StatefulSet(_) => "StatefulSet",
        }
    }

    /// Its metadata.
    pub const fn metadata_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::CronJob(object) => &mut object.metadata,
            Self::DaemonSet(object) => &mut object.metadata,
            Self::Deployment(object) => &mut object.metadata,
            Self::Job(object) => &mut object.metadata,
            Self::ReplicaSet(object) => &mut object.metadata,
            Self::ReplicationController(object) => &mut object.metadata,
            Self::StatefulSet(object) => &mut object.metadata,
        }
    }

    /// Its metadata.
    #[must_use]
    pub const fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::CronJob(object) => &object.metadata,
            Self::DaemonSet(object) => &object.metadata,
            Self::Deployment(object) => &object.metadata,
            Self::Job(object) => &object.metadata,
            Self::ReplicaSet(object) => &object.metadata,
            Self::ReplicationController(object) => &object.metadata,
            Self::StatefulSet(object) => &object.metadata,
        }
    }

    /// Gives it the namespace and the UID that an API server would have given it.
    pub fn identify(&mut self) {
        let kind = self.kind();
        names::identify(kind, self.metadata_mut());
    }
}

/// What controllers would make of each workload, in their order. All have a namespace and a UID ([`Workload::identify`]).
#[must_use]
pub fn make(workloads: &[Workload], around: Surroundings<'_>) -> Vec<Made> {
    let pods = adopt::adopt(workloads, around.pods);
    let around = Surroundings { pods: &pods, ..around };
    let mut taken: BTreeSet<String> = around.pods.iter().map(OwnedPod::key).collect();
    let makers = workloads.iter().map(|workload| match workload {
        Workload::CronJob(object) => job::of_cron_job(object, workloads, around, &mut taken),
        Workload::DaemonSet(object) => daemon_set::make(object, around, &mut taken),
        Workload::Deployment(object) => replicas::of_deployment(object, workloads, around, &mut taken),
        Workload::Job(object) => job::make(object, around, &mut taken),
        Workload::ReplicaSet(object) => replicas::of_replica_set(object, workloads, around, &mut taken),
        Workload::ReplicationController(object) => replicas::of_replication_controller(object, around, &mut taken),
        Workload::StatefulSet(object) => stateful_set::make(object, around),
    });
    makers.collect()
}

#[cfg(test)]
mod tests;
