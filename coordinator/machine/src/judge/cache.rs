//! The cluster as the coordinator believes it to be: nodes, what is charged to them, and which changed when.
//!
//! Pods that were decided but not confirmed are charged like any other (assume); a failed bind takes the charge back
//! (forget). A charge names its node, so it may come before the node and outlive it.
//!
//! Knows: nodes, charges, classes, images, the order of changes. Must not know: the queue, workers' connections.

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

use super::past::{Before, Past};
use crate::{directory::Directory, event::WorkerId, images::Images, judge::classes::Classes};

/// How many changes are remembered for offers to be repaired by, and for decisions to be explained afterwards; older offers are
/// asked for anew. At 24 bytes each the log takes 1.5 MiB.
const MAX_LOG: usize = 65_536;

/// A charge for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(crate) node: Arc<str>,
    pub(crate) class: ClassId,
}

/// A node and who holds it.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) info: Arc<NodeInfo>,
    pub(crate) worker: Option<WorkerId>,
    /// The last question to workers that was asked before the node was given to this one.
    pub(crate) held_after: RequestId,
}

/// How many pods of each class are charged to a node.
pub(crate) type Residents = Map<ClassId, u32>;

/// The cluster.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    pub(crate) nodes: Map<Arc<str>, Node>,
    pub(crate) snapshot: Snapshot,
    pub(crate) classes: Classes,
    pub(crate) in_play: SelectorsInPlay,
    pub(crate) directory: Directory,
    /// What plugins keep.
    pub(crate) objects: Objects,
    residents: Map<Arc<str>, Residents>,
    names: Map<NodeId, Arc<str>>,
    images: Images,
    log: VecDeque<Happening>,
    /// What nodes were before the changes of the log.
    pub(super) past: Past,
    revision: Revision,
    next_node: u32,
    /// How many pods are charged whose class cannot be told to workers.
    untold: u64,
    /// Who holds the node at each position of the snapshot, and since which question: what the nodes have, for a look-up
    /// without names.
    holders: Vec<(Option<WorkerId>, RequestId)>,
}

/// Something that happened to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Happening {
    pub(crate) node: NodeId,
    pub(crate) what: What,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// A pod of a class came.
    Came(ClassId),
    /// A pod of a class left.
    Left(ClassId),
    /// The node itself changed, and counts over domains did not.
    Changed,
    /// The node is new, gone, or in other domains than before.
    Reshaped,
}

/// A node was given to another worker since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moved;

/// What a node event did.
#[derive(Debug)]
pub(crate) enum NodeEvent {
    /// The node is new; this is what to tell its holder.
    Added,
    /// The node looked like this before.
    Updated(Arc<NodeInfo>),
    /// Nothing that scheduling reads has changed.
    Unchanged,
}

// === impl Cache ===

impl Cache {
    /// An empty cluster, for these plugins.
    pub(crate) fn new(registry: Registry) -> Self {
        Self { objects: Objects::of(registry), ..Self::default() }
    }

    /// Starts the snapshot anew with another seed for ranks; everything known stays.
    pub(crate) fn reseed(&mut self, seed: u64) {
        self.snapshot.clear_nodes();
        self.snapshot.set_seed(seed);
        let names: Vec<Arc<str>> = self.nodes.keys().cloned().collect();
        for name in names {
            self.place(&name, Before::Said);
        }
        // Nodes had other ranks.
        self.past.clear();
    }

    /// Counts the changes so far.
    pub(crate) const fn revision(&self) -> Revision {
        self.revision
    }

    /// What happened to nodes after a revision, oldest first; `None` where that is too long ago to know.
    pub(crate) fn changes_since(&self, revision: Revision) -> Option<impl ExactSizeIterator<Item = Happening>> {
        let behind = usize::try_from(self.revision - revision).ok()?;
        let from = self.log.len().checked_sub(behind)?;
        Some(self.log.range(from..).copied())
    }

    /// A node's name by its number.
    pub(crate) fn name(&self, id: NodeId) -> Option<&Arc<str>> {
        self.names.get(&id)
    }

    /// The pods charged to a node, by class.
    pub(crate) fn residents(&self, name: &str) -> Option<&Residents> {
        self.residents.get(name)
    }

