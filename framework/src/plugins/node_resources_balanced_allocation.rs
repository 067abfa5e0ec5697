//! NodeResourcesBalancedAllocation: a node whose resources are used evenly is better.
//!
//! Knows: which of the pod's requests counts. Must not know: the formula ([`super::scorer`]).

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
            // Only met where the profile leaves out the PreScore, which would have skipped the pod.
            return Some(Shareholders::new(&[], false, |_| 0).scored_by(|_| 0));
        }
        let resources = &preparation.args.node_resources_balanced_allocation.resources;
        let shareholders = Shareholders::new(resources, false, |name| preparation.class.accounted.get(name))
            .or_devices(preparation.facts);
        Some(shareholders.scored_by(balanced_allocation))
    }
}

/// Pods that ask for nothing would all go to the same node.
fn asks_for_nothing(preparation: &Preparation<'_>) -> bool {
    let resources = &preparation.args.node_resources_balanced_allocation.resources;
    resources.iter().all(|resource| preparation.class.accounted.get(&resource.name) == 0)
}

#[cfg(test)]
mod tests;
