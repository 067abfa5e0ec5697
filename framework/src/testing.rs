//! Builders for tests: a pod, a class or a node in one line each.

use std::sync::Arc;

use crate::{
    class::{
        AffinityTerm, Class, Common, HostPort, NodeTerm, PodInfo, Requirement, SpreadConstraint, Taint, Toleration,
    },
    declared::DeclaredFeatures,
    excess,
    labels::{LabelRequirement, LabelSelector},
    node::NodeInfo,
    quantity::Quantity,
    resources::Resources,
    volumes::mounts::{Mount, Owner, PodVolumes},
};

pub mod checks;
pub mod licences;
mod stock;
pub mod storage;

pub use stock::{pod_group, profile};

/// A pod being built.
#[derive(Debug, Clone)]
pub struct PodBuilder {
    pod: PodInfo,
    class: Class,
}

/// A pending pod of the default scheduler without requests, in namespace `default`.
#[must_use]
pub fn pod(name: &str) -> PodBuilder {
    let common = Common {
        score_requests: Resources { milli_cpu: 100, memory: 200 << 20, ..Resources::default() },
        nonzero_milli_cpu: 100,
        nonzero_memory: 200 << 20,
        images: vec!["pause:latest".into()],
        ..Common::default()
    };
    let class = Class { namespace: "default".into(), common: Arc::new(common), ..Class::default() };
    PodBuilder {
        pod: PodInfo {
            uid: format!("uid-{name}").into(),
            name: name.into(),
            class: Arc::default(),
            scheduler_name: "default-scheduler".into(),
            priority: 0,
            never_preempts: false,
            started_ns: None,
            is_preempted: false,
            extended_resources: Vec::new(),
            gates: Vec::new(),
            node_name: None,
            nominated_node_name: None,
            deleting: false,
            finished: false,
            generation: 1,
            scheduling_group: None,
            condition: None,
            limits: None,
            trace_parent: None,
            excess: None,
            unreadable: None,
        },
        class,
    }
}

fn set(resources: &mut Resources, name: &str, amount: &str) {
    let quantity = Quantity::parse(amount).expect("a quantity");
    let one = Resources::from_quantities([(name, quantity)]);
    match name {
        "cpu" => resources.milli_cpu = one.milli_cpu,
        "memory" => resources.memory = one.memory,
        "ephemeral-storage" => resources.ephemeral_storage = one.ephemeral_storage,
        _ => {
            resources.scalars.extend(one.scalars);
            resources.scalars.sort_unstable();
        }
    }
}

impl PodBuilder {
    /// Requests an amount of a resource.
    #[must_use]
    pub fn request(mut self, name: &str, amount: &str) -> Self {
        set(&mut self.class.requests, name, amount);
        if name.contains('/') && !self.pod.extended_resources.iter().any(|known| **known == *name) {
            self.pod.extended_resources.push(name.into());
            self.pod.extended_resources.sort_unstable();
        }
        set(&mut self.class.accounted, name, amount);
        set(&mut self.class.score_requests, name, amount);
        self.class.nonzero_milli_cpu = self.class.score_requests.milli_cpu;
        self.class.nonzero_memory = self.class.score_requests.memory;
        self
    }

