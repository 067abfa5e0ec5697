//! Explains why the search found no devices on a node, per request and then for all requests together. Scheduling decisions do not use
//! this.

use std::sync::Arc;

use super::{
    AllocateError, Scene, allocate,
    attempt::{Attempt, Scratch},
    check::is_repelled,
};
use crate::devices::{
    model::{
        DeviceName,
        slice::DeviceUsage,
        taint::{DeviceTaint, TaintEffect},
    },
    pools::{Candidate, PoolState},
    selectors::{Seen, SelectorError, Verdicts},
    wanted::{Demand, Wanted, WantedAsk, WantedConstraint},
};

/// Limit of steps of each search for the first claim, request or constraint that cannot be satisfied. There are at most 32 of each, so as
/// many searches.
const MAX_STEPS: u64 = 100_000;

/// A reason why a node cannot satisfy the claims of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceLack {
    /// Too few devices for a request or one of its alternatives.
    Request(Box<RequestLack>),
    /// Each request can be satisfied separately, but not all together.
    Together(Together),
    /// The devices of an allocated claim cannot be used from this node.
    Allocated {
        /// Index among the claims that the pod needs.
        claim: usize,
        /// Whether the devices of the claim failed to become ready, on any node.
        has_failed: bool,
    },
    /// A pool is invalid, or is being updated.
    Pool {
        /// Driver.
        driver: Arc<str>,
        /// Name of the pool.
        name: Arc<str>,
        /// Whether its slices are inconsistent.
        is_invalid: bool,
    },
}

/// The devices of a node as one request sees them. Each unavailable device is listed once, under the first reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestLack {
    /// The claim, as `namespace/name`.
    pub claim: Arc<str>,
    /// `request`, or `request/alternative`.
    pub request: Arc<str>,
    /// The DeviceClass.
    pub class: Arc<str>,
    /// Requested number of devices; `None`: all that match.
    pub wanted: Option<i64>,
    /// Whether the pod's claims have no other request, so that [`Self::short`] more devices suffice.
    pub is_alone: bool,
    /// Devices that the node reaches.
    pub devices: usize,
    /// Devices of these that match all selectors.
    pub matching: usize,
    /// Matching devices that are free for the request.
    pub free: usize,
    /// Matching devices allocated to claims.
    pub taken: Vec<DeviceName>,
    /// Matching devices with a taint that the request does not tolerate.
    pub tainted: Vec<(DeviceName, DeviceTaint)>,
    /// Matching devices with too little free capacity.
    pub small: Vec<DeviceName>,
    /// Matching devices with exhausted shared counters.
    pub counted: Vec<DeviceName>,
    /// Matching devices without a common compatibility group with those that use the same counters.
    pub incompatible: Vec<DeviceName>,
    /// Matching devices that a disabled feature gate excludes, or that need a feature that the node does not declare.
    pub unsupported: Vec<DeviceName>,
    /// Selectors that rejected devices.
    pub refused: Vec<Refused>,
}

/// A selector that rejected devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The CEL expression.
    pub expression: Arc<str>,
    /// Whether it belongs to the DeviceClass; otherwise to the request.
    pub is_of_class: bool,
    /// Its index there.
    pub index: usize,
    /// The values of the devices that it reads.
    pub seen: Vec<Seen>,
    /// Its evaluation error, if any. kube-scheduler fails the attempt in this case.
    pub error: Option<Arc<str>>,
    /// The rejected devices.
    pub devices: Vec<DeviceName>,
}

/// The first request or constraint that cannot be satisfied together with those before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Together {
    /// A request.
    Request {
        /// `namespace/name` of the claim.
        claim: Arc<str>,
        /// The request.
        request: Arc<str>,
    },
    /// A constraint of a claim. Without it there would be devices.
    Constraint {
        /// `namespace/name` of the claim.
        claim: Arc<str>,
        /// The attribute.
        attribute: Arc<str>,
        /// `distinctAttribute`; otherwise `matchAttribute`.
        is_distinct: bool,
    },
    /// The search reached its limit of steps.
    Unknown,
}

impl RequestLack {
    /// Number of missing devices; at least 1.
    #[must_use]
    pub fn short(&self) -> i64 {
        let of = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        match self.wanted {
            Some(wanted) => wanted.saturating_sub(of(self.free)).max(1),
            None => of(self.matching.saturating_sub(self.free + self.small.len())).max(1),
        }
    }

