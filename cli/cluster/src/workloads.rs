//! Workloads of the input, and the summary of their pods.

use std::collections::BTreeMap;

use flotilla_workloads::{Made, OwnedPod, Workload};
use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, Pod},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::{objects::Gatherer, place::InputPosition};

/// The annotation of the default StorageClass.
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
const MOST_NAMED: usize = 4;

/// The input of the controllers.
#[derive(Default)]
pub(super) struct Workloads {
    pub(super) workloads: Vec<(Workload, InputPosition)>,
    pub(super) pods: Vec<OwnedPod>,
    /// Creation time and name of the default StorageClass.
    pub(super) class: Option<(i64, String)>,
    /// The cluster runs its own controllers.
    pub(super) are_left: bool,
}

/// The pods that were created for workloads.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// Created pods by workload.
    made: Vec<(String, usize)>,
    /// The pods that a controller would delete, as `namespace/name`.
    pub surplus: Vec<String>,
}

impl Workloads {
    pub(super) fn see(&mut self, pod: &Pod) {
        if !self.are_left {
            self.pods.extend(OwnedPod::of(pod));
        }
    }

    /// Source: `GetDefaultClass` in `pkg/volume/util`. The newest default StorageClass counts, and of those the first by name.
    pub(super) fn see_class(&mut self, metadata: &ObjectMeta) {
        let annotation = |annotations: &BTreeMap<String, String>| annotations.get(DEFAULT_CLASS).cloned();
        if metadata.annotations.as_ref().and_then(annotation).as_deref() != Some("true") {
            return;
        }
        let created = metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second());
        let name = metadata.name.clone().unwrap_or_default();
        let is_better = |(known, other): &(i64, String)| created > *known || created == *known && name < *other;
        if self.class.as_ref().is_none_or(is_better) {
            self.class = Some((created, name));
        }
    }
}

impl Gatherer {
    /// Creates no pods for workloads, because the cluster has its own controllers.
    pub fn without_workloads(mut self) -> Self {
        self.workloads.are_left = true;
        self
    }

    /// Adds a workload; the caller has claimed its name.
    pub(super) fn add_workload(&mut self, mut workload: Workload, place: InputPosition) {
        if !self.workloads.are_left {
            workload.identify();
            self.workloads.workloads.push((workload, place));
        }
    }
}

impl Summary {
    pub(super) fn add(&mut self, workload: &Workload, made: &Made) {
        if !made.pods.is_empty() {
            let title = format!("{} {}", workload.kind(), key(workload.metadata()));
            self.made.push((title, made.pods.len()));
        }
        self.surplus.extend(made.surplus.iter().cloned());
    }

    /// One line with the created pods; `None` if there are none.
    #[must_use]
    pub fn line(&self) -> Option<String> {
        let count: usize = self.made.iter().map(|(_, count)| count).sum();
        let pods = if count == 1 { "pod" } else { "pods" };
        let shown = self.made.iter().take(MOST_NAMED).map(|(title, count)| format!("{count} of {title}"));
        let mut parts: Vec<String> = shown.collect();
        if self.made.len() > MOST_NAMED {
            parts.push(format!("the others of {} more", self.made.len() - MOST_NAMED));
        }
        (count > 0).then(|| format!("made {count} {pods} as controllers would: {}", parts.join(", ")))
    }
}

pub(super) fn key(metadata: &ObjectMeta) -> String {
    let namespace = metadata.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default");
    format!("{namespace}/{}", metadata.name.as_deref().unwrap_or_default())
}

/// The path of the workload's pod template.
pub(super) const fn template(workload: &Workload) -> &'static [&'static str] {
    match workload {
        Workload::CronJob(_) => &["spec", "jobTemplate", "spec", "template"],
        _ => &["spec", "template"],
    }
}

/// Sets the default class of a claim that names none.
///
/// Source: the admission plugin `DefaultStorageClass`.
pub(super) fn fill_claim(claim: &mut PersistentVolumeClaim, class: Option<&(i64, String)>) {
    let spec = claim.spec.get_or_insert_default();
    if let Some((_, class)) = class {
        spec.storage_class_name.get_or_insert_with(|| class.clone());
    }
}