    /// Sets the priority.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.pod.priority = priority;
        self
    }

    /// Sets the start time, in seconds since 1970.
    #[must_use]
    pub fn started(mut self, second: i64) -> Self {
        self.pod.started_ns = Some(second * 1_000_000_000);
        self
    }

    /// Sets `preemptionPolicy: Never`.
    #[must_use]
    pub fn never_preempts(mut self) -> Self {
        self.pod.never_preempts = true;
        self
    }

    /// Marks the pod as being deleted after preemption.
    #[must_use]
    pub fn preempted(mut self) -> Self {
        self.pod.is_preempted = true;
        self.pod.deleting = true;
        self.class.terminating = true;
        self
    }

    /// Sets the scheduler name.
    #[must_use]
    pub fn scheduler(mut self, name: &str) -> Self {
        self.pod.scheduler_name = name.into();
        self
    }

    /// Sets the UID, for recreated pods.
    #[must_use]
    pub fn uid(mut self, uid: &str) -> Self {
        self.pod.uid = uid.into();
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.class.labels.push((key.into(), value.into()));
        self.class.labels.sort_unstable();
        self
    }

    /// Adds a scheduling gate.
    #[must_use]
    pub fn gate(mut self, name: &str) -> Self {
        self.pod.gates.push(name.into());
        self
    }

    /// Requires a node label by `nodeSelector`.
    #[must_use]
    pub fn node_selector(mut self, key: &str, value: &str) -> Self {
        self.class.node_selector.push((key.into(), value.into()));
        self
    }

    /// Adds a required term with one requirement on a label.
    #[must_use]
    pub fn require(mut self, key: &str, operator: &str, values: &[&str]) -> Self {
        let term = NodeTerm { expressions: vec![requirement(key, operator, values)], fields: Vec::new() };
        self.class.required_terms.get_or_insert_default().push(term);
        self
    }

    /// Adds a required term that names a node.
    #[must_use]
    pub fn require_node(mut self, name: &str) -> Self {
        let term = NodeTerm { expressions: Vec::new(), fields: vec![requirement("metadata.name", "In", &[name])] };
        self.class.required_terms.get_or_insert_default().push(term);
        self
    }

    /// Adds a preferred term with one requirement on a label.
    #[must_use]
    pub fn prefer(mut self, weight: i32, key: &str, operator: &str, values: &[&str]) -> Self {
        let term = NodeTerm { expressions: vec![requirement(key, operator, values)], fields: Vec::new() };
        self.class.preferred_terms.push((weight, term));
        self
    }

    /// Tolerates a taint.
    #[must_use]
    pub fn tolerate(mut self, key: &str, operator: &str, value: &str, effect: &str) -> Self {
        let (key, operator, value, effect) = (key.into(), operator.into(), value.into(), effect.into());
        self.class.tolerations.push(Toleration { key, operator, value, effect });
        self
    }

    /// Requires a feature of the node's kubelet.
    #[must_use]
    pub fn need(mut self, feature: &str) -> Self {
        self.class.declared_features = self.class.declared_features.with(DeclaredFeatures::named([feature]));
        self
    }

    /// Uses a TCP port of the node.
    #[must_use]
    pub fn host_port(mut self, port: i32) -> Self {
        self.class.host_ports.push(HostPort { ip: "0.0.0.0".into(), protocol: "TCP".into(), port });
        self
    }

    /// Uses a port of the node, for one address and protocol.
    #[must_use]
    pub fn host_port_on(mut self, ip: &str, protocol: &str, port: i32) -> Self {
        self.class.host_ports.push(HostPort { ip: ip.into(), protocol: protocol.into(), port });
        self
    }

    /// Uses an image instead of the default one.
    #[must_use]
    pub fn image(mut self, name: &str) -> Self {
        self.class.images = vec![name.into()];
        self
    }

    /// Sets the namespace.
    #[must_use]
    pub fn namespace(mut self, name: &str) -> Self {
        self.class.namespace = name.into();
        self
    }

    /// Adds a required spread constraint over a label's domains, for pods with a label.
    #[must_use]
    pub fn spread(self, max_skew: i32, key: &str, label: (&str, &str)) -> Self {
        self.spread_with(max_skew, key, label, |_| {})
    }

    /// Adds a preferred spread constraint over a label's domains, for pods with a label.
    #[must_use]
    pub fn prefer_spread(self, max_skew: i32, key: &str, label: (&str, &str)) -> Self {
        self.spread_with(max_skew, key, label, |constraint| constraint.required = false)
    }

    /// As [`Self::spread`], with a change to the constraint.
    #[must_use]
    pub fn spread_with(
        mut self,
        max_skew: i32,
        key: &str,
        label: (&str, &str),
        change: impl FnOnce(&mut SpreadConstraint),
    ) -> Self {
        let mut constraint = SpreadConstraint {
            max_skew,
            topology_key: key.into(),
            required: true,
            selector: Ok(selecting(label)),
            min_domains: 1,
            honors_affinity: true,
            honors_taints: false,
        };
        change(&mut constraint);
        self.class.spread.push(constraint);
        self
    }

    /// Requires affinity to pods with a label.
    #[must_use]
    pub fn near(mut self, key: &str, label: (&str, &str)) -> Self {
        self.class.pod_affinity.required.push(term(key, label));
        self
    }

    /// Requires anti-affinity to pods with a label.
    #[must_use]
    pub fn far(mut self, key: &str, label: (&str, &str)) -> Self {
        self.class.pod_affinity.required_anti.push(term(key, label));
        self
    }

    /// Prefers affinity to pods with a label.
    #[must_use]
    pub fn prefer_near(mut self, weight: i32, key: &str, label: (&str, &str)) -> Self {
        self.class.pod_affinity.preferred.push((weight, term(key, label)));
        self
    }

    /// Prefers anti-affinity to pods with a label.
    #[must_use]
    pub fn prefer_far(mut self, weight: i32, key: &str, label: (&str, &str)) -> Self {
        self.class.pod_affinity.preferred_anti.push((weight, term(key, label)));
        self
    }

    /// Adds a claim.
    #[must_use]
    pub fn claim(self, name: &str) -> Self {
        self.mount(Mount::Claim(name.into()))
    }

    /// Adds an ephemeral volume.
    #[must_use]
    pub fn ephemeral(mut self, volume: &str) -> Self {
        let name = format!("{}-{volume}", self.pod.name);
        let owner = Owner { name: self.pod.name.clone(), uid: self.pod.uid.clone() };
        self = self.mount(Mount::Ephemeral(name.into()));
        Arc::make_mut(self.class.volumes.get_or_insert_default()).owner = Some(owner);
        self
    }

    /// Adds a volume.
    #[must_use]
    pub fn mount(mut self, mount: Mount) -> Self {
        let volumes: &mut PodVolumes = Arc::make_mut(self.class.volumes.get_or_insert_default());
        volumes.mounts.push(mount);
        self
    }

    /// Sets a deletion timestamp.
    #[must_use]
    pub fn terminating(mut self) -> Self {
        self.pod.deleting = true;
        self.class.terminating = true;
        self
    }

    /// The pod's class.
    #[must_use]
    pub fn into_class(self) -> Class {
        let mut class = self.class;
        let namespace = Arc::clone(&class.namespace);
        let affinity = &mut class.pod_affinity;
        let required = affinity.required.iter_mut().chain(&mut affinity.required_anti);
        let preferred = affinity.preferred.iter_mut().chain(&mut affinity.preferred_anti).map(|(_, term)| term);
        for term in required.chain(preferred) {
            if term.namespaces.is_empty() && term.namespace_selector == LabelSelector::Nothing {
                term.namespaces.push(Arc::clone(&namespace));
            }
        }
        class
    }

    /// Adds the pod to a pod group.
    #[must_use]
    pub fn group(mut self, name: &str) -> Self {
        self.pod.scheduling_group = Some(name.into());
        self
    }

    /// Binds the pod to a node.
    #[must_use]
    pub fn on(mut self, node: &str) -> Self {
        self.pod.node_name = Some(node.into());
        self
    }

    /// Nominates the pod to a node.
    #[must_use]
    pub fn nominated(mut self, node: &str) -> Self {
        self.pod.nominated_node_name = Some(node.into());
        self
    }

    /// Applies any other change to the class.
    #[must_use]
    pub fn class(mut self, change: impl FnOnce(&mut Class)) -> Self {
        change(&mut self.class);
        self
    }

    /// Sets the required node name without binding the pod.
    #[must_use]
    pub fn wants(mut self, node: &str) -> Self {
        self.class.node_name = Some(node.into());
        self
    }

    /// Binds the pod to a node, where its resize is deferred.
    #[must_use]
    pub fn resize_deferred_on(mut self, node: &str) -> Self {
        self.class.resize_deferred = true;
        self.wants(node).on(node)
    }

    /// The pod, cut if too large, as one from the API.
    #[must_use]
    pub fn build(self) -> PodInfo {
        let pod = self.pod.clone();
        let (class, excess) = excess::cut(self.into_class(), pod.node_name.is_some());
        PodInfo { class: Arc::new(class), excess, ..pod }
    }
}

