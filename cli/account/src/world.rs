//! The cluster by node and class number, as workers receive it and as a local snapshot.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use flotilla_framework::{
    class::{Class, ClassId, PodInfo},
    devices::{
        cache::{DeviceCache, Holder},
        model::DeviceName,
    },
    explain::shard::{self, MAX_PAGE_NODES, Page},
    extension::{Facts, objects::ObjectCache as _},
    node::{NodeId, NodeInfo},
    plugins::dynamic_resources,
    preemption::{self, Budget},
    prepared::Prepared,
    profile::Profile,
    registry::Registry,
    select::Nominations,
    shard::Change,
    snapshot::{Slot, Snapshot},
    volumes::{in_use::StorageInUse, storage::Storage},
};
use flotilla_machine::{directory::Directory, images::Images};

use flotilla_cluster::{Cluster, Groups};

/// The claims that hold each device.
pub type Holders = BTreeMap<DeviceName, Vec<Holder>>;

/// A cluster with numbered nodes and classes.
#[derive(Debug)]
pub struct World {
    registry: Registry,
    nodes: Vec<Arc<NodeInfo>>,
    /// For each node the number of pods of each class.
    standing: Vec<Vec<(ClassId, u32)>>,
    /// For each node its pods, as input of preemption.
    pods: Vec<Vec<preemption::PlacedPod>>,
    budgets: Vec<Budget>,
    groups: Groups,
    /// Bound pods by UID; empty without pod groups.
    grouped: BTreeMap<Arc<str>, (NodeId, Arc<PodInfo>)>,
    classes: Vec<Arc<Class>>,
    numbers: HashMap<Arc<Class>, ClassId>,
    /// All classes with affinities, pending pods included.
    affine: Vec<Arc<Class>>,
    directory: Directory,
    images: Images,
    storage: Storage,
    devices: DeviceCache,
    volumes: StorageInUse,
    snapshot: Snapshot,
    /// All nominated pods, with node and class.
    nominated: Vec<(Arc<PodInfo>, NodeId, ClassId)>,
}

/// A class to evaluate.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The number of the class.
    pub id: ClassId,
    /// The class.
    pub class: Arc<Class>,
    /// The cluster-wide facts about the class.
    pub facts: Arc<Facts>,
}

/// A pod removed from its node.
#[derive(Debug)]
pub struct Lifted {
    place: usize,
    at: usize,
    standing: preemption::PlacedPod,
}

impl World {
    /// Numbers the nodes and classes of a cluster.
    pub fn new(registry: Registry, cluster: &Cluster, profiles: &[Profile]) -> Self {
        let storage = storage(cluster);
        let mut devices = devices(cluster);
        let mut world = Self {
            registry,
            nodes: cluster.nodes.iter().map(|node| completed(node, &storage, &mut devices)).collect(),
            standing: vec![Vec::new(); cluster.nodes.len()],
            pods: vec![Vec::new(); cluster.nodes.len()],
            budgets: cluster.budgets.clone(),
            groups: Groups::new(registry, cluster, profiles),
            grouped: BTreeMap::new(),
            classes: Vec::new(),
            numbers: HashMap::new(),
            affine: affine(cluster),
            directory: directory(cluster),
            images: Images::default(),
            storage,
            devices,
            volumes: StorageInUse::default(),
            snapshot: Snapshot::new(0),
            nominated: Vec::new(),
        };
        let mut places: HashMap<&str, usize> = HashMap::new();
        for (place, node) in cluster.nodes.iter().enumerate() {
            world.images.add(node);
            world.snapshot.upsert_node(id(place), &world.nodes[place]);
            places.insert(&node.name, place);
        }
        for pod in &cluster.bound {
            let class = world.number(&pod.class);
            // Pods on nodes that are missing from the input were dropped earlier.
            let Some(&place) = pod.node_name.as_deref().and_then(|name| places.get(name)) else { continue };
            world.snapshot.add_pod(id(place), class);
            world.volumes.add(&pod.class);
            world.pods[place].push(preemption::PlacedPod::of(pod, class));
            if world.groups.count() {
                world.grouped.insert(Arc::clone(&pod.uid), (id(place), Arc::clone(pod)));
            }
            match world.standing[place].iter_mut().find(|(known, _)| *known == class) {
                Some((_, count)) => *count += 1,
                None => world.standing[place].push((class, 1)),
            }
        }
        for pod in &cluster.pending {
            if let Some(&place) = pod.nominated_node_name.as_deref().and_then(|name| places.get(name)) {
                let class = world.number(&pod.class);
                world.nominated.push((Arc::clone(pod), id(place), class));
            }
        }
        world.attach();
        world
    }

