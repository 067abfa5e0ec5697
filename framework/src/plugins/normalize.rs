//! Score normalization shared by most plugins: upstream's `helper.DefaultNormalizeScore`. A negative maximum is treated as zero.

use crate::extension::{Extremes, MAX_NODE_SCORE};

/// Scales scores so that the maximum becomes 100. If all are 0, they stay 0.
#[must_use]
pub fn scaled(raw: i64, extremes: Extremes) -> i64 {
    if extremes.max <= 0 { raw } else { MAX_NODE_SCORE * raw / extremes.max }
}

/// Like [`scaled`], reversed: the maximum becomes 0. If all are 0, they become 100.
#[must_use]
pub fn reversed(raw: i64, extremes: Extremes) -> i64 {
    if extremes.max <= 0 { MAX_NODE_SCORE } else { MAX_NODE_SCORE - MAX_NODE_SCORE * raw / extremes.max }
}

#[cfg(test)]
mod tests;