    fn suffices(&self) -> bool {
        match self.wanted {
            Some(wanted) => usize::try_from(wanted).is_ok_and(|wanted| wanted <= self.free),
            // A request with mode All skips devices with too little capacity.
            None => self.free > 0 && self.matching == self.free + self.small.len(),
        }
    }
}

/// Reasons why [`allocate`] found no devices on the node. Empty if it would find devices, or if the reason does not depend on the node.
pub fn lacking(scene: Scene<'_>, verdicts: &mut Verdicts, scratch: &mut Scratch) -> Vec<DeviceLack> {
    let mut lacks = Vec::new();
    for pool in scene.pools.pools.iter().filter(|pool| pool.state != PoolState::Complete) {
        let (driver, name) = (Arc::clone(&pool.driver), Arc::clone(&pool.name));
        lacks.push(DeviceLack::Pool { driver, name, is_invalid: pool.state == PoolState::Invalid });
    }
    let is_alone = scene.wanted.is_one_request();
    let mut attempt = Attempt::new(scene, verdicts, scratch);
    let mut is_any_short = false;
    for claim in &scene.wanted.claims {
        for request in &claim.requests {
            let asks = &scene.wanted.asks[request.first..request.first + request.len];
            let way = |ask| RequestLack { is_alone, ..attempt.request(ask, &claim.label) };
            let ways: Vec<RequestLack> = asks.iter().map(way).collect();
            if !ways.iter().any(RequestLack::suffices) {
                is_any_short = true;
                lacks.extend(ways.into_iter().map(|way| DeviceLack::Request(Box::new(way))));
            }
        }
    }
    if !is_any_short && let Some(together) = together(scene, verdicts, scratch) {
        lacks.push(DeviceLack::Together(together));
    }
    lacks
}

/// Why the requests cannot be satisfied together although each can separately.
fn together(scene: Scene<'_>, verdicts: &mut Verdicts, scratch: &mut Scratch) -> Option<Together> {
    let mut fits = |wanted: &Wanted| {
        let max_steps = scene.max_steps.min(MAX_STEPS);
        match allocate(Scene { wanted, max_steps, ..scene }, verdicts, scratch) {
            Ok(found) => Some(found.is_some()),
            Err(AllocateError::TooManySteps(_) | AllocateError::TooMuchWork) => None,
            Err(AllocateError::OnNode(_) | AllocateError::Failed(_)) => Some(false),
        }
    };
    let last = (0..scene.wanted.claims.len()).find(|last| fits(&scene.wanted.until(*last)) != Some(true))?;
    let wanted = scene.wanted.until(last);
    let Some(claim) = wanted.claims.last() else { return Some(Together::Unknown) };
    let label = Arc::clone(&claim.label);
    if fits(&wanted).is_none() {
        return Some(Together::Unknown);
    }
    if fits(&wanted.unconstrained(None)) == Some(true) {
        let is_cured = |at: &usize| fits(&wanted.unconstrained(Some(*at))) == Some(true);
        let at = (0..claim.constraints.len()).find(is_cured).unwrap_or(0);
        let demand = claim.constraints.get(at).and_then(|constraint: &WantedConstraint| constraint.demand.as_ref());
        let Some(Demand { is_distinct, attribute, .. }) = demand else { return Some(Together::Unknown) };
        let (attribute, is_distinct) = (Arc::clone(attribute), *is_distinct);
        return Some(Together::Constraint { claim: label, attribute, is_distinct });
    }
    let free = wanted.unconstrained(None);
    let request = (0..claim.requests.len()).find(|at| fits(&free.with_requests(at + 1)) != Some(true));
    let request = request.and_then(|at| claim.requests.get(at)).map(|request| Arc::clone(&request.name));
    Some(request.map_or(Together::Unknown, |request| Together::Request { claim: label, request }))
}

