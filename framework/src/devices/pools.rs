//! The pools that a node can reach, ready to be searched.
//!
//! Knows: which slices are relevant for a node, generations, what makes a pool incomplete or invalid, and in which order
//! devices are tried. Must not know: what is allocated, or who asks.
//!
//! Source: `structured/internal/incubating/pools_incubating.go`.

mod build;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use super::{
    inventory::{DeviceNumber, Inventory, Published, Subject},
    model::{
        DeviceName,
        slice::{Device, Nodes, Slice},
    },
};
use crate::{node::NodeInfo, selector::LoneNode};

/// What a node can reach.
#[derive(Debug, Clone, Default)]
pub struct NodePools {
    /// By driver and name; those with binding conditions after all others.
    pub(super) pools: Vec<Pool>,
    /// The devices of all pools, in the order in which they are tried.
    pub(super) devices: Vec<Candidate>,
    pub(super) slices: Vec<Arc<Slice>>,
    /// Why the pools of the node cannot be told; no claim can be allocated then.
    pub(super) error: Option<String>,
}

/// A pool as a node sees it.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    pub(super) driver: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) state: PoolState,
    /// Its first device in [`NodePools::devices`], and the one after its last.
    pub(super) first: u32,
    pub(super) end: u32,
    pub(super) counters: Counters,
}

/// Whether devices of a pool can be allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PoolState {
    Complete,
    Incomplete,
    Invalid,
}

/// The shared counters of a pool.
#[derive(Debug, Clone, Default)]
pub(super) struct Counters {
    /// What there is of each, in nano.
    pub(super) values: Vec<i128>,
    /// Every device of the pool that consumes some, also those that are not for the node.
    pub(super) consumers: Vec<Consumer>,
    /// Which counter, and how much of it in nano: those of a consumer side by side.
    pub(super) consumed: Vec<(u32, i128)>,
}

/// A device that consumes counters, and where its part of [`Counters::consumed`] is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Consumer {
    pub(super) device: DeviceNumber,
    pub(super) first: u32,
    pub(super) end: u32,
}

/// A device that the search may try.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) number: DeviceNumber,
    pub(super) subject: Subject,
    /// In [`NodePools::slices`].
    pub(super) slice: u32,
    /// In the slice.
    pub(super) index: u32,
    pub(super) pool: u32,
    /// In [`Counters::consumers`] of its pool; `u32::MAX` where it consumes no counters.
    pub(super) consumer: u32,
    /// Whether it is for this node; other devices of its slice may be for others.
    pub(super) is_here: bool,
    pub(super) is_shareable: bool,
    pub(super) is_tainted: bool,
    pub(super) has_capacity: bool,
}

impl NodePools {
    /// What a node can reach of all slices.
    #[must_use]
    pub fn of(node: &NodeInfo, inventory: &Inventory) -> Self {
        match Gathering::of(node, inventory) {
            Ok(gathering) => build::all(gathering, inventory),
            Err(error) => Self { error: Some(format!("gather pool information: {error}")), ..Self::default() },
        }
    }

    /// How many devices the search may try.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.devices.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// The numbers of the devices that the search may try, and of those whose allocation takes counters away from them.
    pub fn numbers(&self) -> impl Iterator<Item = DeviceNumber> {
        let consumers =
            self.pools.iter().flat_map(|pool| pool.counters.consumers.iter().map(|consumer| consumer.device));
        self.devices.iter().map(|device| device.number).chain(consumers)
    }

    /// Numbers the devices anew, from 0, and gives the numbers that they had.
    pub(super) fn renumber(&mut self) -> Vec<DeviceNumber> {
        let mut numbers: Vec<DeviceNumber> = self.numbers().collect();
        numbers.sort_unstable();
        numbers.dedup();
        let place = |number: &mut DeviceNumber| {
            let at = numbers.binary_search(number).unwrap_or_default();
            *number = DeviceNumber(u32::try_from(at).unwrap_or(u32::MAX));
        };
        self.devices.iter_mut().for_each(|device| place(&mut device.number));
        let consumers = self.pools.iter_mut().flat_map(|pool| &mut pool.counters.consumers);
        consumers.for_each(|consumer| place(&mut consumer.device));
        numbers
    }

