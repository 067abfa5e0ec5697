//! Where pods are, and whether they may be there.
//!
//! Knows: what nodes have, what pods ask for, and how old a view a coordinator may go by. Must not know: how a node is chosen.
//!
//! A coordinator decides by a view that may be old. So a node counts with the most that it has had within [`VIEW_MS`], and since
//! what the coordinator was told of nodes long before. Until they are as old, pods of other schedulers do not count, nor do pods
//! that were bound by a request that was under way for so long that its sender had lost the Lease meanwhile, or by a process that
//! does not know yet that a restore has taken the Lease back from it, or that a restore of the API server has brought back.

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

/// A leader whose view of pods or nodes is older gives up its Lease; a look comes every second.
const VIEW_MS: u64 = 182_000;
/// How old a view may be where nothing goes wrong: a decision may have been waited for, and its binding.
const SHARP_MS: u64 = 5_000;

/// Where a pod says whose pods it does not want on its node.
const REPELS: &str =
    "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/0/labelSelector/matchLabels/app";

/// Nodes and pods as they are at a commit.
#[derive(Debug)]
pub struct Places {
    /// How old a view may be.
    view_ms: u64,
    /// The priorities of pods that are gone, and since when.
    gone: Vec<(u64, i64)>,
    nodes: BTreeMap<String, Node>,
    pods: BTreeMap<String, Pod>,
    /// When something last changed on each node.
    touched: BTreeMap<String, u64>,
    budgets: BTreeMap<String, Budget>,
}

/// A node.
#[derive(Debug, Default)]
struct Node {
    exists: bool,
    /// What it could take, and since when: the last is the present.
    states: Vec<State>,
}

/// What a node could take from a moment on.
#[derive(Debug, Clone)]
struct State {
    from_ms: u64,
    version: u64,
    exists: bool,
    takes_pods: bool,
    milli_cpu: u64,
    zone: String,
}

/// A pod.
#[derive(Debug, Clone)]
pub(super) struct Pod {
    /// Its UID.
    pub uid: String,
    /// Its node; empty for none.
    pub node: String,
    /// What it requests.
    pub milli_cpu: u64,
    /// The zone it must be in; empty for any.
    pub zone: String,
    /// Its priority.
    pub priority: i64,
    /// The node that it is nominated to; empty for none.
    pub nominated: String,
    /// When it was nominated to that, ms, and the version up to which the nodes were known by then.
    nominated_at: (u64, u64),
    /// The application that it belongs to.
    pub app: String,
    /// The application whose pods may not be on its node.
    pub repels: Option<String>,
    /// It is being deleted.
    pub terminating: bool,
    /// Nothing but its CPU and its zone says where it may be.
    pub is_plain: bool,
    /// Flotilla is to place it.
    pub is_ours: bool,
    /// Its binding is turned away each time.
    pub is_denied: bool,
    /// It has run to its end, or was turned away.
    pub has_ended: bool,
    /// When it became as it is.
    pub since_ms: u64,
    /// The claims of its volumes.
    pub claims: Vec<String>,
    /// Its claims of devices; `None`: one that is not created yet.
    pub devices: Vec<Option<String>>,
    /// A coordinator has bound it in time, so that its node must have had room.
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
    /// Views are new from now on.
    pub(super) const fn sharpen(&mut self) {
        self.view_ms = SHARP_MS;
    }

    /// Nothing goes wrong.
    pub(super) const fn is_sharp(&self) -> bool {
        self.view_ms == SHARP_MS
    }

    /// How old a view may be, ms.
    pub(super) const fn view_ms(&self) -> u64 {
        self.view_ms
    }

    /// Takes over a commit. `alone`: no other process can have led when it came about.
    pub(super) fn see(&mut self, commit: &Commit, alone: bool) {
        match commit.kind {
            Kind::Node => self.see_node(commit),
            Kind::Pod => self.see_pod(commit, alone),
            Kind::PodDisruptionBudget => self.see_budget(commit.key(), commit.after.as_deref(), commit.at_ms),
            _ => {}
        }
    }

    /// The API server was restored: this is what there is. Nobody has decided on it.
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

    /// What is wrong with a binding. `alone`: no other process can have led when it came about.
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
            found.push(("S6", format!("{key} is bound to {}, which takes no pods or is not there", bound.node)));
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

