//! Checks whether PreBind's wait for the volumes of a pod is over.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::{
    objects::{Claim, CsiNode, StorageKey, StorageKind, Volume, VolumeSource},
    resolve::{is_migrated, reach},
    storage::{ClaimKey, Plan, Storage},
};
use crate::{
    class::NodeTerm,
    extension::objects::{Written, is_older},
    node::NodeInfo,
    selector::LoneNode,
};

impl ClaimKey {
    /// Key of the claim as a storage object.
    #[must_use]
    pub fn storage_key(&self) -> StorageKey {
        StorageKey { kind: StorageKind::Claim, namespace: Arc::clone(&self.namespace), name: Arc::clone(&self.name) }
    }
}

/// Key of a volume as a storage object.
#[must_use]
pub fn volume_key(name: &Arc<str>) -> StorageKey {
    StorageKey { kind: StorageKind::Volume, namespace: Arc::default(), name: Arc::clone(name) }
}

/// Whether the API shows every claim of a plan bound to a volume that the node can reach. Assumed changes do not count. Source:
/// `volumeBinder.checkBindings`, with the prefix of `BindPodVolumes`.
///
/// # Errors
/// The claims cannot be bound, or the node was deleted (`None`). The pod must be scheduled again. Upstream's text.
pub fn is_bound(storage: &Storage, plan: &Plan, written: &Written, node: Option<&NodeInfo>) -> Result<bool, String> {
    let name = &plan.node;
    let node = node.ok_or_else(|| format!("binding volumes: failed to get node {name:?}: node {name:?} not found"))?;
    let check = Check { storage, written, node };
    check
        .bindings(plan)
        .and_then(|bound| Ok(bound && check.provisions(plan)?))
        .map_err(|error| format!("binding volumes: {error}"))
}

struct Check<'a> {
    storage: &'a Storage,
    written: &'a Written,
    node: &'a NodeInfo,
}

impl Check<'_> {
    fn bindings(&self, plan: &Plan) -> Result<bool, String> {
        for binding in &plan.bindings {
            let name = &binding.volume;
            let volume = self.storage.api_volume(name);
            let volume =
                volume.ok_or_else(|| format!("failed to check binding: persistentvolumes {name:?} not found"))?;
            let claim = self.claim(&binding.claim).map_err(|error| format!("failed to check binding: {error}"))?;
            if self.is_older(volume_key(name), &volume.resource_version) {
                return Ok(false);
            }
            self.check_affinity(volume, "failed to translate pv to csi: ")?;
            if volume.claim.as_ref().is_none_or(|claim| claim.uid.is_empty()) {
                return Err(format!("ClaimRef got reset for pv {name:?}"));
            }
            if !is_fully_bound(claim) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn provisions(&self, plan: &Plan) -> Result<bool, String> {
        for key in &plan.provisions {
            let claim = self.claim(key).map_err(|error| format!("failed to check provisioning pvc: {error}"))?;
            if self.is_older(key.storage_key(), &claim.resource_version) {
                return Ok(false);
            }
            let name = &claim.name;
            if !claim.has_annotations {
                return Err(format!("selectedNode annotation reset for PVC {name:?}"));
            }
            if claim.selected_node.as_ref() != Some(&plan.node) {
                return Err(format!("provisioning failed for PVC {name:?}"));
            }
            if !claim.volume_name.is_empty() {
                let Some(volume) = self.storage.api_volume(&claim.volume_name) else { return Ok(false) };
                self.check_affinity(volume, "")?;
            }
            if !is_fully_bound(claim) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn claim(&self, key: &ClaimKey) -> Result<&Claim, String> {
        let claim = self.storage.api_claim(&key.namespace, &key.name);
        claim.ok_or_else(|| format!("persistentvolumeclaims \"{}/{}\" not found", key.namespace, key.name))
    }

    fn is_older(&self, key: StorageKey, version: &str) -> bool {
        self.written.get(&key.into()).is_some_and(|written| is_older(version, written))
    }

    fn check_affinity(&self, volume: &Volume, of_translation: &str) -> Result<(), String> {
        let Some(terms) = self.affinity(volume).map_err(|error| format!("{of_translation}{error}"))? else {
            return Ok(());
        };
        let Some(terms) = reach::by_labels(terms) else { return Ok(()) };
        let why = match LoneNode::new(self.node).matches(&[], Some(&terms)) {
            Ok(true) => return Ok(()),
            Ok(false) => "no matching NodeSelectorTerms".to_owned(),
            Err(error) => error,
        };
        Err(format!("pv {:?} node affinity doesn't match node {:?}: {why}", volume.name, self.node.name))
    }

    /// Node affinity of a volume. If the node has migrated the volume's plugin, it is translated for the CSI driver. Source:
    /// `tryTranslatePVToCSI`.
    fn affinity<'v>(&self, volume: &'v Volume) -> Result<Option<&'v [NodeTerm]>, String> {
        let own = volume.node_affinity.as_deref();
        let VolumeSource::InTree(source) = &volume.source else { return Ok(own) };
        let csi_node = self.storage.csi_node(&self.node.name);
        let has = |csi_node: &CsiNode| csi_node.migrated_plugins.contains(&source.plugin);
        if !is_migrated(&source.plugin) || !csi_node.is_some_and(has) {
            return Ok(own);
        }
        match &source.handle {
            Ok(_) => Ok(source.node_affinity.as_deref().or(own)),
            Err(error) => Err(format!("could not translate pv: {error}")),
        }
    }
}

/// Source: `isPVCFullyBound`.
fn is_fully_bound(claim: &Claim) -> bool {
    !claim.volume_name.is_empty() && claim.bind_completed
}
