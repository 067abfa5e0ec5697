//! The state of one search, and its validation.
//!
//! Knows: what was taken so far. Must not know: in which order devices are tried.

use super::{
    AllocateError, Found, MAX_RESULTS, Pick, Scene, check::Refusal, constraints::ConstraintState,
    counters::PoolCounters, search::Frame,
};
use crate::devices::{
    model::{DeviceName, slice::Device},
    pools::{Candidate, PoolState},
    selectors::Verdicts,
    wanted::WantedAsk,
};

/// Memory that searches use one after the other.
#[derive(Debug, Default)]
pub struct Scratch {
    /// By device: for how many claims it is taken.
    pub(super) taken: Vec<u16>,
    pub(super) picks: Vec<Pick>,
    /// What each pick consumes, of the picks that share a device, in nano; by capacity of the device.
    pub(super) consumed: Vec<i128>,
    /// The picks that share a device: the device, and where its part of `consumed` starts.
    pub(super) shares: Vec<(u32, u32)>,
    /// By claim: how many devices it has.
    pub(super) counts: Vec<usize>,
    /// By ask: the devices of a request for all.
    pub(super) all: Vec<Vec<u32>>,
    pub(super) constraints: Vec<Vec<ConstraintState>>,
    pub(super) counters: Vec<PoolCounters>,
    pub(super) frames: Vec<Frame>,
    /// By claim, then request: the alternative that is tried.
    pub(super) alternatives: Vec<Vec<usize>>,
    /// How many steps the search took.
    pub(super) steps: u64,
}

/// One search.
pub(super) struct Attempt<'a> {
    pub(super) scene: Scene<'a>,
    pub(super) verdicts: &'a mut Verdicts,
    pub(super) scratch: &'a mut Scratch,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(scene: Scene<'a>, verdicts: &'a mut Verdicts, scratch: &'a mut Scratch) -> Self {
        scratch.prepare(&scene);
        Self { scene, verdicts, scratch }
    }

    /// Looks at every request, and finds the devices of those that want all.
    ///
    /// # Errors
    /// A claim asks for what cannot be, or for too much.
    pub(super) fn validate(&mut self) -> Result<(), AllocateError> {
        let wanted = self.scene.wanted;
        for claim in &wanted.claims {
            let mut total = 0_i64;
            for request in &claim.requests {
                let mut least = i64::MAX;
                for at in request.first..request.first + request.len {
                    least = least.min(self.validate_ask(at, &claim.label)?);
                }
                // Compared before it is added, so that no count can overflow the sum.
                if least > MAX_RESULTS as i64 - total {
                    return Err(AllocateError::Failed(format!(
                        "claim {}, request {}: adding {least} devices exceeds the claim limit of {MAX_RESULTS}, with {total} \
                         already accounted for",
                        claim.label, request.name
                    )));
                }
                total += least;
            }
            if let Some(index) = claim.constraints.iter().position(|constraint| constraint.demand.is_none()) {
                return Err(AllocateError::Failed(format!(
                    "claim {}, constraint #{index}: empty constraint (unsupported constraint type?)",
                    claim.label
                )));
            }
        }
        Ok(())
    }

    /// How many devices an ask needs.
    fn validate_ask(&mut self, at: usize, claim: &str) -> Result<i64, AllocateError> {
        let ask = &self.scene.wanted.asks[at];
        if let Some(error) = &ask.error {
            return Err(AllocateError::Failed(error.clone()));
        }
        match ask.count {
            Some(count) => Ok(count),
            None => self.find_all(at, ask, claim),
        }
    }

    /// Finds the devices of a request for all.
    fn find_all(&mut self, at: usize, ask: &WantedAsk, claim: &str) -> Result<i64, AllocateError> {
        let pools = self.scene.pools;
        for pool in &pools.pools {
            let state = match pool.state {
                PoolState::Complete => None,
                PoolState::Incomplete => Some("being updated"),
                PoolState::Invalid => Some("invalid"),
            };
            if let Some(state) = state {
                return Err(AllocateError::Failed(format!(
                    "claim {claim}, request {}: asks for all devices, but resource pool {}/{} is currently {state}",
                    ask.name, pool.driver, pool.name
                )));
            }
            for local in pool.first..pool.end {
                self.verdicts.work.add(1)?;
                let candidate = &pools.devices[local as usize];
                if !self.is_selectable(ask, candidate, claim)? {
                    continue;
                }
                // Only what the device has at all: one whose capacity is taken stays, and the request fails.
                let (device, ..) = pools.device(candidate);
                if self
                    .suits_capacity(ask, device, &[], None)
                    .map_err(|error| self.capacity_error(claim, ask, &device.name, "checking", &error))?
                {
                    self.scratch.all[at].push(local);
                }
            }
        }
        Ok(i64::try_from(self.scratch.all[at].len()).unwrap_or(i64::MAX))
    }

    pub(super) fn capacity_error(
        &self,
        claim: &str,
        ask: &WantedAsk,
        device: &dyn std::fmt::Display,
        doing: &str,
        error: &Refusal,
    ) -> AllocateError {
        let Refusal { capacity, error } = error;
        AllocateError::Failed(format!(
            "claim {claim}, request {}: {doing} capacity for device {device}: capacity {capacity:?}: {error}",
            ask.name
        ))
    }

    pub(super) fn device(&self, local: u32) -> (&'a Candidate, &'a Device) {
        let pools = self.scene.pools;
        let candidate = &pools.devices[local as usize];
        (candidate, pools.device(candidate).0)
    }

    pub(super) fn name(&self, candidate: &Candidate) -> DeviceName {
        self.scene.pools.name(candidate)
    }

    pub(super) fn found(&self) -> Found {
        Found { picks: self.scratch.picks.clone(), alternatives: self.scratch.alternatives.clone() }
    }
}

impl Scratch {
    /// How many steps the last search took, as upstream counts them.
    #[must_use]
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// Starts anew in the same memory.
    fn prepare(&mut self, scene: &Scene<'_>) {
        let wanted = scene.wanted;
        self.steps = 0;
        self.taken.clear();
        self.taken.resize(scene.pools.devices.len(), 0);
        self.picks.clear();
        self.consumed.clear();
        self.shares.clear();
        self.frames.clear();
        self.counts.clear();
        self.counts.resize(wanted.claims.len(), 0);
        self.all.resize_with(wanted.asks.len(), Vec::new);
        self.all.iter_mut().for_each(Vec::clear);
        self.alternatives.resize_with(wanted.claims.len(), Vec::new);
        self.constraints.resize_with(wanted.claims.len(), Vec::new);
        for (at, claim) in wanted.claims.iter().enumerate() {
            self.alternatives[at].clear();
            self.alternatives[at].resize(claim.requests.len(), 0);
            self.constraints[at].clear();
            self.constraints[at].resize_with(claim.constraints.len(), ConstraintState::default);
        }
        self.counters.resize_with(scene.pools.pools.len(), PoolCounters::default);
        self.counters.iter_mut().for_each(PoolCounters::forget);
    }
}
