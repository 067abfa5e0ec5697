//! Amounts of the node's own resources that the devices of a pod take. Source: `calculateAndCheckNodeAllocatableResources` of the plugin.

use std::sync::{Arc, PoisonError};

use super::{ERROR, REASON, SHORT, Search, TAKEN, place_of};
use crate::{
    devices::{
        allocate::Found,
        facts::{ClaimFact, Requests, name_of, nameless},
        footprint::{AllocatedClaim, amounts_of_claims},
        model::allocation::DeviceResult,
        result::{devices, takes_of_node},
        special::UNNAMED,
        wanted::Wanted,
    },
    resources::Resources,
    snapshot::{Slot, Snapshot},
    status::{FilterResult, Refusal},
};

/// Resources with a fixed bit; huge pages follow.
const FIXED: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Maximum kinds of huge pages, limited by the bits of a refusal. Further kinds get the reason of the last.
const MAX_HUGE_PAGES: usize = 28;

impl Search {
    /// Whether the pod fits the node with the amounts that its devices take there.
    pub(super) fn fits(
        &self,
        requests: &Requests,
        found: Option<(&Found, &Wanted)>,
        nodes: &Snapshot,
        slot: Slot,
    ) -> FilterResult {
        let pools = &nodes.devices(slot).unwrap_or(&self.none).pools;
        let is_allocated = self.allocated.iter().any(Option::is_some);
        if !is_allocated && !found.is_some_and(|(found, _)| takes_of_node(found, pools)) {
            return Ok(());
        }
        let found: Vec<Vec<DeviceResult>> =
            found.map(|(found, wanted)| devices(found, wanted, pools)).unwrap_or_default();
        let mut unallocated = found.iter().map(Vec::as_slice);
        let claims = self.claims.claims.iter().map(|claim| match claim {
            ClaimFact::Allocated { devices: Some(devices), .. } => {
                AllocatedClaim { label: &devices.label, name: devices.name(), results: &devices.allocation.results }
            }
            // A claim is read with its devices if there are requests.
            ClaimFact::Allocated { devices: None, .. } => AllocatedClaim { label: "", name: "", results: &[] },
            ClaimFact::Unallocated { label, .. } => {
                AllocatedClaim { label, name: name_of(label), results: unallocated.next().unwrap_or_default() }
            }
        });
        let mut claims: Vec<AllocatedClaim<'_>> = claims.collect();
        claims.extend(unallocated.next().map(|results| AllocatedClaim { label: UNNAMED, name: UNNAMED, results }));
        let containers = &requests.footprint.containers;
        let claims = match amounts_of_claims(&claims, &requests.entries, containers, pools) {
            Ok(None) => return Ok(()),
            Ok(Some(claims)) => claims,
            Err(error) => return Err(Refusal::error(ERROR | self.place_of(error))),
        };
        requests.footprint.covers(&claims).map_err(|text| Refusal::unresolvable(REASON | self.place_of(text)))?;
        self.is_short(&requests.footprint.with(&claims), nodes, slot)
    }

    fn place_of(&self, text: String) -> u64 {
        place_of(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner).errors, text)
    }

    /// Source: `nodeFitsResources`.
    fn is_short(&self, wanted: &Resources, nodes: &Snapshot, slot: Slot) -> FilterResult {
        let (accounts, at) = (&nodes.accounts, slot as usize);
        let fixed = [
            (wanted.milli_cpu, accounts.allocatable_milli_cpu[at], accounts.milli_cpu[at]),
            (wanted.memory, accounts.allocatable_memory[at], accounts.memory[at]),
            (wanted.ephemeral_storage, accounts.allocatable_ephemeral_storage[at], accounts.ephemeral_storage[at]),
        ];
        let (mut short, mut never) = (0, false);
        for (bit, (wanted, allocatable, charged)) in fixed.into_iter().enumerate() {
            if wanted > 0 && wanted > allocatable.saturating_sub(charged) {
                short |= 1 << bit;
                never |= wanted > allocatable;
            }
        }
        for (name, wanted) in wanted.scalars.iter().filter(|(name, _)| name.starts_with("hugepages-")) {
            let (allocatable, charged) = accounts.scalar_amounts(name, slot);
            if *wanted > allocatable.saturating_sub(charged) {
                short |= 1 << self.bit_of(name);
                never |= *wanted > allocatable;
            }
        }
        match (short, never) {
            (0, _) => Ok(()),
            (short, true) => Err(Refusal::unresolvable(SHORT | short)),
            (short, false) => Err(Refusal::unschedulable(SHORT | short)),
        }
    }

    fn bit_of(&self, huge_pages: &Arc<str>) -> usize {
        let known = &mut self.kept.lock().unwrap_or_else(PoisonError::into_inner).huge_pages;
        let place = known.iter().position(|name| name == huge_pages).unwrap_or_else(|| {
            if known.len() < MAX_HUGE_PAGES {
                known.push(Arc::clone(huge_pages));
            }
            known.len() - 1
        });
        FIXED.len() + place
    }

    pub(super) fn reasons_of_amounts(&self, detail: u64) -> Vec<String> {
        let lower = detail & u64::from(u32::MAX);
        let place = usize::try_from(lower).unwrap_or(usize::MAX);
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if detail & REASON != 0 {
            return kept.errors.get(place).cloned().into_iter().collect();
        }
        if detail & TAKEN != 0 {
            let name = match self.claims.claims.get(place) {
                Some(ClaimFact::Allocated { devices: Some(devices), .. }) => devices.name().to_owned(),
                _ => nameless(place),
            };
            let text =
                format!("node allocatable resource claim {name} has a mapped device and cannot be shared across pods");
            return vec![text];
        }
        let names = FIXED.into_iter().chain(kept.huge_pages.iter().map(|name| &**name)).enumerate();
        names.filter(|(bit, _)| lower & 1 << bit != 0).map(|(_, name)| format!("Insufficient {name}")).collect()
    }
}