    /// The nominations that affect a pod.
    pub fn nominations(&self, pod: &PodInfo) -> Nominations {
        let own = self.nominated.iter().find(|(other, ..)| other.uid == pod.uid).map(|(_, node, _)| *node);
        Nominations::new(own, self.reserving(pod).map(|(_, node, class)| (node, class)))
    }

    /// The nominated pods that reserve room from a pod, with node and class.
    pub fn reserving<'a>(&'a self, pod: &'a PodInfo) -> impl Iterator<Item = (&'a PodInfo, NodeId, ClassId)> {
        let others = self.nominated.iter().filter(|(other, ..)| other.uid != pod.uid && other.priority >= pod.priority);
        others.map(|(other, node, class)| (&**other, *node, *class))
    }

    fn attach(&mut self) {
        for (id, class) in (0..).map(ClassId).zip(&self.classes) {
            match self.storage.attached_by(class) {
                Ok(attachments) => self.snapshot.set_attachments(id, &attachments.into()),
                Err(error) => _ = self.volumes.set_uncountable(id, Some(error)),
            }
        }
    }

    /// Numbers a class and computes its facts.
    pub fn subject(&mut self, class: &Arc<Class>) -> Subject {
        let image_contributions = self.images.contributions(class, self.nodes.len());
        let others = self.affine.iter().map(|other| &**other);
        let volumes = self.storage.facts(class, &self.volumes);
        let facts = Facts {
            image_contributions,
            volumes,
            devices: class.devices.as_ref().and_then(|devices| self.devices.facts(devices, &class.namespace)),
            ..self.directory.facts(class, others, |key| self.snapshot.has_label(key))
        };
        Subject { id: self.number(class), class: Arc::clone(class), facts: Arc::new(facts) }
    }

    /// Why the pod's claims gate it, and the plugin.
    pub fn claims_gate(&self, pod: &PodInfo, profile: &Profile) -> Option<(&'static str, String)> {
        let plugin = dynamic_resources::NAME;
        let is_on = profile.plugins.pre_enqueue.iter().any(|name| name == plugin);
        Some((plugin, self.devices.pre_enqueue(pod).filter(|_| is_on)?))
    }

    /// The claims that hold each device.
    pub fn holders(&self) -> Holders {
        self.devices.holders()
    }

    /// The page of a class with devices, evaluated locally as one shard with all nodes.
    pub fn pages(&self, prepared: &Prepared) -> Vec<Page> {
        let mut pages: Vec<Page> = Vec::new();
        loop {
            let after = pages.last().and_then(|page| Some(page.nodes.last()?.node));
            let page = shard::page(prepared, &self.snapshot, after, MAX_PAGE_NODES);
            let more = page.more;
            pages.push(page);
            if !more {
                return pages;
            }
        }
    }

    /// Namespaces, services and controllers.
    pub const fn directory(&self) -> &Directory {
        &self.directory
    }

    /// All classes that have a number.
    pub fn classes(&self) -> impl Iterator<Item = (ClassId, &Arc<Class>)> {
        (0..).map(ClassId).zip(&self.classes)
    }

    /// The changes that describe the nodes of one shard.
    pub fn shard(&self, shard: usize, shards: usize) -> Vec<Change> {
        let mut changes = Vec::new();
        for (class, _) in self.classes() {
            let attachments = self.snapshot.attachments(class);
            if !attachments.is_empty() {
                changes.push(Change::SetAttachments { class, attachments: attachments.into() });
            }
        }
        for (place, node) in self.nodes.iter().enumerate().filter(|(place, _)| place % shards == shard) {
            changes.push(Change::UpsertNode { id: id(place), node: Arc::clone(node) });
            let pods = self.standing[place].iter();
            changes.extend(pods.map(|&(class, count)| Change::AddPods { node: id(place), class, count }));
        }
        changes
    }

    /// The node of a number.
    pub fn node(&self, id: NodeId) -> Option<&NodeInfo> {
        self.nodes.get(id.0 as usize).map(|node| &**node)
    }

    /// The pods on a node, as input of preemption.
    pub fn pods(&self, id: NodeId) -> &[preemption::PlacedPod] {
        self.pods.get(id.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// The registry of plugins.
    pub const fn registry(&self) -> Registry {
        self.registry
    }

    /// All pod groups.
    pub const fn groups(&self) -> &Groups {
        &self.groups
    }

    /// The pods on a node, with the priorities that preemption uses.
    pub fn ranked(&self, id: NodeId) -> Vec<preemption::PlacedPod> {
        let ranked = |pod: &preemption::PlacedPod| preemption::PlacedPod { priority: self.rank(pod), ..pod.clone() };
        self.pods(id).iter().map(ranked).collect()
    }

    /// The units that preemption may evict from a node; `None` without pod groups.
    pub fn units(&self, node: NodeId) -> Option<Vec<preemption::Unit<NodeId>>> {
        if !self.groups.count() {
            return None;
        }
        let mut known: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut units = Vec::new();
        for pod in self.pods(node) {
            if known.contains(&pod.uid) {
                continue;
            }
            let kind = self
                .grouped
                .get(&pod.uid)
                .map_or(preemption::UnitKind::Pod, |(_, info)| self.groups.kind_as_victim(info));
            let mut unit = preemption::Unit { priority: self.rank(pod), kind, pods: Vec::new() };
            for uid in self.party(&pod.uid) {
                let Some((at, standing)) = self.standing(&uid) else { continue };
                unit.pods.push((standing, at));
                known.insert(uid);
            }
            units.push(unit);
        }
        Some(units)
    }

    /// The pods that preemption evicts together with this one.
    fn party(&self, uid: &Arc<str>) -> Vec<Arc<str>> {
        let whole = self.grouped.get(uid).and_then(|(_, pod)| self.groups.as_victim(pod)?.whole);
        match whole {
            Some(whole) => self.groups.pods_below(&whole).into_iter().map(|pod| Arc::clone(&pod.uid)).collect(),
            None => vec![Arc::clone(uid)],
        }
    }

    fn standing(&self, uid: &str) -> Option<(NodeId, preemption::PlacedPod)> {
        let (node, _) = self.grouped.get(uid)?;
        Some((*node, self.pods(*node).iter().find(|pod| *pod.uid == *uid)?.clone()))
    }

    fn rank(&self, pod: &preemption::PlacedPod) -> i32 {
        let victim = self.grouped.get(&pod.uid).and_then(|(_, info)| self.groups.as_victim(info));
        victim.map_or(pod.priority, |victim| victim.priority)
    }

    /// The class of a number.
    pub fn class(&self, id: ClassId) -> Option<Arc<Class>> {
        self.snapshot.class(id).map(Arc::clone)
    }

    /// All disruption budgets, by namespace and name.
    pub fn budgets(&self) -> Vec<&Budget> {
        self.budgets.iter().collect()
    }

    /// The namespace and name of a bound pod.
    pub fn key(&self, pod: &preemption::PlacedPod) -> String {
        let class = self.snapshot.class(pod.class);
        format!("{}/{}", class.map_or("", |class| &*class.namespace), pod.name)
    }

    /// Removes a pod from its node; `None` if it is on none, or tried there because its resize is deferred.
    pub fn lift(&mut self, pod: &PodInfo) -> Option<Lifted> {
        let name = pod.node_name.as_deref().filter(|_| !pod.class.resize_deferred)?;
        let place = self.nodes.iter().position(|node| &*node.name == name)?;
        let class = *self.numbers.get(&pod.class)?;
        let at = self.pods[place].iter().position(|known| known.uid == pod.uid)?;
        let standing = self.pods[place].remove(at);
        self.snapshot.remove_pod(id(place), class);
        self.volumes.remove(&pod.class);
        Some(Lifted { place, at, standing })
    }

    /// Puts a removed pod back in its position.
    pub fn put_back(&mut self, pod: &PodInfo, Lifted { place, at, standing }: Lifted) {
        self.snapshot.add_pod(id(place), standing.class);
        self.volumes.add(&pod.class);
        self.pods[place].insert(at, standing);
    }

    /// Removes a pod from a node; `None` if it is not there.
    pub fn lift_placed(&mut self, node: NodeId, uid: &str) -> Option<Lifted> {
        let place = node.0 as usize;
        let at = self.pods.get(place)?.iter().position(|known| *known.uid == *uid)?;
        let standing = self.pods.get_mut(place)?.remove(at);
        if let Some(class) = self.class(standing.class) {
            self.volumes.remove(&class);
        }
        self.snapshot.remove_pod(node, standing.class);
        Some(Lifted { place, at, standing })
    }

    /// Puts a pod of [`Self::lift_placed`] back.
    pub fn put_placed(&mut self, Lifted { place, at, standing }: Lifted) {
        if let Some(class) = self.class(standing.class) {
            self.volumes.add(&class);
        }
        self.snapshot.add_pod(id(place), standing.class);
        if let Some(pods) = self.pods.get_mut(place) {
            pods.insert(at.min(pods.len()), standing);
        }
    }

    /// Replaces a node and returns the previous one.
    pub fn replace_node(&mut self, node: NodeId, new: Arc<NodeInfo>) -> Option<Arc<NodeInfo>> {
        let known = self.nodes.get_mut(node.0 as usize)?;
        self.snapshot.upsert_node(node, &new);
        Some(std::mem::replace(known, new))
    }

    /// All nodes, by number.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Arc<NodeInfo>)> {
        (0..).map(NodeId).zip(&self.nodes)
    }

    /// The number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The local snapshot, to prepare plugins with.
    pub const fn snapshot_mut(&mut self) -> &mut Snapshot {
        &mut self.snapshot
    }

    /// A node with its slot in the local snapshot.
    pub fn place(&self, id: NodeId) -> Option<(&NodeInfo, &Snapshot, Slot)> {
        Some((self.node(id)?, &self.snapshot, self.snapshot.slot(id)?))
    }

    fn number(&mut self, class: &Arc<Class>) -> ClassId {
        if let Some(&known) = self.numbers.get(class) {
            return known;
        }
        let number = ClassId(self.classes.len() as u64);
        self.classes.push(Arc::clone(class));
        self.numbers.insert(Arc::clone(class), number);
        self.snapshot.register_class(number, Arc::clone(class));
        number
    }
}

