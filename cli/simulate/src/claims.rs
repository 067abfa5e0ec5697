//! The ResourceClaims of a simulated cluster, in place of an API server.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{
    devices::{
        model::claim::DeviceClaim,
        objects::{ClaimPatch, DeviceKey, DeviceObject},
    },
    extension::objects::ObjectKey,
};
use flotilla_machine::event::Event;

/// The current claims.
#[derive(Debug, Clone)]
pub(super) struct Claims(BTreeMap<DeviceKey, Arc<DeviceClaim>>);

impl Claims {
    pub(super) fn new(objects: &[DeviceObject]) -> Self {
        let claims = objects.iter().filter_map(|object| match object {
            DeviceObject::Claim(claim) => Some((object.key(), Arc::clone(claim))),
            _ => None,
        });
        Self(claims.collect())
    }

    pub(super) fn into_objects(self) -> Vec<DeviceObject> {
        self.0.into_values().map(DeviceObject::Claim).collect()
    }

    /// The claim with another resource version; `None` if it does not exist.
    pub(super) fn renew(&mut self, key: &DeviceKey, version: Arc<str>) -> Option<DeviceObject> {
        let claim = self.0.get_mut(key)?;
        Arc::make_mut(claim).resource_version = version;
        Some(DeviceObject::Claim(Arc::clone(claim)))
    }

    /// Applies a patch and returns the watch event; `None` if the claim does not exist.
    pub(super) fn write(&mut self, key: &ObjectKey, patch: &ClaimPatch, version: u64) -> Option<Event> {
        let ObjectKey::Device(key) = key else { return None };
        if let ClaimPatch::Create(claim) = patch {
            let (uid, resource_version) =
                (format!("{}/{}", key.namespace, key.name).into(), version.to_string().into());
            let claim = DeviceClaim { uid, resource_version, ..DeviceClaim::clone(claim) };
            self.0.insert(key.clone(), Arc::new(claim));
        }
        if let ClaimPatch::Delete = patch {
            self.0.remove(key)?;
            return Some(Event::ObjectDeleted(key.clone().into()));
        }
        let claim = Arc::make_mut(self.0.get_mut(key)?);
        match patch {
            ClaimPatch::SetFinalizers(finalizers) => claim.finalizers.clone_from(finalizers),
            ClaimPatch::SetStatus { allocation, reserved_for, consumer: _ } => {
                // Two pods that share the claim may have been scheduled with the same version of it.
                let others = claim.reserved_for.iter().filter(|known| !reserved_for.contains(known)).cloned();
                claim.reserved_for = others.chain(reserved_for.iter().cloned()).collect();
                if allocation.is_some() {
                    claim.allocation.clone_from(allocation);
                }
            }
            ClaimPatch::RemoveReservation(uid) => claim.reserved_for.retain(|consumer| consumer.uid != *uid),
            ClaimPatch::Deallocate => {
                claim.allocation = None;
                claim.reserved_for.clear();
                claim.statuses.clear();
            }
            ClaimPatch::Create(_) | ClaimPatch::Delete | ClaimPatch::TellPod { .. } | ClaimPatch::SetAmounts { .. } => {
            }
        }
        claim.resource_version = version.to_string().into();
        let claim = DeviceObject::Claim(Arc::clone(self.0.get(key)?));
        Some(Event::ObjectApplied(claim.into()))
    }
}
