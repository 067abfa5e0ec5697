//! Generates clusters. The same specification gives the same cluster on every machine.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{apps::v1::ReplicaSet, core::v1 as api},
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};

use crate::simulate::args::{Generate, Labels, Shape};

pub(super) mod devices;
mod mixed;
mod wishes;

const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
const ZONE: &str = "topology.kubernetes.io/zone";
const IMAGE: &str = "registry.k8s.io/pause:3.10";

/// The unique label, named as the one that a StatefulSet sets.
const OWN_LABEL: &str = "apps.kubernetes.io/pod-index";

/// The bound pods of one application.
const STANDING_OF_AN_APPLICATION: usize = 10;

/// The seed of the pods differs from that of the nodes, so that more nodes do not change the pods.
const PODS: u64 = 0x70_6f64;

/// Generates the nodes.
pub(super) fn nodes(words: &Generate, node: impl FnMut(api::Node)) {
    let count = words.nodes;
    match words.shape {
        Shape::Basic | Shape::Devices => (0..count).map(|index| basic_node(index, count)).for_each(node),
        Shape::Mixed => {
            let mut random = Random::new(words.seed);
            (0..count).map(|index| mixed::node(index, count, &mut random)).for_each(node);
        }
        Shape::Spread | Shape::Affinity => (0..count).map(|index| wishes::node(index, count)).for_each(node),
    }
}

/// Generates the bound pods, then the pending ones.
pub(super) fn pods(words: &Generate, mut pod: impl FnMut(api::Pod)) {
    (0..words.standing).map(|index| standing_pod(index, words)).for_each(&mut pod);
    let pod = |mut own: api::Pod| {
        if words.labels == Labels::Unique {
            let label = (OWN_LABEL.to_owned(), own.metadata.name.clone().unwrap_or_default());
            own.metadata.labels.get_or_insert_default().extend([label]);
        }
        pod(own);
    };
    let count = words.pods;
    match words.shape {
        Shape::Basic => (0..count).map(|index| spread_over(words, index, basic_pod(index, count))).for_each(pod),
        Shape::Devices => (0..count).map(|index| devices::pod(words, index, count)).for_each(pod),
        Shape::Mixed => {
            let mut random = Random::new(words.seed ^ PODS);
            let classes = mixed::classes(&mut random);
            let pods = (0..count).map(|index| (index, mixed::pod(index, count, &classes, &mut random)));
            pods.map(|(index, own)| spread_over(words, index, own)).for_each(pod);
        }
        Shape::Spread | Shape::Affinity => {
            let applications = wishes::Applications::new(words);
            (0..count).map(|index| applications.pod(index)).for_each(pod);
        }
    }
}

/// Generates the Services.
pub(super) fn services(words: &Generate, service: impl FnMut(api::Service)) {
    if words.shape == Shape::Spread {
        wishes::Applications::new(words).services().for_each(service);
    }
}

/// Generates the ReplicaSets.
pub(super) fn replica_sets(words: &Generate, replica_set: impl FnMut(ReplicaSet)) {
    if words.shape == Shape::Spread {
        wishes::Applications::new(words).replica_sets().for_each(replica_set);
    }
}

/// A node of scheduler_perf's `node-default.yaml`, in one of three zones.
fn basic_node(index: usize, count: usize) -> api::Node {
    let labels = [(ZONE, ZONES[index % ZONES.len()])];
    make_node(&name("node", index, count), &labels, &[("cpu", "4"), ("memory", "32Gi"), ("pods", "110")])
}

/// A pod of scheduler_perf's `pod-default.yaml`.
fn basic_pod(index: usize, count: usize) -> api::Pod {
    make_pod(&name("pod", index, count), &[("cpu", "100m"), ("memory", "500Mi")])
}

/// Sets the namespace of a pod without an application, round-robin.
fn spread_over(words: &Generate, turn: usize, mut pod: api::Pod) -> api::Pod {
    pod.metadata.namespace = namespace(words, turn);
    pod
}

/// The namespace of a turn; `None`, meaning the default one, if there is only one.
fn namespace(words: &Generate, turn: usize) -> Option<String> {
    (words.namespaces > 1).then(|| name("namespace", turn % words.namespaces, words.namespaces))
}

/// A bound pod. Nodes are used round-robin, ten pods make an application, and each pod has a unique label.
fn standing_pod(index: usize, words: &Generate) -> api::Pod {
    let own = name("standing", index, words.standing);
    let application = name("elsewhere", index / STANDING_OF_AN_APPLICATION, words.standing);
    let mut pod = make_pod(&own, &[("cpu", "1m"), ("memory", "1Mi")]);
    pod.metadata.labels = Some(texts(&[("app", &application), (OWN_LABEL, &own)]));
    pod.metadata.namespace = namespace(words, index / STANDING_OF_AN_APPLICATION);
    if let Some(spec) = &mut pod.spec {
        spec.node_name = Some(name("node", index % words.nodes, words.nodes));
    }
    pod
}

/// All names of a cluster have the same length, so that they sort by number.
fn name(of: &str, index: usize, count: usize) -> String {
    let width = count.saturating_sub(1).to_string().len();
    format!("{of}-{index:0width$}")
}

fn make_node(name: &str, labels: &[(&str, &str)], allocatable: &[(&str, &str)]) -> api::Node {
    api::Node {
        metadata: ObjectMeta { name: Some(name.to_owned()), labels: Some(texts(labels)), ..ObjectMeta::default() },
        spec: None,
        status: Some(api::NodeStatus { allocatable: Some(amounts(allocatable)), ..api::NodeStatus::default() }),
    }
}

fn make_pod(name: &str, requests: &[(&str, &str)]) -> api::Pod {
    let resources =
        api::ResourceRequirements { requests: Some(amounts(requests)), ..api::ResourceRequirements::default() };
    let container = api::Container {
        name: "main".to_owned(),
        image: Some(IMAGE.to_owned()),
        resources: Some(resources),
        ..api::Container::default()
    };
    api::Pod {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        spec: Some(api::PodSpec { containers: vec![container], ..api::PodSpec::default() }),
        status: None,
    }
}

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn amounts(pairs: &[(&str, &str)]) -> BTreeMap<String, Quantity> {
    pairs.iter().map(|&(name, amount)| (name.to_owned(), Quantity(amount.to_owned()))).collect()
}

/// A pseudo-random generator: splitmix64, with results that never change.
struct Random(u64);

impl Random {
    const fn new(seed: u64) -> Self {
        Self(seed)
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; the bias is negligible for small bounds.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).unwrap_or(0)
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

#[cfg(test)]
mod tests;
