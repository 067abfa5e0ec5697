//! Converts found devices into allocations. Source: the second half of `Allocator.Allocate` of the incubating allocator.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    allocate::{Found, Pick},
    capacity,
    model::{
        allocation::{AllocatedConfig, Allocation, ConfigSource, DeviceResult},
        slice::Device,
    },
    pools::{Candidate, NodePools},
    wanted::{Wanted, WantedAsk, WantedClaim},
};
use crate::class::{NodeTerm, Requirement};

/// Returns the ID of a new share, by claim and device index. It must be unique in the cluster.
pub type ShareIds<'a> = &'a mut dyn FnMut(usize, usize) -> Arc<str>;

/// Allocations of the claims, in order, without timestamps.
///
/// # Errors
/// A slice has a node selector that the API server rejects. Upstream's text.
pub fn allocations(
    found: &Found,
    wanted: &Wanted,
    pools: &NodePools,
    node: &str,
    share_ids: ShareIds<'_>,
) -> Result<Vec<Allocation>, String> {
    let mut allocations = Vec::with_capacity(wanted.claims.len());
    for (at, claim) in wanted.claims.iter().enumerate() {
        let picks: Vec<&Pick> = found.picks.iter().filter(|pick| pick.claim as usize == at).collect();
        let taken = Taken { claim, wanted, alternatives: &found.alternatives[at] };
        let results = picks.iter().enumerate().map(|(index, pick)| {
            let ask = taken.ask(pick.request as usize, pick.alternative as usize);
            result(ask, &pools.devices[pick.device as usize], pools, &mut || share_ids(at, index))
        });
        let results = results.collect();
        let node_selector = node_selector(&picks, pools, node)
            .map_err(|error| format!("create NodeSelector for claim {}: {error}", claim.name))?;
        allocations.push(Allocation { results, config: taken.config(), node_selector, ..Allocation::default() });
    }
    Ok(allocations)
}

/// Devices that are found for each claim, in order, without the IDs of shares.
#[must_use]
pub fn devices(found: &Found, wanted: &Wanted, pools: &NodePools) -> Vec<Vec<DeviceResult>> {
    let of_claim = |(at, claim): (usize, &WantedClaim)| -> Vec<DeviceResult> {
        let taken = Taken { claim, wanted, alternatives: &found.alternatives[at] };
        let picks = found.picks.iter().filter(|pick| pick.claim as usize == at);
        let result = |pick: &Pick| {
            let ask = taken.ask(pick.request as usize, pick.alternative as usize);
            result(ask, &pools.devices[pick.device as usize], pools, &mut Arc::default)
        };
        picks.map(result).collect()
    };
    wanted.claims.iter().enumerate().map(of_claim).collect()
}

/// Whether a found device takes amounts of the node's own resources.
#[must_use]
pub fn takes_of_node(found: &Found, pools: &NodePools) -> bool {
    found.picks.iter().any(|pick| !pools.device(&pools.devices[pick.device as usize]).0.allocatable.is_empty())
}

fn result(
    ask: &WantedAsk,
    candidate: &Candidate,
    pools: &NodePools,
    share_id: &mut dyn FnMut() -> Arc<str>,
) -> DeviceResult {
    let (device, slice, _) = pools.device(candidate);
    DeviceResult {
        request: Arc::clone(&ask.label),
        device: pools.name(candidate),
        admin_access: ask.is_admin.then_some(true),
        tolerations: ask.tolerations.clone(),
        binding_conditions: device.binding_conditions.clone(),
        binding_failure_conditions: device.binding_failure_conditions.clone(),
        skipped_operations: slice.skipped_operations.clone(),
        share: candidate.is_shareable.then(share_id),
        consumed: (candidate.is_shareable && candidate.has_capacity).then(|| consumed(ask, device)),
    }
}

fn consumed(ask: &WantedAsk, device: &Device) -> Vec<(Arc<str>, super::amount::Amount)> {
    let amounts = device.capacity.iter().map(|(name, capacity)| {
        // The search has checked that the consumption can be computed.
        let amount = capacity::consumed(ask.requested(name), capacity).map(|consumed| consumed.amount());
        (Arc::clone(name), amount.unwrap_or_default())
    });
    amounts.collect()
}

