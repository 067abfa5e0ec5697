//! Checks that a shard's answer is consistent before it is merged.
//!
//! The coordinator repeats scores only for the chosen node. The check covers sums, completeness and order of offers, overflows, and the
//! ownership of nodes.

use super::{Evaluation, MAX_OFFERS, Offer, Refused, Stratum};
use crate::{
    extension::{MAX_NODE_SCORE, Tally},
    node::NodeId,
    prepared::Prepared,
};

/// The largest absolute score or raw score of one node. Normalising multiplies a sum of at most three of them by at most 100, so that
/// nothing overflows.
const MAX_SCORE: i64 = i64::MAX / (4 * MAX_NODE_SCORE);

/// The largest absolute count in one domain. kube-scheduler's limits are 150,000 pods (2^18), a weight of 100 (2^7) and, in one pod of 1.5
/// MiB, 2^15 equal terms: 2^40. With 64 times as much, a sum over 2^15 terms stays below 2^62.
const MAX_COUNT: i64 = 1 << 46;

/// The expected size of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The number of nodes that the shard held at the time of the request.
    pub nodes: u32,
    /// The requested number of offers of each stratum.
    pub k: u32,
}

/// Why an answer is inconsistent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsound {
    /// The number of evaluated nodes is wrong.
    #[error("it evaluated {covered} nodes, but holds {nodes}")]
    Covered {
        /// The reported number.
        covered: u32,
        /// The number of nodes that the shard holds.
        nodes: u32,
    },
    /// Offered and refused nodes do not add up to the evaluated nodes.
    #[error("it evaluated {covered} nodes, but returned results for {counted}")]
    Counted {
        /// The reported number of evaluated nodes.
        covered: u32,
        /// The sum of offered and refused nodes.
        counted: u64,
    },
    /// A list has the wrong length for the class.
    #[error("it returned {found} {what}, expected {wanted}")]
    Shape {
        /// The elements of the list.
        what: &'static str,
        /// The found length.
        found: usize,
        /// The expected length.
        wanted: usize,
    },
    /// A stratum has fewer or more offers than requested and available.
    #[error("it offered {found} nodes of a stratum of {size}, expected {wanted}")]
    Offers {
        /// The found number of offers.
        found: usize,
        /// The number of nodes in the stratum.
        size: u32,
        /// The expected number of offers.
        wanted: usize,
    },
    /// The offers of a stratum are not sorted.
    #[error("its offer of node {0} is out of order")]
    Order(u32),
    /// A score or a count is out of range.
    #[error("it returned a score or count of {0}, which is out of range")]
    Extreme(i64),
    /// A filter that the class does not have refused nodes.
    #[error("it refused nodes by filter {0}, which the class does not have")]
    Filter(u16),
    /// A node belongs to another shard, or is offered twice.
    #[error("it offered node {node}, {why}")]
    Node {
        /// The node's number.
        node: u32,
        /// The problem.
        why: &'static str,
    },
}

impl Evaluation {
    /// Checks an answer. `refuse` returns the problem of an offered node, if any. Takes time by offers, strata and counts, and no memory.
    ///
    /// # Errors
    /// The first problem.
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
        // Each node is in at most one domain of a term.
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
