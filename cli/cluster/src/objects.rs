//! Gathers the objects of the input into a cluster.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use flotilla_framework::{
    class::{Class, PodInfo},
    devices::{model::request::ClaimSpec, objects::DeviceObject},
    ingest,
    labels::LabelSelector,
    node::NodeInfo,
    pod_group::PodGroup,
    preemption::Budget,
    volumes::objects::StorageObject,
};
use flotilla_machine::event;
use k8s_openapi::api::core::v1 as api;
use serde::{Deserialize, Serialize};

use super::{
    admission::{self, Admission, Quotas},
    beside::References,
    defaults,
    devices::{self, Device},
    groups,
    labels::Labels,
    lifecycle::{Facts, Lifecycle},
    place::InputPosition,
    problem::Problems,
    selecting::Selecting,
    storage::{self, Stored},
    texts::Texts,
    workloads,
};

mod admitting;
mod amounts;
mod making;
mod naming;
mod noting;
mod planning;
mod policies;
mod previous;
mod progress;
mod sorting;

use admitting::{NewClaim, NewPod};
use amounts::{check, check_pod};
pub use progress::CreatedPods;
use progress::Progress;
use sorting::{Sorted, no_such_class, with_defaults};

/// The priority classes that every cluster has.
const BUILT_IN: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// The end of the UID of a pod that is created later.
const LATER: &str = "#new";

/// A cluster from files.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// All nodes by name, in the order of an API server's list: the first node that lists an image determines its size.
    pub nodes: Vec<Arc<NodeInfo>>,
    /// Pods that are bound to one of the nodes.
    pub bound: Vec<Arc<PodInfo>>,
    /// Pending pods, in input order.
    pub pending: Vec<Arc<PodInfo>>,
    /// The labels of all namespaces that have objects or are objects, sorted by key.
    pub namespaces: BTreeMap<Arc<str>, Labels>,
    /// Services and controllers with their selectors, in input order.
    pub selectors: Vec<(event::Selecting, LabelSelector)>,
    /// Storage objects, in input order.
    pub storage: Vec<StorageObject>,
    /// Objects of Dynamic Resource Allocation, in input order; claims from templates are last.
    pub devices: Vec<DeviceObject>,
    /// Disruption budgets, by namespace and name.
    pub budgets: Vec<Budget>,
    /// Pod groups of `scheduling.k8s.io`; `None` if the feature gate is off.
    pub groups: Option<Vec<PodGroup>>,
    /// Pod groups of `scheduling.x-k8s.io`; `None` if no profile has the plugin Coscheduling.
    pub coscheduling: Option<Vec<PodGroup>>,
    /// The JSON of nodes and pods for extenders; empty if not needed.
    #[serde(skip)]
    pub texts: Texts,
    /// The pods created for workloads of the input.
    #[serde(skip)]
    pub made: workloads::Summary,
    /// The UIDs of pods that a controller would recreate.
    #[serde(skip)]
    pub controlled: BTreeSet<Arc<str>>,
    /// What controllers and kubelets read.
    #[serde(skip)]
    pub lifecycle: Lifecycle,
    /// `spec.os.name` of pods by UID; the kubelet reads it, and no scheduler does.
    #[serde(skip)]
    pub systems: BTreeMap<Arc<str>, Arc<str>>,
    /// Objects that others refer to and no plugin reads.
    pub references: References,
    /// The topology keys of each CSI driver, from CSINodes.
    #[serde(skip)]
    pub topology_keys: BTreeMap<Arc<str>, Vec<Arc<str>>>,
}

impl Cluster {
    /// Unbinds the pod of a key.
    pub fn unbind(&mut self, key: &str) {
        let bound = std::mem::take(&mut self.bound).into_iter();
        let (asked, others) = bound.partition(|pod| pod.key() == key);
        self.bound = others;
        self.pending.extend(asked);
    }
}

