//! The report that the page shows: nodes, and pods with their node before and after.
//!
//! A report has one or two sides. For a simulation they are before and after it, for a comparison without and with the change. The page
//! computes totals itself.

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

use super::pod_explanation::PodExplanation;

/// The label of a node's zone.
const ZONE: &str = "topology.kubernetes.io/zone";
/// The node index of a pending pod.
const PENDING: i64 = -1;
/// The node index of a pod that is not on this side.
const ABSENT: i64 = -2;

/// The limit of account bytes in one file. An account takes about 7 bytes for each infeasible and 40 for each feasible node. So the limit
/// holds 200 accounts of pods that fit none of 5,000 nodes, and a browser opens it in a second.
pub(crate) const MOST_ACCOUNT_BYTES: usize = 8 << 20;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report<'a> {
    /// The version of the data format.
    format: u32,
    version: &'static str,
    /// The time of writing, in milliseconds since 1970.
    pub(crate) made_ms: u64,
    /// The command, and its input.
    pub(crate) command: &'static str,
    pub(crate) subject: String,
    /// The names of the sides: one, or two for a comparison.
    pub(crate) sides: &'static [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) serving: Option<Serving>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) figures: Option<Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) comparison: Option<Comparison>,
    /// A sentence for each workload with pods that are not created.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) not_created: Vec<String>,
    /// The names of resources; amounts have this order.
    resources: Vec<Arc<str>>,
    zones: Vec<Arc<str>>,
    /// Labels and taints, deduplicated.
    texts: Vec<String>,
    nodes: Vec<Node<'a>>,
    kinds: Vec<Kind>,
    messages: Vec<&'a str>,
    pods: Vec<Pod>,
    accounts: Vec<Box<RawValue>>,
    /// The cluster for new questions, if the page answers any.
    #[serde(skip)]
    pub(crate) kept: Option<Vec<u8>>,
    /// The number of pods without an account because of the limit.
    unexplained: usize,
    most_account_bytes: usize,
}

/// The server of the page, which computes accounts on request.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Serving {
    /// The server also queries the coordinator of a live cluster.
    pub(crate) is_live: bool,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Figures {
    pub(crate) workers: u16,
    pub(crate) seconds: f64,
    pub(crate) decisions_per_second: f64,
    pub(crate) p50_micros: f64,
    pub(crate) p99_micros: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Comparison {
    /// The changes, one line each.
    pub(crate) changes: Vec<String>,
    /// Pods with another outcome, as `namespace/name`, and the outcome.
    pub(crate) pods: Vec<(String, &'static str)>,
    /// Preempted pods: the victim, its node, and the preemptor.
    pub(crate) preemptions: Vec<(String, String, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bottleneck: Option<(String, String, Option<String>)>,
}

/// Name, zone, cordoned sides (one bit each), taints, labels, allocatable amounts. The amounts are given once if all sides agree, else per
/// side, with `null` for a missing node.
#[derive(Debug, Serialize)]
struct Node<'a>(&'a str, usize, u8, Vec<usize>, Vec<usize>, Vec<Option<Vec<i64>>>);

/// Properties that pods share: requests, scheduler, priority, other constraints.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
struct Kind(Vec<i64>, Arc<str>, i32, Vec<String>);

/// Name, kind (once or per side), node index per side, message, account; -1 for none.
#[derive(Debug, Serialize)]
struct Pod(String, Vec<usize>, Vec<i64>, i64, i64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PodLocation {
    Absent,
    Pending,
    On(Arc<str>),
}

/// A pod on each side, with its message.
#[derive(Debug)]
pub(crate) struct Stand<'a> {
    /// Once, or per side.
    pods: Vec<&'a Arc<PodInfo>>,
    places: Vec<PodLocation>,
    message: &'a str,
}

impl From<Option<Arc<str>>> for PodLocation {
    fn from(node: Option<Arc<str>>) -> Self {
        node.map_or(Self::Pending, Self::On)
    }
}

impl<'a> Stand<'a> {
    /// A pod with its node on each side, and why it is pending on the last.
    pub(crate) fn new(pod: &'a Arc<PodInfo>, nodes: impl Into<Vec<Option<Arc<str>>>>, message: &'a str) -> Self {
        Self { pods: vec![pod], places: nodes.into().into_iter().map(PodLocation::from).collect(), message }
    }

    /// A pod that may differ between the sides or be missing on one.
    pub(crate) fn compared(sides: [(Option<&'a Arc<PodInfo>>, PodLocation); 2], message: &'a str) -> Option<Self> {
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
    /// A report without accounts. A single list of nodes applies to all sides.
    ///
    /// The nodes of the last side come first and in their order, so that node numbers are indexes in the report.
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
            let place = |place: &PodLocation| match place {
                PodLocation::Absent => ABSENT,
                PodLocation::Pending => PENDING,
                PodLocation::On(node) => places.get(&**node).copied().unwrap_or(PENDING),
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
            not_created: Vec::new(),
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

/// A node per side, or once if all sides share a list.
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

/// The sides on which a node is cordoned, one bit each.
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

/// The allocatable amounts, once if the sides agree.
fn offered(sides: &[Option<&Arc<NodeInfo>>], resources: &[Arc<str>]) -> Vec<Option<Vec<i64>>> {
    let of = |node: &Arc<NodeInfo>| -> Vec<i64> {
        resources.iter().map(|name| amount(&node.allocatable, node.allowed_pods, name)).collect()
    };
    let mut offered: Vec<Option<Vec<i64>>> = sides.iter().map(|node| node.map(of)).collect();
    offered.dedup();
    offered
}

/// Deduplicated accounts, up to the size limit.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    known: HashMap<String, usize>,
    bytes: usize,
    /// For each pod the index of its account; `None` if it exceeded the limit.
    of_pods: Vec<(String, Option<usize>)>,
}

impl Accounts {
    pub(crate) fn add(&mut self, pod: String, told: &PodExplanation) -> serde_json::Result<()> {
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

    /// The pod shares the account of another.
    pub(crate) fn share(&mut self, pod: String, other: usize) {
        let place = self.of_pods.get(other).and_then(|(_, place)| *place);
        self.of_pods.push((pod, place));
    }

    pub(crate) fn len(&self) -> usize {
        self.of_pods.len()
    }

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

/// Values numbered in order of insertion.
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

/// CPU, memory and pods, then all other resources of nodes and pods by name.
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

fn signed(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
