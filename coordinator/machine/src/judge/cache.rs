//! The coordinator's cache of the cluster: nodes, charges, and a log of changes.
//!
//! Assumed pods are charged like any other; a failed bind removes the charge (forget). A charge names its node, so it may precede the node
//! and outlive it.

use std::{collections::VecDeque, sync::Arc};

use flotilla_framework::{
    class::{Class, ClassId},
    excess,
    extension::Facts,
    map::Map,
    node::{NodeId, NodeInfo},
    objects::Objects,
    registry::Registry,
    shard::{Change, RequestId, Revision},
    signature::{Distinction, SelectorsInPlay},
    snapshot::{Slot, Snapshot},
    volumes::node::Attachment,
};

use crate::{directory::Directory, event::WorkerId, images::Images, judge::classes::Classes};

pub(crate) mod past;
mod verbs;

use past::{Before, Past};

/// Maximum number of changes in the log, for repairing offers and explaining decisions. Older offers are requested again. At 24 bytes each
/// the log takes 1.5 MiB.
const MAX_LOG: usize = 65_536;

#[derive(Debug, Clone)]
pub(crate) struct Charge {
    pub(crate) node: Arc<str>,
    pub(crate) class: ClassId,
    /// The fields of that class if it is not the class of the pod: its devices take amounts of the node.
    pub(crate) with_devices: Option<Arc<Class>>,
}

impl Charge {
    pub(crate) const fn new(node: Arc<str>, class: ClassId) -> Self {
        Self { node, class, with_devices: None }
    }
}

impl PartialEq for Charge {
    fn eq(&self, other: &Self) -> bool {
        self.node == other.node && self.class == other.class
    }
}

impl Eq for Charge {}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) info: Arc<NodeInfo>,
    pub(crate) worker: Option<WorkerId>,
    /// The last request to workers before the node got its holder.
    pub(crate) held_after: RequestId,
}

/// The number of pods of each class that are charged to a node.
pub(crate) type Residents = Map<ClassId, u32>;

#[derive(Debug, Default)]
pub(crate) struct Cache {
    nodes: Map<Arc<str>, Node>,
    snapshot: Snapshot,
    classes: Classes,
    in_play: SelectorsInPlay,
    directory: Directory,
    objects: Objects,
    residents: Map<Arc<str>, Residents>,
    names: Map<NodeId, Arc<str>>,
    images: Images,
    log: VecDeque<Happening>,
    /// The state of nodes before the changes in the log.
    past: Past,
    revision: Revision,
    next_node: u32,
    /// The number of charged pods with a class that is too large for workers.
    untold: u64,
    /// Holder of the node in each slot, and the last request before; copies the nodes' fields for a lookup without names.
    holders: Vec<(Option<WorkerId>, RequestId)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Happening {
    pub(crate) node: NodeId,
    pub(crate) what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Came(ClassId),
    Left(ClassId),
    /// The node changed; counts over domains did not.
    Changed,
    /// The node was added, removed, or moved to other domains.
    Reshaped,
}

/// The node changed its holder since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moved;

#[derive(Debug)]
pub(crate) enum NodeEvent {
    Added,
    /// The node changed; with its previous state.
    Updated(Arc<NodeInfo>),
    /// No field that scheduling reads changed.
    Unchanged,
}

impl Cache {
    pub(crate) fn new(registry: Registry) -> Self {
        Self { objects: Objects::of(registry), ..Self::default() }
    }

    /// Rebuilds the snapshot with another seed for ranks; everything else stays.
    pub(crate) fn reseed(&mut self, seed: u64) {
        self.snapshot.clear_nodes();
        self.snapshot.set_seed(seed);
        let names: Vec<Arc<str>> = self.nodes.keys().cloned().collect();
        for name in names {
            self.place(&name, Before::Said);
        }
        // Ranks changed, so the past states are invalid.
        self.past.clear();
    }

    pub(crate) const fn nodes(&self) -> &Map<Arc<str>, Node> {
        &self.nodes
    }

