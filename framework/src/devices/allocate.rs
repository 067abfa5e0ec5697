//! The search for devices: the first that satisfies all claims of a pod on one node, as kube-scheduler's finds it.
//!
//! Knows: in which order devices are tried, and what rules one out. Must not know: other nodes, or what becomes of the result.
//!
//! Source: `structured/internal/incubating/allocator_incubating.go`. Upstream calls itself for each device; here the calls are
//! on a stack of their own, because the author of a claim sets their number.

mod attempt;
mod check;
mod constraints;
mod counters;
pub mod lacking;
mod search;
use super::{allocated::Allocated, pools::NodePools, selectors::Verdicts, wanted::Wanted, work::Exhausted};
use attempt::Attempt;
pub use attempt::Scratch;

/// The most devices that a claim can be given: `AllocationResultsMaxSize`.
pub const MAX_RESULTS: usize = 32;

/// How many steps a search may take on one node, unless the caller says otherwise. Upstream gives up after 10 seconds. A step
/// that tries eight devices takes 0.1 µs (`cargo bench -p flotilla-framework --bench devices`), one that tries a hundred of them
/// a few, so that this is some seconds at most.
pub const MAX_STEPS: u64 = 1_000_000;

/// What was found for all claims of a pod on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// By claim, request and device.
    pub(super) picks: Vec<Pick>,
    /// By claim, then request: which alternative was taken.
    pub(super) alternatives: Vec<Vec<usize>>,
}

/// A device for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pick {
    pub(super) claim: u32,
    pub(super) request: u32,
    pub(super) alternative: u32,
    /// In [`NodePools::devices`].
    pub(super) device: u32,
}

/// Why no devices were found, other than that there are none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AllocateError {
    /// Devices of the node cannot be used; other nodes may do. In upstream's words.
    #[error("{0}")]
    OnNode(String),
    /// The claims cannot be allocated on any node. In upstream's words.
    #[error("{0}")]
    Failed(String),
    /// The search took more steps than it may.
    #[error("the search for devices was given up after {0} steps; ask for fewer devices or with fewer alternatives")]
    TooManySteps(u64),
    /// The searches of the attempt, on this node and those before it, took more work than they may: [`MAX_WORK`]. Nothing was found
    /// out about the nodes that are left.
    ///
    /// [`MAX_WORK`]: super::work::MAX_WORK
    #[error("the search for devices was given up after too much work; ask for fewer devices or by simpler selectors")]
    TooMuchWork,
}

impl From<Exhausted> for AllocateError {
    fn from(_: Exhausted) -> Self {
        Self::TooMuchWork
    }
}

/// The state of the cluster in which devices are looked for.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// What the node can reach.
    pub pools: &'a NodePools,
    /// What is allocated already.
    pub allocated: &'a Allocated,
    /// What is looked for.
    pub wanted: &'a Wanted,
    /// How many steps the search may take.
    pub max_steps: u64,
}

/// Looks for devices. `None`: not all claims can be allocated on the node.
///
/// # Errors
/// A claim, a class or a pool is at fault, or the search took too long.
pub fn allocate(
    scene: Scene<'_>,
    verdicts: &mut Verdicts,
    scratch: &mut Scratch,
) -> Result<Option<Found>, AllocateError> {
    if let Some(error) = &scene.pools.error {
        return Err(AllocateError::Failed(error.clone()));
    }
    // What is prepared for a node is as long as its devices, asks and pools.
    let wanted = scene.wanted;
    verdicts.work.add((scene.pools.devices.len() + 4 * scene.pools.pools.len() + 8 * wanted.asks.len()) as u64 / 4)?;
    let mut attempt = Attempt::new(scene, verdicts, scratch);
    let found = attempt.validate().and_then(|()| attempt.search());
    if found == Ok(None) && scene.pools.has_invalid() {
        return Err(AllocateError::OnNode("invalid resource pools were encountered".to_owned()));
    }
    found
}

impl Found {
    /// How much the alternatives that were taken for a claim add to the score of the node: 8 for a first one, and so on.
    ///
    /// Source: `computeScore` of the plugin.
    #[must_use]
    pub fn score(&self, wanted: &Wanted, claim: usize) -> i64 {
        let Some(asked) = wanted.claims.get(claim) else { return 0 };
        let taken = self.alternatives.get(claim).map_or(&[][..], Vec::as_slice);
        let scores = asked.requests.iter().enumerate().zip(taken).map(|((at, request), taken)| {
            let has_devices = self.picks.iter().any(|pick| (pick.claim as usize, pick.request as usize) == (claim, at));
            if request.is_prioritized && has_devices { 8 - i64::try_from(*taken).unwrap_or(8) } else { 0 }
        });
        scores.sum()
    }
}
