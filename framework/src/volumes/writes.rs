//! Writes of PreBind for the volumes of a pod.

use std::sync::Arc;

use super::{
    binding::volume_key,
    objects::ClaimReference,
    storage::{Plan, StaticBinding, Storage},
};
use crate::extension::objects::{self, ObjectKey, Patch, Write, Written};

impl Storage {
    /// Writes of a plan, volumes first. Skips changes that the API already has, from an earlier attempt or leader; upstream writes these
    /// again, without effect.
    ///
    /// Source: `AssumePodVolumes`, `GetBindVolumeToClaim`, `bindAPIUpdate`.
    pub(super) fn writes(&self, plan: &Plan) -> Vec<Write> {
        let volumes = plan.bindings.iter().filter_map(|binding| self.set_aside(binding));
        let claims = plan.provisions.iter().filter_map(|key| {
            let claim = self.api_claim(&key.namespace, &key.name)?;
            (claim.selected_node.as_ref() != Some(&plan.node)).then(|| Write {
                object: key.storage_key().into(),
                uid: Arc::clone(&claim.uid),
                resource_version: Arc::clone(&claim.resource_version),
                patch: Patch::SelectNode(Arc::clone(&plan.node)),
            })
        });
        volumes.chain(claims).collect()
    }

    fn set_aside(&self, binding: &StaticBinding) -> Option<Write> {
        let claim = self.api_claim(&binding.claim.namespace, &binding.claim.name)?;
        let volume = self.api_volume(&binding.volume)?;
        let (namespace, name) = (Arc::clone(&claim.namespace), Arc::clone(&claim.name));
        let wanted = ClaimReference { namespace, name, uid: Arc::clone(&binding.claim_uid) };
        if volume.claim.as_ref() == Some(&wanted) {
            return None;
        }
        let is_for_it = |set: &ClaimReference| {
            set.namespace == wanted.namespace
                && set.name == wanted.name
                && (set.uid.is_empty() || set.uid == wanted.uid)
        };
        Some(Write {
            object: volume_key(&volume.name).into(),
            uid: Arc::clone(&volume.uid),
            resource_version: Arc::clone(&volume.resource_version),
            patch: Patch::SetAside {
                bound_by_controller: !volume.claim.as_ref().is_some_and(is_for_it),
                claim: wanted,
                claim_version: Arc::clone(&claim.resource_version),
            },
        })
    }
}

impl Plan {
    pub(super) fn without(&self, written: &Written) -> Self {
        let mut plan = self.clone();
        plan.bindings.retain(|binding| !written.contains_key(&volume_key(&binding.volume).into()));
        plan.provisions.retain(|claim| !written.contains_key(&claim.storage_key().into()));
        plan
    }
}

impl objects::Plan for Plan {
    fn objects(&self) -> Vec<ObjectKey> {
        let of_binding =
            |binding: &StaticBinding| [binding.claim.storage_key().into(), volume_key(&binding.volume).into()];
        let provisions = self.provisions.iter().map(|claim| claim.storage_key().into());
        self.bindings.iter().flat_map(of_binding).chain(provisions).collect()
    }
}
