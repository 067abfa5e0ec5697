//! TaintToleration: untolerated hard taints make a node infeasible, and soft ones lower its score.

use crate::{
    class::{Class, Taint, Toleration},
    extension::{
        ClusterEvent, Filter, Lack, NodeContext, NodeFilter, NodeScore, Normalize, Plugin, Preparation, Score,
    },
    plugins::{
        normalize,
        wakers::{NODE_ADD, NODE_TAINT, TARGET_TOLERATION},
    },
    profile::Args,
    snapshot::{Slot, Snapshot},
    status::{FilterResult, Refusal},
};

/// The plugin.
#[derive(Debug)]
pub struct TaintToleration;

impl Plugin for TaintToleration {
    fn name(&self) -> &'static str {
        "TaintToleration"
    }

    fn skips_deferred_resizes(&self) -> bool {
        true
    }

    fn filter(&self, preparation: &mut Preparation<'_>) -> Option<Filter> {
        let tolerations = preparation.class.tolerations.clone();
        let refused = preparation.taint_sets.iter().map(|taints| untolerated(taints, &tolerations)).collect();
        Some(Filter::Node(Box::new(HardTaints { tolerations, refused })))
    }

    fn fails_without_pre_score(&self, _preparation: &mut Preparation<'_>) -> Option<String> {
        Some("failed to read \"PreScoreTaintToleration\" from cycleState: not found".to_owned())
    }

    fn score(&self, preparation: &mut Preparation<'_>) -> Option<Score> {
        let soft = |toleration: &&Toleration| toleration.effect.is_empty() || &*toleration.effect == "PreferNoSchedule";
        let tolerations: Vec<Toleration> = preparation.class.tolerations.iter().filter(soft).cloned().collect();
        let counts = preparation.taint_sets.iter().map(|taints| intolerable(taints, &tolerations)).collect();
        Some(Score::Node(Box::new(SoftTaints { tolerations, counts })))
    }

    fn normalize(&self) -> Option<Normalize> {
        Some(normalize::reversed)
    }

    fn lacks(&self, class: &Class, _args: &Args, place: NodeContext<'_>) -> Vec<Lack> {
        refusing(&place.node.taints, &class.tolerations).cloned().map(Lack::Toleration).collect()
    }

    fn events(&self) -> &'static [&'static str] {
        &[NODE_ADD, NODE_TAINT, TARGET_TOLERATION]
    }

    fn wakes(&self, event: ClusterEvent<'_>, class: &Class, _args: &Args) -> bool {
        match event {
            ClusterEvent::NodeAdded(node) => !untolerated(&node.taints, &class.tolerations),
            ClusterEvent::NodeUpdated { old, new } => {
                untolerated(&old.taints, &class.tolerations) && !untolerated(&new.taints, &class.tolerations)
            }
            ClusterEvent::TargetUpdated { old, new } => old.tolerations != new.tolerations,
            _ => false,
        }
    }
}

pub(crate) fn untolerated(taints: &[Taint], tolerations: &[Toleration]) -> bool {
    refusing(taints, tolerations).next().is_some()
}

fn refusing<'a>(taints: &'a [Taint], tolerations: &'a [Toleration]) -> impl Iterator<Item = &'a Taint> {
    taints
        .iter()
        .filter(|taint| matches!(&*taint.effect, "NoSchedule" | "NoExecute"))
        .filter(|taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint)))
}

/// Number of untolerated soft taints.
fn intolerable(taints: &[Taint], tolerations: &[Toleration]) -> i64 {
    let count = taints
        .iter()
        .filter(|taint| &*taint.effect == "PreferNoSchedule")
        .filter(|taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint)))
        .count();
    i64::try_from(count).unwrap_or(i64::MAX)
}

struct HardTaints {
    tolerations: Vec<Toleration>,
    /// By number of the taint set; newer sets are evaluated when needed.
    refused: Vec<bool>,
}

impl NodeFilter for HardTaints {
    fn filter(&self, nodes: &Snapshot, slot: Slot) -> FilterResult {
        let set = nodes.taint_set(slot);
        let refused =
            self.refused.get(set).copied().unwrap_or_else(|| untolerated(nodes.taints(set), &self.tolerations));
        if refused { Err(Refusal::unresolvable(0)) } else { Ok(()) }
    }

    fn sieve(&self, nodes: &Snapshot, todo: &mut Vec<Slot>, refused: &mut dyn FnMut(Slot, Refusal)) {
        // Most clusters have few taint sets, which reject no pods or are all tolerated.
        if self.refused.len() == nodes.taint_sets() && !self.refused.contains(&true) {
            return;
        }
        todo.retain(|&slot| self.filter(nodes, slot).map_err(|refusal| refused(slot, refusal)).is_ok());
    }

    fn reasons(&self, _detail: u64) -> Vec<String> {
        vec!["node(s) had untolerated taint(s)".to_owned()]
    }
}

struct SoftTaints {
    tolerations: Vec<Toleration>,
    /// By number of the taint set; newer sets are counted when needed.
    counts: Vec<i64>,
}

impl NodeScore for SoftTaints {
    fn score(&self, nodes: &Snapshot, slot: Slot) -> i64 {
        let set = nodes.taint_set(slot);
        self.counts.get(set).copied().unwrap_or_else(|| intolerable(nodes.taints(set), &self.tolerations))
    }
}

#[cfg(test)]
mod tests;
