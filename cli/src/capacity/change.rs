//! Changes that may admit more copies: a toleration, a smaller request, a node.

use std::{collections::BTreeSet, sync::Arc};

use flotilla_account::why::{self, Why};
use flotilla_cluster::Cluster;
use flotilla_framework::{
    class::{Class, PodInfo, Taint, Toleration},
    explain::lack::Lack,
    node::NodeInfo,
    resources::Resources,
    volumes::objects::{CsiNode, StorageObject},
};

use flotilla_account::amount::Amount;

use super::counted::Counted;

const HOSTNAME: &str = "kubernetes.io/hostname";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
const ADDED: &str = "added-node";
/// Node shapes to try, the smallest first.
const MOST_SHAPES: usize = 8;
/// Grown nodes have whole cores and whole gibibytes.
const CORE: i64 = 1_000;
const GIBIBYTE: i64 = 1 << 30;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Change {
    /// The pod tolerates these taints.
    Tolerate(Vec<Taint>),
    /// The pod requests less of these resources: name, reduction, current request.
    AskLess(Vec<(Arc<str>, i64, i64)>),
    /// The node is uncordoned.
    Uncordon(Arc<str>),
    /// One more node, the existing node that it is made from, and whether it is larger.
    Add { node: Box<NodeInfo>, like: Arc<str>, is_grown: bool },
}

/// The changes to try; within each kind the smallest first.
pub(super) fn candidates(why: &Why, cluster: &Cluster, model: &PodInfo) -> Vec<Vec<Change>> {
    let (mut tolerate, mut ask_less, mut uncordon) = (Vec::new(), Vec::new(), Vec::new());
    for (node, lacks) in &why.lacks {
        if let Some(taints) =
            all(lacks, |lack| if let Lack::Toleration(taint) = lack { Some(taint.clone()) } else { None })
        {
            push(&mut tolerate, (taints.len(), Change::Tolerate(taints)));
        } else if let Some(amounts) = all(lacks, less) {
            // Requests are ordered by the relative reduction.
            let part = amounts.iter().map(|(_, less, request)| less.saturating_mul(1000) / (*request).max(1)).max();
            push(&mut ask_less, (usize::try_from(part.unwrap_or(0)).unwrap_or(usize::MAX), Change::AskLess(amounts)));
        } else if lacks.iter().all(|lack| matches!(lack, Lack::Cordoned)) {
            push(&mut uncordon, (0, Change::Uncordon(Arc::clone(node))));
        }
    }
    let mut kinds: Vec<Vec<Change>> = Vec::new();
    for mut kind in [tolerate, ask_less, uncordon] {
        kind.sort_by_key(|(size, _)| *size);
        kinds.push(kind.into_iter().map(|(_, change)| change).take(MOST_SHAPES).collect());
    }
    kinds.push(nodes(cluster, model));
    kinds
}

fn push(known: &mut Vec<(usize, Change)>, new: (usize, Change)) {
    if !known.contains(&new) {
        known.push(new);
    }
}

fn all<T>(lacks: &[Lack], of: impl Fn(&Lack) -> Option<T>) -> Option<Vec<T>> {
    (!lacks.is_empty()).then(|| lacks.iter().map(of).collect()).flatten()
}

/// The reduction of a request that suffices and leaves a positive amount.
fn less(lack: &Lack) -> Option<(Arc<str>, i64, i64)> {
    match lack {
        Lack::Resource { name, short, request, .. } if &**name != "pods" && *short < *request => {
            Some((Arc::clone(name), *short, *request))
        }
        _ => None,
    }
}

/// Copies of existing nodes, the smallest first, and one grown to the pod's size.
fn nodes(cluster: &Cluster, model: &PodInfo) -> Vec<Change> {
    let mut seen = BTreeSet::new();
    let mut shapes: Vec<(&Arc<NodeInfo>, NodeInfo)> = Vec::new();
    for node in &cluster.nodes {
        let shape = empty(node);
        if !shape.unschedulable
            && seen.insert(format!("{:?}", (&shape.labels, &shape.taints, &shape.allocatable, shape.allowed_pods)))
        {
            shapes.push((node, shape));
        }
    }
    shapes.sort_by_key(|(_, shape)| {
        (shape.taints.len(), shape.allocatable.scalars.len(), shape.allocatable.milli_cpu, shape.allocatable.memory)
    });
    let suits = |shape: &NodeInfo| {
        let wanted = &model.class.requests;
        shape.allocatable.milli_cpu >= wanted.milli_cpu && shape.allocatable.memory >= wanted.memory
    };
    let add = |shape: NodeInfo, like: &NodeInfo, is_grown: bool| Change::Add {
        node: Box::new(shape),
        like: Arc::clone(&like.name),
        is_grown,
    };
    let suitable = shapes.iter().filter(|(_, shape)| suits(shape)).take(MOST_SHAPES);
    let known: Vec<Change> = suitable.map(|(like, shape)| add(shape.clone(), like, false)).collect();
    let grown = shapes.last().map(|(like, shape)| add(grown(shape, &model.class.requests), like, true));
    known.into_iter().chain(grown).collect()
}

