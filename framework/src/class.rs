//! Pods as the plugins see them: what any plugin reads is the [`Class`], what tells two equal pods apart is the
//! [`PodInfo`].
//!
//! Knows: the fields of a pod that scheduling reads. Must not know: the Kubernetes objects they come from (that is
//! [`crate::ingest`]) or any plugin.

mod term;

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::{
    declared::DeclaredFeatures, devices::claimed::PodDevices, extension::PodField, labels::LabelSelector,
    resources::Resources, trace::Parent, volumes::mounts::PodVolumes,
};

pub use term::{NodeTerm, Requirement};

/// The number that the owner of the cluster state gave to a [`Class`]; never used twice within one epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClassId(pub u64);

/// Everything about a pod that any plugin reads. Two pods with equal classes get equal verdicts from every node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Class {
    /// The pod's namespace; empty where nothing in play reads it ([`crate::signature`]).
    pub namespace: Arc<str>,
    /// The pod's labels, sorted by key.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    /// What the pod asks for: containers, sidecars, init containers, pod-level resources, overhead; by its spec alone.
    pub requests: Resources,
    /// The request that the NodeResourcesFit score adds: as `requests`, but without pod-level resources, and with
    /// 100m CPU and 200 MiB for each container that names none.
    pub score_requests: Resources,
    /// What a node's accounts are charged while the pod is on it; differs from `requests` during an in-place resize.
    pub accounted: Resources,
    /// CPU, in thousandths, charged to the node's "non-zero" account.
    pub nonzero_milli_cpu: i64,
    /// Memory, in bytes, charged to the node's "non-zero" account.
    pub nonzero_memory: i64,
    /// The only node that will do, for a pod that names one without being bound to it.
    pub node_name: Option<Arc<str>>,
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
    /// What the pod needs of its node's kubelet.
    pub declared_features: DeclaredFeatures,
    /// Normalised names of the images of init containers, containers and image volumes, in that order, repeats kept.
    pub images: Vec<Arc<str>>,
    /// `spec.topologySpreadConstraints`, in the pod's order.
    pub spread: Vec<SpreadConstraint>,
    /// `spec.affinity.podAffinity` and `spec.affinity.podAntiAffinity`.
    pub pod_affinity: PodAffinity,
    /// The controller that made the pod, where default spread constraints may ask for its selector: for a pod without
    /// constraints of its own.
    pub owner: Option<Owner>,
    /// The pod has a deletion timestamp: it does not count for topology spread any more, and for all else it does.
    pub terminating: bool,
    /// The pod's volumes; `None` where no plugin reads any of them.
    pub volumes: Option<Arc<PodVolumes>>,
    /// What plugins say that they read of the pod's metadata, with its values, sorted; a field that the pod lacks is left
    /// out. Only there once [`PodInfo::showing`] was asked for it.
    pub fields: Vec<(PodField, Arc<str>)>,
    /// What the pod claims of devices; `None` where it has neither claims nor containers that ask for extended resources.
    pub devices: Option<Arc<PodDevices>>,
}

// === impl Class ===

impl Class {
    /// Whether the pod names objects of the API that a plugin keeps
    /// ([`ObjectCache`](crate::extension::objects::ObjectCache)). One that names none costs such plugins nothing.
    #[must_use]
    pub const fn uses_objects(&self) -> bool {
        self.volumes.is_some() || self.devices.is_some()
    }

    /// A field of the pod's metadata; `None` where the pod lacks it, and where no plugin of any profile says that it reads
    /// it ([`Plugin::pod_fields`](crate::extension::Plugin::pod_fields)).
    #[must_use]
    pub fn field(&self, field: &PodField) -> Option<&str> {
        let place = self.fields.binary_search_by(|(known, _)| known.cmp(field)).ok()?;
        self.fields.get(place).map(|(_, value)| &**value)
    }
}

/// One constraint of `spec.topologySpreadConstraints`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SpreadConstraint {
    /// By how many pods a domain may be ahead; at least 1.
    pub max_skew: i32,
    /// The label key whose values are the domains.
    pub topology_key: Arc<str>,
    /// `DoNotSchedule`: a filter. Otherwise, as for `ScheduleAnyway`, a score.
    pub required: bool,
    /// Which pods are counted, the labels named by `matchLabelKeys` worked in; the error where it cannot be read.
    pub selector: Result<LabelSelector, Arc<str>>,
    /// With fewer domains than this the lowest count is taken for 0.
    pub min_domains: i32,
    /// `nodeAffinityPolicy: Honor`: nodes that the pod's node selector and required node affinity rule out do not count.
    pub honors_affinity: bool,
    /// `nodeTaintsPolicy: Honor`: nodes with hard taints that the pod does not tolerate do not count.
    pub honors_taints: bool,
}

