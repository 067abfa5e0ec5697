//! VolumeRestrictions: conflicts over disks, and ReadWriteOncePod claims.

use std::sync::Arc;

use crate::{
    class::Class,
    extension::{ClusterEvent, Filter, Kind, NodeFilter, Plugin, PreFilter, Preparation},
    plugins::wakers::{CLAIM_ADD, NODE_ADD, POD_DELETE},
    profile::Args,
    snapshot::{Slot, Snapshot},
    status::{FilterResult, Refusal},
    volumes::{mounts::PodVolumes, objects::StorageObject},
};

/// A pod on the node uses the disk.
const DISK: u64 = 0;
/// Another pod uses the claim.
const CLAIM: u64 = 1;
const UNPREPARED: u64 = 2;

/// The plugin.
#[derive(Debug)]
pub struct VolumeRestrictions;

impl Plugin for VolumeRestrictions {
    fn name(&self) -> &'static str {
        "VolumeRestrictions"
    }

    fn skips_deferred_resizes(&self) -> bool {
        true
    }

    fn pre_filter(&self, preparation: &mut Preparation<'_>) -> PreFilter {
        let Some(facts) = &preparation.facts.volumes else { return PreFilter::Skip };
        let has_disks = preparation.class.volumes.iter().any(|volumes| volumes.disks().next().is_some());
        match &facts.exclusive {
            Err(reason) => PreFilter::Refuse(reason.as_ref().to_owned()),
            Ok(0) if !has_disks => PreFilter::Skip,
            Ok(_) => PreFilter::Continue,
        }
    }

    fn filter(&self, preparation: &mut Preparation<'_>) -> Option<Filter> {
        let facts = preparation.facts.volumes.as_ref();
        let in_use = facts.map_or(Ok(0), |facts| facts.exclusive.as_ref().copied());
        Some(Filter::Node(Box::new(Shared {
            volumes: preparation.class.volumes.clone(),
            in_use: in_use.map_or(1, i64::from),
            claims: facts.map(|facts| facts.exclusive_claims.clone()).unwrap_or_default(),
            is_prepared: preparation.is_pre_filtered,
        })))
    }

    fn events(&self) -> &'static [&'static str] {
        &[POD_DELETE, NODE_ADD, CLAIM_ADD]
    }

    fn wakes(&self, event: ClusterEvent<'_>, class: &Class, _args: &Args) -> bool {
        match event {
            ClusterEvent::NodeAdded(_) => true,
            ClusterEvent::PodRemoved(gone) => class.namespace == gone.namespace && shares(class, gone),
            ClusterEvent::StorageChanged { old: None, new: Some(StorageObject::Claim(claim)) } => {
                claim.namespace == class.namespace && names(class, &claim.name)
            }
            _ => false,
        }
    }

    fn reads(&self, _args: &Args) -> &'static [Kind] {
        &[Kind::PersistentVolumeClaim]
    }
}

/// Whether two pods of a namespace conflict on a node, or use the same claim.
fn shares(class: &Class, gone: &Class) -> bool {
    let (Some(wanted), Some(taken)) = (&class.volumes, &gone.volumes) else { return false };
    wanted.conflict(taken) || taken.named_claims().any(|claim| names(class, claim))
}

fn names(class: &Class, claim: &str) -> bool {
    class.volumes.iter().any(|volumes| volumes.named_claims().any(|name| **name == *claim))
}

struct Shared {
    volumes: Option<Arc<PodVolumes>>,
    /// Number of the pod's ReadWriteOncePod claims in use.
    in_use: i64,
    claims: Vec<Arc<str>>,
    is_prepared: bool,
}

impl Shared {
    fn conflicts(&self, nodes: &Snapshot, slot: Slot) -> bool {
        let Some(own) = self.volumes.as_deref().filter(|own| own.disks().next().is_some()) else { return false };
        let others = nodes.tenants(slot).iter().filter_map(|(class, _)| nodes.class(*class)?.volumes.as_deref());
        others.into_iter().any(|other| own.conflict(other))
    }
}

impl NodeFilter for Shared {
    fn filter(&self, nodes: &Snapshot, slot: Slot) -> FilterResult {
        self.filter_shifted(nodes, slot, 0)
    }

    /// Source: `conflictingPVCRefCountForPod`, which ignores namespaces.
    fn counts(&self, class: &Class) -> i64 {
        let named = class.volumes.iter().flat_map(|volumes| volumes.named_claims());
        i64::try_from(named.filter(|name| self.claims.contains(name)).count()).unwrap_or(i64::MAX)
    }

    fn filter_shifted(&self, nodes: &Snapshot, slot: Slot, shift: i64) -> FilterResult {
        if self.conflicts(nodes, slot) {
            return Err(Refusal::unschedulable(DISK));
        }
        if !self.is_prepared {
            return Err(Refusal::error(UNPREPARED));
        }
        if self.in_use.saturating_add(shift) > 0 { Err(Refusal::unschedulable(CLAIM)) } else { Ok(()) }
    }

    fn reasons(&self, detail: u64) -> Vec<String> {
        let reason = match detail {
            DISK => "node(s) had no available disk",
            CLAIM => {
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by \
                 another pod"
            }
            _ => {
                "running \"VolumeRestrictions\" filter plugin: cannot read \"PreFilterVolumeRestrictions\" from cycleState"
            }
        };
        vec![reason.to_owned()]
    }
}

#[cfg(test)]
mod tests;
