//! Pods as plugins read them: [`Class`] holds the fields that any plugin reads, [`PodInfo`] the identity of one pod.

mod domain;
mod term;

use serde::{Deserialize, Serialize};
use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
};

use crate::{
    declared::DeclaredFeatures, devices::claimed::PodDevices, extension::PodField, labels::LabelSelector,
    resources::Resources, trace::Parent, volumes::mounts::PodVolumes,
};

pub use domain::TopologyDomain;
pub use term::{NodeTerm, Requirement};

/// The number that the owner of the cluster state assigns to a [`Class`]; never reused within one epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClassId(pub u64);

/// All fields of a pod that any plugin reads. Pods with equal classes get the same result on every node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Class {
    /// The pod's namespace; empty if no selector in play reads it ([`crate::signature`]).
    pub namespace: Arc<str>,
    /// The pod's labels, sorted by key.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    /// The fields that pods of one workload share.
    pub common: Arc<Common>,
    /// The pod has a deletion timestamp: topology spread no longer counts it, other plugins do.
    pub terminating: bool,
    /// The pod's volumes; `None` if no plugin reads any of them.
    pub volumes: Option<Arc<PodVolumes>>,
    /// The metadata fields that plugins read, sorted; fields that the pod lacks are absent. Filled by [`PodInfo::showing`].
    pub fields: Vec<(PodField, Arc<str>)>,
    /// The pod's device claims; `None` without claims and extended resources.
    pub devices: Option<Arc<PodDevices>>,
    /// Only nodes of this domain are candidates: in an attempt at a pod group with a topology constraint. Not sent to workers.
    #[serde(skip)]
    pub within: Option<Arc<TopologyDomain>>,
}

/// The fields of a class that pods of one workload share, also if they differ in a label or in a claim. A [`Class`] dereferences to them. A
/// change of such a field of a class copies them if another class shares them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Common {
    /// The pod's requests from its spec: containers, sidecars, init containers, pod-level resources, overhead.
    pub requests: Resources,
    /// The request for the NodeResourcesFit score: `requests` without pod-level resources, with 100m CPU and 200 MiB for each container
    /// that sets none.
    pub score_requests: Resources,
    /// The amounts charged to the node of the pod. They differ from `requests` during an in-place resize.
    pub accounted: Resources,
    /// CPU, in thousandths, charged to the node's "non-zero" account.
    pub nonzero_milli_cpu: i64,
    /// Memory, in bytes, charged to the node's "non-zero" account.
    pub nonzero_memory: i64,
    /// The only feasible node: of a pod with a deferred resize, its own node. `None` for all other pods, bound or not.
    pub node_name: Option<Arc<str>>,
    /// The pod is bound to `node_name`, and its kubelet has deferred a resize. Only with the gate
    /// `InPlacePodVerticalScalingSchedulerPreemption`.
    pub resize_deferred: bool,
    /// `spec.nodeSelector`, sorted by key.
    pub node_selector: Vec<(Arc<str>, Arc<str>)>,
    /// Required node affinity: at least one term must match. `None`: no such affinity; empty: no node matches.
    pub required_terms: Option<Vec<NodeTerm>>,
    /// Preferred node affinity with weights, in the pod's order.
    pub preferred_terms: Vec<(i32, NodeTerm)>,
    /// The pod's tolerations, in its order.
    pub tolerations: Vec<Toleration>,
    /// Host ports of containers and restartable init containers.
    pub host_ports: Vec<HostPort>,
    /// The kubelet features that the pod requires.
    pub declared_features: DeclaredFeatures,
    /// Normalised names of the images of init containers, containers and image volumes, in that order, repeats kept.
    pub images: Vec<Arc<str>>,
    /// `spec.topologySpreadConstraints`, in the pod's order.
    pub spread: Vec<SpreadConstraint>,
    /// `spec.affinity.podAffinity` and `spec.affinity.podAntiAffinity`.
    pub pod_affinity: PodAffinity,
    /// The pod's controller, if default spread constraints may need its selector: only for a pod that has no constraints.
    pub owner: Option<Owner>,
}

impl Deref for Class {
    type Target = Common;

    fn deref(&self) -> &Common {
        &self.common
    }
}

impl DerefMut for Class {
    fn deref_mut(&mut self) -> &mut Common {
        Arc::make_mut(&mut self.common)
    }
}

impl Class {
    /// Whether the pod references API objects that a plugin keeps ([`ObjectCache`](crate::extension::objects::ObjectCache)).
    #[must_use]
    pub const fn uses_objects(&self) -> bool {
        self.volumes.is_some() || self.devices.is_some()
    }

