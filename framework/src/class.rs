//! Pods as the plugins see them: what any plugin reads is the [`Class`], what tells two equal pods apart is the
//! [`PodInfo`].
//!
//! Knows: the fields of a pod that scheduling reads. Must not know: the Kubernetes objects they come from (that is
//! [`crate::ingest`]) or any plugin.

use std::sync::Arc;

use crate::resources::Resources;

/// The number that the owner of the cluster state gave to a [`Class`]; never used twice within one epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u64);

/// Everything about a pod that any plugin reads. Two pods with equal classes get equal verdicts from every node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Class {
    /// The pod's namespace.
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
    /// Normalised names of the images of init containers, containers and image volumes, in that order, repeats kept.
    pub images: Vec<Arc<str>>,
    /// What the pod asks of plugins that are not built yet; such a pod is held back where the profile has the plugin.
    pub unbuilt: Vec<Unbuilt>,
}

/// A part of a pod's specification whose plugin is not built yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unbuilt {
    /// `spec.topologySpreadConstraints` with `whenUnsatisfiable: DoNotSchedule`.
    TopologySpread,
    /// Required pod affinity or anti-affinity.
    PodAffinity,
    /// A volume that is a claim, ephemeral or of a kind with limits.
    Volumes,
    /// `spec.resourceClaims`.
    ResourceClaims,
    /// Something that only nodes with a feature of their kubelet's can run.
    DeclaredFeatures,
}

impl Unbuilt {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::TopologySpread, Self::PodAffinity, Self::Volumes, Self::ResourceClaims, Self::DeclaredFeatures];

    /// The plugin whose law it is.
    #[must_use]
    pub const fn plugin(self) -> &'static str {
        match self {
            Self::TopologySpread => "PodTopologySpread",
            Self::PodAffinity => "InterPodAffinity",
            Self::Volumes => "VolumeBinding",
            Self::ResourceClaims => "DynamicResources",
            Self::DeclaredFeatures => "NodeDeclaredFeatures",
        }
    }

    /// What the pod has that needs it.
    #[must_use]
    pub const fn what(self) -> &'static str {
        match self {
            Self::TopologySpread => "topologySpreadConstraints with whenUnsatisfiable: DoNotSchedule",
            Self::PodAffinity => "required pod affinity or anti-affinity",
            Self::Volumes => "volumes that are claims",
            Self::ResourceClaims => "resourceClaims",
            Self::DeclaredFeatures => "fields that need a declared feature of the node",
        }
    }
}

/// One term of a node affinity: all its requirements must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeTerm {
    /// Requirements on labels.
    pub expressions: Vec<Requirement>,
    /// Requirements on fields; the only field is `metadata.name`.
    pub fields: Vec<Requirement>,
}

/// One requirement of a term.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// Label key or field name.
    pub key: Arc<str>,
    /// The operator as written (`In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`); an unknown one matches nothing.
    pub operator: Arc<str>,
    /// The values.
    pub values: Vec<Arc<str>>,
}

/// A toleration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
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
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// `spec.schedulingGates`, in the pod's order.
    pub gates: Vec<Arc<str>>,
    /// The node it is bound to.
    pub node_name: Option<Arc<str>>,
    /// Whether it has a deletion timestamp.
    pub deleting: bool,
    /// Whether it has succeeded or failed and so uses nothing any more.
    pub finished: bool,
    /// `metadata.generation`, for the condition's `observedGeneration`.
    pub generation: i64,
    /// What its `PodScheduled` condition says now.
    pub condition: Option<Scheduled>,
}

/// The `PodScheduled` condition of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheduled {
    /// Whether its status is `True`.
    pub status: bool,
    /// The reason.
    pub reason: Arc<str>,
    /// The message.
    pub message: Arc<str>,
}

impl PodInfo {
    /// `namespace/name`, as messages name a pod.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/{}", self.class.namespace, self.name)
    }
}
