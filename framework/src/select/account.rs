//! Details of single nodes in a view: refusals by domain-level filters, and normalised scores per plugin.

pub(crate) use super::normalized::Normalized;
use super::view::View;
use crate::{
    explain::lack::Shortfall,
    extension::Domain,
    node::NodeId,
    prepared::{Order, Prepared},
    status::Refusal,
};

/// For each group of nodes, the scores of each plugin that normalises; `None` for a plugin that counted nothing.
pub(crate) type Scores = Vec<Vec<Option<Normalized>>>;

impl View {
    /// The error of a normaliser that makes the scores of the last [`Self::best`] invalid.
    #[must_use]
    pub fn fault(&self) -> Option<&str> {
        self.counted.fault()
    }

    /// The refusal of nodes with these domains: the shard's, unless an earlier domain-level filter refuses. Without `local`, that of any
    /// domain-level filter.
    pub(crate) fn refusal(
        &mut self,
        prepared: &Prepared,
        domains: &[Domain],
        local: Option<(Order, Refusal)>,
    ) -> Option<(Order, Refusal)> {
        let before = local.map_or(Order::MAX, |(order, _)| order);
        self.counted.judge(prepared, domains, before).err().or(local)
    }

    pub(crate) fn shortfall(&mut self, prepared: &Prepared, domains: &[Domain]) -> Option<Shortfall> {
        self.counted.shortfall(prepared, domains)
    }

    pub(crate) fn scores(&mut self, prepared: &Prepared) -> Scores {
        self.best(prepared, None);
        self.counted.all_scores(prepared)
    }

    /// The normalised scores of a feasible node with these raw scores, in the profile's order; `None` for a plugin that counted nothing.
    pub(crate) fn normalized(&self, scores: &Scores, node: NodeId, raws: &[i64]) -> Vec<Option<Normalized>> {
        self.counted.group_of(node, raws).and_then(|group| scores.get(group)).cloned().unwrap_or_default()
    }
}
