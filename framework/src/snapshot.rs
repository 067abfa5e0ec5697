//! The nodes as columns: one vector per fact, one position per node, so that a plugin walks memory in order.
//!
//! Knows: how nodes and the classes of the pods on them turn into columns, and which position changed when. Must not
//! know: plugins, shards, or who sends the changes.

use std::sync::Arc;

use indexmap::IndexSet;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{
    class::{Class, ClassId, HostPort, Taint},
    declared::DeclaredFeatures,
    devices::node::NodeDevices,
    interest::Interest,
    labels::Labels,
    map::Map,
    node::{NodeId, NodeInfo},
    symbols::{Symbol, Symbols},
    volumes::node::{Attachment, NodeCsi},
};

mod accounts;
mod column;
mod compact;
mod compare;
mod devices;
mod labels;
mod ports;
mod roll;
mod scalars;

pub use accounts::Accounts;
use column::Column;
pub use column::{Slot, Values};
pub(crate) use labels::MAX_NUMBERED;
use roll::Roll;
pub use roll::Stamp;
pub use scalars::ScalarColumn;

/// The classes of the pods on one node and how many of each, sorted by class.
pub type Tenants = Vec<(ClassId, u32)>;

/// The columns.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Strings of names, labels and images.
    pub symbols: Symbols,
    /// What is charged to each node and what it has.
    pub accounts: Accounts,
    seed: u64,
    stamp: Stamp,
    slots: Map<NodeId, Slot>,
    free: Vec<Slot>,
    ids: Vec<Option<NodeId>>,
    changed: Vec<Stamp>,
    names: Vec<Symbol>,
    ranks: Vec<u64>,
    unschedulable: Vec<bool>,
    declared_features: Vec<DeclaredFeatures>,
    taint_sets: IndexSet<Vec<Taint>>,
    taints: Vec<u32>,
    labels: Map<Symbol, Column<Symbol>>,
    /// The labels of each node.
    label_keys: Vec<Box<[Symbol]>>,
    /// The values that each label ever had, up to one more than are counted.
    label_values: Map<Symbol, Vec<Symbol>>,
    images: Vec<Box<[Symbol]>>,
    ports: Vec<Vec<HostPort>>,
    tenants: Vec<Tenants>,
    csi: Vec<Option<Arc<NodeCsi>>>,
    devices: Vec<Option<Arc<NodeDevices>>>,
    attachments: Map<ClassId, Arc<[Attachment]>>,
    classes: Roll,
    /// Changes whenever a label comes that no node had, and whenever those are forgotten that none has.
    label_keys_version: u64,
    in_use: compact::InUse,
}

/// The rank of a node among others with the same total: the smaller wins.
///
/// A hash of the node's UID and a seed of the operator's, so that ties are spread over the nodes, and always alike.
#[must_use]
pub fn rank(uid: &str, seed: u64) -> u64 {
    xxh3_64_with_seed(uid.as_bytes(), seed)
}

// === impl Snapshot ===

impl Snapshot {
    /// No nodes; `seed` goes into every node's [`rank`].
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Adds a node or takes over the new state of a known one. Its pods stay.
    pub fn upsert_node(&mut self, id: NodeId, node: &NodeInfo) -> Slot {
        let slot = match self.slots.get(&id) {
            Some(&slot) => slot,
            None => self.take_slot(id),
        };
        let at = slot as usize;
        self.names[at] = self.symbols.intern(&node.name);
        self.ranks[at] = rank(&node.uid, self.seed);
        self.unschedulable[at] = node.unschedulable;
        self.declared_features[at] = node.declared_features;
        self.taints[at] = u32::try_from(self.taint_sets.insert_full(node.taints.clone()).0).unwrap_or(u32::MAX);
        self.set_labels(slot, &node.labels);
        let mut images: Vec<Symbol> =
            node.images.iter().flat_map(|(names, _)| names).map(|name| self.symbols.intern(name)).collect();
        images.sort_unstable();
        images.dedup();
        self.images[at] = images.into_boxed_slice();
        self.csi[at].clone_from(&node.csi);
        self.devices[at].clone_from(&node.devices);
        self.accounts.set_allocatable(slot, &node.allocatable, node.allowed_pods);
        self.touch(slot);
        slot
    }

