//! The pods that Kubernetes controllers create for Deployments, StatefulSets, DaemonSets, ReplicaSets, Jobs and CronJobs.
//!
//! The result is the state after all controllers have finished: all pods exist, ready or not. Pods of an old template stay, and a [`Rollout`]
//! has their successors. Random names and hashes are derived from the owner's name instead, so that the same objects give the same pods.
//!
//! Contains: the pods that controllers want, and their creation from templates. Does not depend on: files or scheduling.

mod adopt;
mod custom;
mod daemon_set;
mod job;
mod made;
mod names;
mod owned;
mod replicas;
mod rollout;
mod stateful_set;
mod template;

use std::collections::BTreeSet;

use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
        batch::v1::{CronJob, Job},
        core::v1::{PodTemplateSpec, ReplicationController},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

pub use custom::{CustomWorkload, PodNames};
pub use made::{Made, Surroundings};
pub use owned::OwnedPod;
pub use rollout::{Rollout, RolloutPod, Strategy};
pub use template::reference_of as reference;

/// An object with a pod template.
#[expect(clippy::large_enum_variant, reason = "each is moved once, from its document into a list")]
#[derive(Debug, Clone, PartialEq)]
pub enum Workload {
    /// `batch/v1 CronJob`: one run of it.
    CronJob(CronJob),
    /// The pods of a custom object with one template.
    Custom(CustomWorkload),
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

impl Workload {
    /// The kind.
    #[must_use]
    pub const fn kind(&self) -> &str {
        match self {
            Self::CronJob(_) => "CronJob",
            Self::Custom(object) => object.kind.as_str(),
            Self::DaemonSet(_) => "DaemonSet",
            Self::Deployment(_) => "Deployment",
            Self::Job(_) => "Job",
            Self::ReplicaSet(_) => "ReplicaSet",
            Self::ReplicationController(_) => "ReplicationController",
            Self::StatefulSet(_) => "StatefulSet",
        }
    }

    /// The metadata.
    pub const fn metadata_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::CronJob(object) => &mut object.metadata,
            Self::Custom(object) => &mut object.metadata,
            Self::DaemonSet(object) => &mut object.metadata,
            Self::Deployment(object) => &mut object.metadata,
            Self::Job(object) => &mut object.metadata,
            Self::ReplicaSet(object) => &mut object.metadata,
            Self::ReplicationController(object) => &mut object.metadata,
            Self::StatefulSet(object) => &mut object.metadata,
        }
    }

    /// The metadata.
    #[must_use]
    pub const fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::CronJob(object) => &object.metadata,
            Self::Custom(object) => &object.metadata,
            Self::DaemonSet(object) => &object.metadata,
            Self::Deployment(object) => &object.metadata,
            Self::Job(object) => &object.metadata,
            Self::ReplicaSet(object) => &object.metadata,
            Self::ReplicationController(object) => &object.metadata,
            Self::StatefulSet(object) => &object.metadata,
        }
    }

    /// Sets the namespace and the UID as an API server would.
    pub fn identify(&mut self) {
        let kind = self.kind().to_owned();
        names::identify(&kind, self.metadata_mut());
    }
}

/// Sets a missing namespace and UID of an object, as an API server would.
pub fn identify(kind: &str, metadata: &mut ObjectMeta) {
    names::identify(kind, metadata);
}

/// The generated name of the object with this number among those of the same kind, namespace and `generateName`.
#[must_use]
pub fn generated_name(kind: &str, namespace: &str, base: &str, number: usize, taken: &mut BTreeSet<String>) -> String {
    names::drawn(&format!("{kind}/{namespace}"), base, number, taken)
}

/// A hash of a template, in place of the one of a controller.
#[must_use]
pub fn template_hash(template: &PodTemplateSpec) -> String {
    names::hash(template)
}

/// The result for each workload, in order. All workloads must have a namespace and a UID ([`Workload::identify`]).
#[must_use]
pub fn make(workloads: &[Workload], around: Surroundings<'_>) -> Vec<Made> {
    let pods = adopt::adopt(workloads, around.pods);
    let around = Surroundings { pods: &pods, ..around };
    let mut taken: BTreeSet<String> = around.pods.iter().map(OwnedPod::key).collect();
    let makers = workloads.iter().map(|workload| match workload {
        Workload::CronJob(object) => job::of_cron_job(object, workloads, around, &mut taken),
        Workload::Custom(object) => custom::make(object, around, &mut taken),
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
