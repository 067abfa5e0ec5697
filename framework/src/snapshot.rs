//! The nodes as columns: one vector per field, one position per node, so that plugins read memory sequentially.

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

/// The classes of the pods on one node with their numbers of pods, sorted by class.
pub type Tenants = Vec<(ClassId, u32)>;

/// The nodes of the cluster or of a shard with the classes of their pods.
///
/// 1. [`Self::new`] with the seed of hashes.
/// 2. [`Self::register_class`] before pods of the class are added; [`Self::upsert_node`] before pods are added to the node.
/// 3. [`Self::add_pod`] and [`Self::remove_pod`] charge and discharge the node's accounts, host ports and tenants.
/// 4. [`Self::forget_class`] after the last pod of a class was removed. [`Self::remove_node`] also removes the node's pods.
///
/// A node keeps its position ([`Slot`]) until it is removed; then another node may get it. Each change to a position sets its [`Stamp`] to
/// a new maximum, so a reader that remembers [`Self::stamp`] finds later changes with [`Self::visit_changed_since`]. Accounts always equal
/// the sums over the node's pods, saturated at the limits of `i64`. Strings are never removed, except by [`Self::compact`], which renumbers
/// them and invalidates every [`Prepared`](crate::prepared::Prepared).
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Strings of names, labels and images.
    pub symbols: Symbols,
    /// The allocatable and charged resources of each node.
    pub accounts: Accounts,
    seed: u64,
    stamp: Stamp,
    slots: Map<NodeId, Slot>,
    free: Vec<Slot>,
    ids: Vec<Option<NodeId>>,
    changed: Vec<Stamp>,
    names: Vec<Symbol>,
    hashes: Vec<u64>,
    unschedulable: Vec<bool>,
    resize_preemption_disabled: Vec<bool>,
    declared_features: Vec<DeclaredFeatures>,
    taint_sets: IndexSet<Vec<Taint>>,
    taints: Vec<u32>,
    labels: Map<Symbol, Column<Symbol>>,
    label_keys: Vec<Box<[Symbol]>>,
    /// All values that each label had, up to one more than [`MAX_NUMBERED`].
    label_values: Map<Symbol, Vec<Symbol>>,
    images: Vec<Box<[Symbol]>>,
    ports: Vec<Vec<HostPort>>,
    tenants: Vec<Tenants>,
    csi: Vec<Option<Arc<NodeCsi>>>,
    devices: Vec<Option<Arc<NodeDevices>>>,
    attachments: Map<ClassId, Arc<[Attachment]>>,
    classes: Roll,
    /// Changes whenever a label key appears on the first node, and on compaction.
    label_keys_version: u64,
    in_use: compact::InUse,
}

/// A hash of a UID and the configured seed, for choices that kube-scheduler leaves to chance.
#[must_use]
pub fn hash(uid: &str, seed: u64) -> u64 {
    xxh3_64_with_seed(uid.as_bytes(), seed)
}

/// Bits of a rank that hold the highest ones of the hash. The others hold the number of pods: up to 16,777,215.
const HASH_BITS: u32 = 40;

/// The part of a node's [`Snapshot::rank`] that its pods do not change.
#[must_use]
pub const fn hash_of_rank(rank: u64) -> u64 {
    rank & (u64::MAX >> (u64::BITS - HASH_BITS))
}

