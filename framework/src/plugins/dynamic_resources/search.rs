//! Evaluates the claims of a class on nodes. Source: `Filter` and `Score` of the plugin.

mod amounts;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    declared::DeclaredFeatures,
    devices::{
        allocate::{
            AllocateError, Found, MAX_STEPS, Scene, Scratch, allocate,
            lacking::{DeviceLack, lacking},
        },
        facts::{ClaimFact, Claims},
        language::Cel,
        model::request::RequestKind,
        node::NodeDevices,
        selectors::Verdicts,
        special::{Served, Unserved},
        wanted::Wanted,
        work::Work,
    },
    extension::{Lack, NodeFilter, NodeScore},
    selector::{self, Term},
    snapshot::{Slot, Snapshot},
    status::{FilterResult, Refusal},
    symbols::Lookup,
};

const NOT_ALL: u64 = 0;
/// A pool of the node is invalid.
const INVALID: u64 = 1;
/// A claim for extended resources remains from an earlier attempt.
const LEFT: u64 = 2;
const LACKING: u64 = 3;
/// Claims are unavailable on the node; one bit per claim in the lower half.
pub(crate) const UNAVAILABLE: u64 = 1 << 32;
pub(crate) const LAST_MARK: usize = 31;
/// Evaluation error; its index is in the lower half.
const ERROR: u64 = 1 << 33;
/// The node lacks CPU, memory or the like for the devices; one bit per resource in the lower half.
const SHORT: u64 = 1 << 34;
/// Another pod has a claim; its index is in the lower half.
const TAKEN: u64 = 1 << 35;
/// Another reason; its index among the errors is in the lower half.
const REASON: u64 = 1 << 36;
/// Maximum number of distinct errors, each of which ends the attempt. Further errors get the last index.
const MAX_ERRORS: usize = 256;

pub(super) struct Search {
    claims: Arc<Claims>,
    /// By claim; `None` for unallocated claims.
    allocated: Vec<Option<AllocatedClaim>>,
    /// Whether a search for devices may be needed.
    may_want: bool,
    kept: Mutex<Kept>,
    none: NodeDevices,
}

struct AllocatedClaim {
    /// Nodes that can use its devices; `None`: all.
    nodes: Option<Vec<Term>>,
    has_failed: bool,
    skips_operations: bool,
    is_taken: bool,
}

struct Kept {
    /// Prepared claims by the extended resources that devices provide. Bound: at most one per node. Nodes differ only in the extended
    /// resources of device plugins.
    wanted: BTreeMap<Served, Arc<Wanted>>,
    verdicts: Verdicts,
    scratch: Scratch,
    errors: Vec<String>,
    /// Resources of [`SHORT`] after the fixed ones.
    huge_pages: Vec<Arc<str>>,
    /// Work of explanations, counted separately because no decision uses them.
    explained: Work,
    /// Work of all earlier attempts, in units of [`Work`].
    done: u64,
    /// Error of the node on which the attempt exceeded its work limit.
    exhausted: Option<Refusal>,
}

impl Search {
    pub(super) fn new(claims: &Arc<Claims>, symbols: &mut Lookup<'_>) -> Self {
        let is_unallocated = |claim: &ClaimFact| matches!(claim, ClaimFact::Unallocated { .. });
        let may_want = claims.extended.is_some() || claims.claims.iter().any(is_unallocated);
        let allocated = claims.claims.iter().map(|claim| match claim {
            ClaimFact::Allocated { nodes, has_failed, skips_operations, devices, .. } => {
                // Invalid terms match nothing.
                let mut compile = |term| selector::compile(term, symbols).ok().flatten();
                let nodes = nodes.as_ref().map(|terms| terms.iter().filter_map(&mut compile).collect());
                let is_taken = devices.as_ref().is_some_and(|devices| devices.is_taken);
                let (has_failed, skips_operations) = (*has_failed, *skips_operations);
                Some(AllocatedClaim { nodes, has_failed, skips_operations, is_taken })
            }
            ClaimFact::Unallocated { .. } => None,
        });
        let allocated = allocated.collect();
        let kept = Kept {
            wanted: BTreeMap::new(),
            verdicts: Verdicts::new(Arc::new(Cel::default())),
            scratch: Scratch::default(),
            errors: Vec::new(),
            huge_pages: Vec::new(),
            explained: Work::default(),
            done: 0,
            exhausted: None,
        };
        Self { claims: Arc::clone(claims), allocated, may_want, kept: Mutex::new(kept), none: NodeDevices::default() }
    }