    pub(crate) const fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The nodes, for temporary charges.
    pub(super) const fn snapshot_mut(&mut self) -> &mut Snapshot {
        &mut self.snapshot
    }

    pub(crate) const fn classes(&self) -> &Classes {
        &self.classes
    }

    pub(crate) const fn in_play(&self) -> &SelectorsInPlay {
        &self.in_play
    }

    pub(crate) const fn directory(&self) -> &Directory {
        &self.directory
    }

    pub(crate) const fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The number of changes so far.
    pub(crate) const fn revision(&self) -> Revision {
        self.revision
    }

    /// The changes after a revision, oldest first; `None` if the log does not reach back that far.
    pub(crate) fn changes_since(&self, revision: Revision) -> Option<impl ExactSizeIterator<Item = Happening>> {
        let behind = usize::try_from(self.revision - revision).ok()?;
        let from = self.log.len().checked_sub(behind)?;
        Some(self.log.range(from..).copied())
    }

    pub(crate) fn name(&self, id: NodeId) -> Option<&Arc<str>> {
        self.names.get(&id)
    }

    pub(crate) fn residents(&self, name: &str) -> Option<&Residents> {
        self.residents.get(name)
    }

    /// The class of a pod with these fields, as far as selectors in play read them. The pod's own selectors come into play; `distinctions`
    /// receives the ones that are new. Adds a user of the class. A placed pod's class has no device claims.
    pub(super) fn acquire_signed(
        &mut self,
        whole: &Arc<Class>,
        is_placed: bool,
        distinctions: &mut Vec<Distinction>,
    ) -> ClassId {
        self.in_play.enter_class(whole, distinctions);
        let shared = self.objects.share(whole, is_placed);
        let (id, new) = self.classes.acquire(&self.in_play.sign(&shared));
        if new {
            if let Some(class) = self.classes.get(id) {
                self.snapshot.register_class(id, Arc::clone(class));
            }
        } else {
            self.in_play.leave_class(whole);
        }
        id
    }

    /// The head of a class's family for these facts, with a new user. `None`: no other class has the same results.
    pub(super) fn acquire_head(&mut self, class: ClassId, facts: &Facts) -> Option<ClassId> {
        let head = self.objects.head(self.classes.get(class)?, facts)?;
        // It has no selectors and no labels.
        Some(self.acquire_signed(&Arc::new(head), false, &mut Vec::new()))
    }

    /// Whether the results of a class with these facts are currently those of the head of its family.
    pub(super) fn follows_head(&self, class: ClassId, facts: &Facts) -> bool {
        self.classes.get(class).is_some_and(|class| self.objects.follows_head(class, facts))
    }

    fn take_forgotten(&mut self) -> Option<ClassId> {
        let (gone, class) = self.classes.take_forgotten()?;
        self.in_play.leave_class(&class);
        self.objects.forget_class(&class);
        self.snapshot.forget_class(gone);
        Some(gone)
    }

    pub(crate) fn has_excess(&self, class: ClassId) -> bool {
        excess::is_over_namespaces(self.classes.comparisons(class), self.directory.namespaces())
    }

    pub(crate) fn excess(&self, class: ClassId) -> Option<String> {
        excess::over_namespaces(self.classes.get(class)?, self.directory.namespaces())
    }

    /// The facts of the cluster about a class. They include idle classes with affinities, because a class is known before its first pod is
    /// placed. So the facts of other classes do not change at that moment.
    pub(crate) fn facts(&self, class: &Class) -> Facts {
        let image_contributions = self.images.contributions(class, self.nodes.len());
        let of_directory = self
            .directory
            .facts(class, self.snapshot.classes_that_mean(&class.labels), |key| self.snapshot.has_label(key));
        let mut facts = Facts { image_contributions, ..of_directory };
        self.objects.resolve(class, &mut facts);
        facts
    }

    pub(crate) fn facts_version(&self, class: &Class) -> u64 {
        let of_objects = self.objects.version(class);
        self.images.version()
            + self.directory.version()
            + self.classes.affine_version()
            + self.snapshot.label_keys_version()
            + of_objects
    }

