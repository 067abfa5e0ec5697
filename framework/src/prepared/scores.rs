//! The scores of a profile, prepared for one class.

use super::{Order, Prepared};
use crate::extension::{NodeScore, Normalize, Normalizer, Score};

/// A score that does not depend on other nodes.
pub(crate) struct PlainScore {
    pub(crate) plugin: &'static str,
    pub(crate) order: Order,
    pub(crate) weight: i64,
    pub(crate) score: Box<dyn NodeScore>,
}

/// A score that is normalised over all feasible nodes.
pub(crate) struct NormalizedScore {
    pub(crate) plugin: &'static str,
    /// The index of its failures, after those of all filters.
    pub(crate) order: Order,
    pub(crate) weight: i64,
    pub(crate) normalize: Normalization,
    pub(crate) score: Score,
    /// For a domain-level score: the index of its first term.
    pub(crate) first_term: usize,
    /// The range of its raw score, or its locals, among the raws of a stratum.
    pub(crate) raws: (usize, usize),
}

pub(crate) enum Normalization {
    ByExtremes(Normalize),
    ByAll(Box<dyn Normalizer>),
}

pub(crate) struct Scorer {
    pub(crate) plugin: &'static str,
    pub(crate) weight: i64,
    pub(crate) place: ScorerPlace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScorerPlace {
    Plain(usize),
    Normalized(usize),
}

pub(super) struct LocalScore<'a> {
    pub(super) plugin: &'static str,
    pub(super) order: Order,
    pub(super) score: &'a dyn NodeScore,
}

impl Prepared {
    pub(super) fn local_scores(&self) -> impl Iterator<Item = LocalScore<'_>> {
        let plain = self.plain.iter().map(|plain| LocalScore {
            plugin: plain.plugin,
            order: plain.order,
            score: &*plain.score,
        });
        let normalized = self.normalized.iter().filter_map(|normalized| match &normalized.score {
            Score::Node(score) => {
                Some(LocalScore { plugin: normalized.plugin, order: normalized.order, score: &**score })
            }
            Score::Domain(_) => None,
        });
        plain.chain(normalized)
    }
}
