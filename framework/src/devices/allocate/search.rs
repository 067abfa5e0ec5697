//! Order of the search, and backtracking. Source: `allocateOne` and `allocateDevice`.

use super::{AllocateError, Found, MAX_RESULTS, Pick, attempt::Attempt, check::is_repelled, constraints};
use crate::devices::{
    capacity,
    model::slice::{Attribute, Device as DeviceModel},
    pools::{Candidate, NodePools},
    selectors::{SelectorError, Verdicts},
    wanted::WantedAsk,
    work,
};

/// A suspended call that waits for the call that it made.
#[derive(Debug)]
pub(super) enum Frame {
    /// The claim is satisfied; the next one is tried.
    ClaimEnd,
    /// An alternative is tried. `exceeded`: all earlier ones exceeded the maximum devices of a claim.
    Alternative { at: Call, exceeded: bool },
    /// A device of a request with mode All is taken.
    Every { taken: Taken },
    /// A device of a request with a count is taken.
    Some { at: Call, taken: Taken },
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    claim: usize,
    request: usize,
    alternative: usize,
    device: i64,
    is_chosen: bool,
    /// First candidate to try.
    start: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    claim: usize,
    request: usize,
    alternative: usize,
    local: u32,
    has_counters: bool,
    constraints: usize,
}

enum Turn {
    Call(Call),
    Done,
    Back(Failure),
}

#[derive(Clone, Copy)]
enum Failure {
    Plain,
    /// The claim would exceed its maximum devices.
    Exceeded,
}

enum Device {
    Taken(Taken),
    Refused,
}

