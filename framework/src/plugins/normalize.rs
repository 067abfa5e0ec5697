//! The normalisation that most plugins share.
//!
//! Knows: upstream's `helper.DefaultNormalizeScore`, to which a largest score below zero is as good as zero. Must not
//! know: whose scores they are.

use crate::extension::{Extremes, MAX_NODE_SCORE};

/// Scales raw scores so that the largest becomes 100; all zero stay zero.
#[must_use]
pub fn scaled(raw: i64, extremes: Extremes) -> i64 {
    if extremes.max <= 0 { raw } else { MAX_NODE_SCORE * raw / extremes.max }
}

/// As [`scaled`], then turned round: the largest raw score becomes 0, and all zero become 100.
#[must_use]
pub fn reversed(raw: i64, extremes: Extremes) -> i64 {
    if extremes.max <= 0 { MAX_NODE_SCORE } else { MAX_NODE_SCORE - MAX_NODE_SCORE * raw / extremes.max }
}

#[cfg(test)]
mod tests;
