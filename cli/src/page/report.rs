//! The report that the page shows: nodes, pods, where each pod is before and after, and what is told of some.
//!
//! Knows: the fields, how they are kept small, and how many bytes of accounts are embedded. Must not know: who placed the pods, or
//! why.
//!
//! A report has one side or two. Of each pod it has the node on each side, and the page adds up what is taken from that: of a
//! simulation the sides are before and after it, of a comparison they are the cluster as it is and as it would be.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use flotilla_framework::{
    class::{Class, PodInfo},
    node::NodeInfo,
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::told::Told;

/// The label of a node's zone.
const ZONE: &str = "topology.kubernetes.io/zone";
/// Where a pod is that no node has.
const PENDING: i64 = -1;
/// Where a pod is on a side that does not have it.
const ABSENT: i64 = -2;

/// The most bytes of accounts in one file. An account takes some 7 bytes for each node that refuses the pod, and some 40 for one
/// that would do, so this holds 200 accounts of pods that no one of 5,000 nodes takes, and a browser opens it in a second.
pub(crate) const MOST_ACCOUNT_BYTES: usize = 8 << 20;

/// Everything that the page shows.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report<'a> {
    /// Which form the data has.
    format: u32,
    /// The version of the program that wrote it.
    version: &'static str,
    /// When, in milliseconds since 1970.
    pub(crate) made_ms: u64,
    /// The command that wrote it, and what it was given.
    pub(crate) command: &'static str,
    pub(crate) subject: String,
    /// The names of the sides: one, or two that are compared.
    pub(crate) sides: &'static [&'static str],
    /// Who can be asked for what is not in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) serving: Option<Serving>,
    /// How fast it was decided, where that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) figures: Option<Figures>,
    /// What differs between the sides, where they are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) comparison: Option<Comparison>,
    /// The names of resources; amounts are in their order.
    resources: Vec<Arc<str>>,
    zones: Vec<Arc<str>>,
    /// Labels and taints, each once.
    texts: Vec<String>,
    nodes: Vec<Node<'a>>,
    kinds: Vec<Kind>,
    messages: Vec<&'a str>,
    pods: Vec<Pod>,
    accounts: Vec<Box<RawValue>>,
    /// The cluster, so that the page can answer new questions; `None`: it answers none.
    #[serde(skip)]
    pub(crate) kept: Option<Vec<u8>>,
    /// Of how many pods the account would have been too much.
    unexplained: usize,
    most_account_bytes: usize,
}

/// The server that a page came from. It gives account of each pod.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Serving {
    /// It also asks the coordinator of a live cluster.
    pub(crate) is_live: bool,
}

/// How fast pods were decided on.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Figures {
    pub(crate) workers: u16,
    pub(crate) seconds: f64,
    pub(crate) decisions_per_second: f64,
    pub(crate) p50_micros: f64,
    pub(crate) p99_micros: f64,
}

/// What a change does to pods.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Comparison {
    /// What is changed, a line each.
    pub(crate) changes: Vec<String>,
    /// The pods that fare differently, as `namespace/name`, and how.
    pub(crate) pods: Vec<(String, &'static str)>,
    /// Pods that make room for others: the pod, its node, and the pod that it makes room for.
    pub(crate) preemptions: Vec<(String, String, String)>,
    /// The first pod that stays pending and did not before, and what would help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bottleneck: Option<(String, String, Option<String>)>,
}

/// Name, zone, on which sides it is cordoned (a bit each), taints, labels, allocatable amounts: once where all sides agree, else
/// for each side, with `null` where the node is not there.
#[derive(Debug, Serialize)]
struct Node<'a>(&'a str, usize, u8, Vec<usize>, Vec<usize>, Vec<Option<Vec<i64>>>);

/// What pods have in common: requests, scheduler, priority, what else they ask for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
struct Kind(Vec<i64>, Arc<str>, i32, Vec<String>);

/// Name, kind (once, or for each side), place on each side, message, account; -1 where there is none.
#[derive(Debug, Serialize)]
struct Pod(String, Vec<usize>, Vec<i64>, i64, i64);

