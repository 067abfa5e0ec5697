//! What a node lacks for the claims of a pod, where the search found nothing: request by request, and then all together.
//!
//! Knows: which rule keeps each device from a request. Must not know: which claims have the devices, or words.
//!
//! Nothing here is used by a decision.

use std::sync::Arc;

use super::{
    AllocateError, Scene, allocate,
    attempt::{Attempt, Scratch},
    check::is_repelled,
};
use crate::devices::{
    model::{
        DeviceName,
        taint::{DeviceTaint, TaintEffect},
    },
    pools::{Candidate, PoolState},
    selectors::{Seen, SelectorError, Verdicts},
    wanted::{Demand, Wanted, WantedAsk, WantedConstraint},
};

/// How many steps each of the searches may take that find out which claim, request or constraint is one too many. There are at
/// most as many as claims, requests and constraints, 32 of each.
const MAX_STEPS: u64 = 100_000;

/// What a node lacks of devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceLack {
    /// Devices for one request, or for one of its alternatives.
    Request(Box<RequestLack>),
    /// For each request by itself there are devices, but not for all of them together.
    Together(Together),
    /// A claim is allocated, and its devices cannot be used from the node: its place among those of the pod.
    Allocated {
        /// Its place among the claims of the pod that are needed.
        claim: usize,
        /// Whether its devices did not get ready, on whatever node.
        has_failed: bool,
    },
    /// A pool contradicts itself, or is being updated: driver and name.
    Pool {
        /// The driver.
        driver: Arc<str>,
        /// The name of the pool.
        name: Arc<str>,
        /// Whether it contradicts itself.
        is_invalid: bool,
    },
}

/// The devices of a node, as one request sees them. Each device that is not free is in one of the lists, by the first rule that
/// keeps it from the request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestLack {
    /// The claim, as `namespace/name`.
    pub claim: Arc<str>,
    /// `request`, or `request/alternative`.
    pub request: Arc<str>,
    /// The DeviceClass.
    pub class: Arc<str>,
    /// How many devices it asks for; `None`: all that match.
    pub wanted: Option<i64>,
    /// Whether it is all that the pod's claims ask for, so that so many more devices are enough.
    pub is_alone: bool,
    /// How many devices the node reaches.
    pub devices: usize,
    /// How many of them all selectors hold for.
    pub matching: usize,
    /// How many of those are free for it.
    pub free: usize,
    /// Those of them that claims have.
    pub taken: Vec<DeviceName>,
    /// Those with a taint that the request does not tolerate.
    pub tainted: Vec<(DeviceName, DeviceTaint)>,
    /// Those with less free capacity than it asks for.
    pub small: Vec<DeviceName>,
    /// Those whose counters others have used up.
    pub counted: Vec<DeviceName>,
    /// What selectors refused devices, and by what they saw.
    pub refused: Vec<Refused>,
}

/// A selector that refused devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The CEL expression.
    pub expression: Arc<str>,
    /// Whether it is of the DeviceClass; otherwise of the request.
    pub is_of_class: bool,
    /// Its index there.
    pub index: usize,
    /// What of a device it reads, as the devices have it.
    pub seen: Vec<Seen>,
    /// Why it could not be evaluated, if so: kube-scheduler fails the attempt then.
    pub error: Option<Arc<str>>,
    /// The devices.
    pub devices: Vec<DeviceName>,
}

/// The first that is one too many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Together {
    /// A request, with those before it: its claim, and its name.
    Request {
        /// `namespace/name`.
        claim: Arc<str>,
        /// The request.
        request: Arc<str>,
    },
    /// A constraint of a claim: without it there would be devices.
    Constraint {
        /// `namespace/name`.
        claim: Arc<str>,
        /// The attribute.
        attribute: Arc<str>,
        /// `distinctAttribute`; otherwise `matchAttribute`.
        is_distinct: bool,
    },
    /// It would take too many steps to tell.
    Unknown,
}

impl RequestLack {
    /// How many more devices would have to be free; at least 1.
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
            // A request for all passes over devices that are too small.
            None => self.free > 0 && self.matching == self.free + self.small.len(),
        }
    }
}

/// What the node of a scene lacks, where [`allocate`] has found nothing there; empty where it would find devices, or where the
/// node has nothing to do with the reason.
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
            // One alternative that suffices is enough.
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

/// Why there are no devices for all requests, where there are for each.
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
        let Some(Demand { is_distinct, attribute }) = demand else { return Some(Together::Unknown) };
        let (attribute, is_distinct) = (Arc::clone(attribute), *is_distinct);
        return Some(Together::Constraint { claim: label, attribute, is_distinct });
    }
    let free = wanted.unconstrained(None);
    let request = (0..claim.requests.len()).find(|at| fits(&free.with_requests(at + 1)) != Some(true));
    let request = request.and_then(|at| claim.requests.get(at)).map(|request| Arc::clone(&request.name));
    Some(request.map_or(Together::Unknown, |request| Together::Request { claim: label, request }))
}

impl Attempt<'_> {
    /// The devices as a request sees them.
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
                !self.suits_capacity(ask, device, allocated.consumed(candidate.number), None).unwrap_or(false);
            if is_small && ask.count.is_none() {
                // A request for all passes over it, whatever else there is about it.
                lack.small.push(name);
            } else if !ask.is_admin && allocated.is_whole(candidate.number) {
                lack.taken.push(name);
            } else if let Some(taint) = taint.filter(|taint| !matches!(taint.effect, TaintEffect::Other(_))) {
                lack.tainted.push((name, taint.clone()));
            } else if is_small {
                lack.small.push(name);
            } else if !self.leaves_counters(candidate) {
                lack.counted.push(name);
            } else {
                lack.free += 1;
            }
        }
        lack
    }

    /// Whether all selectors hold for a device. The one that does not is noted with what it saw.
    fn selects(&mut self, ask: &WantedAsk, candidate: &Candidate, refused: &mut Vec<Refused>) -> bool {
        let (device, slice, _) = self.scene.pools.device(candidate);
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

    /// Whether what a device consumes of the counters of its pool is left.
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
    /// Whether there is one request, with one way to satisfy it and no constraint.
    fn is_one_request(&self) -> bool {
        let [claim] = &self.claims[..] else { return false };
        self.asks.len() == 1 && claim.constraints.is_empty()
    }

    /// The claims up to one of them.
    fn until(&self, last: usize) -> Self {
        let mut wanted = self.clone();
        wanted.claims.truncate(last + 1);
        wanted
    }

    /// The last claim without one of its constraints, or without any.
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

    /// The last claim with so many of its requests.
    fn with_requests(&self, count: usize) -> Self {
        let mut wanted = self.clone();
        if let Some(claim) = wanted.claims.last_mut() {
            claim.requests.truncate(count);
        }
        wanted
    }
}