    /// Forgets a node and the pods on it. Unknown nodes are no news.
    pub fn remove_node(&mut self, id: NodeId) {
        let Some(slot) = self.slots.swap_remove(&id) else { return };
        let at = slot as usize;
        self.ids[at] = None;
        for (class, _) in std::mem::take(&mut self.tenants[at]) {
            self.classes.leave(class, slot);
        }
        self.ports[at].clear();
        self.images[at] = Box::default();
        self.csi[at] = None;
        self.devices[at] = None;
        self.clear_labels(slot);
        self.accounts.clear(slot);
        self.touch(slot);
        self.free.push(slot);
    }

    /// Forgets all nodes; classes stay.
    pub fn clear_nodes(&mut self) {
        let ids: Vec<NodeId> = self.slots.keys().copied().collect();
        ids.into_iter().for_each(|id| self.remove_node(id));
    }

    /// Changes what goes into the ranks of nodes that come from now on. Ranks of known nodes stay, so it is for an
    /// empty snapshot.
    pub const fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// Makes a class known; pods can only be charged to a node by the number of a known class.
    pub fn register_class(&mut self, id: ClassId, class: Arc<Class>) {
        self.classes.register(id, class);
    }

    /// Forgets a class that no node holds any more.
    pub fn forget_class(&mut self, id: ClassId) {
        self.classes.forget(id);
        self.attachments.swap_remove(&id);
    }

    /// What each pod of a class attaches to its node, sorted; nothing unless this was said. The nodes with such pods have
    /// changed, if that is news. Forgotten with the class.
    pub fn set_attachments(&mut self, id: ClassId, attachments: &Arc<[Attachment]>) {
        if self.attachments(id) == &**attachments {
            return;
        }
        if attachments.is_empty() {
            self.attachments.swap_remove(&id);
        } else {
            self.attachments.insert(id, Arc::clone(attachments));
        }
        let slots: Vec<Slot> = self.classes.homes(id).collect();
        slots.into_iter().for_each(|slot| self.touch(slot));
    }

    /// What each pod of a class attaches to its node, sorted.
    #[must_use]
    pub fn attachments(&self, id: ClassId) -> &[Attachment] {
        self.attachments.get(&id).map_or(&[], |attachments| attachments)
    }

    /// The class behind a number.
    #[must_use]
    pub fn class(&self, id: ClassId) -> Option<&Arc<Class>> {
        self.classes.get(id)
    }

    /// Counts the classes that were made known.
    #[must_use]
    pub const fn classes_stamp(&self) -> Stamp {
        self.classes.stamp()
    }

    /// The classes that were made known after a stamp and are not forgotten.
    pub fn classes_since(&self, stamp: Stamp) -> impl Iterator<Item = (ClassId, &Arc<Class>)> {
        self.classes.since(stamp)
    }

    /// The classes of a set, and maybe some more.
    pub fn classes_of_interest(&self, interest: &Interest) -> impl Iterator<Item = (ClassId, &Arc<Class>)> {
        let ids = self.classes.of_interest(interest).into_iter();
        ids.filter_map(|id| Some((id, self.classes.get(id)?)))
    }

    /// The classes that have an affinity, of any kind, to pods with these labels, and maybe some more.
    pub fn classes_that_mean(&self, labels: &Labels) -> impl Iterator<Item = &Class> {
        self.classes.who_mean(labels).into_iter().filter_map(|id| self.classes.get(id)).map(AsRef::as_ref)
    }

