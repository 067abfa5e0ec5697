//! Placements of a pod group: the sets of nodes in which topology-aware scheduling tries it.
//!
//! Source: `plugins/topologyaware`, `plugins/podgrouppodscount`, `scorePlacement` of NodeResourcesFit, and `RunPlacementScorePlugins`.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    class::{Class, TopologyDomain},
    domain_labels::DomainLabels,
    node::NodeId,
    plugins::scorer,
    profile::{Args, Plugins, WeightedPlugin},
    snapshot::{Slot, Snapshot},
    symbols::Symbol,
};

/// The plugin that proposes placements.
const GENERATOR: &str = "TopologyPlacementGenerator";
/// The plugin that prefers placements with more pods.
const PODS_COUNT: &str = "PodGroupPodsCount";
const FIT: &str = "NodeResourcesFit";
const MAX_SCORE: i64 = 100;

/// The placements of a pod group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Topology {
    /// The gate TopologyAwareWorkloadScheduling is off: the group is tried on all nodes.
    #[default]
    Off,
    /// One placement with all nodes.
    Unconstrained,
    /// `spec.schedulingConstraints.topology[0].key`: one placement for each value of this node label.
    Key(Arc<str>),
}

/// Why a group has no placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoPlacements {
    /// No node is in a domain; kube-scheduler's message.
    Unschedulable(String),
    /// The domain of pods that have a node is unclear; kube-scheduler's error.
    Failed(String),
}

/// The pods that a group would have in a placement.
#[derive(Debug, Clone)]
pub struct Assigned<'a> {
    /// The placement; `None`: all nodes.
    pub domain: Option<&'a TopologyDomain>,
    /// The classes of the pods that found a node.
    pub pods: Vec<&'a Class>,
}

/// PlacementGenerate: the placements of a group, sorted by the value of the label; `None` is one with all nodes. kube-scheduler tries them in
/// any order.
///
/// `scheduled`: the group's pods with a node, as `namespace/name`. `outer`: the placement of the composite group above.
///
/// # Errors
/// There is no placement.
pub fn placements(
    topology: &Topology,
    plugins: &Plugins,
    nodes: &Snapshot,
    scheduled: &[(String, Option<NodeId>)],
    outer: Option<&Arc<TopologyDomain>>,
) -> Result<Vec<Option<Arc<TopologyDomain>>>, NoPlacements> {
    let Topology::Key(key) = topology else { return Ok(vec![outer.cloned()]) };
    if !plugins.placement_generate.iter().any(|name| name == GENERATOR) {
        return Ok(vec![outer.cloned()]);
    }
    let symbol = nodes.symbols.get(key).unwrap_or(Symbol::NONE);
    let value = |slot: Slot| Some(nodes.label(symbol, slot)).filter(|value| *value != Symbol::NONE);
    let required = required(nodes, value, scheduled).map_err(|error| {
        NoPlacements::Failed(format!("cannot determine domain for already scheduled pods: {error}"))
    })?;
    let around = DomainLabels::of_nodes(outer.map(|outer| &**outer), nodes);
    let live = nodes.live().filter(|&slot| around.has(nodes, slot));
    let domains: BTreeMap<&str, Symbol> =
        live.filter_map(value).map(|value| (nodes.symbols.text(value), value)).collect();
    let domains = domains.into_iter().filter(|(_, value)| required.is_none_or(|required| required == *value));
    let domain = |value: &str| TopologyDomain { key: Arc::clone(key), value: value.into(), outer: outer.cloned() };
    let placements: Vec<_> = domains.map(|(value, _)| Some(Arc::new(domain(value)))).collect();
    match placements.is_empty() {
        true => Err(NoPlacements::Unschedulable("no feasible placements found".to_owned())),
        false => Ok(placements),
    }
}

/// The domain of the pods that have a node. Source: `getScheduledPodsTopologyDomain`.
fn required(
    nodes: &Snapshot,
    value: impl Fn(Slot) -> Option<Symbol>,
    scheduled: &[(String, Option<NodeId>)],
) -> Result<Option<Symbol>, String> {
    let mut domain: Option<Symbol> = None;
    for (pod, node) in scheduled {
        let slot = node.and_then(|node| nodes.slot(node)).ok_or_else(|| format!("getting node for pod {pod}"))?;
        let own = value(slot).ok_or_else(|| format!("no topology domain found for pod {pod}"))?;
        match domain.replace(own) {
            Some(other) if other != own => {
                let (other, own) = (nodes.symbols.text(other), nodes.symbols.text(own));
                return Err(format!("more than 1 domain found for pod group: {other}, {own}"));
            }
            _ => {}
        }
    }
    Ok(domain)
}

/// PlacementScore: the weighted sum of the plugins for each placement. `scheduled`: the number of the group's pods that have a node.
///
/// # Errors
/// No placement has a pod; kube-scheduler's error.
pub fn scores(
    plugins: &[WeightedPlugin],
    args: &Args,
    nodes: &Snapshot,
    scheduled: usize,
    placements: &[Assigned<'_>],
) -> Result<Vec<i64>, String> {
    let mut totals = vec![0; placements.len()];
    for WeightedPlugin { name, weight } in plugins {
        let scores: Vec<i64> = match name.as_str() {
            FIT => placements.iter().map(|placement| utilization(args, nodes, placement)).collect(),
            PODS_COUNT => counts(scheduled, placements)?,
            _ => continue,
        };
        for (total, score) in totals.iter_mut().zip(scores) {
            *total += weight * score;
        }
    }
    Ok(totals)
}

fn counts(scheduled: usize, placements: &[Assigned<'_>]) -> Result<Vec<i64>, String> {
    let count = |placement: &Assigned<'_>| i64::try_from(scheduled + placement.pods.len()).unwrap_or(i64::MAX);
    let most = placements.iter().map(count).max().unwrap_or(0);
    if most == 0 {
        return Err(format!(
            "running NormalizePlacementScore on PlacementScore plugins: plugin {PODS_COUNT:?} failed with: no pods from pod group are \
             assigned to any of the candidate placements"
        ));
    }
    Ok(placements.iter().map(|placement| count(placement) * MAX_SCORE / most).collect())
}

/// The utilization of all nodes of a placement together, whichever the scoring strategy of the profile is.
fn utilization(args: &Args, nodes: &Snapshot, placement: &Assigned<'_>) -> i64 {
    let resources = &args.node_resources_fit.scoring_strategy.resources;
    let request = |name: &str| placement.pods.iter().map(|class| class.score_requests.get(name)).sum();
    let within = DomainLabels::of_nodes(placement.domain, nodes);
    let slots = nodes.live().filter(|&slot| within.has(nodes, slot));
    scorer::utilization(resources, request, nodes, slots)
}

#[cfg(test)]
mod tests;
