//! Pods without a controller that a workload adopts.
//!
//! Source: `pkg/controller/controller_ref_manager.go`.

use std::borrow::Cow;

use flotilla_framework::{
    ingest::selectors::{controller_selector, map_selector},
    labels::LabelSelector,
};
use k8s_openapi::{
    Resource,
    api::{
        apps::v1::{DaemonSet, ReplicaSet, StatefulSet},
        core::v1::ReplicationController,
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};

use crate::{Workload, owned::OwnedPod, template};

struct Adopter<'a> {
    metadata: &'a ObjectMeta,
    selector: LabelSelector,
    reference: OwnerReference,
    /// Pods must have its name and an ordinal, as for a StatefulSet.
    is_numbered: bool,
}

/// Sets the controller of pods without one to the first workload that adopts them.
pub(crate) fn adopt<'a>(workloads: &[Workload], pods: &'a [OwnedPod]) -> Cow<'a, [OwnedPod]> {
    let mut adopted = Cow::Borrowed(pods);
    if pods.iter().all(OwnedPod::has_owner) {
        return adopted;
    }
    let adopters: Vec<Adopter<'_>> =
        workloads.iter().filter_map(Adopter::of).filter(|adopter| !adopter.selector.is_everything()).collect();
    for (at, pod) in pods.iter().enumerate().filter(|(_, pod)| !pod.has_owner() && pod.is_active()) {
        if let Some(adopter) = adopters.iter().find(|adopter| adopter.takes(pod)) {
            adopted.to_mut()[at].owner.clone_from(&adopter.reference);
        }
    }
    adopted
}

impl<'a> Adopter<'a> {
    /// `None` for Deployments and Jobs, because their pods have a generated label, for CronJobs, which have no pods, and for custom
    /// workloads.
    fn of(workload: &'a Workload) -> Option<Self> {
        match workload {
            Workload::DaemonSet(set) => {
                Some(Self::new::<DaemonSet>(&set.metadata, controller_selector(Some(&set.spec.selector))))
            }
            Workload::ReplicaSet(set) => {
                Some(Self::new::<ReplicaSet>(&set.metadata, controller_selector(Some(&set.spec.selector))))
            }
            Workload::ReplicationController(set) => {
                let selector = map_selector(set.spec.as_ref().and_then(|spec| spec.selector.as_ref()));
                Some(Self::new::<ReplicationController>(&set.metadata, selector))
            }
            Workload::StatefulSet(set) => {
                let selector = controller_selector(Some(&set.spec.selector));
                Some(Self { is_numbered: true, ..Self::new::<StatefulSet>(&set.metadata, selector) })
            }
            Workload::CronJob(_) | Workload::Custom(_) | Workload::Deployment(_) | Workload::Job(_) => None,
        }
    }

    fn new<Owner: Resource>(metadata: &'a ObjectMeta, selector: LabelSelector) -> Self {
        Self { metadata, selector, reference: template::reference::<Owner>(metadata), is_numbered: false }
    }

    fn takes(&self, pod: &OwnedPod) -> bool {
        let name = self.metadata.name.as_deref().unwrap_or_default();
        let number = || pod.name.strip_prefix(name)?.strip_prefix('-')?.parse::<u32>().ok();
        self.metadata.namespace.as_deref() == Some(pod.namespace.as_str())
            && (!self.is_numbered || number().is_some())
            && self.selector.matches(&pod.labels)
    }
}