/// A pod before references to other objects are resolved.
struct Draft {
    info: PodInfo,
    priority: Priority,
    /// The spec has a preemption policy.
    has_policy: bool,
    /// The templates of claims that do not exist yet, by claim name.
    made: BTreeMap<Arc<str>, String>,
    place: InputPosition,
    /// The pod was never in a cluster.
    is_new: bool,
    /// A new pod that admission may change.
    new: Option<Box<NewPod>>,
    /// The index of the workload that the pod is created for.
    workload: Option<usize>,
    /// The RuntimeClass of a new pod without overhead.
    runtime: Option<String>,
    /// The pod is created later: the rollout and the index among its new pods.
    later: Option<(usize, usize)>,
}

enum Priority {
    Given,
    OfClass(String),
    Default,
}

/// Takes objects in, in any order.
#[derive(Default)]
pub struct Gatherer {
    nodes: Vec<Arc<NodeInfo>>,
    pods: Vec<Draft>,
    names: HashMap<(&'static str, String), InputPosition>,
    uids: HashMap<String, InputPosition>,
    controlled: BTreeSet<Arc<str>>,
    systems: BTreeMap<Arc<str>, Arc<str>>,
    classes: HashSet<Arc<Class>>,
    priorities: BTreeMap<String, (i32, bool)>,
    default_priority: Option<((i32, bool), InputPosition)>,
    namespaces: BTreeMap<Arc<str>, Labels>,
    selectors: Vec<(event::Selecting, LabelSelector)>,
    storage: Vec<StorageObject>,
    topology_keys: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    /// The claims of ephemeral volumes, which exist unless the input has them.
    ephemeral: Vec<(api::PersistentVolumeClaim, InputPosition)>,
    devices: Vec<DeviceObject>,
    templates: BTreeMap<(Arc<str>, Arc<str>), Arc<ClaimSpec>>,
    budgets: Vec<Budget>,
    pub(super) groups: Option<Vec<groups::Draft>>,
    pub(super) coscheduling: Option<Vec<PodGroup>>,
    pub(super) workloads: workloads::Workloads,
    pub(super) facts: Facts,
    texts: Option<Texts>,
    pub(super) features: ingest::Features,
    admission: Admission,
    new_claims: Vec<NewClaim>,
    /// The controllers of pods, such as `ReplicaSet shop/web-6d4`, with the number of their pods.
    owners: BTreeMap<String, usize>,
    /// Nodes that got a default label, and nodes that got a default number of pods.
    defaulted: (usize, usize),
    /// The nodes of the existing cluster.
    others: Vec<Arc<NodeInfo>>,
    /// The priority and policy of pods without a class.
    usual: (i32, bool),
    /// Counts the created pods.
    progress: Progress,
}

impl Gatherer {
    /// A gatherer that keeps the JSON of nodes and pods.
    #[must_use]
    pub fn with_texts(texts: Texts) -> Self {
        Self { texts: Some(texts), ..Self::default() }
    }

    /// Reads pods as a scheduler with these feature gates.
    #[must_use]
    pub fn with_features(self, features: ingest::Features) -> Self {
        Self { features, ..self }
    }

    /// Reads pod groups too.
    pub fn with_groups(self) -> Self {
        Self { groups: Some(Vec::new()), ..self }
    }

    /// Reads pod groups of scheduler-plugins too.
    #[must_use]
    pub fn with_coscheduling(self) -> Self {
        Self { coscheduling: Some(Vec::new()), ..self }
    }

    /// Knows the objects of `cluster` that others may refer to.
    pub(super) fn knowing(cluster: &Cluster) -> Self {
        let References { priorities, default, templates, rules, features, .. } = cluster.references.clone();
        let admission = Admission { rules, ..Admission::default() };
        let (namespaces, others) = (cluster.namespaces.clone(), cluster.nodes.clone());
        Self { priorities, usual: default, templates, namespaces, others, admission, features, ..Self::default() }
    }