    /// The positions of the nodes that hold pods of a class, and how many each.
    pub fn homes(&self, class: ClassId) -> impl Iterator<Item = (Slot, u32)> {
        self.classes.homes(class).filter_map(move |slot| {
            let tenants = self.tenants.get(slot as usize)?;
            let index = tenants.binary_search_by_key(&class, |&(id, _)| id).ok()?;
            Some((slot, tenants[index].1))
        })
    }

    /// Charges one pod of a class to a node. `false`: the node or the class is unknown, and nothing changed.
    pub fn add_pod(&mut self, node: NodeId, class: ClassId) -> bool {
        let Some(&slot) = self.slots.get(&node) else { return false };
        let Some((known, homes)) = self.classes.get_mut(class) else { return false };
        let tenants = &mut self.tenants[slot as usize];
        match tenants.binary_search_by_key(&class, |&(id, _)| id) {
            Ok(index) => tenants[index].1 += 1,
            Err(index) => {
                tenants.insert(index, (class, 1));
                homes.insert(slot);
            }
        }
        self.accounts.charge(slot, known);
        ports::add(&mut self.ports[slot as usize], &known.host_ports);
        self.touch(slot);
        true
    }

    /// Takes one pod of a class off a node. `false`: no such pod was there, and nothing changed.
    pub fn remove_pod(&mut self, node: NodeId, class: ClassId) -> bool {
        let Some(&slot) = self.slots.get(&node) else { return false };
        let Some((known, homes)) = self.classes.get_mut(class) else { return false };
        let at = slot as usize;
        let tenants = &mut self.tenants[at];
        let Ok(index) = tenants.binary_search_by_key(&class, |&(id, _)| id) else { return false };
        tenants[index].1 -= 1;
        if tenants[index].1 == 0 {
            tenants.remove(index);
            homes.remove(&slot);
        }
        ports::remove(&mut self.ports[at], &known.host_ports);
        if !self.accounts.discharge(slot, known) {
            let classes = &self.classes;
            let pods = self.tenants[at].iter().filter_map(|(id, count)| Some((classes.get(*id)?.as_ref(), *count)));
            self.accounts.recount(slot, pods);
        }
        self.touch(slot);
        true
    }

