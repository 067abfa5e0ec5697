//! VolumeZone: the node must be in the zones of a volume's labels.

use crate::{
    class::Class,
    extension::{ClusterEvent, Filter, Kind, NodeFilter, Plugin, PreFilter, Preparation},
    plugins::wakers::{CLAIM_ADD, CLAIM_UPDATE, CLASS_ADD, NODE_ADD, NODE_LABEL, VOLUME_ADD, VOLUME_UPDATE},
    profile::Args,
    snapshot::{Slot, Snapshot},
    status::{FilterResult, Refusal},
    symbols::Symbol,
    volumes::{
        objects::{BindingMode, StorageObject},
        zones::{KEYS, of_volume},
    },
};

const ZONE: u64 = 0;
/// The zones cannot be determined, and PreFilter did not run to report it.
const UNKNOWN: u64 = 1;

/// The plugin.
#[derive(Debug)]
pub struct VolumeZone;

impl Plugin for VolumeZone {
    fn name(&self) -> &'static str {
        "VolumeZone"
    }

    fn skips_deferred_resizes(&self) -> bool {
        true
    }

    fn pre_filter(&self, preparation: &mut Preparation<'_>) -> PreFilter {
        match preparation.facts.volumes.as_ref().map(|facts| &facts.zones) {
            None => PreFilter::Skip,
            Some(Err(reason)) => PreFilter::Refuse(reason.as_ref().to_owned()),
            Some(Ok(zones)) if zones.is_empty() => PreFilter::Skip,
            Some(Ok(_)) => PreFilter::Continue,
        }
    }

    fn filter(&self, preparation: &mut Preparation<'_>) -> Option<Filter> {
        let zones = match &preparation.facts.volumes.as_ref()?.zones {
            Err(reason) => return Some(Filter::Node(Box::new(Unknown(reason.as_ref().to_owned())))),
            Ok(zones) => zones,
        };
        let symbols = &mut preparation.symbols;
        let constraints = KEYS.map(|key| symbols.number(key));
        let mut wanted = Vec::with_capacity(zones.len());
        for zone in zones {
            let keys = [symbols.number(&zone.key), symbols.number(general(&zone.key))];
            wanted.push((keys, zone.values.iter().map(|value| symbols.number(value)).collect()));
        }
        Some(Filter::Node(Box::new(Zones { constraints, wanted })))
    }

    fn events(&self) -> &'static [&'static str] {
        &[CLASS_ADD, NODE_ADD, NODE_LABEL, CLAIM_ADD, CLAIM_UPDATE, VOLUME_ADD, VOLUME_UPDATE]
    }

    fn wakes(&self, event: ClusterEvent<'_>, class: &Class, _args: &Args) -> bool {
        match event {
            ClusterEvent::NodeAdded(_) => true,
            ClusterEvent::NodeUpdated { old, new } => old.labels != new.labels,
            ClusterEvent::StorageChanged { old, new: Some(new) } => changed(old, new, class),
            _ => false,
        }
    }

    fn reads(&self, _args: &Args) -> &'static [Kind] {
        &[Kind::PersistentVolumeClaim, Kind::PersistentVolume, Kind::StorageClass]
    }
}

/// Source: the hints of `VolumeZone.EventsToRegister`.
fn changed(old: Option<&StorageObject>, new: &StorageObject, class: &Class) -> bool {
    match (old, new) {
        (None, StorageObject::StorageClass(added)) => added.binding_mode == Some(BindingMode::WaitForFirstConsumer),
        (_, StorageObject::Claim(claim)) => {
            let mut names = class.volumes.iter().flat_map(|volumes| volumes.named_claims());
            claim.namespace == class.namespace && names.any(|name| *name == claim.name)
        }
        (None, StorageObject::Volume(_)) => true,
        (Some(StorageObject::Volume(old)), StorageObject::Volume(new)) => !of_volume(old).eq(of_volume(new)),
        _ => false,
    }
}

/// The GA label for a beta label. Source: `translateToGALabel`.
fn general(key: &str) -> &str {
    let place = KEYS.iter().position(|known| *known == key);
    match place {
        Some(0) => KEYS[2],
        Some(1) => KEYS[3],
        _ => key,
    }
}

struct Zones {
    /// A node without any of these labels is in no zone, and is feasible.
    constraints: [Symbol; 4],
    /// Of each pair of labels, the first that a node has must have one of the values.
    wanted: Vec<([Symbol; 2], Vec<Symbol>)>,
}

impl NodeFilter for Zones {
    fn filter(&self, nodes: &Snapshot, slot: Slot) -> FilterResult {
        let label = |key: &Symbol| Some(nodes.label(*key, slot)).filter(|value| *value != Symbol::NONE);
        if !self.constraints.iter().any(|key| label(key).is_some()) {
            return Ok(());
        }
        let suits = |(keys, values): &([Symbol; 2], Vec<Symbol>)| {
            keys.iter().find_map(label).is_some_and(|value| values.contains(&value))
        };
        if self.wanted.iter().all(suits) { Ok(()) } else { Err(Refusal::unresolvable(ZONE)) }
    }

    fn reasons(&self, _detail: u64) -> Vec<String> {
        vec!["node(s) had no available volume zone".to_owned()]
    }
}

/// Filter of a profile without PreFilter, if PreFilter would have rejected the pod.
struct Unknown(String);

impl NodeFilter for Unknown {
    fn filter(&self, _nodes: &Snapshot, _slot: Slot) -> FilterResult {
        Err(Refusal::unresolvable(UNKNOWN))
    }

    fn reasons(&self, _detail: u64) -> Vec<String> {
        vec![self.0.clone()]
    }
}

#[cfg(test)]
mod tests;