    /// Takes a node in, with its defaults.
    pub fn add_node(&mut self, mut node: api::Node, place: InputPosition, problems: &mut Problems) {
        let Some(name) = self.claim("Node", &node.metadata, false, &place, problems) else { return };
        let title = format!("node {name:?}");
        let status = node.status.as_ref();
        let capacity = status.and_then(|status| status.capacity.as_ref());
        let allocatable = status.and_then(|status| status.allocatable.as_ref());
        if capacity.is_none_or(BTreeMap::is_empty) && allocatable.is_none_or(BTreeMap::is_empty) {
            let text = format!(
                "{title} has no status.allocatable or status.capacity; expected one of them, such as \
                 `status: {{allocatable: {{cpu: \"4\", memory: 16Gi, pods: \"110\"}}}}`"
            );
            problems.error(place.keys(&["status"]), text);
            return;
        }
        let mut are_good = check(capacity, &title, &place, &["status", "capacity"], problems);
        are_good &= check(allocatable, &title, &place, &["status", "allocatable"], problems);
        if !are_good {
            return;
        }
        let (has_new_label, has_new_pods) = defaults::node(&mut node);
        if place.document.is_some() {
            self.defaulted.0 += usize::from(has_new_label);
            self.defaulted.1 += usize::from(has_new_pods);
        }
        match ingest::node(&node) {
            Ok(info) => {
                self.nodes.push(Arc::new(info));
                self.texts.iter_mut().for_each(|texts| texts.add_node(&node));
            }
            Err(error) if error.is_too_large() => {
                problems.warning(place, format!("{title}: {error}; no pods are placed on the node"));
            }
            Err(error) => problems.error(place, format!("{title}: {error}")),
        }
    }

    /// Takes a pod in, with its defaults.
    pub fn add_pod(&mut self, pod: api::Pod, place: InputPosition, problems: &mut Problems) {
        if let Some(name) = self.claim("Pod", &pod.metadata, true, &place, problems) {
            self.add_named_pod(pod, &name, place, None, problems);
        }
    }

    /// Adds a pod with a claimed name, or one that is created `later` and may have the name of another pod.
    fn add_named_pod(
        &mut self,
        mut pod: api::Pod,
        name: &str,
        place: InputPosition,
        later: Option<(usize, usize)>,
        problems: &mut Problems,
    ) {
        let title = format!("pod {name:?}");
        let Some(spec) = pod.spec.as_ref().filter(|spec| !spec.containers.is_empty()) else {
            let text = format!("{title} has no spec.containers; expected at least one, such as `- name: main`");
            problems.error(place.keys(&["spec", "containers"]), text);
            return;
        };
        if !check_pod(spec, &title, &place, problems) {
            return;
        }
        let priority = match (spec.priority, spec.priority_class_name.as_deref().filter(|name| !name.is_empty())) {
            (Some(_), _) => Priority::Given,
            (None, Some(class)) => Priority::OfClass(class.to_owned()),
            (None, None) => Priority::Default,
        };
        let has_policy = spec.preemption_policy.is_some();
        let (is_new, is_kept) = (self.is_new(&pod.metadata), self.awaits_admission(&pod));
        let pod_level = spec.resources.clone().filter(|_| is_kept);
        let runtime = spec.runtime_class_name.clone().filter(|_| is_new && spec.overhead.is_none());
        self.workloads.see(&pod);
        self.see_owner(&pod);
        defaults::pod(&mut pod);
        if later.is_some() {
            pod.metadata.uid = pod.metadata.uid.map(|uid| format!("{uid}{LATER}"));
        }
        if let Some(first) = self.claim_uid(&pod.metadata, &place) {
            let text =
                format!("{title} has the metadata.uid of another pod; expected a unique one, or none; the other is at");
            problems.error_with(place.keys(&["metadata", "uid"]), text, first);
            return;
        }
        let made = devices::name_claims(&mut pod);
        if is_new && spec_is_unbound(&pod) {
            self.ephemeral.extend(storage::ephemeral_claims(&pod).map(|claim| (claim, place.clone())));
        }
        match ingest::pod(&pod, self.features) {
            Ok(info) => {
                self.texts.iter_mut().for_each(|texts| texts.add_pod(&pod));
                let info = self.share_class(info);
                self.facts.see_pod(&pod, &info.uid);
                if let Some(system) = pod.spec.as_ref().and_then(|spec| spec.os.as_ref()) {
                    self.systems.insert(Arc::clone(&info.uid), system.name.as_str().into());
                }
                let mut owners = pod.metadata.owner_references.iter().flatten();
                if owners.any(|owner| owner.controller == Some(true)) {
                    self.controlled.insert(Arc::clone(&info.uid));
                }
                let new = is_kept.then(|| Box::new(NewPod { pod, pod_level }));
                let workload = self.admission.workload;
                self.pods.push(Draft {
                    info,
                    priority,
                    has_policy,
                    made,
                    place,
                    is_new,
                    new,
                    workload,
                    runtime,
                    later,
                });
            }
            Err(error) => problems.error(place, format!("{title}: {error}")),
        }
    }

