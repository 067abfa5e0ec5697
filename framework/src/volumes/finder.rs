//! Finds volumes for a pod's claims on one node.
//!
//! Source: `volumeBinder.FindPodVolumes`, `checkBoundClaims`, `findMatchingVolumes`, `checkVolumeProvisions`, component-helpers
//! `volume.FindMatchingVolume`.

use indexmap::IndexMap;
use smallvec::SmallVec;

use super::facts::{BoundClaim, Claims, Reach, UnboundClaim};
use crate::{
    class::NodeTerm,
    selector::{self, Term},
    snapshot::{Slot, Snapshot},
    symbols::{Lookup, Symbol},
};

/// The node cannot reach the volume of a bound claim.
pub(crate) const NODE_CONFLICT: u64 = 1;
/// No volume matches a claim, and none can be provisioned.
pub(crate) const BIND_CONFLICT: u64 = 1 << 1;
/// The storage capacity does not suffice for a volume.
pub(crate) const NO_SPACE: u64 = 1 << 2;
/// The volume of a bound claim does not exist.
pub(crate) const NO_VOLUME: u64 = 1 << 3;

pub(crate) struct Finder {
    claims: Claims,
    reaches: Vec<Vec<Term>>,
    /// Per unbound claim: its selected node, and its volumes.
    unbound: Vec<(Option<Symbol>, Pins)>,
}

/// Volumes that match a claim, by the one label that their nodes must have. This avoids checking each volume on each node. Indices are
/// ascending.
#[derive(Default)]
struct Pins {
    keys: Vec<Symbol>,
    pinned: IndexMap<(Symbol, Symbol), Vec<u32>>,
    others: Vec<u32>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) bindings: SmallVec<[(usize, u32); 2]>,
    /// Claims with volumes to provision, and the index of the capacity.
    pub(crate) provisions: SmallVec<[(usize, Option<usize>); 2]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lacking {
    /// Reasons of the node, a set of the constants above.
    Reasons(u64),
    /// The volume of this bound claim cannot be determined.
    BoundError(usize),
    /// Volumes for this unbound claim cannot be determined.
    UnboundError(usize),
}

