//! ImageLocality: prefers nodes that already have the pod's images. Contributions include the cluster-wide spread of an image.

use crate::{
    extension::{MAX_NODE_SCORE, NodeScore, Plugin, Preparation, Score},
    snapshot::{Slot, Snapshot},
    symbols::Symbol,
};

const MIB: i64 = 1024 * 1024;

/// A node with a smaller sum, in bytes, scores 0.
const MIN_THRESHOLD: i64 = 23 * MIB;

/// A node with this sum per image of the pod, in bytes, scores 100.
const MAX_THRESHOLD_PER_IMAGE: i64 = 1000 * MIB;

/// The plugin.
#[derive(Debug)]
pub struct ImageLocality;

impl Plugin for ImageLocality {
    fn name(&self) -> &'static str {
        "ImageLocality"
    }

    fn score(&self, preparation: &mut Preparation<'_>) -> Option<Score> {
        let class = preparation.class;
        let images = class.images.iter().zip(&preparation.facts.image_contributions);
        let present: Vec<(Symbol, i64)> = images
            .filter(|&(_, &contribution)| contribution != 0)
            .map(|(name, &contribution)| (preparation.symbols.number(name), contribution))
            .collect();
        // The API server rejects a pod without containers, but the threshold must stay positive.
        let count = i64::try_from(class.images.len()).unwrap_or(i64::MAX).max(1);
        Some(Score::Node(Box::new(Locality { present, max: MAX_THRESHOLD_PER_IMAGE.saturating_mul(count) })))
    }
}

/// Contribution of an image to a node's sum: its size, scaled by the share of nodes with the image.
///
/// Source: `scaledImageScore` in upstream's image_locality.go, with its floating point.
#[must_use]
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "upstream computes it so")]
pub fn contribution(size: i64, nodes_with_image: usize, nodes: usize) -> i64 {
    if nodes == 0 {
        return 0;
    }
    let spread = nodes_with_image as f64 / nodes as f64;
    (size as f64 * spread) as i64
}

struct Locality {
    present: Vec<(Symbol, i64)>,
    max: i64,
}

impl NodeScore for Locality {
    fn score(&self, nodes: &Snapshot, slot: Slot) -> i64 {
        let mut sum: i64 = 0;
        if !self.present.is_empty() {
            let images = nodes.images(slot);
            for (image, contribution) in &self.present {
                if images.binary_search(image).is_ok() {
                    sum = sum.saturating_add(*contribution);
                }
            }
        }
        MAX_NODE_SCORE * (sum.clamp(MIN_THRESHOLD, self.max) - MIN_THRESHOLD) / (self.max - MIN_THRESHOLD)
    }
}

#[cfg(test)]
mod tests;