    /// Sets the volume attachments of a class. Nodes with such pods change.
    fn set_attachments(&mut self, class: ClassId, attachments: &Arc<[Attachment]>) {
        let mut before = Before::Attachments(class, self.snapshot.attachments(class).into());
        self.snapshot.set_attachments(class, attachments);
        let homes = self.snapshot.homes(class);
        let nodes: Vec<NodeId> = homes.filter_map(|(slot, _)| self.snapshot.id(slot)).collect();
        for node in nodes {
            self.touch_node(node, What::Changed, std::mem::replace(&mut before, Before::Said));
        }
    }

    fn apply_node(&mut self, info: &Arc<NodeInfo>) -> NodeEvent {
        let Some(node) = self.nodes.get_mut(&info.name) else {
            self.next_node += 1;
            let id = NodeId(self.next_node);
            self.images.add(info);
            self.names.insert(id, Arc::clone(&info.name));
            self.nodes.insert(Arc::clone(&info.name), Node { id, info: Arc::clone(info), worker: None, held_after: 0 });
            self.place(&Arc::clone(&info.name), Before::Absent);
            return NodeEvent::Added;
        };
        if node.info == *info {
            return NodeEvent::Unchanged;
        }
        let old = std::mem::replace(&mut node.info, Arc::clone(info));
        let id = node.id;
        if old.images != info.images {
            self.images.remove(&old);
            self.images.add(info);
        }
        self.snapshot.upsert_node(id, info);
        let moved = old.labels != info.labels || old.taints != info.taints;
        let what = if moved { What::Reshaped } else { What::Changed };
        self.touch_node(id, what, Before::Node(Arc::clone(&old)));
        NodeEvent::Updated(old)
    }

    /// As [`Self::apply_node`], for a known node that differs only in its devices.
    fn set_devices(&mut self, info: &Arc<NodeInfo>) {
        let Some(node) = self.nodes.get_mut(&info.name) else { return };
        let before = Before::Devices(node.info.devices.clone());
        node.info = Arc::clone(info);
        let id = node.id;
        self.snapshot.set_devices(id, info.devices.clone());
        self.touch_node(id, What::Changed, before);
    }

    /// The holder of the node in a slot at the time of a request; `Err`: the holder changed since.
    pub(crate) fn holder_at(&self, slot: Slot, question: RequestId) -> Result<Option<WorkerId>, Moved> {
        let (holder, after) = self.holders.get(slot as usize).copied().unwrap_or_default();
        if after < question { Ok(holder) } else { Err(Moved) }
    }

    /// Whether a worker can hold a node: the node and the classes of its pods fit into a message.
    pub(crate) fn can_be_held(&self, name: &str) -> bool {
        if self.nodes.get(name).is_some_and(|node| !node.info.is_sendable()) {
            return false;
        }
        let classes = self.residents.get(name).into_iter().flat_map(|residents| residents.keys());
        classes.copied().all(|class| self.classes.is_sendable(class))
    }

    pub(crate) const fn unsent(&self) -> u64 {
        self.untold
    }

    pub(crate) const fn newest_node(&self) -> NodeId {
        NodeId(self.next_node)
    }

    /// Whether a node may have existed at a revision, according to its number or the log.
    pub(crate) fn may_have_been(&self, node: NodeId, at: Revision, newest: NodeId) -> bool {
        let left = |happening: Happening| happening.node == node && happening.what == What::Reshaped;
        node <= newest && self.changes_since(at).is_none_or(|mut changes| changes.any(left))
    }

    /// Whether `holders` matches the nodes.
    pub(crate) fn holders_match(&self) -> bool {
        let noted = |node: &Node| Some(*self.holders.get(self.snapshot.slot(node.id)? as usize)?);
        self.nodes.values().all(|node| noted(node) == Some((node.worker, node.held_after)))
    }

    fn note_holder(&mut self, name: &str) {
        let Some(node) = self.nodes.get(name) else { return };
        let Some(slot) = self.snapshot.slot(node.id) else { return };
        if self.holders.len() <= slot as usize {
            self.holders.resize(slot as usize + 1, (None, 0));
        }
        self.holders[slot as usize] = (node.worker, node.held_after);
    }

