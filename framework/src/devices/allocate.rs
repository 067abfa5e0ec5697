//! Searches the first devices that satisfy all claims of a pod on one node, in kube-scheduler's order.
//!
//! Source: `structured/internal/incubating/allocator_incubating.go`. Upstream recurses for each device. This search uses an explicit stack,
//! because the author of a claim controls the depth.

mod attempt;
mod check;
mod constraints;
mod counters;
mod groups;
pub mod lacking;
mod search;
use super::{allocated::Allocated, pools::NodePools, selectors::Verdicts, wanted::Wanted, work::Exhausted};
use attempt::Attempt;
pub use attempt::Scratch;

/// Maximum devices of a claim: `AllocationResultsMaxSize`.
pub const MAX_RESULTS: usize = 32;

/// Default limit of search steps on one node; upstream stops after 10 seconds. A step takes 0.1 µs with eight devices (`cargo bench -p
/// flotilla-framework --bench devices`) and a few µs with a hundred. The limit thus corresponds to some seconds at most.
pub const MAX_STEPS: u64 = 1_000_000;

/// Devices found for all claims of a pod on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Sorted by claim, request and device.
    pub(super) picks: Vec<Pick>,
    /// The selected alternative, by claim, then request.
    pub(super) alternatives: Vec<Vec<usize>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pick {
    pub(super) claim: u32,
    pub(super) request: u32,
    pub(super) alternative: u32,
    /// Index in [`NodePools::devices`].
    pub(super) device: u32,
}

/// Why the search failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AllocateError {
    /// The devices of this node cannot be used; other nodes may be feasible. Upstream's text.
    #[error("{0}")]
    OnNode(String),
    /// The claims cannot be allocated on any node. Upstream's text.
    #[error("{0}")]
    Failed(String),
    /// The search reached its limit of steps.
    #[error("device search reached its limit of {0} steps; request fewer devices or fewer alternatives")]
    TooManySteps(u64),
    /// The searches of this attempt, on all nodes so far, reached [`MAX_WORK`]. The remaining nodes were not evaluated.
    ///
    /// [`MAX_WORK`]: super::work::MAX_WORK
    #[error("device search reached its work limit; request fewer devices or use simpler selectors")]
    TooMuchWork,
}

impl From<Exhausted> for AllocateError {
    fn from(_: Exhausted) -> Self {
        Self::TooMuchWork
    }
}

/// Input of a search.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// Pools that the node can reach.
    pub pools: &'a NodePools,
    /// Devices that are already allocated.
    pub allocated: &'a Allocated,
    /// Claims to allocate.
    pub wanted: &'a Wanted,
    /// Limit of search steps.
    pub max_steps: u64,
}

/// Searches devices. `None`: the node cannot satisfy all claims.
///
/// # Errors
/// A claim, a class or a pool is invalid, or the search reached a limit.
pub fn allocate(
    scene: Scene<'_>,
    verdicts: &mut Verdicts,
    scratch: &mut Scratch,
) -> Result<Option<Found>, AllocateError> {
    if let Some(error) = &scene.pools.error {
        return Err(AllocateError::Failed(error.clone()));
    }
    // The setup per node is proportional to its devices, asks and pools.
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
    /// Score of a claim's selected alternatives: 8 for each first alternative, 7 for each second, and so on. Source: `computeScore` of the
    /// plugin.
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