/// Where a pod is on one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// The pod is not there.
    Absent,
    Pending,
    On(Arc<str>),
}

/// Where a pod is on each side, and what is said of it.
#[derive(Debug)]
pub(crate) struct Stand<'a> {
    /// Once, or for each side.
    pods: Vec<&'a Arc<PodInfo>>,
    places: Vec<Place>,
    message: &'a str,
}

impl From<Option<Arc<str>>> for Place {
    fn from(node: Option<Arc<str>>) -> Self {
        node.map_or(Self::Pending, Self::On)
    }
}

impl<'a> Stand<'a> {
    /// A pod with its node on each side, and why it stays pending on the last.
    pub(crate) fn new(pod: &'a Arc<PodInfo>, nodes: impl Into<Vec<Option<Arc<str>>>>, message: &'a str) -> Self {
        Self { pods: vec![pod], places: nodes.into().into_iter().map(Place::from).collect(), message }
    }

    /// A pod that may be another one on each side, or not be there.
    pub(crate) fn compared(sides: [(Option<&'a Arc<PodInfo>>, Place); 2], message: &'a str) -> Option<Self> {
        let [(before, was), (after, is)] = sides;
        let pods = match (before, after) {
            (Some(before), Some(after)) => vec![before, after],
            (one, other) => vec![one.or(other)?],
        };
        Some(Self { pods, places: vec![was, is], message })
    }

    fn last(&self) -> &'a Arc<PodInfo> {
        self.pods[self.pods.len() - 1]
    }
}

impl<'a> Report<'a> {
    /// A report of these pods and of the nodes of each side, without accounts. One list of nodes is that of all sides.
    ///
    /// The nodes of the last side come first and in their order, so that its numbers are places in the report.
    pub(crate) fn new(sides: &[&'a [Arc<NodeInfo>]], pods: &[Stand<'a>]) -> Self {
        let nodes = united(sides);
        let resources = resources(nodes.iter().flat_map(|node| node.iter().flatten().copied()), pods);
        let mut texts = Numbered::default();
        let last = |node: &[Option<&'a Arc<NodeInfo>>]| node.iter().rev().flatten().next().copied();
        let known: Vec<&Arc<NodeInfo>> = nodes.iter().filter_map(|node| last(node)).collect();
        let zones: BTreeSet<Arc<str>> = known.iter().map(|node| zone(node)).collect();
        let zones: Vec<Arc<str>> = zones.into_iter().collect();
        let places: HashMap<&str, i64> = (0..).zip(&known).map(|(place, node)| (&*node.name, place)).collect();
        let node = |(sides, node): (&Vec<Option<&'a Arc<NodeInfo>>>, &&'a Arc<NodeInfo>)| {
            let zone = zones.binary_search(&zone(node)).unwrap_or(0);
            let taint = |taint: &flotilla_framework::class::Taint| match &*taint.value {
                "" => format!("{}:{}", taint.key, taint.effect),
                value => format!("{}={value}:{}", taint.key, taint.effect),
            };
            let taints = node.taints.iter().map(|known| texts.number(taint(known))).collect();
            let labels = node.labels.iter().map(|(key, value)| texts.number(format!("{key}={value}"))).collect();
            Node(&node.name, zone, cordons(sides), taints, labels, offered(sides, &resources))
        };
        let nodes = nodes.iter().zip(&known).map(node).collect();
        let (mut kinds, mut messages) = (Numbered::default(), Numbered::default());
        let mut of_class: HashMap<(&Arc<Class>, Arc<str>, i32), usize> = HashMap::new();
        let mut kind = |pod: &&'a Arc<PodInfo>| {
            let key = (&pod.class, Arc::clone(&pod.scheduler_name), pod.priority);
            *of_class.entry(key).or_insert_with(|| kinds.number(Kind::of(pod, &resources)))
        };
        let mut pod = |stand: &Stand<'a>| {
            let mut of_sides: Vec<usize> = stand.pods.iter().map(&mut kind).collect();
            of_sides.dedup();
            let message = if stand.message.is_empty() { -1 } else { signed(messages.number(stand.message)) };
            let place = |place: &Place| match place {
                Place::Absent => ABSENT,
                Place::Pending => PENDING,
                Place::On(node) => places.get(&**node).copied().unwrap_or(PENDING),
            };
            Pod(stand.last().key(), of_sides, stand.places.iter().map(place).collect(), message, -1)
        };
        let pods = pods.iter().map(&mut pod).collect();
        let made = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            format: 2,
            version: env!("CARGO_PKG_VERSION"),
            made_ms: u64::try_from(made.as_millis()).unwrap_or(u64::MAX),
            command: "",
            subject: String::new(),
            sides: &["now"],
            serving: None,
            figures: None,
            comparison: None,
            zones,
            nodes,
            kinds: kinds.values,
            messages: messages.values,
            texts: texts.values,
            pods,
            resources,
            accounts: Vec::new(),
            kept: None,
            unexplained: 0,
            most_account_bytes: MOST_ACCOUNT_BYTES,
        }
    }
}

