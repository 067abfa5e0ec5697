//! Builds pools from the slices that are relevant for a node.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    Candidate, Consumer, Counters, NodePools, Pool, PoolState,
    gather::{Gathering, Relevant},
};
use crate::{
    declared::DeclaredFeatures,
    devices::{
        inventory::{DeviceNumber, Inventory, Published},
        model::{
            slice::{Device, DeviceUsage, Slice, SliceUsage},
            taint::TaintEffect,
        },
    },
    node::NodeInfo,
};

impl NodePools {
    /// Pools of a node.
    #[must_use]
    pub fn of(node: &NodeInfo, inventory: &Inventory) -> Self {
        match Gathering::of(node, inventory) {
            Ok(gathering) => all(gathering, node, inventory),
            Err(error) => Self { error: Some(format!("gather pool information: {error}")), ..Self::default() },
        }
    }

    fn keep_unused(&mut self, slices: &[Relevant<'_>]) {
        let with_devices = slices.iter().filter(|slice| !slice.published.slice.devices.is_empty());
        self.unused.extend(with_devices.map(|slice| (Arc::clone(&slice.published.slice), slice.here.clone())));
    }
}

/// All pools, in search order.
fn all(gathering: Gathering<'_>, of: &NodeInfo, inventory: &Inventory) -> NodePools {
    let skips_operations = of.declared_features.has(DeclaredFeatures::OPTIONAL_NODE_OPERATIONS);
    let mut node = NodePools::default();
    let mut last = Vec::new();
    for ((driver, name), mut slices) in gathering.pools {
        slices.sort_by(|a, b| a.published.slice.name.cmp(&b.published.slice.name));
        let Some(others) = others(&slices, &driver, &name, inventory) else {
            node.keep_unused(&slices);
            continue;
        };
        let made = Making { driver, name, slices, others, skips_operations };
        if made.has_binding_conditions() { last.push(made) } else { made.finish(&mut node) }
    }
    last.into_iter().for_each(|made| made.finish(&mut node));
    node
}

enum Others<'a> {
    /// Looked up only if the node does not see the whole pool.
    Known(Vec<&'a Published>),
    Missing,
}

/// `None` if another slice has a newer generation, so that the pool is left out.
fn others<'a>(
    slices: &[Relevant<'a>],
    driver: &Arc<str>,
    pool: &Arc<str>,
    inventory: &'a Inventory,
) -> Option<Others<'a>> {
    // If slices disagree about the number, upstream uses the first one in Go's random map order.
    let first = &slices.first()?.published.slice;
    let is_whole = |count: usize| i64::try_from(count) == Ok(first.slice_count);
    if is_whole(slices.len()) {
        return Some(Others::Known(Vec::new()));
    }
    let mut all = Vec::new();
    for published in inventory.of_pool(driver, pool) {
        match published.slice.generation.cmp(&first.generation) {
            std::cmp::Ordering::Greater => return None,
            std::cmp::Ordering::Equal if published.slice.usage != SliceUsage::Ignored => all.push(published),
            _ => {}
        }
    }
    if !is_whole(all.len()) {
        return Some(Others::Missing);
    }
    all.retain(|published| !slices.iter().any(|known| known.published.slice.name == published.slice.name));
    Some(Others::Known(all))
}

struct Making<'a> {
    driver: Arc<str>,
    name: Arc<str>,
    slices: Vec<Relevant<'a>>,
    others: Others<'a>,
    /// Whether the node can skip operations of drivers.
    skips_operations: bool,
}

type Numbers<'a> = BTreeMap<&'a str, BTreeMap<&'a str, u32>>;

impl<'a> Making<'a> {
    fn has_binding_conditions(&self) -> bool {
        matches!(self.others, Others::Known(_))
            && self.devices().any(|device| !device.binding_conditions.is_empty())
            && self.check().is_some()
    }

    fn finish(self, node: &mut NodePools) {
        let first = count(node.devices.len());
        let mut pool = Pool {
            driver: Arc::clone(&self.driver),
            name: Arc::clone(&self.name),
            state: PoolState::Incomplete,
            first,
            end: first,
            counters: Counters::default(),
        };
        if matches!(self.others, Others::Known(_)) {
            pool.state = PoolState::Invalid;
            if let Some((values, numbers)) = self.check() {
                pool.state = PoolState::Complete;
                pool.counters.values = values;
                self.lay_out(&mut pool, &numbers, node);
                pool.end = count(node.devices.len());
            }
        }
        if pool.state != PoolState::Complete {
            node.keep_unused(&self.slices);
        }
        node.pools.push(pool);
    }

