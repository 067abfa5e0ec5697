//! Placement of pods and its validity.
//!
//! A coordinator decides by a view that may be old. So each node counts with its maximum capacity within [`VIEW_MS`], and since the version
//! of nodes that the coordinator had known for long.
//!
//! Some pods do not count until that age: pods of other schedulers, and pods that a restore has brought back. The same holds for pods bound
//! by a process that had lost the Lease in the meantime, or did not know yet that a restore has reverted its Lease.

use std::collections::{BTreeMap, BTreeSet};

use flotilla_framework::excess::objects::{MAX_NODE_LABELS, MAX_NODE_RESOURCES};

use crate::api::{Commit, Kind, Object, Store, Verb, faults::DENIED};

use super::{
    COORDINATOR,
    devices::{self, Devices},
    text,
    volumes::{Volumes, claims},
};

mod evictions;

use evictions::Budget;

/// A leader with an older view of pods or nodes releases its Lease; it checks every second.
const VIEW_MS: u64 = 182_000;
/// Maximum age of a view without faults: a decision may have waited, and its binding.
const SHARP_MS: u64 = 5_000;

/// Path of the anti-affinity's application.
const REPELS: &str =
    "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/0/labelSelector/matchLabels/app";

/// Nodes and pods.
#[derive(Debug)]
pub struct Places {
    /// Maximum age of a view.
    view_ms: u64,
    /// Priorities of deleted pods, with times.
    gone: Vec<(u64, i64)>,
    nodes: BTreeMap<String, Node>,
    pods: BTreeMap<String, Pod>,
    /// Time of the last change on each node.
    touched: BTreeMap<String, u64>,
    budgets: BTreeMap<String, Budget>,
}

#[derive(Debug, Default)]
struct Node {
    exists: bool,
    /// Capacities with start times; the last is current.
    states: Vec<State>,
}

#[derive(Debug, Clone)]
struct State {
    from_ms: u64,
    version: u64,
    exists: bool,
    takes_pods: bool,
    milli_cpu: u64,
    zone: String,
}

#[derive(Debug, Clone)]
pub(super) struct Pod {
    pub uid: String,
    pub node: String,
    pub milli_cpu: u64,
    /// Required zone, or empty.
    pub zone: String,
    pub priority: i64,
    /// Nominated node, or empty.
    pub nominated: String,
    /// Time of the nomination in ms, and the version of nodes known then.
    nominated_at: (u64, u64),
    pub app: String,
    /// Application in its anti-affinity.
    pub repels: Option<String>,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Whether only CPU and zone restrict its nodes.
    pub is_plain: bool,
    /// Whether Flotilla schedules it.
    pub is_ours: bool,
    /// Whether its bindings are denied.
    pub is_denied: bool,
    /// Whether it has succeeded, failed or was rejected.
    pub has_ended: bool,
    /// Time of the last change.
    pub since_ms: u64,
    pub claims: Vec<String>,
    /// Device claims; `None` for claims that do not exist yet.
    pub devices: Vec<Option<String>>,
    /// Whether a coordinator bound it in time, so that the node must be feasible.
    counts: bool,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            view_ms: VIEW_MS,
            gone: Vec::new(),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            touched: BTreeMap::new(),
            budgets: BTreeMap::new(),
        }
    }
}

impl Places {
    /// Views are recent from now on.
    pub(super) const fn sharpen(&mut self) {
        self.view_ms = SHARP_MS;
    }

    /// Whether faults have ended.
    pub(super) const fn is_sharp(&self) -> bool {
        self.view_ms == SHARP_MS
    }

    pub(super) const fn view_ms(&self) -> u64 {
        self.view_ms
    }

    /// Applies a commit. `alone`: no other process can have led at that time.
    pub(super) fn see(&mut self, commit: &Commit, alone: bool) {
        match commit.kind {
            Kind::Node => self.see_node(commit),
            Kind::Pod => self.see_pod(commit, alone),
            Kind::PodDisruptionBudget => self.see_budget(commit.key(), commit.after.as_deref(), commit.at_ms),
            _ => {}
        }
    }

