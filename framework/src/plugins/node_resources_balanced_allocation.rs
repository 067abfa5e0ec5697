//! NodeResourcesBalancedAllocation: prefers nodes with balanced resource usage.

use crate::{
    extension::{Plugin, PreScore, Preparation, Score},
    plugins::scorer::{Shareholders, balanced_allocation},
};

/// The plugin.
#[derive(Debug)]
pub struct NodeResourcesBalancedAllocation;

impl Plugin for NodeResourcesBalancedAllocation {
    fn name(&self) -> &'static str {
        "NodeResourcesBalancedAllocation"
    }

    fn pre_score(&self, preparation: &mut Preparation<'_>) -> PreScore {
        if asks_for_nothing(preparation) { PreScore::Skip } else { PreScore::Continue }
    }

    fn score(&self, preparation: &mut Preparation<'_>) -> Option<Score> {
        if asks_for_nothing(preparation) {
            // Reached only if the profile disables PreScore, which would skip the pod.
            return Some(Shareholders::new(&[], false, |_| 0).scored_by(|_| 0));
        }
        let resources = &preparation.args.node_resources_balanced_allocation.resources;
        let shareholders = Shareholders::new(resources, false, |name| preparation.class.accounted.get(name))
            .or_devices(preparation.facts);
        Some(shareholders.scored_by(balanced_allocation))
    }
}

/// Pods without requests would all go to the same node.
fn asks_for_nothing(preparation: &Preparation<'_>) -> bool {
    let resources = &preparation.args.node_resources_balanced_allocation.resources;
    resources.iter().all(|resource| preparation.class.accounted.get(&resource.name) == 0)
}

#[cfg(test)]
mod tests;