impl Snapshot {
    /// An empty snapshot; `seed` is part of every node's [`hash`].
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Adds or updates a node. Its pods stay.
    pub fn upsert_node(&mut self, id: NodeId, node: &NodeInfo) -> Slot {
        let slot = match self.slots.get(&id) {
            Some(&slot) => slot,
            None => self.take_slot(id),
        };
        let at = slot as usize;
        self.names[at] = self.symbols.intern(&node.name);
        self.hashes[at] = hash(&node.uid, self.seed);
        self.unschedulable[at] = node.unschedulable;
        self.resize_preemption_disabled[at] = node.resize_preemption_disabled;
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

    /// Removes a node and its pods. Ignores unknown nodes.
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

    /// Removes all nodes; classes stay.
    pub fn clear_nodes(&mut self) {
        let ids: Vec<NodeId> = self.slots.keys().copied().collect();
        ids.into_iter().for_each(|id| self.remove_node(id));
    }

    /// Changes the seed for nodes that are added later. Call it on an empty snapshot: known nodes keep their hashes.
    pub const fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// Registers a class; only pods of registered classes can be added.
    pub fn register_class(&mut self, id: ClassId, class: Arc<Class>) {
        self.classes.register(id, class);
    }

    /// Forgets a class that has no pod on any node.
    pub fn forget_class(&mut self, id: ClassId) {
        self.classes.forget(id);
        self.attachments.swap_remove(&id);
    }

    /// Sets the volumes that each pod of a class attaches to its node, sorted; none by default. Marks the nodes with such pods as changed
    /// if the volumes differ. Forgotten with the class.
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

    /// The volumes that each pod of a class attaches to its node, sorted.
    #[must_use]
    pub fn attachments(&self, id: ClassId) -> &[Attachment] {
        self.attachments.get(&id).map_or(&[], |attachments| attachments)
    }

    /// The class with this number.
    #[must_use]
    pub fn class(&self, id: ClassId) -> Option<&Arc<Class>> {
        self.classes.get(id)
    }

    /// The stamp of the latest registration of a class.
    #[must_use]
    pub const fn classes_stamp(&self) -> Stamp {
        self.classes.stamp()
    }

    /// The classes that were registered after a stamp and not forgotten.
    pub fn classes_since(&self, stamp: Stamp) -> impl Iterator<Item = (ClassId, &Arc<Class>)> {
        self.classes.since(stamp)
    }

    /// The classes of a set, and possibly others.
    pub fn classes_of_interest(&self, interest: &Interest) -> impl Iterator<Item = (ClassId, &Arc<Class>)> {
        let ids = self.classes.of_interest(interest).into_iter();
        ids.filter_map(|id| Some((id, self.classes.get(id)?)))
    }

    /// The classes with an affinity term about pods with these labels, and possibly others.
    pub fn classes_that_mean(&self, labels: &Labels) -> impl Iterator<Item = &Class> {
        self.classes.who_mean(labels).into_iter().filter_map(|id| self.classes.get(id)).map(AsRef::as_ref)
    }

    /// The positions of the nodes with pods of a class, and the number of pods.
    pub fn homes(&self, class: ClassId) -> impl Iterator<Item = (Slot, u32)> {
        self.classes.homes(class).filter_map(move |slot| {
            let tenants = self.tenants.get(slot as usize)?;
            let index = tenants.binary_search_by_key(&class, |&(id, _)| id).ok()?;
            Some((slot, tenants[index].1))
        })
    }

    /// Adds one pod of a class to a node. `false`: the node or the class is unknown, and nothing changed.
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

    /// Removes one pod of a class from a node. `false`: there was no such pod, and nothing changed.
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

    /// The number of nodes.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.slots.len()
    }