    /// Reloads the state after a restore. No process has decided on it.
    pub(super) fn restored(&mut self, store: &Store, at_ms: u64) {
        self.gone.extend(self.pods.values().filter(|pod| pod.is_ours).map(|pod| (at_ms, pod.priority)));
        let pods = store.objects(Kind::Pod).map(|object| {
            let before = self.pods.get(object.key());
            (object.key().to_owned(), pod(object, at_ms).after(before))
        });
        self.pods = pods.collect();
        for node in self.nodes.values_mut().filter(|node| node.exists) {
            node.push((at_ms, store.version()), None);
        }
        self.budgets.clear();
        for object in store.objects(Kind::PodDisruptionBudget) {
            self.see_budget(object.key(), Some(object), at_ms);
        }
        for object in store.objects(Kind::Node) {
            self.nodes.entry(object.key().to_owned()).or_default().push((at_ms, store.version()), Some(object));
        }
    }

    fn see_node(&mut self, commit: &Commit) {
        let node = self.nodes.entry(commit.key().to_owned()).or_default();
        node.push((commit.at_ms, commit.version), commit.after.as_deref());
    }

    fn see_pod(&mut self, commit: &Commit, alone: bool) {
        for object in [&commit.before, &commit.after].into_iter().flatten() {
            for place in [object.node_name(), text(object, "/status/nominatedNodeName")] {
                match self.touched.get_mut(place) {
                    Some(at_ms) => *at_ms = commit.at_ms,
                    None => _ = self.touched.insert(place.to_owned(), commit.at_ms),
                }
            }
        }
        let Some(object) = &commit.after else {
            let gone = self.pods.remove(commit.key()).filter(|pod| pod.is_ours);
            self.gone.extend(gone.map(|pod| (commit.at_ms, pod.priority)));
            return;
        };
        let before = self.pods.get(commit.key()).filter(|pod| pod.uid == object.uid());
        let bound = commit.verb == Verb::Bind && commit.by.starts_with(COORDINATOR) && alone;
        let counts = bound || before.is_some_and(|pod| pod.counts);
        let nominated_at = (commit.at_ms, commit.knows.nodes);
        let pod = Pod { counts, nominated_at, ..pod(object, commit.at_ms) }.after(before);
        self.pods.insert(commit.key().to_owned(), pod);
    }

    /// Violations of a binding. `alone`: no other process can have led at that time.
    pub(super) fn bind(&self, commit: &Commit, alone: bool) -> Vec<(&'static str, String)> {
        let Some(object) = &commit.after else { return Vec::new() };
        let (bound, key) = (pod(object, commit.at_ms), commit.key());
        let mut found = Vec::new();
        let none = Node::default();
        let node = self.nodes.get(&bound.node).unwrap_or(&none);
        let (decided_ms, known) = self.decided(&bound, commit);
        let from_ms = decided_ms.saturating_sub(self.view_ms);
        let seen: Vec<&State> = node.within(from_ms, known).collect();
        if !seen.iter().any(|state| state.exists && state.takes_pods) {
            found.push(("S6", format!("{key} is bound to {}, which is cordoned or does not exist", bound.node)));
        }
        if !bound.zone.is_empty() && !seen.iter().any(|state| state.zone == bound.zone) {
            found.push(("S4", format!("{key} must be in zone {} and is bound to {}", bound.zone, bound.node)));
        }
        let most = seen.iter().map(|state| state.milli_cpu).max().unwrap_or(0);
        let counts = |pod: &Pod| (pod.counts || pod.since_ms <= from_ms) && !pod.has_ended && pod.node == bound.node;
        let others = self.pods.iter().filter(|(other, pod)| *other != key && counts(pod));
        let used: u64 = others.map(|(_, pod)| pod.milli_cpu).sum();
        if alone && used + bound.milli_cpu > most {
            let asked = bound.milli_cpu;
            found.push((
                "S2",
                format!("{key} asks {} for {asked}m; it has {most}m, of which {used}m are taken", bound.node),
            ));
        }
        found
    }

