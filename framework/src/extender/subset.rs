//! Evaluates the nodes that extenders left. Plugins normalise scores over these alone; counts over domains include all nodes.

use indexmap::IndexMap;
use smallvec::SmallVec;

use crate::{
    evaluate::tallies,
    evaluation::{Evaluation, Offer, Stratum},
    extension::Domain,
    matches::Matches,
    node::NodeId,
    prepared::{Feasible, NodeResult, Prepared},
    snapshot::Snapshot,
};

type StratumKey = (SmallVec<[i64; 4]>, Vec<Domain>);

/// Evaluates these nodes in their current state; leaves out nodes that became infeasible or were deleted. `matches` must be refreshed.
#[must_use]
pub fn evaluate(prepared: &Prepared, nodes: &Snapshot, matches: &Matches, among: &[NodeId]) -> Evaluation {
    let mut strata: IndexMap<StratumKey, Vec<Offer>> = IndexMap::new();
    for &node in among {
        let Some(slot) = nodes.slot(node) else { continue };
        if let NodeResult::Feasible(Feasible { base, raws, domains }) = prepared.judge_with(nodes, slot, matches) {
            strata.entry((raws, domains)).or_default().push(Offer { node, base, rank: nodes.rank(slot) });
        }
    }
    let strata = strata.into_iter().map(|((raws, domains), mut offers)| {
        offers.sort_unstable_by(Offer::cmp);
        Stratum { raws: raws.to_vec(), domains, size: u32::try_from(offers.len()).unwrap_or(u32::MAX), offers }
    });
    Evaluation {
        covered: u32::try_from(among.len()).unwrap_or(u32::MAX),
        strata: strata.collect(),
        refused: Vec::new(),
        tallies: tallies(prepared, nodes, matches),
    }
}
