//! Pods of custom workloads with controllers that create pods directly.
//!
//! Source: the controllers of OpenKruise, Volcano, Kubeflow, KubeRay and the Spark operator name pods by one of these patterns.

use std::collections::BTreeSet;

use k8s_openapi::{
    api::core::v1::PodTemplateSpec,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};

use crate::{
    made::{Made, Surroundings},
    names, template,
};

/// Equal pods of one custom object.
#[derive(Debug, Clone, PartialEq)]
pub struct CustomWorkload {
    /// The object's `apiVersion`.
    pub api_version: String,
    /// The object's kind.
    pub kind: String,
    /// The object's metadata.
    pub metadata: ObjectMeta,
    /// The template of the pods.
    pub template: PodTemplateSpec,
    /// The number of pods.
    pub replicas: usize,
    /// The names of the pods.
    pub names: PodNames,
}

/// How a controller names the pods of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodNames {
    /// This prefix, and random letters.
    Drawn(String),
    /// This prefix, a hyphen, and numbers from 0.
    Numbered(String),
    /// This name for the only pod.
    Exact(String),
}

impl CustomWorkload {
    /// The reference from its pods.
    #[must_use]
    pub fn reference(&self) -> OwnerReference {
        template::reference_of(&self.api_version, &self.kind, &self.metadata)
    }
}

pub(crate) fn make(work: &CustomWorkload, around: Surroundings<'_>, taken: &mut BTreeSet<String>) -> Made {
    let is_own = |pod: &&crate::OwnedPod| pod.is_active() && pod.is_of(&work.kind, &work.metadata);
    let known: BTreeSet<&str> = around.pods.iter().filter(is_own).map(|pod| pod.name.as_str()).collect();
    let namespace = work.metadata.namespace.as_deref().unwrap_or_default();
    let missing: Vec<String> = match &work.names {
        PodNames::Drawn(base) => {
            let count = known.iter().filter(|name| name.starts_with(base.as_str())).count();
            (count..work.replicas).map(|number| names::drawn(namespace, base, number, taken)).collect()
        }
        PodNames::Numbered(base) => {
            let all = (0..work.replicas).map(|number| format!("{base}-{number}"));
            all.filter(|name| !known.contains(name.as_str())).collect()
        }
        PodNames::Exact(name) => {
            (work.replicas > 0 && !known.contains(name.as_str())).then(|| name.clone()).into_iter().collect()
        }
    };
    let pods = missing.into_iter().map(|name| template::owned(&work.template, &work.metadata, work.reference(), name));
    Made { pods: pods.collect(), ..Made::default() }
}
