//! The scores of a profile, made ready for one class.
//!
//! Knows: which scores mean something by themselves. Must not know: nodes.

use super::{Order, Prepared};
use crate::extension::{NodeScore, Normalize, Normalizer, Score};

/// A score that means the same whatever the other nodes are.
pub(crate) struct PlainScore {
    pub(crate) plugin: &'static str,
    pub(crate) order: Order,
    pub(crate) weight: i64,
    pub(crate) score: Box<dyn NodeScore>,
}

/// A score that needs all feasible nodes before it means anything.
pub(crate) struct NormalizedScore {
    pub(crate) plugin: &'static str,
    /// As of a filter: after all of them.
    pub(crate) order: Order,
    pub(crate) weight: i64,
    pub(crate) normalize: Normalization,
    pub(crate) score: Score,
    /// For a domain-level one: the place of its first term among all.
    pub(crate) first_term: usize,
    /// Where its raw score, or its locals, begin and end among the raws of a stratum.
    pub(crate) raws: (usize, usize),
}

/// How raw scores are normalised.
pub(crate) enum Normalization {
    /// By the extremes of all feasible nodes.
    ByExtremes(Normalize),
    /// By all of them.
    ByAll(Box<dyn Normalizer>),
}

/// A plugin that scores, and where its prepared score is.
pub(crate) struct Scorer {
    pub(crate) plugin: &'static str,
    pub(crate) weight: i64,
    pub(crate) place: ScorerPlace,
}

/// Which of the two lists of [`Prepared`] holds a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScorerPlace {
    /// An index into the scores that need no normalising.
    Plain(usize),
    /// An index into the others.
    Normalized(usize),
}

/// A node-local score of a profile, in whichever of the two lists it is.
pub(super) struct LocalScore<'a> {
    pub(super) plugin: &'static str,
    pub(super) order: Order,
    pub(super) score: &'a dyn NodeScore,
}

// === impl Prepared ===

impl Prepared {
    /// The scores that need one node alone.
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