/// A node as it is on each side, or once where all sides have the same list.
type OnSides<'a> = Vec<Option<&'a Arc<NodeInfo>>>;

/// All nodes, those of the last side first.
fn united<'a>(sides: &[&'a [Arc<NodeInfo>]]) -> Vec<OnSides<'a>> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut nodes: Vec<OnSides<'a>> = Vec::new();
    for (side, list) in sides.iter().enumerate().rev() {
        for node in list.iter() {
            let place = *places.entry(&node.name).or_insert(nodes.len());
            if place == nodes.len() {
                nodes.push(vec![None; sides.len()]);
            }
            nodes[place][side] = Some(node);
        }
    }
    nodes
}

/// On which sides a node is cordoned, a bit each.
fn cordons(sides: &[Option<&Arc<NodeInfo>>]) -> u8 {
    let is_cordoned = |node: &Option<&Arc<NodeInfo>>| node.is_some_and(|node| node.unschedulable);
    match sides {
        [only] => {
            if is_cordoned(only) {
                u8::MAX
            } else {
                0
            }
        }
        sides => (0..8).zip(sides).map(|(bit, side)| u8::from(is_cordoned(side)) << bit).sum(),
    }
}

/// What a node offers, once where the sides agree.
fn offered(sides: &[Option<&Arc<NodeInfo>>], resources: &[Arc<str>]) -> Vec<Option<Vec<i64>>> {
    let of = |node: &Arc<NodeInfo>| -> Vec<i64> {
        resources.iter().map(|name| amount(&node.allocatable, node.allowed_pods, name)).collect()
    };
    let mut offered: Vec<Option<Vec<i64>>> = sides.iter().map(|node| node.map(of)).collect();
    offered.dedup();
    offered
}

/// Accounts as they go into a report, each once, and no more of them than a file may hold.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    known: HashMap<String, usize>,
    bytes: usize,
    /// For each pod that was told of its place among the accounts; `None` where it did not fit in.
    of_pods: Vec<(String, Option<usize>)>,
}

impl Accounts {
    /// Takes in the account of a pod.
    pub(crate) fn add(&mut self, pod: String, told: &Told) -> serde_json::Result<()> {
        let text = serde_json::to_string(told)?;
        let place = match self.known.get(&text) {
            Some(&known) => Some(known),
            None if self.bytes + text.len() > MOST_ACCOUNT_BYTES => None,
            None => {
                self.bytes += text.len();
                let place = self.known.len();
                self.known.insert(text, place);
                Some(place)
            }
        };
        self.of_pods.push((pod, place));
        Ok(())
    }

    /// A pod has the account of another.
    pub(crate) fn share(&mut self, pod: String, other: usize) {
        let place = self.of_pods.get(other).and_then(|(_, place)| *place);
        self.of_pods.push((pod, place));
    }

    /// How many pods were told of.
    pub(crate) fn len(&self) -> usize {
        self.of_pods.len()
    }

