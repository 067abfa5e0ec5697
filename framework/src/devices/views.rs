//! Pools per node, cached until a slice or the node changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    inventory::Inventory,
    model::{allocation::DeviceResult, slice::Slice},
    node::LocalPools,
    pools::{self, NodePools},
};
use crate::{map::Map, node::NodeInfo};

type PoolName = (Arc<str>, Arc<str>);

/// Pools by node. Bound: the number of nodes, each with the devices that it can reach.
#[derive(Debug, Default)]
pub(super) struct Views {
    nodes: Map<Arc<str>, View>,
    /// Nodes that can reach devices of a pool, if known.
    by_pool: BTreeMap<PoolName, BTreeSet<Arc<str>>>,
}

#[derive(Debug)]
struct View {
    /// The node without its devices, at the time of the computation.
    node: Arc<NodeInfo>,
    pools: Option<LocalPools>,
}

impl Views {
    pub(super) fn pools(&mut self, node: &Arc<NodeInfo>, inventory: &Inventory) -> &LocalPools {
        let known = self.nodes.get(&node.name);
        let differs = |known: &NodeInfo| {
            (&known.labels, &known.uid, known.declared_features) != (&node.labels, &node.uid, node.declared_features)
        };
        if known.is_some_and(|known| differs(&known.node)) {
            self.forget_pools(&node.name);
        }
        let Self { nodes, by_pool } = self;
        let view = nodes.entry(Arc::clone(&node.name)).or_insert_with(|| View { node: Arc::clone(node), pools: None });
        if !Arc::ptr_eq(&view.node, node) {
            view.node = Arc::clone(node);
        }
        view.pools.get_or_insert_with(|| {
            let pools = LocalPools::of(NodePools::of(node, inventory));
            for (driver, pool) in pools.pools() {
                let seen = by_pool.entry((Arc::clone(driver), Arc::clone(pool))).or_default();
                seen.insert(Arc::clone(&node.name));
            }
            pools
        })
    }

    pub(super) fn forget(&mut self, name: &str) {
        self.forget_pools(name);
        self.nodes.swap_remove(name);
    }

    fn forget_pools(&mut self, name: &str) {
        let Some(pools) = self.nodes.get_mut(name).and_then(|view| view.pools.take()) else { return };
        for (driver, pool) in pools.pools() {
            let key = (Arc::clone(driver), Arc::clone(pool));
            if let Some(seen) = self.by_pool.get_mut(&key) {
                seen.remove(name);
                if seen.is_empty() {
                    self.by_pool.remove(&key);
                }
            }
        }
    }

    /// Forgets the views of nodes that these slices may affect, and returns the nodes. All slices belong to one pool.
    pub(super) fn changed<'a>(&mut self, slices: impl Iterator<Item = &'a Slice>) -> BTreeSet<Arc<str>> {
        let mut concerned = BTreeSet::new();
        for slice in slices {
            match &slice.nodes.name {
                Some(name) => _ = concerned.insert(Arc::clone(name)),
                None => {
                    let reached = self.nodes.values().filter(|view| pools::may_reach(slice, &view.node));
                    concerned.extend(reached.map(|view| Arc::clone(&view.node.name)));
                }
            }
        }
        concerned.iter().for_each(|name| self.forget_pools(name));
        concerned
    }

    pub(super) fn that_reach<'a>(&self, devices: impl Iterator<Item = &'a DeviceResult>) -> BTreeSet<Arc<str>> {
        let (mut nodes, mut last) = (BTreeSet::new(), None);
        for DeviceResult { device, .. } in devices {
            // Most allocations are from one pool.
            if last.replace(device).is_some_and(|last| last.pool == device.pool && last.driver == device.driver) {
                continue;
            }
            let seen = self.by_pool.get(&(Arc::clone(&device.driver), Arc::clone(&device.pool)));
            nodes.extend(seen.into_iter().flatten().cloned());
        }
        nodes
    }
}
