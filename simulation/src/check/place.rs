//! Where pods are, and whether they may be there.
//!
//! Knows: what nodes have, what pods ask for, and how old a view a coordinator may go by. Must not know: how a node is chosen.
//!
//! A coordinator decides by a view that may be old. So a node counts with the most that it has had within [`VIEW_MS`], pods of
//! other schedulers do not count, nor do pods that were bound by a request that was under way for so long that its sender had
//! lost the Lease meanwhile, or that a restore of the API server has brought back.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::{Commit, Kind, Object, Store, Verb};

use super::{COORDINATOR, text};

/// A leader whose view of pods or nodes is older gives up its Lease; a look comes every second.
const VIEW_MS: u64 = 182_000;
/// How old a view may be where nothing goes wrong: a decision may have been waited for, and its binding.
const SHARP_MS: u64 = 5_000;
/// `leaseDuration` less `renewDeadline`: a request that is under way for longer may be committed under the next leader.
const GAP_MS: u64 = 2_000;

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
    /// A coordinator has bound it in time, so that its node must have had room.
    counts: bool,
}

impl Default for Places {
    fn default() -> Self {
        Self { view_ms: VIEW_MS, gone: Vec::new(), nodes: BTreeMap::new(), pods: BTreeMap::new() }
    }
}

impl Places {
    /// Views are new from now on.
    pub(super) const fn sharpen(&mut self) {
        self.view_ms = SHARP_MS;
    }

    /// Takes over a commit.
    pub(super) fn see(&mut self, commit: &Commit) {
        match commit.kind {
            Kind::Node => self.see_node(commit),
            Kind::Pod => self.see_pod(commit),
            _ => {}
        }
    }

    /// The API server was restored: this is what there is. Nobody has decided on it.
    pub(super) fn restored(&mut self, store: &Store, at_ms: u64) {
        self.gone.extend(self.pods.values().filter(|pod| pod.is_ours).map(|pod| (at_ms, pod.priority)));
        let pods = store.objects(Kind::Pod).map(|object| (object.key().to_owned(), pod(object)));
        self.pods = pods.collect();
        for node in self.nodes.values_mut().filter(|node| node.exists) {
            node.push(at_ms, None);
        }
        for object in store.objects(Kind::Node) {
            self.nodes.entry(object.key().to_owned()).or_default().push(at_ms, Some(object));
        }
    }

    fn see_node(&mut self, commit: &Commit) {
        let node = self.nodes.entry(commit.key().to_owned()).or_default();
        node.push(commit.at_ms, commit.after.as_deref());
    }

    fn see_pod(&mut self, commit: &Commit) {
        let Some(object) = &commit.after else {
            let gone = self.pods.remove(commit.key()).filter(|pod| pod.is_ours);
            self.gone.extend(gone.map(|pod| (commit.at_ms, pod.priority)));
            return;
        };
        let before = self.pods.get(commit.key()).filter(|pod| pod.uid == object.uid());
        let in_time = commit.at_ms.saturating_sub(commit.sent_ms) < GAP_MS;
        let bound = commit.verb == Verb::Bind && commit.by.starts_with(COORDINATOR) && in_time;
        let counts = bound || before.is_some_and(|pod| pod.counts);
        self.pods.insert(commit.key().to_owned(), Pod { counts, ..pod(object) });
    }

    /// What is wrong with a binding.
    pub(super) fn bind(&self, commit: &Commit) -> Vec<(&'static str, String)> {
        let Some(object) = &commit.after else { return Vec::new() };
        let (bound, key) = (pod(object), commit.key());
        let mut found = Vec::new();
        let none = Node::default();
        let node = self.nodes.get(&bound.node).unwrap_or(&none);
        let seen: Vec<&State> = node.within(commit.at_ms.saturating_sub(self.view_ms)).collect();
        if !seen.iter().any(|state| state.exists && state.takes_pods) {
            found.push(("S6", format!("{key} is bound to {}, which takes no pods or is not there", bound.node)));
        }
        if !bound.zone.is_empty() && !seen.iter().any(|state| state.zone == bound.zone) {
            found.push(("S4", format!("{key} must be in zone {} and is bound to {}", bound.zone, bound.node)));
        }
        let most = seen.iter().map(|state| state.milli_cpu).max().unwrap_or(0);
        let others = self.pods.iter().filter(|(other, pod)| *other != key && pod.counts && pod.node == bound.node);
        let used: u64 = others.map(|(_, pod)| pod.milli_cpu).sum();
        let late = commit.at_ms.saturating_sub(commit.sent_ms) >= GAP_MS;
        if !late && used + bound.milli_cpu > most {
            let asked = bound.milli_cpu;
            found.push((
                "S2",
                format!("{key} asks {} for {asked}m; it has {most}m, of which {used}m are taken", bound.node),
            ));
        }
        found
    }