/// A pod's wishes about other pods. A list that cannot be read is empty, and [`Self::error`] says why.
///
/// Source: `framework.NewPodInfo`, which drops such a list from a pod that stands on a node already.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PodAffinity {
    /// Required affinity: a pod that matches all of these must be there.
    pub required: Vec<AffinityTerm>,
    /// Required anti-affinity: no pod that matches any of these may be there.
    pub required_anti: Vec<AffinityTerm>,
    /// Preferred affinity with weights.
    pub preferred: Vec<(i32, AffinityTerm)>,
    /// Preferred anti-affinity with weights.
    pub preferred_anti: Vec<(i32, AffinityTerm)>,
    /// What cannot be read, in upstream's words.
    pub error: Option<Arc<str>>,
}

/// One term of a pod affinity or anti-affinity.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AffinityTerm {
    /// Which pods are meant.
    pub selector: LabelSelector,
    /// Namespaces by name, sorted; the pod's own where it names none and selects none.
    pub namespaces: Vec<Arc<str>>,
    /// Namespaces by label, besides those by name.
    pub namespace_selector: LabelSelector,
    /// The label key whose values are the domains.
    pub topology_key: Arc<str>,
}

/// The controller of a pod, of a kind whose selector default spread constraints use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// The kind.
    pub kind: OwnerKind,
    /// The name; the namespace is the pod's.
    pub name: Arc<str>,
}

/// Kinds of controllers whose selectors default spread constraints use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum OwnerKind {
    /// `v1` ReplicationController.
    ReplicationController,
    /// `apps/v1` ReplicaSet.
    ReplicaSet,
    /// `apps/v1` StatefulSet.
    StatefulSet,
}

// === impl PodAffinity ===

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
    /// Whether this toleration tolerates a taint.
    ///
    /// Source: `v1.Toleration.ToleratesTaint` with the comparison operators off, as they are by default in 1.37.
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && match self.operator.as_ref() {
                "" | "Equal" => self.value == taint.value,
                "Exists" => true,
                _ => false,
            }
    }
}

/// A port of the node that a pod takes for itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostPort {
    /// The address; `0.0.0.0` stands for all.
    pub ip: Arc<str>,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Arc<str>,
    /// 1..=65535.
    pub port: i32,
}

/// The address that means every address of the node.
pub const ANY_IP: &str = "0.0.0.0";

impl HostPort {
    /// Whether two pods with these ports cannot share a node.
    ///
    /// Source: `framework.HostPortInfo.CheckConflict`.
    #[must_use]
    pub fn conflicts(&self, other: &Self) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || &*self.ip == ANY_IP || &*other.ip == ANY_IP)
    }
}

/// One pod: who it is and where it stands. What the plugins read is in its class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodInfo {
    /// `metadata.uid`: what every cache, bind and patch is keyed by.
    pub uid: Arc<str>,
    /// `metadata.name`; the namespace is the class's.
    pub name: Arc<str>,
    /// What the plugins read.
    pub class: Arc<Class>,
    /// `spec.schedulerName`.
    pub scheduler_name: Arc<str>,
    /// `spec.priority`, 0 where absent.
    pub priority: i32,
    /// `spec.preemptionPolicy` is `Never`.
    pub never_preempts: bool,
    /// `status.startTime`, in nanoseconds since 1970.
    pub started_ns: Option<i64>,
    /// It is being deleted, and its `DisruptionTarget` condition says that a scheduler preempted it.
    pub is_preempted: bool,
    /// The extended resources that its containers and init containers name as requests or limits, be it none of one:
    /// what an extender may manage. Sorted, each once.
    pub extended_resources: Vec<Arc<str>>,
    /// `spec.schedulingGates`, in the pod's order.
    pub gates: Vec<Arc<str>>,
    /// The node it is bound to.
    pub node_name: Option<Arc<str>>,
    /// `status.nominatedNodeName`: the node that is kept free for it, and that it tries first.
    pub nominated_node_name: Option<Arc<str>>,
    /// Whether it has a deletion timestamp.
    pub deleting: bool,
    /// Whether it has succeeded or failed and so uses nothing any more.
    pub finished: bool,
    /// `metadata.generation`, for the condition's `observedGeneration`.
    pub generation: i64,
    /// `spec.schedulingGroup.podGroupName`: the pod group of its namespace that it is placed with. Without the gate
    /// GenericWorkload it is not read.
    pub scheduling_group: Option<Arc<str>>,
    /// What its `PodScheduled` condition says now.
    pub condition: Option<Scheduled>,
    /// The limits of its containers, summed up as its requests are, for metrics; `None` where it has none. 8 B a pod, and
    /// some 64 B more for one with limits.
    pub limits: Option<Box<Resources>>,
    /// The annotation `traceparent`: the trace of the client that created the pod. 8 B a pod, and 48 B more for one
    /// that has it.
    pub trace_parent: Option<Box<Parent>>,
    /// What is too large about the pod, so that it is not tried and its class is cut down ([`crate::excess`]).
    pub excess: Option<Arc<str>>,
    /// Which amount cannot be read of a pod that stands on a node, so that all of the resource is charged.
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
    /// The pod with these fields, sorted, in its class and no others of the kind; itself where nothing changes.
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

    /// `namespace/name`, as messages name a pod.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/{}", self.class.namespace, self.name)
    }
}
