//! Builders for tests: a pod, a class and a node in one line each.
//!
//! Knows: the shortest way to say what a test is about. Must not know: any plugin.

use std::sync::Arc;

use crate::{
    class::{Class, HostPort, NodeTerm, PodInfo, Requirement, Taint, Toleration},
    node::NodeInfo,
    profile::{Plugins, Profile, WeightedPlugin},
    quantity::Quantity,
    resources::Resources,
};

pub mod checks;

/// A pod being built.
#[derive(Debug, Clone)]
pub struct PodBuilder {
    pod: PodInfo,
    class: Class,
}

/// A pending pod of the default scheduler that asks for nothing, in namespace `default`.
#[must_use]
pub fn pod(name: &str) -> PodBuilder {
    let class = Class {
        namespace: "default".into(),
        score_requests: Resources { milli_cpu: 100, memory: 200 << 20, ..Resources::default() },
        nonzero_milli_cpu: 100,
        nonzero_memory: 200 << 20,
        images: vec!["pause:latest".into()],
        ..Class::default()
    };
    PodBuilder {
        pod: PodInfo {
            uid: format!("uid-{name}").into(),
            name: name.into(),
            class: Arc::default(),
            scheduler_name: "default-scheduler".into(),
            priority: 0,
            gates: Vec::new(),
            node_name: None,
            deleting: false,
            finished: false,
            generation: 1,
            condition: None,
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
    /// Asks for an amount of a resource.
    #[must_use]
    pub fn request(mut self, name: &str, amount: &str) -> Self {
        set(&mut self.class.requests, name, amount);
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

    /// Sets the scheduler's name.
    #[must_use]
    pub fn scheduler(mut self, name: &str) -> Self {
        self.pod.scheduler_name = name.into();
        self
    }

    /// Sets the UID, for pods that come again under the same name.
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

    /// Takes a TCP port of the node.
    #[must_use]
    pub fn host_port(mut self, port: i32) -> Self {
        self.class.host_ports.push(HostPort { ip: "0.0.0.0".into(), protocol: "TCP".into(), port });
        self
    }

    /// Takes a port of the node, for one address and protocol.
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

    /// Is bound to a node already.
    #[must_use]
    pub fn on(mut self, node: &str) -> Self {
        self.pod.node_name = Some(node.into());
        self
    }

    /// Applies any other change to the class.
    #[must_use]
    pub fn class(mut self, change: impl FnOnce(&mut Class)) -> Self {
        change(&mut self.class);
        self
    }

    /// Names its node without being bound to it.
    #[must_use]
    pub fn wants(mut self, node: &str) -> Self {
        self.class.node_name = Some(node.into());
        self
    }

    /// The pod.
    #[must_use]
    pub fn build(self) -> PodInfo {
        PodInfo { class: Arc::new(self.class), ..self.pod }
    }
}

fn requirement(key: &str, operator: &str, values: &[&str]) -> Requirement {
    let values = values.iter().map(|&value| value.into()).collect();
    Requirement { key: key.into(), operator: operator.into(), values }
}

/// A node being built.
#[derive(Debug, Clone)]
pub struct NodeBuilder(NodeInfo);

/// A node with 4 CPUs, 16 GiB of memory, room for 110 pods and its hostname as a label.
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
    /// Sets the allocatable amount of a resource, `pods` included.
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

    /// Cordons the node.
    #[must_use]
    pub fn cordon(mut self) -> Self {
        self.0.unschedulable = true;
        self
    }

    /// Holds an image of a size in bytes.
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

/// The profile `default-scheduler` with every plugin that is built, in the stock order and weights.
#[must_use]
pub fn profile() -> Profile {
    let names = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let filters = ["NodeName", "NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit"];
    let scores = [
        ("TaintToleration", 3),
        ("NodeAffinity", 2),
        ("NodeResourcesFit", 1),
        ("NodeResourcesBalancedAllocation", 1),
        ("ImageLocality", 1),
    ];
    Profile {
        scheduler_name: "default-scheduler".into(),
        percentage_of_nodes_to_score: None,
        plugins: Plugins {
            pre_enqueue: names(&["SchedulingGates"]),
            queue_sort: names(&["PrioritySort"]),
            pre_filter: names(&filters),
            filter: names(&filters),
            pre_score: names(&[
                "TaintToleration",
                "NodeAffinity",
                "NodeResourcesFit",
                "NodeResourcesBalancedAllocation",
            ]),
            score: scores.map(|(name, weight)| WeightedPlugin { name: name.to_owned(), weight }).to_vec(),
            bind: names(&["DefaultBinder"]),
            ..Plugins::default()
        },
        args: crate::profile::Args::default(),
    }
}