    /// Adds a service or a controller; returns whether its name is new.
    pub fn add_selecting<T: Selecting>(
        &mut self,
        mut object: T,
        place: &InputPosition,
        problems: &mut Problems,
    ) -> bool {
        let Some(name) = self.claim(T::NAME, object.metadata(), true, place, problems) else { return false };
        object.fill_in();
        // The claimed key is namespace and name, neither of them empty.
        let (namespace, name) = name.split_once('/').unwrap_or_default();
        let known = event::Selecting { kind: T::KIND, namespace: namespace.into(), name: name.into() };
        if let Some(excess) = object.excess() {
            let title = format!("{} {:?}", T::NAME, known.name);
            problems.warning(
                place.clone(),
                format!("{title}: {excess}; the selector is not used to spread pods by default"),
            );
        }
        self.selectors.push((known, object.selector()));
        true
    }

    pub(super) fn add_storage<T: Stored>(&mut self, mut object: T, place: &InputPosition, problems: &mut Problems) {
        let metadata = object.metadata_mut();
        let Some(name) = self.claim(T::NAME, metadata, T::IS_NAMESPACED, place, problems) else { return };
        let is_new = !self.admission.is_off && admission::is_new(metadata);
        defaults::identity(metadata, T::IS_NAMESPACED);
        if T::NAME == "StorageClass" {
            self.workloads.see_class(metadata);
        }
        object.fill_in();
        for (driver, keys) in object.topology_keys() {
            self.topology_keys.entry(driver).or_insert(keys);
        }
        match object.read() {
            Ok(read) => {
                if is_new {
                    self.keep_claim(&object, place);
                }
                self.storage.push(read);
            }
            Err(error) if error.is_too_large() => {
                problems.warning(place.clone(), format!("{} {name:?}: {error}; it is ignored", T::NAME));
            }
            Err(error) => problems.error(place.keys(&storage::keys(&error)), format!("{} {name:?}: {error}", T::NAME)),
        }
    }

    /// Takes an object of Dynamic Resource Allocation in, with its defaults.
    pub fn add_device<T: Device>(&mut self, mut object: T, place: &InputPosition, problems: &mut Problems) {
        let metadata = object.metadata_mut();
        let Some(name) = self.claim(T::NAME, metadata, T::IS_NAMESPACED, place, problems) else { return };
        defaults::identity(metadata, T::IS_NAMESPACED);
        object.fill_in();
        match object.read(self.features) {
            Ok(devices::Read::Object(read)) => self.devices.push(read),
            Ok(devices::Read::Template(spec)) => {
                let (namespace, name) = name.split_once('/').unwrap_or_default();
                self.templates.insert((namespace.into(), name.into()), Arc::new(spec));
            }
            Err(error) if error.is_too_large() => {
                problems.warning(place.clone(), format!("{} {name:?}: {error}; it is ignored", T::NAME));
            }
            Err(error) => problems.error(place.clone(), format!("{} {name:?}: {error}", T::NAME)),
        }
    }

