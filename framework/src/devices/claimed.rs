//! What a pod claims of devices.
//!
//! Knows: the fields of a pod that name claims, and what its containers ask for. Must not know: the claims.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::{extended::Asking, model::request::ClaimSpec};
use crate::volumes::mounts::Owner;

/// The claims of a pod, and what of its containers a claim may be made for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PodDevices {
    /// The pod: a claim that was made for a pod has to be its own.
    pub owner: Owner,
    /// `spec.resourceClaims`, in its order.
    pub claims: Vec<PodClaim>,
    /// The containers, init containers first, where one of them asks for an extended resource; none otherwise. In a class they have
    /// no names, and are there only where a device class stands behind such a resource.
    pub containers: Vec<Asking>,
    /// In a class: the extended resources asked for that device classes stand behind, sorted.
    pub mapped: Vec<Arc<str>>,
    /// In a class: a claim is there for the extended resources of the pod, from an attempt before.
    pub has_left: bool,
}

/// An entry of `spec.resourceClaims`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PodClaim {
    /// `name` of the entry.
    pub entry: Arc<str>,
    /// Which claim it is.
    pub source: ClaimSource,
}

/// Which claim an entry stands for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ClaimSource {
    /// `resourceClaimName`.
    Named(Arc<str>),
    /// `resourceClaimTemplateName`, and the entry of `status.resourceClaimStatuses` with the same name names this claim.
    Generated(Arc<str>),
    /// `resourceClaimTemplateName`, and that entry names none: none is needed.
    NotNeeded,
    /// `resourceClaimTemplateName`, and there is no such entry: the claim is not created yet.
    NotCreated,
    /// In a class: a claim that was made for the pod, with this specification, and nothing has happened to it yet.
    Like(Arc<ClaimSpec>),
    /// Neither is set: a source that this release does not know.
    #[default]
    Unknown,
}

// === impl PodDevices ===

impl PodDevices {
    /// The names of all claims that the pod has by now, in its order, and whether each has to be its own.
    pub fn names(&self) -> impl Iterator<Item = (&Arc<str>, bool)> {
        self.claims.iter().filter_map(|claim| match &claim.source {
            ClaimSource::Named(name) => Some((name, false)),
            ClaimSource::Generated(name) => Some((name, true)),
            ClaimSource::NotNeeded | ClaimSource::NotCreated | ClaimSource::Like(_) | ClaimSource::Unknown => None,
        })
    }
}
