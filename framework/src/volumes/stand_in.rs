//! Stand-ins for the volumes of a class. Classes with the same stand-in have the same result on each node, so they are a family.
//!
//! A stand-in has the facts of the class, with attachments that no pod has. It has the same results as the class while no pod on a node has any
//! of the volumes of the class: each of them counts as one more volume of its driver, even if the node has a VolumeAttachment for it.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use indexmap::IndexMap;

use super::{
    facts::{Binding, BoundClaim, Claims, UnboundClaim, VolumeFacts, Wanted},
    mounts::{Mount, PodVolumes},
    node::Attachment,
};
use crate::class::{Class, NodeTerm};

/// The suffixes of the label keys for which many nodes have the same value.
const SHARED_LABELS: [&str; 2] = ["/zone", "/region"];

/// The stand-ins of all known families. Each is removed with the class that heads its family.
#[derive(Debug, Default)]
pub(super) struct StandIns {
    /// By the facts, and whether the classes have claims.
    names: IndexMap<(Arc<VolumeFacts>, bool), Arc<str>>,
    facts: IndexMap<Arc<str>, (Arc<VolumeFacts>, bool)>,
    next: u64,
}

impl StandIns {
    /// The stand-in for the volumes of a class with these facts; `None`: its results may differ from those of all other classes.
    pub(super) fn of(&mut self, class: &Class, facts: &VolumeFacts) -> Option<Arc<PodVolumes>> {
        let volumes = class.volumes.as_deref()?;
        if volumes.mounts.iter().any(|mount| matches!(mount, Mount::Inline(_))) {
            return None;
        }
        let has_claims = volumes.claims().next().is_some();
        let key = (Arc::new(stand_in(facts)?), has_claims);
        let name = self.names.get(&key).cloned().unwrap_or_else(|| {
            self.next += 1;
            let name: Arc<str> = format!("stand-in/{}", self.next).into();
            self.names.insert(key.clone(), Arc::clone(&name));
            self.facts.insert(Arc::clone(&name), key);
            name
        });
        let mount = if has_claims { Mount::Claim(name) } else { Mount::Csi(name) };
        Some(Arc::new(PodVolumes { mounts: vec![mount], owner: None }))
    }

    /// The facts of a class with a stand-in.
    pub(super) fn facts(&self, class: &Class) -> Option<Arc<VolumeFacts>> {
        Some(Arc::clone(&self.facts.get(name(class)?)?.0))
    }

    /// Removes the stand-in of a class, if it has one.
    pub(super) fn forget(&mut self, class: &Class) {
        if let Some(key) = name(class).and_then(|name| self.facts.swap_remove(name)) {
            self.names.swap_remove(&key);
        }
    }
}

/// The name of the only volume. No object has the name of a stand-in, because names have no slash.
fn name(class: &Class) -> Option<&Arc<str>> {
    match class.volumes.as_ref()?.mounts.as_slice() {
        [Mount::Claim(name) | Mount::Csi(name)] => Some(name),
        _ => None,
    }
}

/// The attachments of stand-ins, one for each place in the pod.
pub(super) fn placeholder(driver: &Arc<str>, place: usize) -> Attachment {
    Attachment { driver: Arc::clone(driver), handle: format!("stand-in/{place}").into() }
}

/// The facts with other attachments; `None`: a filter may fail, or the facts are of this class only.
fn stand_in(facts: &VolumeFacts) -> Option<VolumeFacts> {
    let VolumeFacts { exclusive, exclusive_claims, wanted, demanded, uncountable, binding, zones } = facts;
    let is_common = match binding {
        Binding::Nothing => true,
        Binding::Refuse(_) | Binding::Fail(_) => false,
        Binding::Claims(claims) => is_common(claims),
    };
    if *exclusive != Ok(0) || !exclusive_claims.is_empty() || !uncountable.is_empty() || zones.is_err() || !is_common {
        return None;
    }
    let mut attachments: Vec<&Attachment> = Vec::new();
    let mut others = Vec::new();
    for (place, one) in wanted.iter().enumerate() {
        let Wanted::Attach { attachment, migrated } = one else { return None };
        if attachments.contains(&attachment) {
            return None;
        }
        attachments.push(attachment);
        others.push(Wanted::Attach { attachment: placeholder(&attachment.driver, place), migrated: *migrated });
    }
    Some(VolumeFacts {
        exclusive: Ok(0),
        exclusive_claims: Vec::new(),
        wanted: others,
        demanded: demanded.clone(),
        uncountable: Vec::new(),
        binding: binding.clone(),
        zones: zones.clone(),
    })
}

/// Whether no claim fails, and other classes have the same ones: free volumes and capacities change with each bind.
fn is_common(Claims { bound, unbound, volumes, reaches }: &Claims) -> bool {
    let is_found = |claim: &BoundClaim| match claim {
        BoundClaim::Lost => false,
        BoundClaim::Volume { migrated, .. } => migrated.as_ref().is_none_or(|migrated| migrated.reach.is_ok()),
    };
    let is_provisioned = |claim: &UnboundClaim| {
        let rooms = claim.provision.as_ref().and_then(|provision| provision.rooms.as_ref());
        claim.selected_node.is_none() && claim.error.is_none() && rooms.is_none()
    };
    let is_shared = |term: &NodeTerm| {
        let mut keys = term.expressions.iter().map(|expression| &expression.key);
        term.fields.is_empty() && keys.all(|key| SHARED_LABELS.iter().any(|suffix| key.ends_with(suffix)))
    };
    volumes.is_empty()
        && bound.iter().all(is_found)
        && unbound.iter().all(is_provisioned)
        && reaches.iter().flatten().all(is_shared)
}