    /// Whether any node can score above 0.
    pub(super) fn prefers(&self) -> bool {
        let is_prioritized = |claim: &ClaimFact| match claim {
            ClaimFact::Unallocated { spec, .. } => {
                spec.requests.iter().any(|request| matches!(request.kind, RequestKind::FirstAvailable(_)))
            }
            ClaimFact::Allocated { score, .. } => *score > 0,
        };
        // Upstream has no filter result for a node if nothing has to be allocated.
        self.may_want && self.claims.claims.iter().any(is_prioritized)
    }

    fn unavailable<'a>(&'a self, nodes: &'a Snapshot, slot: Slot) -> impl Iterator<Item = usize> + 'a {
        let is_unavailable = move |allocated: &Option<AllocatedClaim>| {
            allocated.as_ref().is_some_and(|claim| claim.has_failed || !claim.reaches(nodes, slot))
        };
        let places = self.allocated.iter().enumerate().filter(move |(_, claim)| is_unavailable(claim));
        places.map(|(place, _)| place)
    }

    fn served(&self, nodes: &Snapshot, slot: Slot) -> Result<Served, Refusal> {
        let Some(extended) = &self.claims.extended else { return Ok(Served::default()) };
        extended.served(|name| nodes.accounts.named_scalar(name, slot)).map_err(|unserved| {
            Refusal::unresolvable(match unserved {
                Unserved::Left => LEFT,
                Unserved::Lacking => LACKING,
            })
        })
    }

    fn wanted<'a>(
        &self,
        kept: &'a mut Kept,
        served: Served,
    ) -> (Arc<Wanted>, &'a mut Verdicts, &'a mut Scratch, &'a mut Vec<String>) {
        let Kept { wanted, verdicts, scratch, errors, .. } = kept;
        let wanted = wanted.entry(served).or_insert_with(|| {
            let claims = self.claims.unallocated(served);
            Arc::new(Wanted::of(&claims, &|name| self.claims.class(name), verdicts))
        });
        (Arc::clone(wanted), verdicts, scratch, errors)
    }

    fn find(&self, nodes: &Snapshot, slot: Slot, served: Served) -> Result<(Found, Arc<Wanted>), Refusal> {
        let devices = nodes.devices(slot).unwrap_or(&self.none);
        // Verdicts are added one by one, so a panic leaves the cache consistent.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(refusal) = kept.exhausted {
            return Err(refusal);
        }
        let mut is_exhausted = false;
        let (wanted, verdicts, scratch, errors) = self.wanted(&mut kept, served);
        let error = match allocate(scene(devices, &wanted), verdicts, scratch) {
            Ok(Some(found)) => return Ok((found, wanted)),
            Ok(None) => return Err(Refusal::unresolvable(NOT_ALL)),
            Err(AllocateError::OnNode(_)) => return Err(Refusal::unresolvable(INVALID)),
            Err(error @ (AllocateError::TooManySteps(_) | AllocateError::TooMuchWork)) => {
                is_exhausted = error == AllocateError::TooMuchWork;
                let name = nodes.symbols.text(nodes.name(slot));
                format!("node {name}: timed out trying to allocate devices")
            }
            Err(AllocateError::Failed(error)) => error,
        };
        let refusal = Refusal::error(ERROR | place_of(errors, error));
        kept.exhausted = is_exhausted.then_some(refusal);
        Err(refusal)
    }
}

impl AllocatedClaim {
    fn reaches(&self, nodes: &Snapshot, slot: Slot) -> bool {
        let has_feature = || nodes.declared_features(slot).has(DeclaredFeatures::OPTIONAL_NODE_OPERATIONS);
        let is_for = |terms: &Vec<Term>| terms.iter().any(|term| term.over(nodes).matches(slot));
        (!self.skips_operations || has_feature()) && self.nodes.as_ref().is_none_or(is_for)
    }
}

/// The index of a text, which is added if it is new.
fn place_of(texts: &mut Vec<String>, text: String) -> u64 {
    let place = texts.iter().position(|known| *known == text).unwrap_or_else(|| {
        if texts.len() < MAX_ERRORS {
            texts.push(text);
        }
        texts.len() - 1
    });
    place as u64
}

/// One bit per unavailable claim. The bit [`LAST_MARK`] covers all further claims.
fn marks(unavailable: impl Iterator<Item = usize>) -> u64 {
    unavailable.fold(0, |marks, place| marks | 1 << place.min(LAST_MARK))
}

