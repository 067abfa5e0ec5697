//! VolumeBinding: a node is feasible if it can reach the volumes of a pod's claims, or if these can be bound or provisioned there. The
//! score depends on the utilization of their storage.

use indexmap::IndexMap;

use super::{dynamic_resources::Nothing, scorer::broken_line};
use crate::{
    class::Class,
    extension::{
        ClusterEvent, Filter, Kind, NodeFilter, NodeScore, Plugin, PreFilter, PreScore, Preparation, Score,
        objects::ObjectCache,
    },
    plugins::wakers::{
        CLAIM_ADD, CLAIM_UPDATE, CLASS_ADD, CLASS_UPDATE, CSI_NODE_ADD, CSI_NODE_UPDATE, NODE_ADD, NODE_LABEL,
        VOLUME_ADD, VOLUME_UPDATE,
    },
    profile::{Args, ShapePoint},
    snapshot::{Slot, Snapshot},
    status::{FilterResult, Refusal},
    volumes::{
        cache::VolumeCache,
        facts::{Binding, BoundClaim, Claims},
        finder::{BIND_CONFLICT, Finder, Found, Lacking, NO_SPACE, NO_VOLUME, NODE_CONFLICT},
        mounts::Mount,
        objects::{CsiDriver, StorageCapacity, StorageObject},
    },
};

/// The volume of a bound claim cannot be determined; the claim's index is in the lower half.
const BOUND_ERROR: u64 = 1 << 32;
/// Volumes cannot be searched; the claim's index is in the lower half.
const UNBOUND_ERROR: u64 = 2 << 32;
const UNPREPARED: u64 = 3 << 32;

/// Upstream's error without a PreFilter result.
const NOT_FOUND: &str = "not found";

/// The plugin.
#[derive(Debug)]
pub struct VolumeBinding;

impl Plugin for VolumeBinding {
    fn name(&self) -> &'static str {
        "VolumeBinding"
    }

    fn skips_deferred_resizes(&self) -> bool {
        true
    }

    fn pre_filter(&self, preparation: &mut Preparation<'_>) -> PreFilter {
        match preparation.facts.volumes.as_ref().map(|facts| &facts.binding) {
            None | Some(Binding::Nothing) => PreFilter::Skip,
            Some(Binding::Refuse(reason)) => PreFilter::Refuse(reason.as_ref().to_owned()),
            Some(Binding::Fail(error)) => PreFilter::Fail(error.as_ref().to_owned()),
            Some(Binding::Claims(_)) => PreFilter::Continue,
        }
    }

    fn filter(&self, preparation: &mut Preparation<'_>) -> Option<Filter> {
        if !preparation.is_pre_filtered {
            return Some(Filter::Node(Box::new(Unprepared)));
        }
        let finder = finder(preparation)?;
        Some(Filter::Node(Box::new(Findable(finder))))
    }

    /// Without a shape there are no scores. With one, the plugin is never skipped.
    fn pre_score(&self, preparation: &mut Preparation<'_>) -> PreScore {
        if preparation.args.volume_binding.shape.is_empty() {
            return PreScore::Skip;
        }
        if preparation.is_pre_filtered { PreScore::Continue } else { PreScore::Fail(NOT_FOUND.to_owned()) }
    }

    fn fails_without_pre_score(&self, preparation: &mut Preparation<'_>) -> Option<String> {
        let scores = !preparation.args.volume_binding.shape.is_empty();
        (scores && !preparation.is_pre_filtered).then(|| NOT_FOUND.to_owned())
    }

    fn score(&self, preparation: &mut Preparation<'_>) -> Option<Score> {
        let shape = preparation.args.volume_binding.shape.clone();
        let finder = finder(preparation)
            .filter(|finder| preparation.is_filtered && !shape.is_empty() && !finder.claims().unbound.is_empty());
        Some(Score::Node(match finder {
            Some(finder) => Box::new(Fullness { finder, shape }),
            None => Box::new(Nothing),
        }))
    }

    fn events(&self) -> &'static [&'static str] {
        &[
            CLASS_ADD,
            CLASS_UPDATE,
            CLAIM_ADD,
            CLAIM_UPDATE,
            VOLUME_ADD,
            VOLUME_UPDATE,
            NODE_ADD,
            NODE_LABEL,
            CSI_NODE_ADD,
            CSI_NODE_UPDATE,
            "CSIDriverUpdate",
            "CSIDriverDelete",
            "CSIStorageCapacityAdd",
            "CSIStorageCapacityUpdate",
        ]
    }

    fn wakes(&self, event: ClusterEvent<'_>, class: &Class, _args: &Args) -> bool {
        match event {
            ClusterEvent::NodeAdded(_) => true,
            ClusterEvent::NodeUpdated { old, new } => old.labels != new.labels,
            ClusterEvent::StorageChanged { old, new: Some(new) } => changed(old, new, class),
            // The capacity of a driver without a CSIDriver is not checked. kube-scheduler ignores this event.
            ClusterEvent::StorageChanged { old: Some(StorageObject::CsiDriver(gone)), new: None } => {
                gone.storage_capacity
            }
            _ => false,
        }
    }

    fn reads(&self, _args: &Args) -> &'static [Kind] {
        &[
            Kind::PersistentVolumeClaim,
            Kind::PersistentVolume,
            Kind::StorageClass,
            Kind::CsiDriver,
            Kind::CsiStorageCapacity,
            Kind::CsiNode,
        ]
    }

    fn objects(&self) -> Option<Box<dyn ObjectCache>> {
        Some(Box::new(VolumeCache::of(self.name())))
    }
}