/// The node without pods, and with labels and taints of a new one.
fn empty(node: &NodeInfo) -> NodeInfo {
    let label = |(key, value): &(Arc<str>, Arc<str>)| {
        let value = if &**key == HOSTNAME { ADDED.into() } else { Arc::clone(value) };
        (Arc::clone(key), value)
    };
    NodeInfo {
        name: ADDED.into(),
        uid: ADDED.into(),
        labels: node.labels.iter().map(label).collect(),
        images: Vec::new(),
        csi: None,
        devices: None,
        ..node.clone()
    }
}

/// The node, enlarged to these requests.
fn grown(node: &NodeInfo, wanted: &Resources) -> NodeInfo {
    let up = |amount: i64, unit: i64| {
        amount.div_euclid(unit).saturating_add(i64::from(amount % unit != 0)).saturating_mul(unit)
    };
    let mut allocatable = node.allocatable.clone();
    allocatable.milli_cpu = allocatable.milli_cpu.max(up(wanted.milli_cpu, CORE));
    allocatable.memory = allocatable.memory.max(up(wanted.memory, GIBIBYTE));
    allocatable.ephemeral_storage = allocatable.ephemeral_storage.max(wanted.ephemeral_storage);
    for (name, amount) in &wanted.scalars {
        match allocatable.scalars.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = (*known).max(*amount),
            None => allocatable.scalars.push((Arc::clone(name), *amount)),
        }
    }
    allocatable.scalars.sort();
    NodeInfo { allocatable, taints: Vec::new(), ..node.clone() }
}

impl Change {
    /// Applies the change to the cluster and the pod.
    pub(super) fn make(&self, cluster: &Cluster, counted: &Counted) -> (Cluster, Counted) {
        let (mut cluster, mut class) = (cluster.clone(), Class::clone(&counted.pod.class));
        match self {
            Self::Tolerate(taints) => class.tolerations.extend(taints.iter().map(|taint| Toleration {
                key: Arc::clone(&taint.key),
                operator: "Equal".into(),
                value: Arc::clone(&taint.value),
                effect: Arc::clone(&taint.effect),
            })),
            Self::AskLess(amounts) => amounts.iter().for_each(|(name, less, _)| ask_less(&mut class, name, *less)),
            Self::Uncordon(name) => {
                for node in cluster.nodes.iter_mut().filter(|node| node.name == *name) {
                    let taints = node.taints.iter().filter(|taint| &*taint.key != UNSCHEDULABLE).cloned().collect();
                    *node = Arc::new(NodeInfo { unschedulable: false, taints, ..NodeInfo::clone(node) });
                }
            }
            Self::Add { node, like, .. } => {
                // A new node has the drivers and attach limits of the node that it is like.
                let csi = cluster.storage.iter().find_map(|object| match object {
                    StorageObject::CsiNode(known) if known.name == *like => {
                        Some(CsiNode { name: Arc::clone(&node.name), ..known.clone() })
                    }
                    _ => None,
                });
                cluster.storage.extend(csi.map(StorageObject::CsiNode));
                cluster.nodes.push(Arc::new(NodeInfo::clone(node)));
                cluster.nodes.sort_by(|left, right| left.name.cmp(&right.name));
            }
        }
        (cluster, counted.with_class(class))
    }

    /// The kind of the change in JSON.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Tolerate(_) => "toleration",
            Self::AskLess(_) => "request",
            Self::Uncordon(_) => "uncordon",
            Self::Add { .. } => "node",
        }
    }

    pub(super) fn words(&self) -> String {
        match self {
            Self::Tolerate(taints) => {
                let words: Vec<String> =
                    taints.iter().map(|taint| why::lack(&Lack::Toleration(taint.clone()))).collect();
                words.join(" and ")
            }
            Self::AskLess(amounts) => {
                let quantity = |name: &str, amount: i64| Amount::of(name, amount.into()).quantity();
                let word = |(name, less, request): &(Arc<str>, i64, i64)| {
                    format!("{} {name} instead of {}", quantity(name, request - less), quantity(name, *request))
                };
                format!("a request of {}", amounts.iter().map(word).collect::<Vec<_>>().join(" and "))
            }
            Self::Uncordon(node) => format!("the cordon of {node} lifted"),
            Self::Add { node, like, is_grown } => {
                let amount = |name: &str, value: i64| Amount::of(name, value.into()).rounded();
                let Resources { milli_cpu, memory, .. } = node.allocatable;
                let size = format!("{} cpu, {} memory", amount("cpu", milli_cpu), amount("memory", memory));
                match is_grown {
                    false => format!("one more node like {like} ({size})"),
                    true => format!("one more node with {size}"),
                }
            }
        }
    }
}

fn ask_less(class: &mut Class, name: &str, less: i64) {
    let common = Arc::make_mut(&mut class.common);
    for requests in [&mut common.requests, &mut common.score_requests, &mut common.accounted] {
        let amount = match name {
            "cpu" => Some(&mut requests.milli_cpu),
            "memory" => Some(&mut requests.memory),
            "ephemeral-storage" => Some(&mut requests.ephemeral_storage),
            _ => requests.scalars.iter_mut().find(|(known, _)| &**known == name).map(|(_, amount)| amount),
        };
        if let Some(amount) = amount {
            *amount = (*amount - less).max(0);
        }
    }
    match name {
        "cpu" => class.nonzero_milli_cpu = (class.nonzero_milli_cpu - less).max(0),
        "memory" => class.nonzero_memory = (class.nonzero_memory - less).max(0),
        _ => {}
    }
}