    /// Earliest time of the decision on a binding, ms, and the version of nodes known then. A pod that waits for volumes or devices may
    /// have been decided at its nomination. Like kube-scheduler, the coordinator does not filter it again before the binding.
    fn decided(&self, bound: &Pod, commit: &Commit) -> (u64, u64) {
        let may_have_waited = |pod: &&Pod| pod.uid == bound.uid && pod.nominated == bound.node && pod.writes_first();
        let known = commit.knows.nodes;
        match self.pods.get(commit.key()).filter(may_have_waited) {
            // Another process with newer information may have nominated it.
            Some(Pod { nominated_at: (at_ms, known_then), .. }) => (*at_ms, known.min(*known_then)),
            None => (commit.at_ms, known),
        }
    }

    /// Pending pods although a node has enough CPU and devices in their zone, with an explanation.
    #[must_use]
    pub(super) fn stranded(&self, volumes: &Volumes, devices: &Devices) -> Vec<(String, String)> {
        let mut taken: BTreeMap<&str, u64> = BTreeMap::new();
        for pod in self.pods.values().filter(|pod| !pod.has_ended) {
            *taken.entry(pod.place()).or_default() += pod.milli_cpu;
        }
        let is_open = |node: &str, waiting: &Pod| {
            let Some(state) = self.nodes.get(node).and_then(|node| node.states.last()) else { return false };
            let zone = waiting.zone.is_empty() || waiting.zone == state.zone;
            let used = taken.get(node).copied().unwrap_or(0);
            let zone = zone && !self.repel(waiting, node);
            state.exists && state.takes_pods && zone && used + waiting.milli_cpu <= state.milli_cpu
        };
        let waiting = self.pods.iter().filter(|(_, pod)| pod.is_plain && !pod.is_denied && pod.waits());
        waiting
            .filter_map(|(key, pod)| {
                let namespace = key.split('/').next().unwrap_or_default();
                let tied = volumes.place(namespace, &pod.claims);
                let may_be = |node: &str| tied.is_empty() || tied == node;
                let has_devices = |node: &str| pod.devices.is_empty() || devices.are_on(namespace, &pod.devices, node);
                let takes = |node: &&String| may_be(node) && is_open(node, pod) && has_devices(node);
                let node = self.nodes.keys().find(takes)?;
                Some((key.clone(), format!("{key} requests {}m and is pending, but {node} has room", pod.milli_cpu)))
            })
            .collect()
    }

    /// Whether pods are terminating, which others may wait for.
    #[must_use]
    pub fn are_leaving(&self) -> bool {
        self.pods.values().any(|pod| pod.terminating && !pod.node.is_empty() && !pod.has_ended)
    }

    /// Whether some node has room for a minimal pod in addition to nominated pods.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.nodes.iter().any(|(name, node)| {
            let there = || self.pods.values().filter(|pod| pod.place() == name);
            let used: u64 = there().map(|pod| pod.milli_cpu).sum();
            let count = there().count();
            node.states.last().is_some_and(|state| state.exists && state.takes_pods && used < state.milli_cpu)
                && count < 20
        })
    }

    /// Whether the nodes of a pod after preemption depend on more than its requests: other pods, or devices.
    #[must_use]
    pub fn minds_others(&self, key: &str) -> bool {
        self.pods.get(key).is_some_and(|pod| !pod.is_plain || !pod.devices.is_empty())
    }

    /// Whether a pending pod is nominated to a node that may be infeasible: because of its affinity, spread or devices, or the
    /// anti-affinity of a pod there.
    #[must_use]
    pub fn has_blocked_nomination(&self) -> bool {
        let mut nominated = self.pods.values().filter(|pod| pod.waits() && !pod.nominated.is_empty());
        nominated.any(|pod| !pod.is_plain || !pod.devices.is_empty() || self.repel(pod, &pod.nominated))
    }

    /// Whether pods on a node reject another by anti-affinity.
    fn repel(&self, other: &Pod, node: &str) -> bool {
        self.pods.values().any(|pod| pod.node == node && pod.repels.as_ref() == Some(&other.app))
    }

    /// Pending pods of Flotilla.
    #[must_use]
    pub fn waiting(&self) -> BTreeSet<String> {
        self.pods.iter().filter(|(_, pod)| pod.waits()).map(|(key, _)| key.clone()).collect()
    }
}