    /// Whether a pool is at fault.
    pub(super) fn has_invalid(&self) -> bool {
        self.pools.iter().any(|pool| pool.state == PoolState::Invalid)
    }

    /// A device, its slice and its pool.
    pub(super) fn device(&self, candidate: &Candidate) -> (&Device, &Arc<Slice>, &Pool) {
        let slice = &self.slices[candidate.slice as usize];
        (&slice.devices[candidate.index as usize], slice, &self.pools[candidate.pool as usize])
    }

    pub(super) fn name(&self, candidate: &Candidate) -> DeviceName {
        let (device, _, pool) = self.device(candidate);
        DeviceName { driver: Arc::clone(&pool.driver), pool: Arc::clone(&pool.name), device: Arc::clone(&device.name) }
    }
}

/// Whether a slice may matter to a node. One that cannot be told of does.
pub(super) fn may_reach(slice: &Slice, node: &NodeInfo) -> bool {
    let mut lone = None;
    if slice.per_device {
        return slice.devices.iter().any(|device| is_for(&device.nodes, node, &mut lone).unwrap_or(true));
    }
    is_for(&slice.nodes, node, &mut lone).unwrap_or(true)
}

/// The slices that are relevant for a node, by pool: of each pool the newest generation among them.
struct Gathering<'a> {
    pools: BTreeMap<(Arc<str>, Arc<str>), Vec<Relevant<'a>>>,
}

/// A slice that is relevant for a node.
struct Relevant<'a> {
    published: &'a Published,
    /// For a slice whose devices are for nodes of their own: which of them are for this one.
    here: Option<Vec<bool>>,
}

impl<'a> Gathering<'a> {
    fn of(node: &NodeInfo, inventory: &'a Inventory) -> Result<Self, String> {
        let mut pools = BTreeMap::new();
        // Made only where a selector is met: most slices name their node.
        let mut lone = None;
        for published in inventory.of_node(&node.name).chain(inventory.of_no_node()) {
            let slice = &published.slice;
            if slice.uses_compatibility_groups() {
                continue;
            }
            let nodes = &slice.nodes;
            let mut here = None;
            if nodes.name.is_some() || nodes.all || nodes.selector.is_some() {
                if !is_for(nodes, node, &mut lone)
                    .map_err(|error| format!("failed to perform node selection for slice {}: {error}", slice.name))?
                {
                    continue;
                }
            } else if slice.per_device {
                let devices = slice.devices.iter().map(|device| is_for(&device.nodes, node, &mut lone));
                let devices: Vec<bool> = devices.collect::<Result<_, String>>().map_err(|error| {
                    format!("failed to perform node selection for a device in slice {}: {error}", slice.name)
                })?;
                if !devices.contains(&true) {
                    continue;
                }
                here = Some(devices);
            } else {
                continue;
            }
            add(&mut pools, Relevant { published, here });
        }
        Ok(Self { pools })
    }
}

/// Whether devices are for a node.
///
/// Source: `NodeMatches`.
fn is_for(nodes: &Nodes, node: &NodeInfo, lone: &mut Option<LoneNode>) -> Result<bool, String> {
    match nodes {
        Nodes { name: Some(name), .. } => Ok(*name == node.name),
        Nodes { all: true, .. } => Ok(true),
        Nodes { selector: Some(terms), .. } => {
            let lone = lone.get_or_insert_with(|| LoneNode::new(node));
            lone.matches(&[], Some(terms)).map_err(|error| format!("failed to parse node selector: {error}"))
        }
        _ => Ok(false),
    }
}

fn add<'a>(pools: &mut BTreeMap<(Arc<str>, Arc<str>), Vec<Relevant<'a>>>, relevant: Relevant<'a>) {
    let slice = &relevant.published.slice;
    match pools.entry((Arc::clone(&slice.driver), Arc::clone(&slice.pool))) {
        Entry::Vacant(entry) => {
            entry.insert(vec![relevant]);
        }
        Entry::Occupied(mut entry) => {
            let newest = entry.get().first().map_or(i64::MIN, |known| known.published.slice.generation);
            match slice.generation.cmp(&newest) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => entry.get_mut().push(relevant),
                std::cmp::Ordering::Greater => *entry.get_mut() = vec![relevant],
            }
        }
    }
}