/// Source: the hints of `VolumeBinding.EventsToRegister`.
fn changed(old: Option<&StorageObject>, new: &StorageObject, class: &Class) -> bool {
    match (old, new) {
        (_, StorageObject::Volume(_)) => true,
        (_, StorageObject::Claim(claim)) => {
            let mut claims = class.volumes.iter().flat_map(|volumes| volumes.claims());
            claim.namespace == class.namespace && claims.any(|(name, _)| *name == claim.name)
        }
        (Some(StorageObject::StorageClass(old)), StorageObject::StorageClass(new)) => {
            old.allowed_topologies != new.allowed_topologies
        }
        (Some(StorageObject::CsiNode(old)), StorageObject::CsiNode(new)) => {
            old.migrated_plugins != new.migrated_plugins
        }
        (Some(StorageObject::StorageCapacity(old)), StorageObject::StorageCapacity(new)) => {
            let limit = |room: &StorageCapacity| room.maximum_volume_size.or(room.capacity).map(|limit| limit.units());
            limit(new).is_some_and(|new| limit(old).is_none_or(|old| new > old))
        }
        (Some(StorageObject::CsiDriver(old)), StorageObject::CsiDriver(new)) => stops_counting(old, new, class),
        (None, StorageObject::StorageClass(_) | StorageObject::CsiNode(_) | StorageObject::StorageCapacity(_)) => true,
        _ => false,
    }
}

/// Whether the driver of an inline volume stops reporting storage capacity.
fn stops_counting(old: &CsiDriver, new: &CsiDriver, class: &Class) -> bool {
    let mut mounts = class.volumes.iter().flat_map(|volumes| &volumes.mounts);
    let is_its = mounts.any(|mount| matches!(mount, Mount::Csi(driver) if *driver == new.name));
    is_its && old.storage_capacity && !new.storage_capacity
}

fn finder(preparation: &mut Preparation<'_>) -> Option<Finder> {
    match &preparation.facts.volumes.as_ref()?.binding {
        Binding::Claims(claims) => Some(Finder::new(claims, &mut preparation.symbols)),
        Binding::Nothing | Binding::Refuse(_) | Binding::Fail(_) => None,
    }
}

struct Findable(Finder);

impl NodeFilter for Findable {
    fn filter(&self, nodes: &Snapshot, slot: Slot) -> FilterResult {
        match self.0.find(nodes, slot) {
            Ok(_) => Ok(()),
            Err(Lacking::Reasons(reasons)) => Err(Refusal::unresolvable(reasons)),
            Err(Lacking::BoundError(claim)) => Err(Refusal::error(BOUND_ERROR | claim as u64)),
            Err(Lacking::UnboundError(claim)) => Err(Refusal::error(UNBOUND_ERROR | claim as u64)),
        }
    }