    /// A metadata field; `None` if the pod lacks it, or if no plugin lists it in
    /// [`Plugin::pod_fields`](crate::extension::Plugin::pod_fields).
    #[must_use]
    pub fn field(&self, field: &PodField) -> Option<&str> {
        let place = self.fields.binary_search_by(|(known, _)| known.cmp(field)).ok()?;
        self.fields.get(place).map(|(_, value)| &**value)
    }
}

/// One constraint of `spec.topologySpreadConstraints`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SpreadConstraint {
    /// The maximum difference in pods between two domains; at least 1.
    pub max_skew: i32,
    /// The topology key.
    pub topology_key: Arc<str>,
    /// `DoNotSchedule`: a filter. Otherwise, as for `ScheduleAnyway`, a score.
    pub required: bool,
    /// Selects the pods that are counted, with `matchLabelKeys` merged; `Err` if the selector is invalid.
    pub selector: Result<LabelSelector, Arc<str>>,
    /// With fewer domains than this, the lowest count is 0.
    pub min_domains: i32,
    /// `nodeAffinityPolicy: Honor`: nodes that do not match the pod's node selector and required node affinity do not count.
    pub honors_affinity: bool,
    /// `nodeTaintsPolicy: Honor`: nodes with hard taints that the pod does not tolerate do not count.
    pub honors_taints: bool,
}

/// Pod affinity and anti-affinity. An invalid list is empty, and [`Self::error`] has the error.
/// Source: `framework.NewPodInfo`, which drops such a list from a pod that is already on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PodAffinity {
    /// Required affinity: a domain needs a pod that matches all of these.
    pub required: Vec<AffinityTerm>,
    /// Required anti-affinity: a domain must have no pod that matches any of these.
    pub required_anti: Vec<AffinityTerm>,
    /// Preferred affinity with weights.
    pub preferred: Vec<(i32, AffinityTerm)>,
    /// Preferred anti-affinity with weights.
    pub preferred_anti: Vec<(i32, AffinityTerm)>,
    /// The error of an invalid list, in kube-scheduler's format.
    pub error: Option<Arc<str>>,
}

/// One term of a pod affinity or anti-affinity.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AffinityTerm {
    /// Selects the pods.
    pub selector: LabelSelector,
    /// Namespaces by name, sorted; the pod's own namespace if the term has no names and no selector.
    pub namespaces: Vec<Arc<str>>,
    /// Selects further namespaces by label.
    pub namespace_selector: LabelSelector,
    /// The topology key.
    pub topology_key: Arc<str>,
}

/// A pod's controller, of a kind that default spread constraints use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// The kind.
    pub kind: OwnerKind,
    /// The name; the namespace is the pod's.
    pub name: Arc<str>,
}

/// Kinds of controllers that default spread constraints use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum OwnerKind {
    /// `v1` ReplicationController.
    ReplicationController,
    /// `apps/v1` ReplicaSet.
    ReplicaSet,
    /// `apps/v1` StatefulSet.
    StatefulSet,
}

impl PodAffinity {
    /// Whether there is no term at all.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.required.is_empty()
            && self.required_anti.is_empty()
            && self.preferred.is_empty()
            && self.preferred_anti.is_empty()
    }

    /// All terms: required affinity, required anti-affinity, preferred affinity, preferred anti-affinity.
    pub fn terms(&self) -> impl Iterator<Item = &AffinityTerm> {
        let required = self.required.iter().chain(&self.required_anti);
        required.chain(self.preferred.iter().chain(&self.preferred_anti).map(|(_, term)| term))
    }
}

/// A toleration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Toleration {
    /// The taint's key; empty means any.
    pub key: Arc<str>,
    /// `Exists`, or `Equal`, which an empty operator means too.
    pub operator: Arc<str>,
    /// The taint's value for `Equal`.
    pub value: Arc<str>,
    /// The taint's effect; empty means any.
    pub effect: Arc<str>,
}

/// A taint of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Taint {
    /// The key.
    pub key: Arc<str>,
    /// The value.
    pub value: Arc<str>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: Arc<str>,
}

impl Toleration {
    /// Whether this toleration tolerates a taint. Source: `v1.Toleration.ToleratesTaint` with comparison operators;
    /// [`crate::ingest::Features`] decides whether a class has any.
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && match self.operator.as_ref() {
                "" | "Equal" => self.value == taint.value,
                "Exists" => true,
                "Gt" => integers(&self.value, &taint.value).is_some_and(|(own, other)| other > own),
                "Lt" => integers(&self.value, &taint.value).is_some_and(|(own, other)| other < own),
                _ => false,
            }
    }
}

fn integers(own: &str, other: &str) -> Option<(i64, i64)> {
    Some((decimal_integer(own)?, decimal_integer(other)?))
}