fn scene<'a>(devices: &'a NodeDevices, wanted: &'a Wanted) -> Scene<'a> {
    Scene { pools: &devices.pools, allocated: &devices.allocated, wanted, max_steps: MAX_STEPS }
}

impl NodeFilter for Search {
    fn filter(&self, nodes: &Snapshot, slot: Slot) -> FilterResult {
        let served = self.served(nodes, slot)?;
        if self.claims.claims.is_empty() && served == Served::default() {
            return Ok(());
        }
        let unavailable = marks(self.unavailable(nodes, slot));
        let is_taken = |claim: &Option<AllocatedClaim>| {
            claim.as_ref().is_some_and(|claim| claim.is_taken && claim.reaches(nodes, slot))
        };
        if let Some(place) = self.allocated.iter().position(is_taken) {
            return Err(Refusal::unresolvable(TAKEN | place as u64));
        }
        // Also searches if a claim is unavailable, because upstream's errors of the search take precedence.
        let found = if self.may_want { Some(self.find(nodes, slot, served)?) } else { None };
        if let Some(requests) = &self.claims.requests {
            self.fits(requests, found.as_ref().map(|(found, wanted)| (found, &**wanted)), nodes, slot)?;
        }
        if unavailable == 0 { Ok(()) } else { Err(Refusal::unresolvable(UNAVAILABLE | unavailable)) }
    }

    fn reasons(&self, detail: u64) -> Vec<String> {
        let words = match detail {
            NOT_ALL => "cannot allocate all claims",
            INVALID => "invalid resource pools were encountered",
            LEFT => "cannot schedule extended resource claim",
            LACKING => "cannot fit resource",
            detail if detail & UNAVAILABLE != 0 => "resourceclaim not available on the node",
            detail if detail & (SHORT | TAKEN | REASON) != 0 => return self.reasons_of_amounts(detail),
            detail => {
                let place = usize::try_from(detail & u64::from(u32::MAX)).unwrap_or(usize::MAX);
                let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
                let error = kept.errors.get(place).map_or("", String::as_str);
                return vec![format!("running \"DynamicResources\" filter plugin: {error}")];
            }
        };
        vec![words.to_owned()]
    }

    fn begin(&self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let attempt = kept.verdicts.replace_work(Work::default());
        let explained = std::mem::take(&mut kept.explained);
        kept.done = kept.done.saturating_add(attempt.done()).saturating_add(explained.done());
    }

    fn work(&self) -> u64 {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.done.saturating_add(kept.verdicts.work().done())
    }

    fn is_exhausted(&self) -> bool {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).exhausted.is_some()
    }

    fn bytes(&self) -> usize {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.verdicts.bytes() + kept.errors.iter().map(String::len).sum::<usize>()
    }

    fn lacks(&self, nodes: &Snapshot, slot: Slot) -> Option<Vec<Lack>> {
        let allocated = self.unavailable(nodes, slot).map(|claim| DeviceLack::Allocated {
            claim,
            has_failed: self.allocated[claim].as_ref().is_some_and(|allocated| allocated.has_failed),
        });
        let mut lacks: Vec<DeviceLack> = allocated.collect();
        if let (true, Ok(served)) = (self.may_want, self.served(nodes, slot)) {
            let devices = nodes.devices(slot).unwrap_or(&self.none);
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let explained = kept.explained;
            let (wanted, verdicts, scratch, _) = self.wanted(&mut kept, served);
            let decided = verdicts.replace_work(explained);
            lacks.extend(lacking(scene(devices, &wanted), verdicts, scratch));
            kept.explained = kept.verdicts.replace_work(decided);
        }
        Some(lacks.into_iter().map(Lack::Devices).collect())
    }
}

pub(super) struct Preferred(pub(super) Search);

impl NodeScore for Preferred {
    fn score(&self, nodes: &Snapshot, slot: Slot) -> i64 {
        let Ok(served) = self.0.served(nodes, slot) else { return 0 };
        // The filter made the same search on this node within the work limit.
        self.0.begin();
        let Ok((found, wanted)) = self.0.find(nodes, slot, served) else { return 0 };
        let mut unallocated = 0..;
        let scores = self.0.claims.claims.iter().map(|claim| match claim {
            ClaimFact::Allocated { score, .. } => *score,
            ClaimFact::Unallocated { .. } => unallocated.next().map_or(0, |place| found.score(&wanted, place)),
        });
        scores.sum()
    }
}