    /// The number of the class that a pod of these fields is of, by what selectors in play can tell of it; its own come
    /// into play with it. Adds to `distinctions` what they can tell that no other could. Counts one more user of the class. Of a pod that has its
    /// node no claims of devices are told.
    pub(crate) fn acquire_signed(
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

    /// Counts one less that needs a class. What is to be forgotten for it is for [`Self::take_forgotten`] to tell.
    pub(crate) fn release_class(&mut self, id: ClassId) {
        self.classes.release(id);
    }

    /// A class that is to be forgotten by all, if there is one.
    pub(crate) fn take_forgotten(&mut self) -> Option<ClassId> {
        let (gone, class) = self.classes.take_forgotten()?;
        self.in_play.leave_class(&class);
        self.snapshot.forget_class(gone);
        Some(gone)
    }

    /// Whether a class is too large to be tried with the namespaces that there are.
    pub(crate) fn has_excess(&self, class: ClassId) -> bool {
        excess::is_over_namespaces(self.classes.comparisons(class), self.directory.namespaces())
    }

    /// What is too large about a class with the namespaces that there are.
    pub(crate) fn excess(&self, class: ClassId) -> Option<String> {
        excess::over_namespaces(self.classes.get(class)?, self.directory.namespaces())
    }

    /// What the whole cluster says about a class. Others with affinities take part, idle ones included: a class is known
    /// before its first pod stands on a node, so that what it says of others does not change at that moment.
    pub(crate) fn facts(&self, class: &Class) -> Facts {
        let image_contributions = self.images.contributions(class, self.nodes.len());
        let of_directory = self
            .directory
            .facts(class, self.snapshot.classes_that_mean(&class.labels), |key| self.snapshot.has_label(key));
        let mut facts = Facts { image_contributions, ..of_directory };
        self.objects.resolve(class, &mut facts);
        facts
    }

    /// Changes whenever [`Self::facts`] of a class may have.
    pub(crate) fn facts_version(&self, class: &Class) -> u64 {
        let of_objects = self.objects.version(class);
        self.images.version()
            + self.directory.version()
            + self.classes.affine_version()
            + self.snapshot.label_keys_version()
            + of_objects
    }

    /// What each pod of a class attaches to its node; the nodes with such pods have changed.
    pub(crate) fn set_attachments(&mut self, class: ClassId, attachments: &Arc<[Attachment]>) {
        let mut before = Before::Attachments(class, self.snapshot.attachments(class).into());
        self.snapshot.set_attachments(class, attachments);
        let holding = self.residents.iter().filter(|(_, residents)| residents.contains_key(&class));
        let nodes: Vec<NodeId> = holding.filter_map(|(name, _)| Some(self.nodes.get(name)?.id)).collect();
        for node in nodes {
            self.touch_node(node, What::Changed, std::mem::replace(&mut before, Before::Said));
        }
    }

    /// A node is new or looks like this now. The same name with another UID must be removed first.
    pub(crate) fn apply_node(&mut self, info: &Arc<NodeInfo>) -> NodeEvent {
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

    /// As [`Self::apply_node`], of a node that is known and differs in its devices alone.
    pub(crate) fn set_devices(&mut self, info: &Arc<NodeInfo>) {
        let Some(node) = self.nodes.get_mut(&info.name) else { return };
        let before = Before::Devices(node.info.devices.clone());
        node.info = Arc::clone(info);
        let id = node.id;
        self.snapshot.set_devices(id, info.devices.clone());
        self.touch_node(id, What::Changed, before);
    }

    /// A node is gone. What is charged to its name stays charged.
    pub(crate) fn remove_node(&mut self, name: &str) -> Option<Node> {
        let node = self.nodes.swap_remove(name)?;
        self.images.remove(&node.info);
        self.names.swap_remove(&node.id);
        let pods = self.snapshot.slot(node.id).map_or_else(Vec::new, |slot| self.snapshot.tenants(slot).to_vec());
        self.snapshot.remove_node(node.id);
        self.touch_node(node.id, What::Reshaped, Before::Gone(Arc::clone(&node.info), pods));
        Some(node)
    }

    /// A node is another worker's from now on, `after` being the last question that was asked before. Gives its number and
    /// who held it.
    pub(crate) fn set_holder(
        &mut self,
        name: &str,
        worker: Option<WorkerId>,
        after: RequestId,
    ) -> Option<(NodeId, Option<WorkerId>)> {
        let node = self.nodes.get_mut(name)?;
        let (id, old) = (node.id, std::mem::replace(&mut node.worker, worker));
        if old != worker {
            node.held_after = after;
            self.note_holder(name);
        }
        Some((id, old))
    }

    /// Who holds the node at a position, if it was given to it before a question was asked; `Err`: it was given to someone
    /// since.
    pub(crate) fn holder_at(&self, slot: Slot, question: RequestId) -> Result<Option<WorkerId>, Moved> {
        let (holder, after) = self.holders.get(slot as usize).copied().unwrap_or_default();
        if after < question { Ok(holder) } else { Err(Moved) }
    }

    /// Whether a node can be given to a worker: it fits into a message, and so do the classes of all pods on it.
    pub(crate) fn can_be_held(&self, name: &str) -> bool {
        if self.nodes.get(name).is_some_and(|node| !node.info.can_be_told()) {
            return false;
        }
        let classes = self.residents.get(name).into_iter().flat_map(|residents| residents.keys());
        classes.copied().all(|class| self.classes.can_be_told(class))
    }

    /// How many pods are charged whose class cannot be told to workers.
    pub(crate) const fn untold(&self) -> u64 {
        self.untold
    }

    /// The number that the newest node has.
    pub(crate) const fn newest_node(&self) -> NodeId {
        NodeId(self.next_node)
    }

    /// Whether a node may have been there at a revision. Its number says so, or the log of what happened since.
    pub(crate) fn may_have_been(&self, node: NodeId, at: Revision, newest: NodeId) -> bool {
        let left = |happening: Happening| happening.node == node && happening.what == What::Reshaped;
        node <= newest && self.changes_since(at).is_none_or(|mut changes| changes.any(left))
    }

    /// Whether the look-up by position says what the nodes say.
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

    /// Charges a pod of a class to a node. Gives what to tell the holder, if the node is known.
    pub(crate) fn charge(&mut self, name: &Arc<str>, class: ClassId) -> Option<(WorkerId, Change)> {
        self.classes.retain(class);
        self.untold += u64::from(!self.classes.can_be_told(class));
        *self.residents.entry(Arc::clone(name)).or_default().entry(class).or_insert(0) += 1;
        let node = self.nodes.get(name)?;
        let (id, worker) = (node.id, node.worker);
        self.snapshot.add_pod(id, class);
        self.touch(id, What::Came(class));
        Some((worker?, Change::AddPods { node: id, class, count: 1 }))
    }

    /// Takes the charge of a pod back. The caller still has to release the class the charge needed.
    pub(crate) fn discharge(&mut self, name: &str, class: ClassId) -> Option<(WorkerId, Change)> {
        if let Some(residents) = self.residents.get_mut(name) {
            if let Some(count) = residents.get_mut(&class) {
                self.untold -= u64::from(!self.classes.can_be_told(class));
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

    /// All there is to tell about a node to a holder that never heard of it.
    pub(crate) fn introduce(&self, name: &str) -> Vec<Change> {
        let Some(node) = self.nodes.get(name) else { return Vec::new() };
        let upsert = Change::UpsertNode { id: node.id, node: Arc::clone(&node.info) };
        let residents = self.residents.get(name).into_iter().flatten();
        let pods = residents.map(|(&class, &count)| Change::AddPods { node: node.id, class, count });
        std::iter::once(upsert).chain(pods).collect()
    }

    /// Puts a known node and all that is charged to it into the snapshot.
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

    /// Puts back what a panic left half done: pods that were on a node of the Snapshot for the time of an evaluation only, or off
    /// it. What is charged decides.
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

    /// Whether the pods on a node of the Snapshot are not those that are charged to it.
    fn is_torn(&self, name: &str, node: &Node) -> bool {
        let Some(slot) = self.snapshot.slot(node.id) else { return true };
        let tenants = self.snapshot.tenants(slot);
        let charged = self.residents.get(name);
        let is_charged =
            |(class, count): &(ClassId, u32)| charged.and_then(|charged| charged.get(class)) == Some(count);
        tenants.len() != charged.map_or(0, |charged| charged.len()) || !tenants.iter().all(is_charged)
    }

    /// As [`Self::touch`], of what pods that come and go do not say.
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
