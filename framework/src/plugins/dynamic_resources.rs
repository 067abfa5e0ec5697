//! DynamicResources: a node is feasible if it can use or provide the devices of a pod's claims. Nodes with preferred alternatives score
//! higher.

mod search;

use super::normalize;
use crate::{
    class::Class,
    devices::{
        cache::DeviceCache,
        claimed::{ClaimSource, PodDevices},
        facts::DeviceFacts,
        objects::DeviceObject,
    },
    evaluation::Refused,
    extension::{
        ClusterEvent, Filter, Kind, NodeScore, Normalize, Plugin, PreFilter, Preparation, Score, objects::ObjectCache,
    },
    plugins::wakers::{NODE_ADD, NODE_ALLOCATABLE, NODE_LABEL},
    prepared::Prepared,
    profile::Args,
    snapshot::{Slot, Snapshot},
};
pub(crate) use search::LAST_MARK;
use search::{Preferred, Search};

/// The plugin's name.
pub const NAME: &str = "DynamicResources";

/// The plugin.
#[derive(Debug)]
pub struct DynamicResources;

impl Plugin for DynamicResources {
    fn name(&self) -> &'static str {
        NAME
    }

    fn skips_deferred_resizes(&self) -> bool {
        true
    }

    fn pre_filter(&self, preparation: &mut Preparation<'_>) -> PreFilter {
        match &preparation.facts.devices {
            None => PreFilter::Skip,
            Some(DeviceFacts::Refuse(reason)) => PreFilter::Refuse(reason.as_ref().to_owned()),
            Some(DeviceFacts::Fail(error)) => PreFilter::Fail(error.as_ref().to_owned()),
            Some(DeviceFacts::Claims(_)) => PreFilter::Continue,
        }
    }

    fn filter(&self, preparation: &mut Preparation<'_>) -> Option<Filter> {
        let Some(DeviceFacts::Claims(claims)) = &preparation.facts.devices else { return None };
        Some(Filter::Node(Box::new(Search::new(claims, &mut preparation.symbols))))
    }

    fn score(&self, preparation: &mut Preparation<'_>) -> Option<Score> {
        let search = match &preparation.facts.devices {
            Some(DeviceFacts::Claims(claims)) if preparation.is_filtered => {
                Some(Search::new(claims, &mut preparation.symbols)).filter(Search::prefers)
            }
            _ => None,
        };
        Some(Score::Node(match search {
            Some(search) => Box::new(Preferred(search)),
            None => Box::new(Nothing),
        }))
    }

    fn normalize(&self) -> Option<Normalize> {
        Some(normalize::scaled)
    }

    fn events(&self) -> &'static [&'static str] {
        &[
            NODE_ADD,
            NODE_LABEL,
            NODE_ALLOCATABLE,
            "ResourceClaimAdd",
            "ResourceClaimUpdate",
            "ResourceClaimDelete",
            "TargetPodUpdatePodGeneratedResourceClaim",
            "DeviceClassAdd",
            "DeviceClassUpdate",
            "DeviceClassDelete",
            "ResourceSliceAdd",
            "ResourceSliceUpdate",
            "ResourceSliceDelete",
        ]
    }

    fn wakes(&self, event: ClusterEvent<'_>, class: &Class, _args: &Args) -> bool {
        match event {
            ClusterEvent::NodeAdded(_) => true,
            ClusterEvent::NodeUpdated { old, new } => old.labels != new.labels || old.allocatable != new.allocatable,
            ClusterEvent::TargetUpdated { old, new } => old.devices != new.devices,
            ClusterEvent::DeviceChanged { old, new } => {
                class.devices.as_ref().is_some_and(|devices| changed(old, new, devices, &class.namespace))
            }
            _ => false,
        }
    }

    fn reads(&self, _args: &Args) -> &'static [Kind] {
        &[Kind::ResourceClaim, Kind::DeviceClass, Kind::ResourceSlice, Kind::DeviceTaintRule]
    }

    fn objects(&self) -> Option<Box<dyn ObjectCache>> {
        Some(Box::new(DeviceCache::of(self.name())))
    }
}

/// Claims that made nodes infeasible, one bit per index. The last of 32 bits covers all further claims.
#[must_use]
pub fn unavailable(prepared: &Prepared, refused: &[Refused]) -> u64 {
    let by_us = refused.iter().filter(|group| prepared.plugin(group.order) == Some(NAME));
    let details = by_us.map(|group| group.refusal.detail).filter(|detail| detail & search::UNAVAILABLE != 0);
    details.fold(0, |all, detail| all | detail & u64::from(u32::MAX))
}

/// Whether a change of an object may help a pod with these devices. Changes of a generated claim wake the pod by changing its class, if
/// that class does not name claims.
///
/// Any change or deletion of a slice, class or taint rule may help. Without a rule, its devices can be allocated. Without a slice, the pool
/// may fall back to a complete generation, or a request for all devices may no longer include an allocated one. Without a class, another
/// one may provide an extended resource. kube-scheduler ignores deleted slices and classes; its tracker reports a deleted rule as an update
/// of slices.
///
/// Source: `isSchedulableAfterClaimChange`.
fn changed(old: Option<&DeviceObject>, new: Option<&DeviceObject>, devices: &PodDevices, namespace: &str) -> bool {
    match (old, new) {
        (Some(DeviceObject::Claim(old)), None) => old.allocation.is_some(),
        (Some(DeviceObject::Claim(old)), Some(DeviceObject::Claim(new)))
            if old.allocation.is_some() && old.allocation != new.allocation =>
        {
            true
        }
        (old, Some(DeviceObject::Claim(new))) => {
            let is_its = |source: &ClaimSource| match source {
                ClaimSource::Named(name) | ClaimSource::Generated(name) => *name == new.name,
                _ => false,
            };
            let is_same = |old: &DeviceObject| match old {
                DeviceObject::Claim(old) => {
                    old.allocation == new.allocation
                        && old.reserved_for == new.reserved_for
                        && old.statuses == new.statuses
                        && !old.is_deleting
                }
                _ => false,
            };
            *new.namespace == *namespace
                && devices.claims.iter().any(|claim| is_its(&claim.source))
                && !old.is_some_and(is_same)
        }
        (None, None) => false,
        _ => true,
    }
}

/// Scores every node 0, as the plugin does if it is not skipped for a pod without preferences.
pub(super) struct Nothing;

impl NodeScore for Nothing {
    fn score(&self, _nodes: &Snapshot, _slot: Slot) -> i64 {
        0
    }

    fn add_column(&self, _nodes: &Snapshot, _todo: &[Slot], _weight: i64, _sums: &mut [i64]) {}

    fn is_nothing(&self) -> bool {
        true
    }
}
