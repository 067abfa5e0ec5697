//! Whether an answer can be that of a shard at all, before anything is made of it.
//!
//! What one node scores is not judged again here: that is done for the node that is chosen. Checked is what must hold so that
//! a merge of answers is what it is taken for: counts add up, offers are in order and none is left out, numbers stay below
//! what sums of them can overflow by, and each node is the answerer's.
//!
//! Knows: the shape that [`crate::evaluate`] gives an answer. Must not know: who answers, or what follows from a wrong one.

use super::{Evaluation, MAX_OFFERS, Offer, Refused, Stratum};
use crate::{
    extension::{MAX_NODE_SCORE, Tally},
    node::NodeId,
    prepared::Prepared,
};

/// The largest score or raw score of one node, either way. Normalising multiplies by at most 100 what is at most three of
/// them added up, so that nothing overflows.
const MAX_SCORE: i64 = i64::MAX / (4 * MAX_NODE_SCORE);

/// The largest count in one domain, either way. Upstream's limits are 150,000 pods (2^18), a weight of 100 (2^7) and, in one
/// pod of 1.5 MiB, 2^15 terms that mean the same: 2^40. With 64 times as much a sum over 2^15 terms stays below 2^62.
const MAX_COUNT: i64 = 1 << 46;

/// What was asked, as far as an answer is measured by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// How many nodes the shard had when it was asked.
    pub nodes: u32,
    /// How many offers of each stratum are wanted.
    pub k: u32,
}

/// Why an answer is not what a shard says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsound {
    /// It is about another number of nodes.
    #[error("it judged {covered} nodes where it holds {nodes}")]
    Covered {
        /// How many it says it judged.
        covered: u32,
        /// How many it holds.
        nodes: u32,
    },
    /// What is offered and what is refused is not what was judged.
    #[error("it judged {covered} nodes and accounts for {counted}")]
    Counted {
        /// How many it says it judged.
        covered: u32,
        /// How many it says became of them.
        counted: u64,
    },
    /// A list has another length than the class gives it.
    #[error("it gives {found} {what} where the class has {wanted}")]
    Shape {
        /// Of what.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there have to be.
        wanted: usize,
    },
    /// Fewer or more nodes are offered than were asked for and are there.
    #[error("it offers {found} nodes of a stratum of {size} where {wanted} are wanted")]
    Offers {
        /// How many there are.
        found: usize,
        /// How many nodes the stratum has.
        size: u32,
        /// How many offers there have to be.
        wanted: usize,
    },
    /// Offers of a stratum are not in their order.
    #[error("its offer of node {0} is not in its place")]
    Order(u32),
    /// A score or a count is larger than any can be.
    #[error("it gives {0} as a score or a count")]
    Extreme(i64),
    /// Nodes are refused by a filter that the class does not have.
    #[error("it has nodes refused by filter {0}, which the class does not have")]
    Filter(u16),
    /// A node is not the answerer's, or is offered twice.
    #[error("it offered node {node}, {why}")]
    Node {
        /// The number of the node.
        node: u32,
        /// What is wrong about it.
        why: &'static str,
    },
}

// === impl Evaluation ===

impl Evaluation {
    /// Whether a shard can have answered so. `refuse` says of each offer what is wrong about its node, if anything. Takes
    /// time by offers, strata and counts, and no memory.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(
        &self,
        prepared: &Prepared,
        wanted: Wanted,
        mut refuse: impl FnMut(Offer) -> Option<&'static str>,
    ) -> Result<(), Unsound> {
        let Self { covered, strata, refused, tallies } = self;
        let nodes = wanted.nodes;
        if *covered != nodes {
            return Err(Unsound::Covered { covered: *covered, nodes });
        }
        let feasible = strata.iter().map(|stratum| u64::from(stratum.size));
        let counted = feasible.chain(refused.iter().map(|group| u64::from(group.count))).sum();
        if counted != u64::from(*covered) {
            return Err(Unsound::Counted { covered: *covered, counted });
        }
        let most = if prepared.is_wide() { usize::MAX } else { MAX_OFFERS / strata.len().max(1) };
        let k = if prepared.is_wide() { usize::MAX } else { (wanted.k as usize).clamp(1, most.max(1)) };
        strata.iter().try_for_each(|stratum| check_stratum(stratum, prepared, k, &mut refuse))?;
        refused.iter().try_for_each(|group| check_refused(group, prepared))?;
        check_tallies(tallies, prepared, nodes)
    }
}

fn check_stratum(
    stratum: &Stratum,
    prepared: &Prepared,
    k: usize,
    refuse: &mut impl FnMut(Offer) -> Option<&'static str>,
) -> Result<(), Unsound> {
    let Stratum { raws, domains, size, offers } = stratum;
    let width = prepared.normalized().last().map_or(0, |last| last.raws.1);
    shape("raw scores", raws.len(), width)?;
    shape("domains", domains.len(), prepared.keys().len())?;
    raws.iter().try_for_each(|&raw| within(raw, MAX_SCORE))?;
    let wanted = k.min(*size as usize);
    if *size == 0 || offers.len() != wanted {
        return Err(Unsound::Offers { found: offers.len(), size: *size, wanted });
    }
    let mut before: Option<Offer> = None;
    for offer in offers {
        let Offer { node: NodeId(node), base, .. } = *offer;
        within(base, MAX_SCORE)?;
        if before.is_some_and(|before| before >= *offer) {
            return Err(Unsound::Order(node));
        }
        if let Some(why) = refuse(*offer) {
            return Err(Unsound::Node { node, why });
        }
        before = Some(*offer);
    }
    Ok(())
}

fn check_refused(group: &Refused, prepared: &Prepared) -> Result<(), Unsound> {
    let Refused { order, domains, .. } = group;
    if !prepared.can_refuse(*order) {
        return Err(Unsound::Filter(*order));
    }
    let keys = if prepared.is_judged_before(*order) { prepared.keys().len() } else { 0 };
    shape("domains of refused nodes", domains.len(), keys)
}

fn check_tallies(tallies: &[Tally], prepared: &Prepared, nodes: u32) -> Result<(), Unsound> {
    let plugins = prepared.domain_plugins().count();
    shape("lists of counts", tallies.len(), plugins)?;
    for (tally, plugin) in tallies.iter().zip(prepared.domain_plugins()) {
        let terms = plugin.terms().len();
        // Each node is in one domain of a term at most.
        let most = terms.saturating_mul(nodes as usize);
        if tally.0.len() > most {
            return Err(Unsound::Shape { what: "counts", found: tally.0.len(), wanted: most });
        }
        for ((term, _), count) in &tally.0 {
            if usize::from(*term) >= terms {
                return Err(Unsound::Shape { what: "terms", found: usize::from(*term) + 1, wanted: terms });
            }
            within(*count, MAX_COUNT)?;
        }
    }
    Ok(())
}

fn shape(what: &'static str, found: usize, wanted: usize) -> Result<(), Unsound> {
    if found == wanted { Ok(()) } else { Err(Unsound::Shape { what, found, wanted }) }
}

fn within(number: i64, bound: i64) -> Result<(), Unsound> {
    if (-bound..=bound).contains(&number) { Ok(()) } else { Err(Unsound::Extreme(number)) }
}