impl Pod {
    /// Keeps the earlier time of an unchanged nomination.
    fn after(mut self, before: Option<&Self>) -> Self {
        if let Some(before) = before.filter(|pod| pod.uid == self.uid && pod.nominated == self.nominated) {
            self.nominated_at = before.nominated_at;
        }
        self
    }

    /// Node or nominated node, or empty.
    fn place(&self) -> &str {
        if self.node.is_empty() { &self.nominated } else { &self.node }
    }

    /// Whether other objects are written before its binding.
    const fn writes_first(&self) -> bool {
        !self.claims.is_empty() || !self.devices.is_empty()
    }

    /// Whether it is pending for Flotilla.
    const fn waits(&self) -> bool {
        self.is_ours && self.node.is_empty() && !self.terminating && !self.has_ended
    }
}

impl Node {
    /// Adds a state; `None` if the node is deleted.
    fn push(&mut self, (from_ms, version): (u64, u64), object: Option<&Object>) {
        self.exists = object.is_some();
        self.states.push(match object {
            Some(object) => State {
                from_ms,
                version,
                exists: true,
                takes_pods: object.at("/spec/unschedulable").as_bool() != Some(true) && !is_too_large(object),
                milli_cpu: milli(text(object, "/status/allocatable/cpu")),
                zone: text(object, "/metadata/labels/zone").to_owned(),
            },
            None => State { from_ms, version, exists: false, takes_pods: false, milli_cpu: 0, zone: String::new() },
        });
    }

    /// States since a time and a version.
    fn within(&self, from_ms: u64, version: u64) -> impl Iterator<Item = &State> {
        let is_over = |state: &State| state.from_ms <= from_ms || state.version <= version;
        let first = self.states.iter().rposition(is_over).unwrap_or(0);
        self.states[first.min(self.states.len())..].iter()
    }
}

fn pod(object: &Object, at_ms: u64) -> Pod {
    let has = |path: &str| !object.at(path).is_null();
    Pod {
        uid: object.uid().to_owned(),
        node: object.node_name().to_owned(),
        milli_cpu: milli(text(object, "/spec/containers/0/resources/requests/cpu")),
        zone: text(object, "/spec/nodeSelector/zone").to_owned(),
        priority: object.at("/spec/priority").as_i64().unwrap_or(0),
        nominated: text(object, "/status/nominatedNodeName").to_owned(),
        nominated_at: (at_ms, 0),
        app: text(object, "/metadata/labels/app").to_owned(),
        repels: Some(text(object, REPELS).to_owned()).filter(|app| !app.is_empty()),
        terminating: object.is_terminating(),
        is_plain: !has("/spec/affinity") && !has("/spec/topologySpreadConstraints"),
        is_ours: text(object, "/spec/schedulerName") == crate::cluster::OURS,
        is_denied: object.name().starts_with(DENIED),
        has_ended: matches!(object.phase(), "Succeeded" | "Failed"),
        since_ms: at_ms,
        claims: claims(object).map(str::to_owned).collect(),
        devices: devices::claims(object).map(|name| name.map(str::to_owned)).collect(),
        counts: false,
    }
}

/// Whether the coordinator ignores a node because it is too large.
fn is_too_large(node: &Object) -> bool {
    let count = |path: &str| node.at(path).as_object().map_or(0, serde_json::Map::len);
    count("/metadata/labels") > MAX_NODE_LABELS || count("/status/allocatable") > MAX_NODE_RESOURCES
}

/// CPU in the simulation's format: whole millis.
fn milli(quantity: &str) -> u64 {
    quantity.strip_suffix('m').and_then(|milli| milli.parse().ok()).unwrap_or(0)
}
