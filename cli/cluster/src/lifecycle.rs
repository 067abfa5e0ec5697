//! Data for the controllers and kubelets of a cluster from files. Scheduling does not read them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use flotilla_framework::{class::PodInfo, excess::objects, map::Map};
use flotilla_workloads::{Made, RolloutPod, Strategy, Workload};
use k8s_openapi::{
    api::{
        core::v1::Pod,
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
    },
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};

use super::{admission::Quotas, workloads};

/// Marks the mirror pod of a static pod.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The annotation of Cluster Autoscaler.
const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";

/// The annotations by which autoscalers keep the node of a pod, with their value.
const KEEPING: [(&str, &str, &str); 2] = [
    (SAFE_TO_EVICT, "false", "cluster-autoscaler.kubernetes.io/safe-to-evict=false"),
    ("karpenter.sh/do-not-disrupt", "true", "karpenter.sh/do-not-disrupt=true"),
];

/// Namespace and name.
pub type Key = (Arc<str>, Arc<str>);

/// The objects and fields that controllers and kubelets read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lifecycle {
    /// The pods with fields other than the defaults, by UID.
    pub pods: Map<Arc<str>, PodFacts>,
    /// The controllers of the input with a number of replicas.
    pub scales: BTreeMap<Arc<Owner>, Scale>,
    /// The specs of disruption budgets; those without one are never computed.
    pub budgets: BTreeMap<Key, BudgetSpec>,
    /// The workloads that replace pods of an old template, in input order.
    pub rollouts: Vec<Rollout>,
    /// The StatefulSets that create their pods in order, in input order.
    pub sequences: Vec<Sequence>,
    /// The quotas, charged with all bound and pending pods.
    pub quotas: Quotas,
    /// The pending pods that are created after everything else has happened.
    pub last: BTreeSet<Key>,
}

/// A controller of pods.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// The kind.
    pub kind: Box<str>,
    /// `namespace/name`.
    pub key: Box<str>,
}

/// The replicas of a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scale {
    /// The controller with the number: the Deployment of a ReplicaSet, else the controller itself.
    pub root: Arc<Owner>,
    /// `spec.replicas`.
    pub replicas: i32,
}

/// The fields of a pod that kubelets and evictions read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// The controller.
    pub owner: Option<Arc<Owner>>,
    /// The status says that the pod is not ready, though it is bound.
    pub is_unready: bool,
    /// `status.phase` is Pending.
    pub is_pending: bool,
    /// A mirror pod of a static pod.
    pub is_mirror: bool,
    /// The pod has a volume of type emptyDir.
    pub has_empty_dir: bool,
    /// The annotation by which autoscalers keep the node of the pod.
    pub keeps_node: Option<&'static str>,
    /// The annotation `cluster-autoscaler.kubernetes.io/safe-to-evict: "true"`.
    pub is_safe_to_evict: bool,
}

impl PodFacts {
    /// Whether a DaemonSet controls the pod.
    #[must_use]
    pub fn is_of_daemon_set(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| &*owner.kind == "DaemonSet")
    }
}

/// The spec of a disruption budget, with the status that it has in the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetSpec {
    /// The pods that must stay available, or that may be unavailable.
    pub bound: BudgetBound,
    /// `unhealthyPodEvictionPolicy: AlwaysAllow`.
    pub allows_unhealthy: bool,
    /// `status.currentHealthy` and `status.desiredHealthy`; `None` for a hand-written budget.
    pub status: Option<(i32, i32)>,
}

/// The bound of a disruption budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetBound {
    /// `minAvailable`.
    Min(Amount),
    /// `maxUnavailable`.
    Max(Amount),
    /// Neither field, or one that is not valid.
    None,
}

/// A number of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// A number.
    Count(i32),
    /// A share of the expected pods.
    Percent(i32),
}

/// A workload that replaces pods of an old template.
#[derive(Debug, Clone, PartialEq)]
pub struct Rollout {
    /// Kind, namespace and name, such as `Deployment shop/web`.
    pub title: String,
    /// The strategy.
    pub strategy: Strategy,
    /// The current pods; the keys of pods that could not be read are among them.
    pub pods: Vec<RolloutPod>,
    /// The pods of the new template, which are not in the cluster yet. `None` for a pod that cannot be created.
    pub new: Vec<Option<Arc<PodInfo>>>,
}

