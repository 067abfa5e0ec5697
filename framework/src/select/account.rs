//! What a book knows of single nodes: which domains refuse them, and what each plugin that normalises gives them.
//!
//! Knows: the insides of a book. Must not know: who asks, or what is made of the answer.

use super::book::{Book, Offers};
pub(crate) use super::normalized::Normalized;
use crate::{
    explain::lack::Shortfall,
    extension::{Domain, Extremes},
    node::NodeId,
    prepared::{Order, Prepared},
    status::Refusal,
};

/// What there is to know before single nodes are asked about.
#[derive(Debug)]
pub(crate) enum Scores {
    /// For each plugin that normalises the extremes over all feasible nodes; none where no node is feasible.
    Plain(Vec<Extremes>),
    /// For each group of nodes the scores of each plugin that normalises; `None` for one that counted nothing at all.
    Wide(Vec<Vec<Option<Normalized>>>),
}

impl Book {
    /// How nodes with these domains are refused: as their shard said, unless a domain-level filter that stands before
    /// does it first. Without a refusal of the shard's, by any domain-level filter.
    pub(crate) fn refusal(
        &mut self,
        prepared: &Prepared,
        domains: &[Domain],
        local: Option<(Order, Refusal)>,
    ) -> Option<(Order, Refusal)> {
        let before = local.map_or(Order::MAX, |(order, _)| order);
        match &mut self.offers {
            Offers::Plain(_) => local,
            Offers::Wide(wide) => wide.judge(prepared, domains, before).err().or(local),
        }
    }

    /// The first domain-level filter that refuses nodes with these domains, and what they lack for it.
    pub(crate) fn shortfall(&mut self, prepared: &Prepared, domains: &[Domain]) -> Option<Shortfall> {
        match &mut self.offers {
            Offers::Plain(_) => None,
            Offers::Wide(wide) => wide.shortfall(prepared, domains),
        }
    }

    /// Scores all nodes, for [`Self::normalized`].
    pub(crate) fn scores(&mut self, prepared: &Prepared) -> Scores {
        self.best(prepared);
        match &self.offers {
            Offers::Plain(plain) => Scores::Plain(plain.all_extremes(prepared)),
            Offers::Wide(wide) => Scores::Wide(wide.all_scores(prepared)),
        }
    }

    /// The scores of the plugins that normalise, in the profile's order, for a feasible node with these raw scores; `None`
    /// for a plugin that counted nothing at all.
    pub(crate) fn normalized(
        &self,
        prepared: &Prepared,
        scores: &Scores,
        node: NodeId,
        raws: &[i64],
    ) -> Vec<Option<Normalized>> {
        match (scores, &self.offers) {
            (Scores::Wide(groups), Offers::Wide(wide)) => {
                wide.group_of(node).and_then(|group| groups.get(group)).cloned().unwrap_or_default()
            }
            (Scores::Plain(extremes), _) => {
                let scores = prepared.normalized().iter().zip(raws).zip(extremes);
                let score = |((normalized, &raw), extremes): ((&crate::prepared::NormalizedScore, &i64), &Extremes)| {
                    Some(Normalized { raw, weighted: normalized.weighted(raw, *extremes) })
                };
                scores.map(score).collect()
            }
            (Scores::Wide(_), Offers::Plain(_)) => Vec::new(),
        }
    }
}
