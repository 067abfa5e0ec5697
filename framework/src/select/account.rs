//! What a view knows of single nodes: which domains refuse them, and what each plugin that normalises gives them.
//!
//! Knows: the insides of a view. Must not know: who asks, or what is made of the answer.

pub(crate) use super::normalized::Normalized;
use super::view::View;
use crate::{
    explain::lack::Shortfall,
    extension::Domain,
    node::NodeId,
    prepared::{Order, Prepared},
    status::Refusal,
};

/// For each group of nodes the scores of each plugin that normalises; `None` for one that counted nothing at all.
pub(crate) type Scores = Vec<Vec<Option<Normalized>>>;

impl View {
    /// Why the scores of the last [`Self::best`] mean nothing, if so: a plugin could not normalise them.
    #[must_use]
    pub fn fault(&self) -> Option<&str> {
        self.counted.fault()
    }

    /// How nodes with these domains are refused: as their shard said, unless a domain-level filter that stands before
    /// does it first. Without a refusal of the shard's, by any domain-level filter.
    pub(crate) fn refusal(
        &mut self,
        prepared: &Prepared,
        domains: &[Domain],
        local: Option<(Order, Refusal)>,
    ) -> Option<(Order, Refusal)> {
        let before = local.map_or(Order::MAX, |(order, _)| order);
        self.counted.judge(prepared, domains, before).err().or(local)
    }

    /// The first domain-level filter that refuses nodes with these domains, and what they lack for it.
    pub(crate) fn shortfall(&mut self, prepared: &Prepared, domains: &[Domain]) -> Option<Shortfall> {
        self.counted.shortfall(prepared, domains)
    }

    /// Scores all nodes, for [`Self::normalized`].
    pub(crate) fn scores(&mut self, prepared: &Prepared) -> Scores {
        self.best(prepared, None);
        self.counted.all_scores(prepared)
    }

    /// The scores of the plugins that normalise, in the profile's order, for a feasible node with these raw scores; `None`
    /// for a plugin that counted nothing at all.
    pub(crate) fn normalized(&self, scores: &Scores, node: NodeId, raws: &[i64]) -> Vec<Option<Normalized>> {
        self.counted.group_of(node, raws).and_then(|group| scores.get(group)).cloned().unwrap_or_default()
    }
}
