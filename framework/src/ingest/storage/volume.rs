//! Reads PersistentVolumes.

use k8s_openapi::api::core::v1 as api;

use super::{access_modes, class_name, quantity};
use crate::{
    excess,
    ingest::{
        fields::{IngestError, name, node_term, text, within},
        selectors::labels,
    },
    volumes::{
        objects::{AccessModes, ClaimReference, Volume, VolumeSource},
        translate,
    },
};

/// Reads a volume.
///
/// # Errors
/// A missing name, an invalid quantity, or a node affinity beyond the limit.
pub fn volume(volume: &api::PersistentVolume) -> Result<Volume, IngestError> {
    let metadata = &volume.metadata;
    let none = api::PersistentVolumeSpec::default();
    let spec = volume.spec.as_ref().unwrap_or(&none);
    let capacity = spec.capacity.as_ref().and_then(|capacity| capacity.get("storage"));
    let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    let read = Volume {
        name: name(metadata)?,
        uid: text(metadata.uid.as_deref().unwrap_or_default()),
        resource_version: text(metadata.resource_version.as_deref().unwrap_or_default()),
        labels: labels(metadata),
        storage_class: text(class_name(metadata, spec.storage_class_name.as_deref())),
        capacity: quantity(capacity, "spec.capacity[storage]")?.unwrap_or_default(),
        access_modes: access_modes(spec.access_modes.as_ref(), AccessModes::default()),
        is_block: spec.volume_mode.as_deref() == Some("Block"),
        attributes_class: text(spec.volume_attributes_class_name.as_deref().unwrap_or_default()),
        node_affinity: required.map(|selector| selector.node_selector_terms.iter().map(node_term).collect()),
        claim: spec.claim_ref.as_ref().map(claim_reference),
        is_available: phase == Some("Available"),
        is_deleting: metadata.deletion_timestamp.is_some(),
        source: source(volume, spec),
    };
    let excess = excess::objects::of_terms("spec.nodeAffinity", read.node_affinity.iter().flatten());
    within(read, excess)
}

fn claim_reference(reference: &api::ObjectReference) -> ClaimReference {
    let field = |field: &Option<String>| text(field.as_deref().unwrap_or_default());
    ClaimReference { namespace: field(&reference.namespace), name: field(&reference.name), uid: field(&reference.uid) }
}

fn source(volume: &api::PersistentVolume, spec: &api::PersistentVolumeSpec) -> VolumeSource {
    match &spec.csi {
        Some(csi) => VolumeSource::Csi { driver: text(&csi.driver), handle: text(&csi.volume_handle) },
        None => translate::volume(volume).map_or(VolumeSource::Other, VolumeSource::InTree),
    }
}