/// A number without a plus sign, leading zeros or minus zero. Source: `content.IsDecimalInteger` and `strconv.ParseInt`.
fn decimal_integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_canonical = text == "0" || digits.starts_with(|first: char| ('1'..='9').contains(&first));
    text.parse().ok().filter(|_| is_canonical)
}

/// A host port of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostPort {
    /// The address; `0.0.0.0` means all addresses.
    pub ip: Arc<str>,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Arc<str>,
    /// 1..=65535.
    pub port: i32,
}

/// The address that means every address of the node.
pub const ANY_IP: &str = "0.0.0.0";

impl HostPort {
    /// Whether two pods with these ports cannot share a node. Source: `framework.HostPortInfo.CheckConflict`.
    #[must_use]
    pub fn conflicts(&self, other: &Self) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || &*self.ip == ANY_IP || &*other.ip == ANY_IP)
    }
}

/// One pod: its identity and state. Plugins read its class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodInfo {
    /// `metadata.uid`, the key of caches, binds and patches.
    pub uid: Arc<str>,
    /// `metadata.name`; the namespace is in the class.
    pub name: Arc<str>,
    /// The fields that plugins read.
    pub class: Arc<Class>,
    /// `spec.schedulerName`.
    pub scheduler_name: Arc<str>,
    /// `spec.priority`, 0 where absent.
    pub priority: i32,
    /// `spec.preemptionPolicy` is `Never`.
    pub never_preempts: bool,
    /// `status.startTime`, in nanoseconds since 1970.
    pub started_ns: Option<i64>,
    /// The pod is being deleted, and its `DisruptionTarget` condition has the reason PreemptionByScheduler.
    pub is_preempted: bool,
    /// The extended resources in requests or limits of containers and init containers, also with amount 0, sorted and unique. Extenders may
    /// manage them.
    pub extended_resources: Vec<Arc<str>>,
    /// `spec.schedulingGates`, in the pod's order.
    pub gates: Vec<Arc<str>>,
    /// The node that the pod is bound to.
    pub node_name: Option<Arc<str>>,
    /// `status.nominatedNodeName`: the node that is reserved for the pod, and that it tries first.
    pub nominated_node_name: Option<Arc<str>>,
    /// Whether it has a deletion timestamp.
    pub deleting: bool,
    /// Whether the pod succeeded or failed, and so no longer uses resources.
    pub finished: bool,
    /// `metadata.generation`, for the condition's `observedGeneration`.
    pub generation: i64,
    /// `spec.schedulingGroup.podGroupName`: the pod group in the pod's namespace. Ignored without the gate GenericWorkload.
    pub scheduling_group: Option<Arc<str>>,
    /// The current `PodScheduled` condition.
    pub condition: Option<Scheduled>,
    /// The summed limits of the containers, for metrics; `None` without limits. 8 B a pod, some 64 B more with limits.
    pub limits: Option<Box<Resources>>,
    /// The annotation `traceparent`: the trace of the client that created the pod. 8 B a pod, 48 B more if set.
    pub trace_parent: Option<Box<Parent>>,
    /// The field that is too large. Such a pod is not scheduled, and its class is cut ([`crate::excess`]).
    pub excess: Option<Arc<str>>,
    /// The invalid amount of a bound pod. Its node is charged with all of that resource.
    pub unreadable: Option<Arc<str>>,
}

/// The `PodScheduled` condition of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduled {
    /// Whether its status is `True`.
    pub status: bool,
    /// The reason.
    pub reason: Arc<str>,
    /// The message.
    pub message: Arc<str>,
}

impl PodInfo {
    /// The pod with exactly these fields, which are sorted, in its class; the same pod if nothing changes.
    #[must_use]
    pub fn showing(self: &Arc<Self>, fields: &[PodField]) -> Arc<Self> {
        if fields.is_empty() && self.class.fields.is_empty() {
            return Arc::clone(self);
        }
        let value = |field: &PodField| match field {
            PodField::Name => Some(Arc::clone(&self.name)),
            PodField::Namespace => Some(Arc::clone(&self.class.namespace)),
            PodField::Labels => {
                let labels = self.class.labels.iter().map(|(key, value)| (key.to_string(), (**value).into()));
                Some(serde_json::Value::Object(labels.collect()).to_string().into())
            }
            PodField::Label(key) => {
                let mut labels = self.class.labels.iter();
                labels.find(|(known, _)| known == key).map(|(_, value)| Arc::clone(value))
            }
        };
        let fields: Vec<_> = fields.iter().filter_map(|field| Some((field.clone(), value(field)?))).collect();
        if fields == self.class.fields {
            return Arc::clone(self);
        }
        let class = Arc::new(Class { fields, ..Class::clone(&self.class) });
        Arc::new(Self { class, ..Self::clone(self) })
    }

    /// `namespace/name`, as in messages.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/{}", self.class.namespace, self.name)
    }
}