    /// Puts them into a report.
    pub(crate) fn put_into(self, report: &mut Report<'_>) -> serde_json::Result<()> {
        let mut texts: Vec<(String, usize)> = self.known.into_iter().collect();
        texts.sort_unstable_by_key(|(_, place)| *place);
        report.accounts = texts.into_iter().map(|(text, _)| RawValue::from_string(text)).collect::<Result<_, _>>()?;
        report.unexplained = self.of_pods.iter().filter(|(_, place)| place.is_none()).count();
        let of_pods: HashMap<String, Option<usize>> = self.of_pods.into_iter().collect();
        for pod in &mut report.pods {
            pod.4 = of_pods.get(&pod.0).copied().flatten().map_or(-1, signed);
        }
        Ok(())
    }
}

impl Kind {
    fn of(pod: &PodInfo, resources: &[Arc<str>]) -> Self {
        let class = &pod.class;
        let amounts = resources.iter().map(|name| amount(&class.accounted, 1, name)).collect();
        let mut asks = Vec::new();
        asks.extend(class.node_selector.iter().map(|(key, value)| format!("node selector {key}={value}")));
        if class.required_terms.is_some() {
            asks.push("required node affinity".to_owned());
        }
        asks.extend(class.tolerations.iter().map(|known| {
            let key = if known.key.is_empty() { "every taint" } else { &*known.key };
            let value = if known.value.is_empty() { String::new() } else { format!("={}", known.value) };
            let effect = if known.effect.is_empty() { String::new() } else { format!(":{}", known.effect) };
            format!("tolerates {key}{value}{effect}")
        }));
        asks.extend(class.host_ports.iter().map(|known| format!("host port {}/{}", known.port, known.protocol)));
        asks.extend(class.spread.iter().map(|known| {
            format!("{} over {}", if known.required { "must spread" } else { "spreads" }, known.topology_key)
        }));
        let terms = &class.pod_affinity;
        asks.extend(terms.required.iter().map(|term| format!("affinity over {}", term.topology_key)));
        asks.extend(terms.required_anti.iter().map(|term| format!("anti-affinity over {}", term.topology_key)));
        Self(amounts, Arc::clone(&pod.scheduler_name), pod.priority, asks)
    }
}

/// Values, each with a number.
#[derive(Debug)]
struct Numbered<T> {
    numbers: HashMap<T, usize>,
    values: Vec<T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { numbers: HashMap::new(), values: Vec::new() }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Numbered<T> {
    fn number(&mut self, value: T) -> usize {
        if let Some(&known) = self.numbers.get(&value) {
            return known;
        }
        let number = self.values.len();
        self.values.push(value.clone());
        self.numbers.insert(value, number);
        number
    }
}

/// CPU, memory, pods, then the others by name: those that nodes offer or pods ask for.
fn resources<'a>(nodes: impl Iterator<Item = &'a Arc<NodeInfo>>, pods: &[Stand<'a>]) -> Vec<Arc<str>> {
    let mut others: BTreeSet<Arc<str>> = BTreeSet::new();
    let asked = pods.iter().flat_map(|stand| &stand.pods).map(|pod| &pod.class.accounted);
    for amounts in nodes.map(|node| &node.allocatable).chain(asked) {
        if amounts.ephemeral_storage > 0 {
            others.insert("ephemeral-storage".into());
        }
        others.extend(amounts.scalars.iter().filter(|(_, amount)| *amount > 0).map(|(name, _)| Arc::clone(name)));
    }
    ["cpu", "memory", "pods"].into_iter().map(Arc::from).chain(others).collect()
}

fn amount(amounts: &flotilla_framework::resources::Resources, pods: i64, name: &str) -> i64 {
    match name {
        "cpu" => amounts.milli_cpu,
        "memory" => amounts.memory,
        "pods" => pods,
        "ephemeral-storage" => amounts.ephemeral_storage,
        name => amounts.scalars.iter().find(|(known, _)| **known == *name).map_or(0, |(_, amount)| *amount),
    }
}

fn zone(node: &NodeInfo) -> Arc<str> {
    node.label(ZONE).unwrap_or_default().into()
}

/// A number that -1 may stand beside.
fn signed(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