/// A StatefulSet that creates a pod when all pods before it are ready.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sequence {
    /// Kind, namespace and name, such as `StatefulSet shop/db`.
    pub title: String,
    /// All pods, by ordinal. The keys of pods that could not be read are among them.
    pub pods: Vec<Key>,
    /// The pods that the input lacks. The cluster lists them as pending.
    pub new: BTreeSet<Key>,
    /// The claims from `volumeClaimTemplates` that the input lacks. The cluster lists them too.
    pub claims: BTreeSet<Key>,
}

impl BudgetBound {
    /// The bound in a spec.
    #[must_use]
    pub fn of(spec: &PodDisruptionBudgetSpec) -> Self {
        let amount = |amount: &IntOrString| match amount {
            IntOrString::Int(count) => Some(Amount::Count(*count)),
            IntOrString::String(text) => text.strip_suffix('%')?.parse().ok().map(Amount::Percent),
        };
        match (&spec.max_unavailable, &spec.min_available) {
            (Some(max), _) => amount(max).map_or(Self::None, Self::Max),
            (None, Some(min)) => amount(min).map_or(Self::None, Self::Min),
            (None, None) => Self::None,
        }
    }
}

/// Collects the facts of pods while they are gathered.
#[derive(Default)]
pub(super) struct Facts {
    pub(super) lifecycle: Lifecycle,
    owners: HashMap<(String, String), Arc<Owner>>,
    /// The pods of an old template, each with the name of its workload.
    pub(super) outdated: BTreeMap<String, String>,
}

impl Facts {
    /// Notes the fields of a pod with defaults.
    pub(super) fn see_pod(&mut self, pod: &Pod, uid: &Arc<str>) {
        let facts = self.of_pod(pod);
        if facts != PodFacts::default() {
            self.lifecycle.pods.insert(Arc::clone(uid), facts);
        }
    }

    fn of_pod(&mut self, pod: &Pod) -> PodFacts {
        let status = pod.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
        let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready");
        let is_pending = status.and_then(|status| status.phase.as_deref()) == Some("Pending");
        let is_unready = ready.map_or(is_pending, |ready| ready.status != "True");
        let annotations = pod.metadata.annotations.as_ref();
        let has = |key: &str, value: &str| annotations.and_then(|all| all.get(key)).is_some_and(|found| found == value);
        let keeps_node = KEEPING.into_iter().find(|(key, value, _)| has(key, value)).map(|(_, _, shown)| shown);
        let mut volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        let mut owners = pod.metadata.owner_references.iter().flatten();
        let owner = owners.find(|owner| owner.controller == Some(true));
        let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
        PodFacts {
            owner: owner.map(|owner| self.owner(&owner.kind, format!("{namespace}/{}", owner.name))),
            is_unready,
            is_pending,
            is_mirror: annotations.is_some_and(|annotations| annotations.contains_key(MIRROR)),
            has_empty_dir: volumes.any(|volume| volume.empty_dir.is_some()),
            keeps_node,
            is_safe_to_evict: has(SAFE_TO_EVICT, "true"),
        }
    }

    fn owner(&mut self, kind: &str, key: String) -> Arc<Owner> {
        let owner = self.owners.entry((kind.to_owned(), key));
        let of =
            |(kind, key): &(String, String)| Arc::new(Owner { kind: kind.as_str().into(), key: key.as_str().into() });
        let made = of(owner.key());
        Arc::clone(owner.or_insert(made))
    }

    pub(super) fn see_budget(&mut self, budget: &PodDisruptionBudget, key: Key) {
        let spec = budget.spec.as_ref();
        // Such a budget allows no disruption.
        if objects::of_selector(spec.and_then(|spec| spec.selector.as_ref())).is_some() {
            return;
        }
        let bound = spec.map_or(BudgetBound::None, BudgetBound::of);
        let status = budget.status.as_ref().filter(|status| status.disruptions_allowed.is_some());
        let status = status.map(|status| (status.current_healthy.unwrap_or(0), status.desired_healthy.unwrap_or(0)));
        let policy = spec.and_then(|spec| spec.unhealthy_pod_eviction_policy.as_deref());
        let spec = BudgetSpec { bound, allows_unhealthy: policy == Some("AlwaysAllow"), status };
        self.lifecycle.budgets.insert(key, spec);
    }