    /// When a binding was decided at the earliest, ms, and the version up to which the nodes were known by then. A pod that waits for
    /// its volumes or devices may have been decided when it was nominated; it is not filtered again before it is bound, as with kube-scheduler.
    fn decided(&self, bound: &Pod, commit: &Commit) -> (u64, u64) {
        let may_have_waited = |pod: &&Pod| pod.uid == bound.uid && pod.nominated == bound.node && pod.writes_first();
        let known = commit.knows.nodes;
        match self.pods.get(commit.key()).filter(may_have_waited) {
            // Another process may have nominated it, and known more than the one that binds it.
            Some(Pod { nominated_at: (at_ms, known_then), .. }) => (*at_ms, known.min(*known_then)),
            None => (commit.at_ms, known),
        }
    }

    /// Pods that wait although a node has room and devices for them, by their CPU, zone and claims alone; each with what is wrong.
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
                Some((key.clone(), format!("{key} asks for {}m and waits, and {node} has room", pod.milli_cpu)))
            })
            .collect()
    }

    /// Whether pods are leaving their nodes, for which others may wait.
    #[must_use]
    pub fn are_leaving(&self) -> bool {
        self.pods.values().any(|pod| pod.terminating && !pod.node.is_empty() && !pod.has_ended)
    }

    /// Whether some node has room for a pod that asks for next to nothing, beside those that are nominated to it.
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

    /// Whether more than the requests of a pod decides where it fits once victims are gone: other pods, or devices.
    #[must_use]
    pub fn minds_others(&self, key: &str) -> bool {
        self.pods.get(key).is_some_and(|pod| !pod.is_plain || !pod.devices.is_empty())
    }

    /// Whether a pod that waits is nominated to a node that it may not fit: by its own affinity, spread or devices, or by the
    /// anti-affinity of a pod there.
    #[must_use]
    pub fn has_blocked_nomination(&self) -> bool {
        let mut nominated = self.pods.values().filter(|pod| pod.waits() && !pod.nominated.is_empty());
        nominated.any(|pod| !pod.is_plain || !pod.devices.is_empty() || self.repel(pod, &pod.nominated))
    }

    /// Whether pods on a node keep another off it by their anti-affinity.
    fn repel(&self, other: &Pod, node: &str) -> bool {
        self.pods.values().any(|pod| pod.node == node && pod.repels.as_ref() == Some(&other.app))
    }

    /// The pods that wait for Flotilla.
    #[must_use]
    pub fn waiting(&self) -> BTreeSet<String> {
        self.pods.iter().filter(|(_, pod)| pod.waits()).map(|(key, _)| key.clone()).collect()
    }
}

impl Pod {
    /// The pod as it is after a change. If its nomination has not changed, the time of that is the earlier one.
    fn after(mut self, before: Option<&Self>) -> Self {
        if let Some(before) = before.filter(|pod| pod.uid == self.uid && pod.nominated == self.nominated) {
            self.nominated_at = before.nominated_at;
        }
        self
    }

    /// Its node, or the one that it is nominated to; empty for neither.
    fn place(&self) -> &str {
        if self.node.is_empty() { &self.nominated } else { &self.node }
    }

    /// Other objects are written before it is bound.
    const fn writes_first(&self) -> bool {
        !self.claims.is_empty() || !self.devices.is_empty()
    }

    /// It waits for Flotilla.
    const fn waits(&self) -> bool {
        self.is_ours && self.node.is_empty() && !self.terminating && !self.has_ended
    }
}

impl Node {
    /// From now on it is this; `None`: it is not there.
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

    /// What it has been since a moment and since a version.
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

/// Whether a node is left out because it says too much.
fn is_too_large(node: &Object) -> bool {
    let count = |path: &str| node.at(path).as_object().map_or(0, serde_json::Map::len);
    count("/metadata/labels") > MAX_NODE_LABELS || count("/status/allocatable") > MAX_NODE_RESOURCES
}

/// CPU as the world writes it: whole millis.
fn milli(quantity: &str) -> u64 {
    quantity.strip_suffix('m').and_then(|milli| milli.parse().ok()).unwrap_or(0)
}
