//! Reads PersistentVolumeClaims.

use k8s_openapi::api::core::v1 as api;

use super::{access_modes, annotation, class_name, quantity};
use crate::{
    ingest::{
        fields::{IngestError, name, namespace, text},
        pods::label_selector,
    },
    volumes::objects::{AccessModes, Claim},
};

/// Set by the volume controller on a bound claim; any value counts.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The node that a scheduler chose for a volume to be provisioned.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Reads a claim. An unknown access mode matches no volume.
///
/// # Errors
/// A missing name or namespace, or an invalid quantity.
pub fn claim(claim: &api::PersistentVolumeClaim) -> Result<Claim, IngestError> {
    let metadata = &claim.metadata;
    let none = api::PersistentVolumeClaimSpec::default();
    let spec = claim.spec.as_ref().unwrap_or(&none);
    let requests = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let requested = requests.and_then(|requests| requests.get("storage"));
    let mut owners = metadata.owner_references.iter().flatten();
    let controller = owners.find(|owner| owner.controller == Some(true));
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
    let selector = spec.selector.as_ref().map(|selector| label_selector(Some(selector)).map_err(text));
    Ok(Claim {
        namespace: namespace(metadata)?,
        name: name(metadata)?,
        uid: text(metadata.uid.as_deref().unwrap_or_default()),
        resource_version: text(metadata.resource_version.as_deref().unwrap_or_default()),
        owner_pod: controller.map(|owner| text(&owner.uid)),
        storage_class: text(class_name(metadata, spec.storage_class_name.as_deref())),
        volume_name: text(spec.volume_name.as_deref().unwrap_or_default()),
        bind_completed: annotation(metadata, BIND_COMPLETED).is_some(),
        has_annotations: metadata.annotations.as_ref().is_some_and(|annotations| !annotations.is_empty()),
        selected_node: annotation(metadata, SELECTED_NODE).map(text),
        access_modes: access_modes(spec.access_modes.as_ref(), AccessModes::UNKNOWN),
        is_block: spec.volume_mode.as_deref() == Some("Block"),
        selector,
        requested: quantity(requested, "spec.resources.requests[storage]")?,
        attributes_class: text(spec.volume_attributes_class_name.as_deref().unwrap_or_default()),
        is_lost: phase == Some("Lost"),
        is_deleting: metadata.deletion_timestamp.is_some(),
    })
}
