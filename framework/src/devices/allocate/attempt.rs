//! State and validation of one search.

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

/// Buffers that searches reuse.
#[derive(Debug, Default)]
pub struct Scratch {
    /// By device: number of claims with it.
    pub(super) taken: Vec<u16>,
    pub(super) picks: Vec<Pick>,
    /// Consumed capacity of each pick on a shared device, in nano, by capacity of the device.
    pub(super) consumed: Vec<i128>,
    /// Picks on shared devices: the device, and the start of its part in `consumed`.
    pub(super) shares: Vec<(u32, u32)>,
    pub(super) counts: Vec<usize>,
    /// By ask: devices of a request with mode All.
    pub(super) all: Vec<Vec<u32>>,
    pub(super) constraints: Vec<Vec<ConstraintState>>,
    pub(super) counters: Vec<PoolCounters>,
    pub(super) frames: Vec<Frame>,
    /// By claim, then request: the current alternative.
    pub(super) alternatives: Vec<Vec<usize>>,
    pub(super) steps: u64,
}

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

    /// Validates all requests, and finds the devices of those with mode All.
    ///
    /// # Errors
    /// A claim is invalid or requests too many devices.
    pub(super) fn validate(&mut self) -> Result<(), AllocateError> {
        let wanted = self.scene.wanted;
        for claim in &wanted.claims {
            let mut total = 0_i64;
            for request in &claim.requests {
                let mut least = i64::MAX;
                for at in request.first..request.first + request.len {
                    least = least.min(self.validate_ask(at, &claim.label)?);
                }
                // Checked before the addition so that no count can overflow the sum.
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

    /// Finds the devices of a request with mode All.
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
                // Ignores consumed capacity. A device without free capacity stays in the list, and the request fails later.
                let (device, ..) = pools.device(candidate);
                if self
                    .suits_capacity(ask, candidate, &[], None)
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
    /// Steps of the last search, counted as upstream does.
    #[must_use]
    pub const fn steps(&self) -> u64 {
        self.steps
    }

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