    /// What is wrong with a deletion by a coordinator.
    pub(super) fn evict(&self, commit: &Commit) -> Vec<(&'static str, String)> {
        let Some(victim) = self.pods.get(commit.key()) else { return Vec::new() };
        let above = self.pods.values().any(|pod| pod.is_ours && pod.priority > victim.priority);
        let from_ms = commit.at_ms.saturating_sub(self.view_ms);
        if above || self.gone.iter().any(|(at_ms, priority)| *at_ms >= from_ms && *priority > victim.priority) {
            return Vec::new();
        }
        vec![(
            "P1",
            format!("{} of priority {} is evicted, and no pod has a higher one", commit.key(), victim.priority),
        )]
    }

    /// Pods that wait although a node has room for them, by their CPU and zone alone; each with what is wrong.
    #[must_use]
    pub fn stranded(&self) -> Vec<(String, String)> {
        let mut taken: BTreeMap<&str, u64> = BTreeMap::new();
        for pod in self.pods.values() {
            let place = if pod.node.is_empty() { &pod.nominated } else { &pod.node };
            *taken.entry(place).or_default() += pod.milli_cpu;
        }
        let is_open = |node: &str, waiting: &Pod| {
            let Some(state) = self.nodes.get(node).and_then(|node| node.states.last()) else { return false };
            let zone = waiting.zone.is_empty() || waiting.zone == state.zone;
            let used = taken.get(node).copied().unwrap_or(0);
            let repels = |pod: &Pod| pod.node == *node && pod.repels.as_ref() == Some(&waiting.app);
            let zone = zone && !self.pods.values().any(repels);
            state.exists && state.takes_pods && zone && used + waiting.milli_cpu <= state.milli_cpu
        };
        let waits = |pod: &&Pod| pod.is_ours && pod.is_plain && pod.node.is_empty() && !pod.terminating;
        let waiting = self.pods.iter().filter(|(_, pod)| waits(pod));
        waiting
            .filter_map(|(key, pod)| {
                let node = self.nodes.keys().find(|node| is_open(node, pod))?;
                Some((key.clone(), format!("{key} asks for {}m and waits, and {node} has room", pod.milli_cpu)))
            })
            .collect()
    }

    /// Whether some node has room for a pod that asks for next to nothing.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.nodes.iter().any(|(name, node)| {
            let used: u64 = self.pods.values().filter(|pod| pod.node == *name).map(|pod| pod.milli_cpu).sum();
            let count = self.pods.values().filter(|pod| pod.node == *name).count();
            node.states.last().is_some_and(|state| state.exists && state.takes_pods && used < state.milli_cpu)
                && count < 20
        })
    }

    /// The pods that wait for Flotilla.
    #[must_use]
    pub fn waiting(&self) -> BTreeSet<String> {
        let waits = |pod: &Pod| pod.is_ours && pod.node.is_empty() && !pod.terminating;
        self.pods.iter().filter(|(_, pod)| waits(pod)).map(|(key, _)| key.clone()).collect()
    }
}

impl Node {
    /// From now on it is this; `None`: it is not there.
    fn push(&mut self, from_ms: u64, object: Option<&Object>) {
        self.exists = object.is_some();
        self.states.push(match object {
            Some(object) => State {
                from_ms,
                exists: true,
                takes_pods: object.at("/spec/unschedulable").as_bool() != Some(true),
                milli_cpu: milli(text(object, "/status/allocatable/cpu")),
                zone: text(object, "/metadata/labels/zone").to_owned(),
            },
            None => State { from_ms, exists: false, takes_pods: false, milli_cpu: 0, zone: String::new() },
        });
    }

    /// What it has been since a moment.
    fn within(&self, from_ms: u64) -> impl Iterator<Item = &State> {
        let first = self.states.iter().rposition(|state| state.from_ms <= from_ms).unwrap_or(0);
        self.states[first.min(self.states.len())..].iter()
    }
}

fn pod(object: &Object) -> Pod {
    let spec = |path: &str| object.value().pointer(path).is_some();
    Pod {
        uid: object.uid().to_owned(),
        node: text(object, "/spec/nodeName").to_owned(),
        milli_cpu: milli(text(object, "/spec/containers/0/resources/requests/cpu")),
        zone: text(object, "/spec/nodeSelector/zone").to_owned(),
        priority: object.value().pointer("/spec/priority").and_then(serde_json::Value::as_i64).unwrap_or(0),
        nominated: text(object, "/status/nominatedNodeName").to_owned(),
        app: text(object, "/metadata/labels/app").to_owned(),
        repels: Some(text(object, REPELS).to_owned()).filter(|app| !app.is_empty()),
        terminating: spec("/metadata/deletionTimestamp"),
        is_plain: !spec("/spec/affinity") && !spec("/spec/topologySpreadConstraints"),
        is_ours: text(object, "/spec/schedulerName") == crate::cluster::OURS,
        counts: false,
    }
}

/// CPU as the world writes it: whole millis.
fn milli(quantity: &str) -> u64 {
    quantity.strip_suffix('m').and_then(|milli| milli.parse().ok()).unwrap_or(0)
}