fn directory(cluster: &Cluster) -> Directory {
    let mut directory = Directory::default();
    for (name, labels) in &cluster.namespaces {
        directory.set_namespace(name, Some(labels));
    }
    for (object, selector) in &cluster.selectors {
        directory.set_selector(object, Some(selector));
    }
    directory
}

fn storage(cluster: &Cluster) -> Storage {
    let mut storage = Storage::default();
    for object in &cluster.storage {
        storage.apply(object.clone());
    }
    storage
}

fn devices(cluster: &Cluster) -> DeviceCache {
    let mut devices = DeviceCache::of(dynamic_resources::NAME);
    for object in &cluster.devices {
        devices.apply(&object.clone().into());
    }
    devices
}

/// Adds the data that storage and device drivers report about the node.
fn completed(node: &Arc<NodeInfo>, storage: &Storage, devices: &mut DeviceCache) -> Arc<NodeInfo> {
    let mut node = match storage.node_csi(&node.name) {
        Some(csi) => Arc::new(NodeInfo { csi: Some(csi), ..NodeInfo::clone(node) }),
        None => Arc::clone(node),
    };
    devices.complete(&mut node);
    node
}

/// All classes with affinities, deduplicated.
fn affine(cluster: &Cluster) -> Vec<Arc<Class>> {
    let classes = cluster.bound.iter().chain(&cluster.pending).map(|pod| &pod.class);
    let mut known: HashSet<&Arc<Class>> = HashSet::new();
    classes.filter(|class| !class.pod_affinity.is_empty() && known.insert(class)).map(Arc::clone).collect()
}

/// The number of a node is its index; inputs have fewer than 2^32 nodes.
fn id(place: usize) -> NodeId {
    NodeId(u32::try_from(place).unwrap_or(u32::MAX))
}

/// The name of a node.
pub fn name(world: &World, id: NodeId) -> &str {
    world.node(id).map_or("", |node| &node.name)
}
