//! Creates a pod from a template.
//!
//! Source: `GetPodFromTemplate` in `pkg/controller/controller_utils.go`.

use k8s_openapi::{
    Resource,
    api::core::v1::{Pod, PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};

pub(crate) fn pod<Owner: Resource>(template: &PodTemplateSpec, owner: &ObjectMeta, name: String) -> Pod {
    owned(template, owner, reference::<Owner>(owner), name)
}

/// A pod of the template with this reference to `owner`.
pub(crate) fn owned(template: &PodTemplateSpec, owner: &ObjectMeta, reference: OwnerReference, name: String) -> Pod {
    let known = template.metadata.clone().unwrap_or_default();
    let metadata = ObjectMeta {
        name: Some(name),
        namespace: owner.namespace.clone(),
        labels: known.labels,
        annotations: known.annotations,
        finalizers: known.finalizers,
        owner_references: Some(vec![reference]),
        ..ObjectMeta::default()
    };
    Pod { metadata, spec: template.spec.clone(), status: None }
}

/// A reference that marks the object as controller.
pub(crate) fn reference<Owner: Resource>(owner: &ObjectMeta) -> OwnerReference {
    reference_of(Owner::API_VERSION, Owner::KIND, owner)
}

pub(crate) fn label(metadata: &mut ObjectMeta, key: &str, value: impl Into<String>) {
    metadata.labels.get_or_insert_default().insert(key.to_owned(), value.into());
}

/// A reference that marks the object as controller.
#[must_use]
pub fn reference_of(api_version: &str, kind: &str, metadata: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: api_version.to_owned(),
        block_owner_deletion: Some(true),
        controller: Some(true),
        kind: kind.to_owned(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
    }
}