    /// Resolves references. Pods of other schedulers than `schedulers` stay out of the pending pods.
    pub fn finish(mut self, schedulers: &[&str], problems: &mut Problems) -> Cluster {
        self.nodes.sort_by(|left, right| left.name.cmp(&right.name));
        self.admission.is_closed = true;
        let mut made = self.make_pods(problems);
        self.make_ephemeral_claims(problems);
        self.admit(&mut made, problems);
        if self.others.is_empty() && !self.workloads.are_left {
            self.note(&mut made);
        }
        let known: HashSet<Arc<str>> =
            self.nodes.iter().chain(&self.others).map(|node| Arc::clone(&node.name)).collect();
        let priorities = with_built_in(&self.priorities);
        let default = self.default_priority.as_ref().map_or(self.usual, |(value, _)| *value);
        let mut groups = groups::finish(self.groups, &priorities, default.0, problems);
        let mut sorted = Sorted { known, ..Sorted::default() };
        let mut devices = self.devices;
        devices.extend(devices::made_for_groups(groups.as_mut(), &self.templates));
        for Draft { mut info, priority, has_policy, made, place, later, .. } in self.pods {
            devices.extend(devices::made_for(&mut info, &made, &self.templates, groups.as_deref()));
            let mut prioritise = |(value, never): (i32, bool)| {
                info.priority = value;
                info.never_preempts |= never && !has_policy;
            };
            match priority {
                Priority::Given => {}
                Priority::Default => prioritise(default),
                Priority::OfClass(class) => match priorities.get(class.as_str()) {
                    Some(value) => prioritise(*value),
                    None => {
                        let text = no_such_class(&info, &class, &priorities);
                        problems.error(place.keys(&["spec", "priorityClassName"]), text);
                        continue;
                    }
                },
            }
            sorted.add(info, later, &place, schedulers, problems);
        }
        let Sorted { bound, pending, created, .. } = sorted;
        self.facts.lifecycle.quotas = Quotas::new(self.admission.quotas, self.admission.charges);
        let lifecycle = self.facts.finish(bound.iter().chain(&pending).map(|pod| &**pod), created);
        let of_pods = bound.iter().chain(&pending).map(|pod| &pod.class.namespace);
        let in_use = of_pods.chain(self.selectors.iter().map(|(object, _)| &object.namespace));
        let namespaces = with_defaults(self.namespaces, in_use);
        let (selectors, texts, mut budgets) = (self.selectors, self.texts.unwrap_or_default(), self.budgets);
        budgets.sort_by_key(|budget| (Arc::clone(&budget.namespace), Arc::clone(&budget.name)));
        let storage_class = self.workloads.class;
        let (priorities, templates, rules) = (self.priorities, self.templates, self.admission.rules);
        let references = References { priorities, default, storage_class, templates, rules, features: self.features };
        Cluster {
            nodes: self.nodes,
            bound,
            pending,
            namespaces,
            selectors,
            storage: self.storage,
            devices,
            budgets,
            groups,
            coscheduling: self.coscheduling,
            texts,
            made,
            controlled: self.controlled,
            lifecycle,
            systems: self.systems,
            references,
            topology_keys: self.topology_keys,
        }
    }

    /// Pods with equal classes share one: a dump has many pods of few classes.
    fn share_class(&mut self, info: PodInfo) -> PodInfo {
        let class = match self.classes.get(&info.class) {
            Some(known) => Arc::clone(known),
            None => {
                self.classes.insert(Arc::clone(&info.class));
                Arc::clone(&info.class)
            }
        };
        PodInfo { class, ..info }
    }
}

fn spec_is_unbound(pod: &api::Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_deref().is_none_or(str::is_empty))
}

fn with_built_in(priorities: &BTreeMap<String, (i32, bool)>) -> BTreeMap<&str, (i32, bool)> {
    let built_in = BUILT_IN.into_iter().map(|(name, value)| (name, (value, false)));
    built_in.chain(priorities.iter().map(|(name, value)| (name.as_str(), *value))).collect()
}

#[cfg(test)]
mod tests;