    /// How many nodes there are.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.slots.len()
    }

    /// One more than the largest position in use; columns of readers are this long.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.ids.len()
    }

    /// The stamp of the latest change.
    #[must_use]
    pub const fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// The stamp of the latest change of one position.
    #[must_use]
    pub fn changed(&self, slot: Slot) -> Stamp {
        self.changed[slot as usize]
    }

    /// Visits the positions that changed after a stamp, in order. What follows one change looks at all stamps, some tens of them
    /// at a time.
    pub fn visit_changed_since(&self, stamp: Stamp, mut visit: impl FnMut(Slot)) {
        const AT_ONCE: usize = 32;
        for (chunk, stamps) in self.changed.chunks(AT_ONCE).enumerate() {
            // Stamps count changes, so none has the highest bit: it is set where this subtraction goes below zero.
            if stamps.iter().fold(0, |any, &of| any | stamp.wrapping_sub(of)) >> 63 == 0 {
                continue;
            }
            for (at, _) in stamps.iter().enumerate().filter(|&(_, &of)| of > stamp) {
                visit(Slot::try_from(chunk * AT_ONCE + at).unwrap_or(Slot::MAX));
            }
        }
    }

    /// The stamps of a position, for [`Self::restore_stamps`].
    pub(crate) fn stamps(&self, slot: Slot) -> (Stamp, Stamp) {
        (self.stamp, self.changed[slot as usize])
    }

    /// Says that a position is again what it was when [`Self::stamps`] was asked, and that nothing else changed or was
    /// looked at in between.
    pub(crate) fn restore_stamps(&mut self, slot: Slot, (stamp, changed): (Stamp, Stamp)) {
        self.stamp = stamp;
        self.changed[slot as usize] = changed;
    }

    /// The node at a position, if one is there.
    #[must_use]
    pub fn id(&self, slot: Slot) -> Option<NodeId> {
        self.ids.get(slot as usize).copied().flatten()
    }

    /// The position of a node.
    #[must_use]
    pub fn slot(&self, id: NodeId) -> Option<Slot> {
        self.slots.get(&id).copied()
    }

    /// All positions that hold a node, in ascending order.
    pub fn live(&self) -> impl Iterator<Item = Slot> {
        (0..).zip(&self.ids).filter_map(|(slot, id)| id.is_some().then_some(slot))
    }

    /// The node's name.
    #[must_use]
    pub fn name(&self, slot: Slot) -> Symbol {
        self.names[slot as usize]
    }

    /// The node's [`rank`].
    #[must_use]
    pub fn rank(&self, slot: Slot) -> u64 {
        self.ranks[slot as usize]
    }

    /// `spec.unschedulable`.
    #[must_use]
    pub fn unschedulable(&self, slot: Slot) -> bool {
        self.unschedulable[slot as usize]
    }

    /// `status.declaredFeatures`, as far as pods can need them.
    #[must_use]
    pub fn declared_features(&self, slot: Slot) -> DeclaredFeatures {
        self.declared_features[slot as usize]
    }

    /// How many sets of taints there are, and were since the last [`Self::compact`].
    #[must_use]
    pub fn taint_sets(&self) -> usize {
        self.taint_sets.len()
    }

    /// The number of the node's set of taints; nodes with equal taints share it.
    #[must_use]
    pub fn taint_set(&self, slot: Slot) -> usize {
        self.taints[slot as usize] as usize
    }

    /// The taints of a set; none for an unknown number.
    #[must_use]
    pub fn taints(&self, set: usize) -> &[Taint] {
        self.taint_sets.get_index(set).map_or(&[], Vec::as_slice)
    }

    /// What a plugin prepares with: the table of strings, and the sets of taints there ever were, by number.
    pub const fn tables(&self) -> (&Symbols, &IndexSet<Vec<Taint>>) {
        (&self.symbols, &self.taint_sets)
    }

    /// The names of the images on the node, sorted by number.
    #[must_use]
    pub fn images(&self, slot: Slot) -> &[Symbol] {
        &self.images[slot as usize]
    }

    /// What the node's drivers say of it; `None` where it has no CSINode.
    #[must_use]
    pub fn csi(&self, slot: Slot) -> Option<&NodeCsi> {
        self.csi[slot as usize].as_deref()
    }

    /// The host ports in use on the node, sorted; one that two pods have comes twice.
    #[must_use]
    pub fn ports(&self, slot: Slot) -> &[HostPort] {
        &self.ports[slot as usize]
    }

    /// The classes of the pods on the node, with their numbers.
    #[must_use]
    pub fn tenants(&self, slot: Slot) -> &[(ClassId, u32)] {
        &self.tenants[slot as usize]
    }

    fn take_slot(&mut self, id: NodeId) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.ids.push(None);
            self.changed.push(0);
            self.names.push(Symbol::NONE);
            self.ranks.push(0);
            self.unschedulable.push(false);
            self.declared_features.push(DeclaredFeatures::default());
            self.taints.push(0);
            self.label_keys.push(Box::default());
            self.images.push(Box::default());
            self.ports.push(Vec::new());
            self.tenants.push(Vec::new());
            self.csi.push(None);
            self.devices.push(None);
            self.accounts.grow();
            // NodeId is 32 bits wide and there are never more positions than nodes were known at once.
            Slot::try_from(self.ids.len() - 1).unwrap_or(Slot::MAX)
        });
        self.ids[slot as usize] = Some(id);
        self.slots.insert(id, slot);
        slot
    }

    fn touch(&mut self, slot: Slot) {
        self.stamp += 1;
        self.changed[slot as usize] = self.stamp;
    }
}

#[cfg(test)]
mod tests;
