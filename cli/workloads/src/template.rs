//! Creates a pod from a template.
//!
//! Source: `GetPodFromTemplate` in `pkg/controller/controller_utils.go`.

use k8s_openapi::{
    Resource,
    api::core::v1::{Pod, PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};

pub(crate) fn pod<Owner: Resource>(template: &PodTemplateSpec, owner: &ObjectMeta, name: String) -> Pod {
    let known = template.metadata.clone().unwrap_or_default();
    let metadata = ObjectMeta {
        name: Some(name),
        namespace: owner.namespace.clone(),
        labels: known.labels,
        annotations: known.annotations,
        finalizers: known.finalizers,
        owner_references: Some(vec![reference::<Owner>(owner)]),
        ..ObjectMeta::default()
    };
    Pod { metadata, spec: template.spec.clone(), status: None }
}

/// A reference that marks the object as controller.
pub(crate) fn reference<Owner: Resource>(owner: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: Owner::API_VERSION.to_owned(),
        block_owner_deletion: Some(true),
        controller: Some(true),
        kind: Owner::KIND.to_owned(),
        name: owner.name.clone().unwrap_or_default(),
        uid: owner.uid.clone().unwrap_or_default(),
    }
}

pub(crate) fn label(metadata: &mut ObjectMeta, key: &str, value: impl Into<String>) {
    metadata.labels.get_or_insert_default().insert(key.to_owned(), value.into());
}