impl Attempt<'_> {
    fn request(&mut self, ask: &WantedAsk, claim: &Arc<str>) -> RequestLack {
        let pools = self.scene.pools;
        let mut lack = RequestLack {
            claim: Arc::clone(claim),
            request: Arc::clone(&ask.label),
            class: ask.class.as_ref().map(|class| Arc::clone(&class.name)).unwrap_or_default(),
            wanted: ask.count,
            ..RequestLack::default()
        };
        for (local, candidate) in (0..).zip(&pools.devices) {
            let pool = &pools.pools[candidate.pool as usize];
            if !candidate.is_here || pool.state == PoolState::Invalid {
                continue;
            }
            lack.devices += 1;
            if !self.selects(ask, candidate, &mut lack.refused) {
                continue;
            }
            lack.matching += 1;
            let name = self.name(candidate);
            let (_, device) = self.device(local);
            let allocated = self.scene.allocated;
            let taint = device.taints.iter().find(|taint| is_repelled(std::slice::from_ref(*taint), ask));
            let is_small =
                !self.suits_capacity(ask, candidate, allocated.consumed(candidate.number), None).unwrap_or(false);
            if is_small && ask.count.is_none() {
                // A request with mode All skips the device whatever its other properties.
                lack.small.push(name);
            } else if !ask.is_admin && allocated.is_whole(candidate.number) {
                lack.taken.push(name);
            } else if !candidate.is_allocatable {
                lack.unsupported.push(name);
            } else if let Some(taint) = taint.filter(|taint| !matches!(taint.effect, TaintEffect::Other(_))) {
                lack.tainted.push((name, taint.clone()));
            } else if is_small {
                lack.small.push(name);
            } else if !self.leaves_counters(candidate) {
                lack.counted.push(name);
            } else if candidate.consumer != u32::MAX && !self.is_compatible(candidate) {
                lack.incompatible.push(name);
            } else {
                lack.free += 1;
            }
        }
        lack
    }

    /// Whether all selectors match a device. Records the first mismatch with the values that it read.
    fn selects(&mut self, ask: &WantedAsk, candidate: &Candidate, refused: &mut Vec<Refused>) -> bool {
        let (device, slice, _) = self.scene.pools.device(candidate);
        if device.usage == DeviceUsage::Unselectable {
            return false;
        }
        for wanted in &ask.selectors {
            let Some(selector) = wanted.selector else { return false };
            let error = match self.verdicts.matches(selector, candidate.subject, &slice.driver, device) {
                Ok(true) => continue,
                Ok(false) => None,
                Err(SelectorError::Compile(error) | SelectorError::Runtime(error)) => Some(Arc::from(error)),
                Err(SelectorError::Exhausted) => Some("it would take too much work to tell".into()),
            };
            let seen = self.verdicts.seen(selector, &slice.driver, device);
            let expression = self.verdicts.expression(selector).cloned().unwrap_or_default();
            let (is_of_class, index) = (wanted.is_of_class, wanted.index);
            let devices = vec![self.scene.pools.name(candidate)];
            let new = Refused { expression, is_of_class, index, seen, error, devices };
            let is_like = |known: &&mut Refused| {
                (known.is_of_class, known.index) == (is_of_class, index)
                    && known.seen == new.seen
                    && known.error == new.error
            };
            match refused.iter_mut().find(is_like) {
                Some(known) => known.devices.extend(new.devices),
                None => refused.push(new),
            }
            return false;
        }
        true
    }

    fn leaves_counters(&mut self, candidate: &Candidate) -> bool {
        let allocated = self.scene.allocated;
        if candidate.consumer == u32::MAX || (candidate.is_shareable && allocated.is_shared(candidate.number)) {
            return true;
        }
        let counters = &self.scene.pools.pools[candidate.pool as usize].counters;
        let left = &mut self.scratch.counters[candidate.pool as usize];
        let suits = left.take(counters, candidate.consumer, allocated);
        if suits {
            left.give_back(counters, candidate.consumer);
        }
        suits
    }
}

impl Wanted {
    /// Whether there is one request, without alternatives and constraints.
    fn is_one_request(&self) -> bool {
        let [claim] = &self.claims[..] else { return false };
        self.asks.len() == 1 && claim.constraints.is_empty()
    }

    /// The claims up to `last`.
    fn until(&self, last: usize) -> Self {
        let mut wanted = self.clone();
        wanted.claims.truncate(last + 1);
        wanted
    }

    fn unconstrained(&self, at: Option<usize>) -> Self {
        let mut wanted = self.clone();
        if let Some(claim) = wanted.claims.last_mut() {
            match at {
                Some(at) if at < claim.constraints.len() => _ = claim.constraints.remove(at),
                _ => claim.constraints.clear(),
            }
        }
        wanted
    }

    /// The last claim with its first `count` requests.
    fn with_requests(&self, count: usize) -> Self {
        let mut wanted = self.clone();
        if let Some(claim) = wanted.claims.last_mut() {
            claim.requests.truncate(count);
        }
        wanted
    }
}