    /// One more than the largest position in use: the length of a reader's columns.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.ids.len()
    }

    /// The stamp of the latest change.
    #[must_use]
    pub const fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// The stamp of the latest change to a position.
    #[must_use]
    pub fn changed(&self, slot: Slot) -> Stamp {
        self.changed[slot as usize]
    }

    /// Visits the positions that changed after a stamp, in order. It scans all stamps in blocks, even for a single change.
    pub fn visit_changed_since(&self, stamp: Stamp, mut visit: impl FnMut(Slot)) {
        const AT_ONCE: usize = 32;
        for (chunk, stamps) in self.changed.chunks(AT_ONCE).enumerate() {
            // Stamps never have the highest bit; it is set where this subtraction is negative.
            if stamps.iter().fold(0, |any, &of| any | stamp.wrapping_sub(of)) >> 63 == 0 {
                continue;
            }
            for (at, _) in stamps.iter().enumerate().filter(|&(_, &of)| of > stamp) {
                visit(Slot::try_from(chunk * AT_ONCE + at).unwrap_or(Slot::MAX));
            }
        }
    }

    pub(crate) fn stamps(&self, slot: Slot) -> (Stamp, Stamp) {
        (self.stamp, self.changed[slot as usize])
    }

    /// Restores a position's stamps after the caller has restored its content. Nothing else may have changed or been read since
    /// [`Self::stamps`].
    pub(crate) fn restore_stamps(&mut self, slot: Slot, (stamp, changed): (Stamp, Stamp)) {
        self.stamp = stamp;
        self.changed[slot as usize] = changed;
    }

    /// The node at a position, if any.
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

    /// The node's place among equal totals; the smallest wins. The node with the fewest pods is first, then the order is that of a hash. So
    /// equal pods do not fill one node if no score changes with their number, as of pods without requests. kube-scheduler chooses randomly.
    #[must_use]
    pub fn rank(&self, slot: Slot) -> u64 {
        let pods = u64::try_from(self.accounts.pods[slot as usize]).unwrap_or(0);
        (pods.min(u64::MAX >> HASH_BITS) << HASH_BITS) | (self.hash(slot) >> (u64::BITS - HASH_BITS))
    }

    /// The node's [`hash`].
    #[must_use]
    pub fn hash(&self, slot: Slot) -> u64 {
        self.hashes[slot as usize]
    }

    /// `spec.unschedulable`.
    #[must_use]
    pub fn unschedulable(&self, slot: Slot) -> bool {
        self.unschedulable[slot as usize]
    }

    /// Whether `spec.podPreemptionPolicy.disableResizePreemption` has entries.
    #[must_use]
    pub fn resize_preemption_disabled(&self, slot: Slot) -> bool {
        self.resize_preemption_disabled[slot as usize]
    }

    /// `status.declaredFeatures`, limited to features that pods can require.
    #[must_use]
    pub fn declared_features(&self, slot: Slot) -> DeclaredFeatures {
        self.declared_features[slot as usize]
    }

    /// The number of taint sets since the last [`Self::compact`], in use or not.
    #[must_use]
    pub fn taint_sets(&self) -> usize {
        self.taint_sets.len()
    }

    /// The number of the node's taint set; nodes with equal taints share it.
    #[must_use]
    pub fn taint_set(&self, slot: Slot) -> usize {
        self.taints[slot as usize] as usize
    }

    /// The taints of a set; empty for an unknown number.
    #[must_use]
    pub fn taints(&self, set: usize) -> &[Taint] {
        self.taint_sets.get_index(set).map_or(&[], Vec::as_slice)
    }

    /// For [`Preparation`](crate::extension::Preparation): the strings, and all taint sets since the last [`Self::compact`], by number.
    pub const fn tables(&self) -> (&Symbols, &IndexSet<Vec<Taint>>) {
        (&self.symbols, &self.taint_sets)
    }

    /// The names of the images on the node, sorted by number.
    #[must_use]
    pub fn images(&self, slot: Slot) -> &[Symbol] {
        &self.images[slot as usize]
    }

    /// The data of the node's CSI drivers; `None` without a CSINode.
    #[must_use]
    pub fn csi(&self, slot: Slot) -> Option<&NodeCsi> {
        self.csi[slot as usize].as_deref()
    }

    /// The host ports in use on the node, sorted; a port that two pods use occurs twice.
    #[must_use]
    pub fn ports(&self, slot: Slot) -> &[HostPort] {
        &self.ports[slot as usize]
    }

    /// The classes of the pods on the node, with their numbers of pods.
    #[must_use]
    pub fn tenants(&self, slot: Slot) -> &[(ClassId, u32)] {
        &self.tenants[slot as usize]
    }

    fn take_slot(&mut self, id: NodeId) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.ids.push(None);
            self.changed.push(0);
            self.names.push(Symbol::NONE);
            self.hashes.push(0);
            self.unschedulable.push(false);
            self.resize_preemption_disabled.push(false);
            self.declared_features.push(DeclaredFeatures::default());
            self.taints.push(0);
            self.label_keys.push(Box::default());
            self.images.push(Box::default());
            self.ports.push(Vec::new());
            self.tenants.push(Vec::new());
            self.csi.push(None);
            self.devices.push(None);
            self.accounts.grow();
            // NodeId has 32 bits, and there are never more positions than nodes at one time.
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