struct Taken<'a> {
    claim: &'a WantedClaim,
    wanted: &'a Wanted,
    alternatives: &'a [usize],
}

impl Taken<'_> {
    fn ask(&self, request: usize, alternative: usize) -> &WantedAsk {
        &self.wanted.asks[self.claim.requests[request].first + alternative]
    }

    fn asks(&self) -> impl Iterator<Item = &WantedAsk> {
        self.alternatives.iter().enumerate().map(|(request, alternative)| self.ask(request, *alternative))
    }

    /// Whether a list contains the request, or its selected alternative.
    fn has(&self, names: &[Arc<str>], request: usize) -> bool {
        let known = &self.claim.requests[request];
        let label = &self.ask(request, self.alternatives[request]).label;
        names.contains(&known.name) || known.is_prioritized && names.contains(label)
    }

    fn config(&self) -> Vec<AllocatedConfig> {
        let mut configs = self.class_config();
        let requests = 0..self.claim.requests.len();
        for config in &self.claim.spec.config {
            let names = &config.requests;
            if names.is_empty() || requests.clone().any(|request| self.has(names, request)) {
                configs.push(AllocatedConfig {
                    source: ConfigSource::Claim,
                    requests: names.clone(),
                    configuration: config.configuration.clone(),
                });
            }
        }
        for config in &mut configs {
            if requests.clone().all(|request| self.has(&config.requests, request)) {
                config.requests.clear();
            }
        }
        configs
    }

    /// Configurations of the classes, once per class, with the requests for it.
    fn class_config(&self) -> Vec<AllocatedConfig> {
        let mut configs: Vec<AllocatedConfig> = Vec::new();
        let mut by_class: BTreeMap<&str, std::ops::Range<usize>> = BTreeMap::new();
        for ask in self.asks() {
            let Some(class) = &ask.class else { continue };
            if let Some(known) = by_class.get(&*class.name) {
                configs[known.clone()].iter_mut().for_each(|config| config.requests.push(Arc::clone(&ask.label)));
                continue;
            }
            let first = configs.len();
            configs.extend(class.config.iter().map(|configuration| AllocatedConfig {
                source: ConfigSource::Class,
                requests: vec![Arc::clone(&ask.label)],
                configuration: configuration.clone(),
            }));
            by_class.insert(&class.name, first..configs.len());
        }
        configs
    }
}

/// Nodes that can use the devices; `None`: all. Source: `createNodeSelector`.
fn node_selector(picks: &[&Pick], pools: &NodePools, node: &str) -> Result<Option<Vec<NodeTerm>>, String> {
    let mut term = NodeTerm::default();
    for pick in picks {
        let (device, slice, _) = pools.device(&pools.devices[pick.device as usize]);
        let nodes = if slice.per_device { &device.nodes } else { &slice.nodes };
        if nodes.name.is_some() || device.binds_to_node {
            return Ok(Some(vec![only(node)]));
        }
        match nodes.selector.as_deref() {
            None | Some([]) => {}
            Some([one]) => {
                extend(&mut term.fields, &one.fields);
                extend(&mut term.expressions, &one.expressions);
            }
            Some(terms) => return Err(format!("unsupported ResourceSlice.NodeSelector with {} terms", terms.len())),
        }
    }
    let is_empty = term.fields.is_empty() && term.expressions.is_empty();
    Ok((!is_empty).then(|| vec![term]))
}

fn only(node: &str) -> NodeTerm {
    let name = Requirement { key: "metadata.name".into(), operator: "In".into(), values: vec![node.into()] };
    NodeTerm { expressions: Vec::new(), fields: vec![name] }
}

/// Adds missing requirements, comparing values as sets.
fn extend(known: &mut Vec<Requirement>, more: &[Requirement]) {
    for requirement in more {
        let is_same = |other: &Requirement| {
            let has_all =
                |one: &Requirement, other: &Requirement| one.values.iter().all(|it| other.values.contains(it));
            other.key == requirement.key
                && other.operator == requirement.operator
                && has_all(other, requirement)
                && has_all(requirement, other)
        };
        if !known.iter().any(is_same) {
            known.push(requirement.clone());
        }
    }
}