    fn reasons(&self, detail: u64) -> Vec<String> {
        let claims = self.0.claims();
        let place = usize::try_from(detail & u64::from(u32::MAX)).unwrap_or(usize::MAX);
        let error = match detail & !u64::from(u32::MAX) {
            BOUND_ERROR => match claims.bound.get(place) {
                Some(BoundClaim::Volume { migrated: Some(migrated), .. }) => migrated.reach.as_ref().err(),
                Some(BoundClaim::Lost | BoundClaim::Volume { .. }) | None => None,
            },
            UNBOUND_ERROR => claims.unbound.get(place).and_then(|claim| claim.error.as_ref()),
            _ => return words(detail),
        };
        error.map(|error| failed(error)).into_iter().collect()
    }
}

fn words(reasons: u64) -> Vec<String> {
    let all = [
        (NODE_CONFLICT, "node(s) didn't match PersistentVolume's node affinity"),
        (BIND_CONFLICT, "node(s) didn't find available persistent volumes to bind"),
        (NO_SPACE, "node(s) did not have enough free storage"),
        (NO_VOLUME, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
    ];
    all.into_iter().filter(|(bit, _)| reasons & bit != 0).map(|(_, words)| words.to_owned()).collect()
}

fn failed(error: &str) -> String {
    format!("running \"VolumeBinding\" filter plugin: {error}")
}

/// Filter of a profile without PreFilter.
struct Unprepared;

impl NodeFilter for Unprepared {
    fn filter(&self, _nodes: &Snapshot, _slot: Slot) -> FilterResult {
        Err(Refusal::error(UNPREPARED))
    }

    fn reasons(&self, _detail: u64) -> Vec<String> {
        vec![failed(NOT_FOUND)]
    }
}

/// Scores the mean utilization of the storage classes, all with equal weight.
///
/// Source: `VolumeBinding.Score`, `buildScorerFunction`. Upstream panics if a capacity has only a maximum volume size; here it counts as
/// full.
struct Fullness {
    finder: Finder,
    shape: Vec<ShapePoint>,
}

impl Fullness {
    fn score_of(&self, found: &Found) -> i64 {
        let Claims { unbound, volumes, .. } = self.finder.claims();
        let mut classes: IndexMap<&str, (i64, i64)> = IndexMap::new();
        for &(claim, volume) in &found.bindings {
            let (Some(claim), Some(volume)) = (unbound.get(claim), volumes.get(volume as usize)) else { continue };
            let (requested, capacity) = classes.entry(&claim.storage_class).or_default();
            *requested = requested.wrapping_add(claim.requested);
            *capacity = capacity.wrapping_add(volume.capacity);
        }
        if found.bindings.is_empty() {
            for &(claim, room) in &found.provisions {
                let Some(claim) = unbound.get(claim) else { continue };
                let rooms = claim.provision.as_ref().and_then(|provision| provision.rooms.as_ref());
                let Some(room) = room.and_then(|room| rooms?.get(room)) else { continue };
                let (requested, capacity) = classes.entry(&claim.storage_class).or_default();
                *requested = requested.wrapping_add(claim.requested);
                // All claims of a class share this capacity.
                *capacity = room.capacity;
            }
        }
        self.mean(&classes)
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "upstream rounds in floating point"
    )]
    fn mean(&self, classes: &IndexMap<&str, (i64, i64)>) -> i64 {
        if classes.is_empty() {
            return 0;
        }
        let score = |&(requested, capacity): &(i64, i64)| {
            let is_full = capacity == 0 || requested > capacity;
            let utilization = if is_full { 100 } else { requested.wrapping_mul(100).wrapping_div(capacity) };
            broken_line(&self.shape, utilization)
        };
        let sum: i64 = classes.values().map(score).sum();
        (sum as f64 / classes.len() as f64).round() as i64
    }
}

impl NodeScore for Fullness {
    fn score(&self, nodes: &Snapshot, slot: Slot) -> i64 {
        self.finder.find(nodes, slot).map_or(0, |found| self.score_of(&found))
    }
}

#[cfg(test)]
mod tests;
