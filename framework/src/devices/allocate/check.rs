//! Checks of a device that do not depend on earlier picks: selectors, taints, capacity.

use std::sync::Arc;

use super::{AllocateError, attempt::Attempt};
use crate::devices::{
    capacity,
    model::{
        slice::DeviceUsage,
        taint::{DeviceTaint, TaintEffect},
    },
    pools::Candidate,
    selectors::SelectorError,
    wanted::{WantedAsk, WantedSelector},
};

/// A capacity for which the consumption of a request cannot be computed.
pub(super) struct Refusal {
    pub(super) capacity: Arc<str>,
    pub(super) error: String,
}

/// Upstream's hint for selectors that read a missing key. Source: `cel.EnhanceRuntimeError`.
const NO_SUCH_KEY: &str = ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with \
                           has() for optional fields";

impl Attempt<'_> {
    /// Whether a device is for this node and matches all selectors. Stops at the first mismatch. Source: `isSelectable`.
    pub(super) fn is_selectable(
        &mut self,
        ask: &WantedAsk,
        candidate: &Candidate,
        claim: &str,
    ) -> Result<bool, AllocateError> {
        let (device, slice, _) = self.scene.pools.device(candidate);
        if device.usage == DeviceUsage::Unselectable {
            return Ok(false);
        }
        for wanted in &ask.selectors {
            let Some(selector) = wanted.selector else {
                let error = "CEL expression empty (unsupported selector type?)";
                return Err(selector_error(ask, wanted, claim, "", error));
            };
            match self.verdicts.matches(selector, candidate.subject, &slice.driver, device) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(SelectorError::Exhausted) => return Err(AllocateError::TooMuchWork),
                Err(SelectorError::Compile(error)) => {
                    return Err(selector_error(ask, wanted, claim, "", &format!("CEL compile error: {error}")));
                }
                Err(SelectorError::Runtime(error)) => {
                    let hint = if error.contains("no such key:") { NO_SUCH_KEY } else { "" };
                    let error = format!("CEL runtime error: {error}{hint}");
                    let place = format!(" on device {}", self.scene.pools.name(candidate));
                    return Err(selector_error(ask, wanted, claim, &place, &error));
                }
            }
        }
        Ok(candidate.is_here)
    }

    /// Whether a device has free capacity for a request. Capacity that allocations consume is found by name; consumption of this attempt by
    /// position. Source: `CmpRequestOverCapacity`.
    ///
    /// # Errors
    /// The consumption of the request cannot be computed.
    pub(super) fn suits_capacity(
        &self,
        ask: &WantedAsk,
        candidate: &Candidate,
        persisted: &[(Arc<str>, i128)],
        local: Option<u32>,
    ) -> Result<bool, Refusal> {
        if !candidate.has_capacity && ask.capacity.is_empty() {
            return Ok(true);
        }
        let (device, ..) = self.scene.pools.device(candidate);
        if ask.capacity.iter().any(|(name, _)| !device.capacity.iter().any(|(known, _)| known == name)) {
            return Ok(false);
        }
        let mut suits = true;
        for (position, (name, capacity)) in device.capacity.iter().enumerate() {
            let consumed = capacity::consumed(ask.requested(name), capacity)
                .map_err(|error| Refusal { capacity: Arc::clone(name), error })?;
            // Checks all capacities because an error takes precedence over a mismatch.
            if !suits || capacity::violates(&consumed, capacity.policy.as_deref()) {
                suits = false;
                continue;
            }
            let persisted = persisted.iter().find(|(known, _)| known == name).map_or(0, |(_, sum)| *sum);
            let taking = local.map_or(0, |local| self.taking(local, position));
            suits = persisted.saturating_add(taking).saturating_add(consumed.nano()) <= capacity.value.nano();
        }
        Ok(suits)
    }

    fn taking(&self, local: u32, position: usize) -> i128 {
        let shares = self.scratch.shares.iter().filter(|(device, _)| *device == local);
        shares.map(|(_, start)| self.scratch.consumed[*start as usize + position]).sum()
    }

    pub(super) fn is_sharing(&self, local: u32) -> bool {
        self.scratch.shares.iter().any(|(device, _)| *device == local)
    }
}

fn selector_error(ask: &WantedAsk, wanted: &WantedSelector, claim: &str, place: &str, error: &str) -> AllocateError {
    let class = ask.class.as_ref().filter(|_| wanted.is_of_class);
    let owner = class.map_or_else(|| format!("claim {claim}"), |class| format!("class {}", class.name));
    AllocateError::Failed(format!("{owner}: selector #{}{place}: {error}", wanted.index))
}

/// Whether the request does not tolerate a taint of the device. Source: `taintPreventsAllocation`.
pub(super) fn is_repelled(taints: &[DeviceTaint], ask: &WantedAsk) -> bool {
    taints.iter().any(|taint| {
        !matches!(taint.effect, TaintEffect::Other(_)) && !ask.tolerations.iter().any(|it| it.tolerates(taint))
    })
}