impl Finder {
    pub(crate) fn new(claims: &Claims, symbols: &mut Lookup<'_>) -> Self {
        let compile = |terms: &Vec<NodeTerm>, symbols: &mut Lookup<'_>| {
            // Invalid terms match nothing.
            terms.iter().filter_map(|term| selector::compile(term, symbols).ok().flatten()).collect()
        };
        let reaches = claims.reaches.iter().map(|terms| compile(terms, symbols)).collect();
        let unbound = claims.unbound.iter().map(|claim| {
            (claim.selected_node.as_ref().map(|node| symbols.number(node)), Pins::new(claims, claim, symbols))
        });
        let unbound = unbound.collect();
        Self { claims: claims.clone(), reaches, unbound }
    }

    pub(crate) const fn claims(&self) -> &Claims {
        &self.claims
    }

    pub(crate) fn find(&self, nodes: &Snapshot, slot: Slot) -> Result<Found, Lacking> {
        let bound = self.bound(nodes, slot)?;
        let (unbound, found) = self.unbound(nodes, slot)?;
        if bound | unbound == 0 { Ok(found) } else { Err(Lacking::Reasons(bound | unbound)) }
    }

    fn bound(&self, nodes: &Snapshot, slot: Slot) -> Result<u64, Lacking> {
        for (number, claim) in self.claims.bound.iter().enumerate() {
            let (reach, migrated) = match claim {
                BoundClaim::Lost => return Ok(NO_VOLUME),
                BoundClaim::Volume { reach, migrated } => (*reach, migrated),
            };
            let has = |plugin: &str| {
                nodes.csi(slot).is_some_and(|csi| csi.migrated_plugins.iter().any(|one| **one == *plugin))
            };
            let reach = match migrated.as_ref().filter(|migrated| has(&migrated.plugin)) {
                Some(migrated) => *migrated.reach.as_ref().map_err(|_| Lacking::BoundError(number))?,
                None => reach,
            };
            if !self.reaches(reach, nodes, slot) {
                return Ok(NODE_CONFLICT);
            }
        }
        Ok(0)
    }

    fn unbound(&self, nodes: &Snapshot, slot: Slot) -> Result<(u64, Found), Lacking> {
        let mut found = Found::default();
        let name = nodes.name(slot);
        if self.unbound.iter().any(|(selected, _)| selected.is_some_and(|selected| selected != name)) {
            return Ok((BIND_CONFLICT, found));
        }
        let mut made: SmallVec<[usize; 4]> = SmallVec::new();
        for (number, claim) in self.claims.unbound.iter().enumerate() {
            if claim.error.is_some() {
                return Err(Lacking::UnboundError(number));
            }
            let taken = |place: u32| found.bindings.iter().any(|&(_, other)| other == place);
            match self.volume(number, claim, nodes, slot, &taken) {
                Some(place) => found.bindings.push((number, place)),
                None => made.push(number),
            }
        }
        for number in made {
            match self.provision(&self.claims.unbound[number], nodes, slot) {
                Ok(room) => found.provisions.push((number, room)),
                Err(reason) => return Ok((reason, found)),
            }
        }
        Ok((0, found))
    }

    /// Volume for a claim: the pre-bound one, otherwise the smallest.
    fn volume(
        &self,
        number: usize,
        claim: &UnboundClaim,
        nodes: &Snapshot,
        slot: Slot,
        taken: &dyn Fn(u32) -> bool,
    ) -> Option<u32> {
        let reachable = |place: u32| {
            let volume = self.claims.volumes.get(place as usize);
            volume.is_some_and(|volume| self.reaches(volume.reach, nodes, slot))
        };
        if let Some(&place) = claim.set_aside.iter().find(|&&place| !taken(place)) {
            return reachable(place).then_some(place);
        }
        let pins = &self.unbound[number].1;
        let suits = |&&place: &&u32| !taken(place) && reachable(place);
        let first = |list: &[u32]| list.iter().find(suits).copied();
        let pinned = pins.keys.iter().filter_map(|&key| pins.pinned.get(&(key, nodes.label(key, slot))));
        pinned.filter_map(|list| first(list)).chain(first(&pins.others)).min()
    }

    fn provision(&self, claim: &UnboundClaim, nodes: &Snapshot, slot: Slot) -> Result<Option<usize>, u64> {
        let provision = claim.provision.as_ref().ok_or(BIND_CONFLICT)?;
        if !self.reaches(provision.reach, nodes, slot) {
            return Err(BIND_CONFLICT);
        }
        let Some(rooms) = &provision.rooms else { return Ok(None) };
        let room = rooms.iter().position(|room| self.reaches(room.reach, nodes, slot));
        room.map(Some).ok_or(NO_SPACE)
    }

    fn reaches(&self, reach: Reach, nodes: &Snapshot, slot: Slot) -> bool {
        let Some(number) = reach else { return true };
        let terms = self.reaches.get(number as usize);
        terms.is_some_and(|terms| terms.iter().any(|term| term.over(nodes).matches(slot)))
    }
}

impl Pins {
    fn new(claims: &Claims, claim: &UnboundClaim, symbols: &mut Lookup<'_>) -> Self {
        let mut pins = Self::default();
        for &place in &claim.suiting {
            let reach = claims.volumes.get(place as usize).and_then(|volume| volume.reach);
            let terms = reach.and_then(|number| claims.reaches.get(number as usize)).map(Vec::as_slice);
            let pin = match terms {
                Some([term]) => term.expressions.iter().find(|requirement| &*requirement.operator == "In"),
                _ => None,
            };
            let Some(pin) = pin else {
                pins.others.push(place);
                continue;
            };
            let key = symbols.number(&pin.key);
            if !pins.keys.contains(&key) {
                pins.keys.push(key);
            }
            for value in &pin.values {
                let list = pins.pinned.entry((key, symbols.number(value))).or_default();
                if list.last() != Some(&place) {
                    list.push(place);
                }
            }
        }
        pins
    }
}