/// The selector of pods with a label.
#[must_use]
pub fn selecting((key, value): (&str, &str)) -> LabelSelector {
    LabelSelector::Matching(vec![LabelRequirement::equal(&key.into(), &value.into())])
}

/// A term about pods with a label in the pod's own namespace.
#[must_use]
pub fn term(key: &str, label: (&str, &str)) -> AffinityTerm {
    AffinityTerm { selector: selecting(label), topology_key: key.into(), ..AffinityTerm::default() }
}

fn requirement(key: &str, operator: &str, values: &[&str]) -> Requirement {
    let values = values.iter().map(|&value| value.into()).collect();
    Requirement { key: key.into(), operator: operator.into(), values }
}

/// A node being built.
#[derive(Debug, Clone)]
pub struct NodeBuilder(NodeInfo);

/// A node with 4 CPUs, 16 GiB of memory, 110 allowed pods and its hostname as a label.
#[must_use]
pub fn node(name: &str) -> NodeBuilder {
    NodeBuilder(NodeInfo {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        labels: vec![("kubernetes.io/hostname".into(), name.into())],
        allocatable: Resources { milli_cpu: 4000, memory: 16 << 30, ..Resources::default() },
        allowed_pods: 110,
        ..NodeInfo::default()
    })
}

impl NodeBuilder {
    /// Sets the allocatable amount of a resource, or of `pods`.
    #[must_use]
    pub fn capacity(mut self, name: &str, amount: &str) -> Self {
        if name == "pods" {
            self.0.allowed_pods = Quantity::parse(amount).expect("a quantity").units();
        } else {
            set(&mut self.0.allocatable, name, amount);
        }
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0.labels.push((key.into(), value.into()));
        self.0.labels.sort_unstable();
        self
    }

    /// Adds a taint.
    #[must_use]
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        self.0.taints.push(Taint { key: key.into(), value: value.into(), effect: effect.into() });
        self
    }

    /// Declares a kubelet feature.
    #[must_use]
    pub fn declare(mut self, feature: &str) -> Self {
        self.0.declared_features = self.0.declared_features.with(DeclaredFeatures::named([feature]));
        self
    }

    /// Cordons the node.
    #[must_use]
    pub fn cordon(mut self) -> Self {
        self.0.unschedulable = true;
        self
    }

    /// Disables preemption for deferred resizes.
    #[must_use]
    pub fn without_resize_preemption(mut self) -> Self {
        self.0.resize_preemption_disabled = true;
        self
    }

    /// Adds an image with a size in bytes.
    #[must_use]
    pub fn image(mut self, name: &str, size: i64) -> Self {
        self.0.images.push((vec![name.into()], size));
        self
    }

    /// The node.
    #[must_use]
    pub fn build(self) -> NodeInfo {
        self.0
    }
}
