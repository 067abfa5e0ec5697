//! Slices that are relevant for a node. Source: `structured/internal/incubating/pools_incubating.go`.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use crate::{
    devices::{
        inventory::{Inventory, Published},
        model::slice::{Nodes, Slice, SliceUsage},
    },
    node::NodeInfo,
    selector::LoneNode,
};

/// Whether the devices of a slice may be available on a node. True if the node selector is invalid.
pub(in crate::devices) fn may_reach(slice: &Slice, node: &NodeInfo) -> bool {
    let mut lone = None;
    if slice.per_device {
        return slice.devices.iter().any(|device| is_for(&device.nodes, node, &mut lone).unwrap_or(true));
    }
    is_for(&slice.nodes, node, &mut lone).unwrap_or(true)
}

/// Relevant slices of a node by pool, each with the newest generation among them.
pub(super) struct Gathering<'a> {
    pub(super) pools: BTreeMap<(Arc<str>, Arc<str>), Vec<Relevant<'a>>>,
}

pub(super) struct Relevant<'a> {
    pub(super) published: &'a Published,
    /// With per-device node selection: the devices for this node.
    pub(super) here: Option<Vec<bool>>,
}

impl<'a> Gathering<'a> {
    pub(super) fn of(node: &NodeInfo, inventory: &'a Inventory) -> Result<Self, String> {
        let mut pools = BTreeMap::new();
        // Created only for selectors; most slices name their node.
        let mut lone = None;
        for published in inventory.of_node(&node.name).chain(inventory.of_no_node()) {
            let slice = &published.slice;
            if slice.usage != SliceUsage::Used {
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

/// Whether devices are for a node. Source: `NodeMatches`.
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