    fn charge(&mut self, name: &Arc<str>, class: ClassId) -> Option<(WorkerId, Change)> {
        self.classes.retain(class);
        self.untold += u64::from(!self.classes.is_sendable(class));
        *self.residents.entry(Arc::clone(name)).or_default().entry(class).or_insert(0) += 1;
        let node = self.nodes.get(name)?;
        let (id, worker) = (node.id, node.worker);
        self.snapshot.add_pod(id, class);
        self.touch(id, What::Came(class));
        Some((worker?, Change::AddPods { node: id, class, count: 1 }))
    }

    fn discharge(&mut self, name: &str, class: ClassId) -> Option<(WorkerId, Change)> {
        if let Some(residents) = self.residents.get_mut(name) {
            if let Some(count) = residents.get_mut(&class) {
                self.untold -= u64::from(!self.classes.is_sendable(class));
                *count -= 1;
                if *count == 0 {
                    residents.swap_remove(&class);
                }
            }
            if residents.is_empty() {
                self.residents.swap_remove(name);
            }
        }
        let node = self.nodes.get(name)?;
        let (id, worker) = (node.id, node.worker);
        self.snapshot.remove_pod(id, class);
        self.touch(id, What::Left(class));
        Some((worker?, Change::RemovePods { node: id, class, count: 1 }))
    }

    /// All changes that create a node on a new holder.
    pub(crate) fn introduce(&self, name: &str) -> Vec<Change> {
        let Some(node) = self.nodes.get(name) else { return Vec::new() };
        let upsert = Change::UpsertNode { id: node.id, node: Arc::clone(&node.info) };
        let residents = self.residents.get(name).into_iter().flatten();
        let pods = residents.map(|(&class, &count)| Change::AddPods { node: node.id, class, count });
        std::iter::once(upsert).chain(pods).collect()
    }

    fn place(&mut self, name: &Arc<str>, before: Before) {
        let Some(node) = self.nodes.get(name) else { return };
        let id = node.id;
        self.snapshot.upsert_node(id, &node.info);
        for (&class, &count) in self.residents.get(name).into_iter().flatten() {
            for _ in 0..count {
                self.snapshot.add_pod(id, class);
            }
        }
        self.note_holder(name);
        self.touch_node(id, What::Reshaped, before);
    }

    /// Repairs the snapshot after a panic, which may leave temporary additions or removals of pods. The charges are authoritative.
    pub(super) fn restore(&mut self) {
        let torn: Vec<Arc<str>> = self
            .nodes
            .iter()
            .filter(|(name, node)| self.is_torn(name, node))
            .map(|(name, _)| Arc::clone(name))
            .collect();
        for name in torn {
            let Some((id, info)) = self.nodes.get(&name).map(|node| (node.id, Arc::clone(&node.info))) else {
                continue;
            };
            self.snapshot.remove_node(id);
            self.place(&name, Before::Node(info));
        }
    }

    /// Whether the pods on a node of the snapshot differ from its charges.
    fn is_torn(&self, name: &str, node: &Node) -> bool {
        let Some(slot) = self.snapshot.slot(node.id) else { return true };
        let tenants = self.snapshot.tenants(slot);
        let charged = self.residents.get(name);
        let is_charged =
            |(class, count): &(ClassId, u32)| charged.and_then(|charged| charged.get(class)) == Some(count);
        tenants.len() != charged.map_or(0, |charged| charged.len()) || !tenants.iter().all(is_charged)
    }

    /// As [`Self::touch`], for changes other than added and removed pods.
    fn touch_node(&mut self, node: NodeId, what: What, before: Before) {
        self.past.note(self.revision + 1, before);
        self.touch(node, what);
    }

    fn touch(&mut self, node: NodeId, what: What) {
        self.revision += 1;
        self.log.push_back(Happening { node, what });
        if self.log.len() > MAX_LOG {
            self.log.pop_front();
        }
    }
}