    fn others(&self) -> &[&'a Published] {
        match &self.others {
            Others::Known(others) => others,
            Others::Missing => &[],
        }
    }

    fn targeting(&self) -> impl Iterator<Item = &Relevant<'a>> {
        self.slices.iter().filter(|slice| slice.published.slice.counter_sets.is_empty())
    }

    fn devices(&self) -> impl Iterator<Item = &Device> {
        self.targeting().flat_map(|slice| &slice.published.slice.devices)
    }

    /// Counter totals and numbers; `None` if the pool is invalid.
    fn check(&self) -> Option<(Vec<i128>, Numbers<'_>)> {
        let mut names = BTreeSet::new();
        if !self.devices().all(|device| names.insert(&*device.name)) {
            return None;
        }
        let mut values = Vec::new();
        let mut numbers = Numbers::new();
        let all = || self.slices.iter().map(|slice| slice.published).chain(self.others().iter().copied());
        for set in all().flat_map(|published| &published.slice.counter_sets) {
            let mut counters = BTreeMap::new();
            for (name, value) in &set.counters {
                counters.insert(&**name, count(values.len()));
                values.push(value.nano());
            }
            if numbers.insert(&*set.name, counters).is_some() {
                return None;
            }
        }
        let with_devices = all().filter(|published| published.slice.counter_sets.is_empty());
        let mut consumptions = with_devices.flat_map(|published| &published.slice.devices).flat_map(|it| &it.consumes);
        let is_known = consumptions.all(|consumption| {
            numbers
                .get(&*consumption.counter_set)
                .is_some_and(|known| consumption.counters.iter().all(|(name, _)| known.contains_key(&**name)))
        });
        is_known.then_some((values, numbers))
    }

    fn lay_out(&self, pool: &mut Pool, numbers: &Numbers<'_>, node: &mut NodePools) {
        for relevant in self.targeting() {
            let Published { slice, devices } = relevant.published;
            let slice_at = count(node.slices.len());
            node.slices.push(Arc::clone(slice));
            for (index, (device, &(number, subject))) in slice.devices.iter().zip(devices).enumerate() {
                let consumer = consume(&mut pool.counters, device, number, numbers);
                node.devices.push(Candidate {
                    number,
                    subject,
                    slice: slice_at,
                    index: count(index),
                    pool: count(node.pools.len()),
                    consumer,
                    is_here: is_here(relevant, slice, index),
                    is_shareable: device.allow_multiple == Some(true) && !slice.is_exclusive,
                    is_allocatable: device.usage == DeviceUsage::Used
                        && (slice.skipped_operations.is_empty() || self.skips_operations),
                    is_tainted: device.taints.iter().any(|taint| !matches!(taint.effect, TaintEffect::Other(_))),
                    has_capacity: !device.capacity.is_empty() && !slice.is_exclusive,
                });
            }
        }
        for published in self.others().iter().filter(|published| published.slice.counter_sets.is_empty()) {
            for (device, &(number, _)) in published.slice.devices.iter().zip(&published.devices) {
                consume(&mut pool.counters, device, number, numbers);
            }
        }
        if pool.counters.groups.iter().all(|(.., groups)| groups.is_empty()) {
            pool.counters.groups = Vec::new();
        }
    }
}

fn is_here(relevant: &Relevant<'_>, slice: &Slice, index: usize) -> bool {
    !slice.per_device || relevant.here.as_ref().is_some_and(|here| here.get(index) == Some(&true))
}

/// Records the consumption of a device, and returns its index among the consumers.
fn consume(counters: &mut Counters, device: &Device, number: DeviceNumber, numbers: &Numbers<'_>) -> u32 {
    if device.consumes.is_empty() {
        return u32::MAX;
    }
    let first = count(counters.consumed.len());
    let at = count(counters.consumers.len());
    for consumption in &device.consumes {
        counters.groups.push((at, Arc::clone(&consumption.counter_set), consumption.groups.clone()));
        let known = numbers.get(&*consumption.counter_set);
        for (name, amount) in &consumption.counters {
            if let Some(&number) = known.and_then(|known| known.get(&**name)) {
                counters.consumed.push((number, amount.nano()));
            }
        }
    }
    counters.consumers.push(Consumer { device: number, first, end: count(counters.consumed.len()) });
    at
}

/// Converts an index; there are fewer than 2^32 devices.
fn count(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
