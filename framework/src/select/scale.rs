//! The normalisation of one plugin's raw scores.

use std::collections::BTreeMap;

use crate::{
    extension::{Extremes, Normalize},
    prepared::Normalization,
};

pub(super) enum Scale {
    ByExtremes(Normalize, Extremes),
    ByAll(BTreeMap<i64, i64>),
}

impl Scale {
    pub(super) fn new(
        normalization: &Normalization,
        extremes: Extremes,
        feasible: impl Iterator<Item = (i64, usize)>,
    ) -> Result<Self, String> {
        let normalizer = match normalization {
            Normalization::ByExtremes(normalize) => return Ok(Self::ByExtremes(*normalize, extremes)),
            Normalization::ByAll(normalizer) => normalizer,
        };
        let mut sizes: BTreeMap<i64, usize> = BTreeMap::new();
        feasible.for_each(|(raw, size)| *sizes.entry(raw).or_default() += size);
        let sizes: Vec<_> = sizes.into_iter().collect();
        let scores = normalizer.normalize(&sizes)?;
        Ok(Self::ByAll(sizes.into_iter().map(|(raw, _)| raw).zip(scores).collect()))
    }

    pub(super) fn of(&self, raw: i64) -> i64 {
        match self {
            Self::ByExtremes(normalize, extremes) => normalize(raw, *extremes),
            Self::ByAll(scores) => scores.get(&raw).copied().unwrap_or(0),
        }
    }
}
