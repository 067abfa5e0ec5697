//! Claims of pod groups. Pods of a group share a claim that both list. It is reserved for the group, also while some of its pods are gone.

use std::sync::Arc;

use super::{
    claimed::{ClaimSource, PodClaim, PodDevices},
    model::claim::{Consumer, DeviceClaim, SCHEDULING},
    objects::{ClaimPatch, DeviceObject},
    plan::consumer,
    store::Store,
};
use crate::{
    extension::objects::{FreedForGroup, ObjectKey, Patch, Write},
    pod_group::PodGroup,
};

impl Store {
    /// For each entry of a pod: the pod, or its group if the group has the same entry.
    ///
    /// Source: `podResourceClaimBindings`, `resourceclaim.BindTo`.
    pub(super) fn consumers(&self, devices: &PodDevices, namespace: &Arc<str>) -> Vec<Consumer> {
        let name = devices.group.as_ref().map(|name| (Arc::clone(namespace), Arc::clone(name)));
        let group = name.and_then(|name| self.groups.get(&name));
        let of_group = |claim: &PodClaim| group.filter(|group| group.claims.iter().any(|one| claim.is_of_group(one)));
        let consumers = devices.claims.iter().map(|claim| match of_group(claim) {
            None => consumer(&devices.owner),
            Some(group) => Consumer {
                api_group: SCHEDULING.into(),
                resource: "podgroups".into(),
                name: Arc::clone(&group.name),
                uid: Arc::clone(&group.uid),
            },
        });
        consumers.collect()
    }

    /// A claim of a group to release, so that the group can get other devices. `unavailable`: the claims of its pods for which a node was
    /// refused. None of its pods has a node.
    ///
    /// # Errors
    /// A claim of the group does not exist. Upstream's text.
    ///
    /// Source: `deallocatePodGroupClaims`, which selects one of several unavailable claims at random.
    pub(super) fn free_for_group<'a>(
        &self,
        group: &PodGroup,
        first: &str,
        mut unavailable: impl Iterator<Item = &'a Arc<DeviceClaim>>,
    ) -> Result<Option<FreedForGroup>, String> {
        let is_free = |claim: &&Arc<DeviceClaim>| {
            claim.reserved_for.len() <= 1 && claim.reserved_for.iter().all(|consumer| consumer.uid == group.uid)
        };
        if let Some(claim) = unavailable.find(is_free) {
            return Ok(Some(FreedForGroup {
                write: write(claim, Arc::clone(&claim.resource_version), ClaimPatch::Deallocate),
                message: "deallocation of PodGroup ResourceClaim completed",
                is_last: false,
            }));
        }
        for entry in &group.claims {
            let Some(claim) = self.claim_of_group(group, entry)? else { continue };
            let is_reserved = || claim.is_reserved_for(first) || claim.is_reserved_for_group(&group.name);
            if claim.allocation.is_some() && is_reserved() {
                return Ok(Some(FreedForGroup {
                    write: write(claim, Arc::default(), ClaimPatch::RemoveReservation(Arc::clone(&group.uid))),
                    message: "ResourceClaim unreserved for PodGroup",
                    is_last: true,
                }));
            }
        }
        Ok(None)
    }

    /// The claim of an entry of a group; `None`: none is needed, or it was not generated for the group.
    fn claim_of_group(&self, group: &PodGroup, entry: &PodClaim) -> Result<Option<&Arc<DeviceClaim>>, String> {
        let label = || format!("{}/{}", group.namespace, group.name);
        let (name, must_own) = match &entry.source {
            ClaimSource::Named(name) => (name, false),
            ClaimSource::Generated(name) => (name, true),
            ClaimSource::NotNeeded => return Ok(None),
            ClaimSource::NotCreated => return Err(format!("PodGroup {}: ResourceClaim not created yet", label())),
            ClaimSource::Like(_) | ClaimSource::Unknown => {
                let (label, entry) = (label(), &entry.entry);
                return Err(format!(
                    "PodGroup {label}, spec.resourceClaim {entry}: none of the supported fields are set"
                ));
            }
        };
        let claim = self.claim(&(Arc::clone(&group.namespace), Arc::clone(name)));
        let claim = claim.ok_or_else(|| format!("could not find ResourceClaim \"{}/{name}\"", group.namespace))?;
        let is_own = || claim.controller.as_ref().is_some_and(|owner| owner.uid == group.uid);
        Ok(Some(claim).filter(|_| !must_own || is_own()))
    }
}

fn write(claim: &Arc<DeviceClaim>, resource_version: Arc<str>, patch: ClaimPatch) -> Write {
    let object = ObjectKey::Device(DeviceObject::Claim(Arc::clone(claim)).key());
    Write { object, uid: Arc::clone(&claim.uid), resource_version, patch: Patch::Claim(patch) }
}
