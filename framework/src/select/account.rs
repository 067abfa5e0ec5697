//! What a book knows of single nodes: which domains refuse them, and what each plugin that normalises gives them.
//!
//! Knows: the insides of a book. Must not know: who asks, or what is made of the answer.

use super::{Book, StratumKey};
use crate::{
    extension::{Domain, Extremes},
    prepared::{Order, Prepared},
    status::Refusal,
};

/// A plugin's score of one node, before and after it is normalised over all feasible nodes and weighted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Normalized {
    pub(crate) raw: i64,
    pub(crate) weighted: i64,
}

impl Book {
    /// How nodes with these domains are refused: as their shard said, unless a domain-level filter that stands before
    /// does it first. Without a refusal of the shard's, by any domain-level filter.
    pub(crate) fn refusal(
        &self,
        prepared: &Prepared,
        domains: &[Domain],
        local: Option<(Order, Refusal)>,
    ) -> Option<(Order, Refusal)> {
        let before = local.map_or(Order::MAX, |(order, _)| order);
        self.judge_domains(prepared, domains, before).or(local)
    }

    /// The scores of the plugins that normalise, in the profile's order, for feasible nodes with these raw scores and
    /// domains. Every one of `extremes` is that of [`Self::all_extremes`].
    pub(crate) fn normalized(
        &self,
        prepared: &Prepared,
        raws: &[i64],
        domains: &[Domain],
        extremes: &[Extremes],
    ) -> Vec<Normalized> {
        let raws = self.raws(prepared, &StratumKey { raws: raws.to_vec(), domains: domains.to_vec() });
        let scores = prepared.normalized().iter().zip(raws).zip(extremes);
        scores
            .map(|((normalized, raw), extremes)| Normalized { raw, weighted: normalized.weighted(raw, *extremes) })
            .collect()
    }

    /// For each plugin that normalises the extremes over all feasible nodes; none where no node is feasible.
    pub(crate) fn all_extremes(&self, prepared: &Prepared) -> Vec<Extremes> {
        (0..prepared.normalized().len()).filter_map(|place| self.extremes(place)).collect()
    }
}
