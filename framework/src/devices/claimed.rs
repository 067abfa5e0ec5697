//! Claims of a pod, and the extended resources of its containers.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::{extended::Asking, footprint::Footprint, model::request::ClaimSpec};
use crate::volumes::mounts::Owner;

/// Claims of a pod, and requests of its containers that may need a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PodDevices {
    /// The pod. Generated claims must be owned by it, or by its pod group.
    pub owner: Owner,
    /// With the gate DRAWorkloadResourceClaims: the pod group in the pod's namespace. In a class: only if a claim is generated.
    pub group: Option<Arc<str>>,
    /// `spec.resourceClaims`, in order.
    pub claims: Vec<PodClaim>,
    /// All containers, init containers first, if one of them requests an extended resource; empty otherwise. In a class, containers have no
    /// names, and are listed only if a DeviceClass provides such a resource.
    pub containers: Vec<Asking>,
    /// In a class: requested extended resources that DeviceClasses provide, sorted.
    pub mapped: Vec<Arc<str>>,
    /// In a class: an earlier attempt left a claim for the pod's extended resources.
    pub has_left: bool,
    /// The pod's requests without its devices, if DRANodeAllocatableResources is on.
    pub footprint: Option<Arc<Footprint>>,
}

/// An entry of `spec.resourceClaims` of a pod or pod group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PodClaim {
    /// `name`.
    pub entry: Arc<str>,
    /// The claim.
    pub source: ClaimSource,
    /// `resourceClaimTemplateName`, only for pods with [`PodDevices::group`] and for pod groups: it decides whether both mean one claim.
    pub template: Option<Arc<str>>,
}

/// The claim that an entry refers to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ClaimSource {
    /// `resourceClaimName`.
    Named(Arc<str>),
    /// `resourceClaimTemplateName`; `status.resourceClaimStatuses` names this claim.
    Generated(Arc<str>),
    /// `resourceClaimTemplateName`; the status entry names no claim, because none is needed.
    NotNeeded,
    /// `resourceClaimTemplateName`, without a status entry: the claim is not created yet.
    NotCreated,
    /// In a class: an unused claim generated for the pod, with this spec.
    Like(Arc<ClaimSpec>),
    /// Neither is set: a source unknown to this release.
    #[default]
    Unknown,
}

impl PodClaim {
    /// Whether the entries of a pod and of its group are equal, so that the pods of the group share the claim.
    #[must_use]
    pub fn is_of_group(&self, of_group: &Self) -> bool {
        let named = |claim: &Self| match &claim.source {
            ClaimSource::Named(name) => Some(Arc::clone(name)),
            _ => None,
        };
        self.entry == of_group.entry && self.template == of_group.template && named(self) == named(of_group)
    }
}

impl PodDevices {
    /// The claim of each entry that has one, by index among all existing claims.
    #[must_use]
    pub fn entries(&self) -> Vec<(Arc<str>, usize)> {
        let exist = self.claims.iter().filter(|claim| claim.source != ClaimSource::NotNeeded);
        exist.enumerate().map(|(at, claim)| (Arc::clone(&claim.entry), at)).collect()
    }

    /// Names of all existing claims in the pod's order, and whether the pod must own each.
    pub fn names(&self) -> impl Iterator<Item = (&Arc<str>, bool)> {
        self.claims.iter().filter_map(|claim| match &claim.source {
            ClaimSource::Named(name) => Some((name, false)),
            ClaimSource::Generated(name) => Some((name, true)),
            ClaimSource::NotNeeded | ClaimSource::NotCreated | ClaimSource::Like(_) | ClaimSource::Unknown => None,
        })
    }
}