impl Attempt<'_> {
    /// Searches devices, starting with the first claim.
    ///
    /// # Errors
    /// A selector or a capacity is invalid, or a limit is reached.
    pub(super) fn search(&mut self) -> Result<Option<Found>, AllocateError> {
        let mut turn = Turn::Call(Call::of(0, 0));
        loop {
            turn = match turn {
                Turn::Call(call) => self.enter(call)?,
                Turn::Done => {
                    self.settle();
                    return Ok(Some(self.found()));
                }
                Turn::Back(failure) => match (self.scratch.frames.pop(), failure) {
                    (Some(frame), failure) => self.leave(frame, failure)?,
                    (None, Failure::Plain) => return Ok(None),
                    (None, Failure::Exceeded) => {
                        return Err(AllocateError::Failed("allocation max size exceeded".to_owned()));
                    }
                },
            };
        }
    }

    fn settle(&mut self) {
        for frame in &self.scratch.frames {
            if let Frame::Alternative { at, .. } = frame {
                self.scratch.alternatives[at.claim][at.request] = at.alternative;
            }
        }
    }

    fn enter(&mut self, call: Call) -> Result<Turn, AllocateError> {
        self.verdicts.work.add(work::STEP)?;
        self.scratch.steps += 1;
        if self.scratch.steps > self.scene.max_steps {
            return Err(AllocateError::TooManySteps(self.scene.max_steps));
        }
        let wanted = self.scene.wanted;
        let Some(claim) = wanted.claims.get(call.claim) else { return Ok(Turn::Done) };
        let Some(request) = claim.requests.get(call.request) else {
            self.scratch.frames.push(Frame::ClaimEnd);
            return Ok(Turn::Call(Call::of(call.claim + 1, 0)));
        };
        if request.is_prioritized && !call.is_chosen {
            let at = Call { is_chosen: true, ..Call::of(call.claim, call.request) };
            return Ok(self.choose(at, true));
        }
        let number = request.first + call.alternative;
        let ask = &wanted.asks[number];
        let count = ask.count.unwrap_or_else(|| i64::try_from(self.scratch.all[number].len()).unwrap_or(i64::MAX));
        if ask.count.is_none() && count == 0 {
            return Ok(Turn::Back(Failure::Plain));
        }
        if call.device >= count {
            return Ok(Turn::Call(Call::of(call.claim, call.request + 1)));
        }
        let free = MAX_RESULTS.saturating_sub(self.scratch.counts[call.claim]);
        if count - call.device > i64::try_from(free).unwrap_or(0) {
            return Ok(Turn::Back(Failure::Exceeded));
        }
        if ask.count.is_some() {
            return self.try_from(call);
        }
        let local = self.scratch.all[number][usize::try_from(call.device).unwrap_or(usize::MAX)];
        Ok(match self.take(call, local, ask, true)? {
            Device::Refused => Turn::Back(Failure::Plain),
            Device::Taken(taken) => {
                self.scratch.frames.push(Frame::Every { taken });
                Turn::Call(Call { device: call.device + 1, start: 0, ..call })
            }
        })
    }

    /// Tries an alternative, or fails after the last one.
    fn choose(&mut self, at: Call, exceeded: bool) -> Turn {
        let request = &self.scene.wanted.claims[at.claim].requests[at.request];
        if at.alternative >= request.len {
            return Turn::Back(if exceeded { Failure::Exceeded } else { Failure::Plain });
        }
        self.scratch.frames.push(Frame::Alternative { at, exceeded });
        Turn::Call(at)
    }

    /// Resumes a frame after a failed call.
    fn leave(&mut self, frame: Frame, failure: Failure) -> Result<Turn, AllocateError> {
        match frame {
            Frame::ClaimEnd => Ok(Turn::Back(Failure::Plain)),
            Frame::Alternative { at, exceeded } => {
                let exceeded = exceeded && matches!(failure, Failure::Exceeded);
                Ok(self.choose(Call { alternative: at.alternative + 1, ..at }, exceeded))
            }
            Frame::Every { taken } => {
                self.give_back(taken);
                Ok(Turn::Back(failure))
            }
            Frame::Some { at, taken } => {
                self.give_back(taken);
                match failure {
                    Failure::Exceeded => Ok(Turn::Back(failure)),
                    Failure::Plain => self.try_from(Call { start: taken.local + 1, ..at }),
                }
            }
        }
    }

    fn try_from(&mut self, call: Call) -> Result<Turn, AllocateError> {
        let scene = self.scene;
        let claim = &scene.wanted.claims[call.claim];
        let ask = &scene.wanted.asks[claim.requests[call.request].first + call.alternative];
        for local in call.start..u32::try_from(scene.pools.devices.len()).unwrap_or(u32::MAX) {
            self.verdicts.work.add(1)?;
            let candidate = &scene.pools.devices[local as usize];
            if self.is_used(call.claim, local, ask) || !self.is_selectable(ask, candidate, &claim.label)? {
                continue;
            }
            if !self.has_room(call.claim, local, ask, "checking")? {
                continue;
            }
            if let Device::Taken(taken) = self.take(call, local, ask, false)? {
                self.scratch.frames.push(Frame::Some { at: call, taken });
                return Ok(Turn::Call(Call { device: call.device + 1, start: local + 1, ..call }));
            }
        }
        Ok(Turn::Back(Failure::Plain))
    }

    /// Whether a device is in use. For admin access, only picks of the same claim count.
    fn is_used(&self, claim: usize, local: u32, ask: &WantedAsk) -> bool {
        let candidate = &self.scene.pools.devices[local as usize];
        let is_taken = self.scratch.taken[local as usize] > 0;
        if !ask.is_admin {
            return is_taken || self.scene.allocated.is_whole(candidate.number);
        }
        let is_of_claim = |pick: &Pick| pick.claim as usize == claim && pick.device == local;
        is_taken && !candidate.is_shareable && self.scratch.picks.iter().any(is_of_claim)
    }

    fn has_room(&mut self, claim: usize, local: u32, ask: &WantedAsk, doing: &str) -> Result<bool, AllocateError> {
        let (candidate, device) = self.device(local);
        if !candidate.has_capacity && ask.capacity.is_empty() {
            return Ok(true);
        }
        // Each capacity is looked up in the consumed capacities and in the shares of the picks.
        let capacities = device.capacity.len() * (4 + ask.capacity.len() + self.scratch.shares.len());
        self.verdicts.work.add(capacities as u64)?;
        let persisted = self.scene.allocated.consumed(candidate.number);
        self.suits_capacity(ask, candidate, persisted, Some(local)).map_err(|error| {
            let claim = &self.scene.wanted.claims[claim].label;
            self.capacity_error(claim, ask, &self.name(candidate), doing, &error)
        })
    }

    /// Takes a device that matches the selectors if all other checks pass. With `is_all`, a failed check fails the request.
    fn take(&mut self, call: Call, local: u32, ask: &WantedAsk, is_all: bool) -> Result<Device, AllocateError> {
        let (candidate, device) = self.device(local);
        self.verdicts.work.add(self.taking_work(call, candidate, device))?;
        if is_all && self.is_used(call.claim, local, ask) {
            return Ok(Device::Refused);
        }
        if !candidate.is_allocatable || candidate.is_tainted && is_repelled(&device.taints, ask) {
            return Ok(Device::Refused);
        }
        let mut taken = Taken {
            claim: call.claim,
            request: call.request,
            alternative: call.alternative,
            local,
            has_counters: false,
            constraints: 0,
        };
        let allocated = self.scene.allocated;
        // The counters of a shared device are already counted.
        let is_shared = || allocated.is_shared(candidate.number) || self.is_sharing(local);
        if candidate.consumer != u32::MAX && !(candidate.is_shareable && is_shared()) {
            let counters = &self.scene.pools.pools[candidate.pool as usize].counters;
            if !self.is_compatible(candidate) {
                return Ok(Device::Refused);
            }
            let left = &mut self.scratch.counters[candidate.pool as usize];
            if !left.take(counters, candidate.consumer, allocated) {
                return Ok(Device::Refused);
            }
            taken.has_counters = true;
        }
        if !self.constrain(&mut taken, ask)? {
            self.release(taken);
            if !is_all {
                return Ok(Device::Refused);
            }
            return Err(AllocateError::Failed(format!(
                "claim {}, request {}: cannot add device {} because a claim constraint would not be satisfied",
                self.scene.wanted.claims[call.claim].label,
                ask.name,
                self.name(candidate)
            )));
        }
        if is_all && !self.has_room(call.claim, local, ask, "rechecking")? {
            self.release(taken);
            return Ok(Device::Refused);
        }
        self.mark(&taken, ask);
        Ok(Device::Taken(taken))
    }

    /// Upper bound of the work of taking a device: taints, counters of its pool, devices under each constraint, and capacities.
    fn taking_work(&self, call: Call, candidate: &Candidate, device: &DeviceModel) -> u64 {
        let counters = if candidate.consumer == u32::MAX {
            0
        } else {
            let counters = &self.scene.pools.pools[candidate.pool as usize].counters;
            counters.values.len() + counters.consumers.len() / 8
        };
        let constraints = self.scene.wanted.claims[call.claim].constraints.len();
        let under = constraints * (10 + self.scratch.counts[call.claim]);
        (8 + device.taints.len() + counters + under + device.capacity.len()) as u64
    }

    /// Adds a device to the constraints of its claim, and records how many accepted it.
    fn constrain(&mut self, taken: &mut Taken, ask: &WantedAsk) -> Result<bool, AllocateError> {
        let scene = self.scene;
        for (at, constraint) in scene.wanted.claims[taken.claim].constraints.iter().enumerate() {
            if let Some(demand) = &constraint.demand
                && constraint.concerns(taken.request, taken.alternative)
            {
                let Self { verdicts, scratch, .. } = self;
                let state = &mut scratch.constraints[taken.claim][at];
                let value = attribute(scene.pools, verdicts, taken.local, ask, &demand.attribute)?;
                if !value.is_some_and(|value| state.add(demand, value)) {
                    return Ok(false);
                }
            }
            taken.constraints += 1;
        }
        Ok(true)
    }

    fn mark(&mut self, taken: &Taken, ask: &WantedAsk) {
        let (candidate, device) = self.device(taken.local);
        if candidate.is_shareable {
            let start = u32::try_from(self.scratch.consumed.len()).unwrap_or(u32::MAX);
            for (name, capacity) in &device.capacity {
                // An earlier check ensures that the consumption can be computed.
                let consumed = capacity::consumed(ask.requested(name), capacity);
                self.scratch.consumed.push(consumed.map_or(0, |consumed| consumed.nano()));
            }
            self.scratch.shares.push((taken.local, start));
        } else {
            self.scratch.taken[taken.local as usize] += 1;
        }
        let number = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        self.scratch.picks.push(Pick {
            claim: number(taken.claim),
            request: number(taken.request),
            alternative: number(taken.alternative),
            device: taken.local,
        });
        self.scratch.counts[taken.claim] += 1;
    }

    fn give_back(&mut self, taken: Taken) {
        let candidate = &self.scene.pools.devices[taken.local as usize];
        self.scratch.picks.pop();
        self.scratch.counts[taken.claim] -= 1;
        if !candidate.is_shareable {
            self.scratch.taken[taken.local as usize] -= 1;
        } else if let Some((_, start)) = self.scratch.shares.pop() {
            self.scratch.consumed.truncate(start as usize);
        }
        self.release(taken);
    }

    /// Returns the counters, and removes the device from the constraints.
    fn release(&mut self, taken: Taken) {
        let scene = self.scene;
        let constraints = &scene.wanted.claims[taken.claim].constraints[..taken.constraints];
        for (constraint, state) in constraints.iter().zip(&mut self.scratch.constraints[taken.claim]) {
            if constraint.concerns(taken.request, taken.alternative) {
                state.remove();
            }
        }
        if taken.has_counters {
            let candidate = &scene.pools.devices[taken.local as usize];
            let counters = &scene.pools.pools[candidate.pool as usize].counters;
            self.scratch.counters[candidate.pool as usize].give_back(counters, candidate.consumer);
        }
    }
}

/// An attribute of a device, possibly derived by the request. Source: `lookupAttribute`.
fn attribute<'a>(
    pools: &'a NodePools,
    verdicts: &'a mut Verdicts,
    local: u32,
    ask: &WantedAsk,
    name: &str,
) -> Result<Option<&'a Attribute>, AllocateError> {
    let candidate = &pools.devices[local as usize];
    let (device, slice, _) = pools.device(candidate);
    let Some((_, derivation)) = ask.derived.iter().rfind(|(known, _)| **known == *name) else {
        return Ok(constraints::find(device, &slice.driver, name));
    };
    verdicts.derived(*derivation, &slice.driver, device).map(Some).map_err(|error| match error {
        SelectorError::Exhausted => AllocateError::TooMuchWork,
        SelectorError::Compile(error) => {
            AllocateError::Failed(format!("compile derived attribute {name} failed: {error}"))
        }
        SelectorError::Runtime(error) => AllocateError::Failed(format!(
            "evaluate derived attribute {name} on device {} failed: {error}",
            pools.name(candidate)
        )),
    })
}

impl Call {
    const fn of(claim: usize, request: usize) -> Self {
        Self { claim, request, alternative: 0, device: 0, is_chosen: false, start: 0 }
    }
}