    /// Notes the replicas of workloads.
    pub(super) fn see_scales(&mut self, workloads: &[Workload]) {
        for workload in workloads {
            let replicas = match workload {
                Workload::Deployment(object) => object.spec.replicas,
                Workload::ReplicaSet(object) => object.spec.replicas,
                Workload::StatefulSet(object) => object.spec.replicas,
                Workload::ReplicationController(object) => object.spec.as_ref().and_then(|spec| spec.replicas),
                Workload::CronJob(_) | Workload::Custom(_) | Workload::DaemonSet(_) | Workload::Job(_) => continue,
            };
            let metadata = workload.metadata();
            let own = self.owner(workload.kind(), workloads::key(metadata));
            let scale = Scale { root: Arc::clone(&own), replicas: replicas.unwrap_or(1) };
            self.lifecycle.scales.insert(own, scale);
        }
        // A ReplicaSet counts as its Deployment.
        for workload in workloads.iter().filter(|workload| matches!(workload, Workload::ReplicaSet(_))) {
            self.see_replica_set(workload.metadata());
        }
    }

    /// Notes the Deployment of a ReplicaSet.
    pub(super) fn see_replica_set(&mut self, metadata: &ObjectMeta) {
        let mut owners = metadata.owner_references.iter().flatten();
        let Some(owner) = owners.find(|owner| owner.controller == Some(true)) else { return };
        let namespace = metadata.namespace.as_deref().unwrap_or("default");
        let deployment = self.owner(&owner.kind, format!("{namespace}/{}", owner.name));
        if let Some(scale) = self.lifecycle.scales.get(&deployment).cloned() {
            let set = self.owner("ReplicaSet", workloads::key(metadata));
            self.lifecycle.scales.insert(set, scale);
        }
    }

    /// Adds the rollout of a workload, without its new pods, and returns its index.
    pub(super) fn add_rollout(&mut self, workload: &Workload, made: &Made) -> Option<usize> {
        let rollout = made.rollout.as_ref()?;
        let metadata = workload.metadata();
        let title = format!("{} {}", workload.kind(), workloads::key(metadata));
        let new = vec![None; rollout.new.len()];
        let rollout = Rollout { title, strategy: rollout.strategy, pods: rollout.pods.clone(), new };
        self.lifecycle.rollouts.push(rollout);
        Some(self.lifecycle.rollouts.len() - 1)
    }

    /// Adds a StatefulSet that creates its pods in order. `new` and `claims`: the pods and claims that the input lacks. All are
    /// `namespace/name`.
    pub(super) fn add_sequence(&mut self, title: String, order: &[String], new: &[String], claims: &[String]) {
        if order.len() < 2 {
            return;
        }
        let parsed = |key: &String| -> Key {
            let (namespace, name) = key.split_once('/').unwrap_or_default();
            (namespace.into(), name.into())
        };
        self.lifecycle.sequences.push(Sequence {
            title,
            pods: order.iter().map(parsed).collect(),
            new: new.iter().map(parsed).collect(),
            claims: claims.iter().map(parsed).collect(),
        });
    }

    /// Adds the pods that are created later, each with its rollout and its index there. The ReplicaSets of old pods count as their
    /// Deployment, also those that are not in the input.
    pub(super) fn finish<'a>(
        mut self,
        pods: impl Iterator<Item = &'a PodInfo>,
        later: Vec<(usize, usize, Arc<PodInfo>)>,
    ) -> Lifecycle {
        for (rollout, index, pod) in later {
            let place = self.lifecycle.rollouts.get_mut(rollout).and_then(|rollout| rollout.new.get_mut(index));
            place.into_iter().for_each(|place| *place = Some(Arc::clone(&pod)));
        }
        let deployments = self.lifecycle.rollouts.iter().filter_map(|rollout| {
            let key = rollout.title.strip_prefix("Deployment ")?;
            Some((key.to_owned(), rollout.pods.iter().map(|pod| pod.key.clone()).collect::<Vec<_>>()))
        });
        let deployments: Vec<(String, Vec<String>)> = deployments.collect();
        let mut of: HashMap<String, Arc<Owner>> = HashMap::new();
        for (deployment, keys) in deployments {
            let root = self.owner("Deployment", deployment);
            of.extend(keys.into_iter().map(|key| (key, Arc::clone(&root))));
        }
        if !of.is_empty() {
            for pod in pods {
                let Lifecycle { pods, scales, .. } = &mut self.lifecycle;
                let scale = of.get(&pod.key()).and_then(|root| scales.get(root).cloned());
                let owner = pods.get(&pod.uid).and_then(|facts| facts.owner.clone());
                scales.extend(owner.zip(scale));
            }
        }
        self.lifecycle
    }
}

impl Lifecycle {
    /// Adds the objects of `new`; each replaces one of its name.
    pub(super) fn join(&mut self, new: Self) {
        self.pods.extend(new.pods);
        self.scales.extend(new.scales);
        self.budgets.extend(new.budgets);
        self.rollouts.extend(new.rollouts);
        self.sequences.extend(new.sequences);
    }
}
