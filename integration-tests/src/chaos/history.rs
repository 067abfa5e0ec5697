//! Safety checks of commits: no pod on two nodes, no overcommitted node, no unnecessary eviction.
//!
//! An eviction is unnecessary if no pod of higher priority is pending. It is also unnecessary if each such pod has fitted on some node
//! since its creation, in addition to all other pending pods. A scheduler that has received a pod has received all earlier commits, and has
//! assumed only pending pods. So it cannot have missed such a node, with any delay of its watches.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;

use super::store::Commit;
use crate::{
    census::{has_ended, requested, thousandths},
    fleet::node_of,
};

pub(super) const RESOURCES: [&str; 3] = ["cpu", "memory", "pods"];

/// Amounts of [`RESOURCES`] in thousandths.
pub(super) type Amounts = [i128; RESOURCES.len()];

pub(super) fn asks(pod: &Pod) -> Amounts {
    RESOURCES.map(|resource| requested(pod, resource))
}

pub(super) fn has(node: &Node) -> Amounts {
    let room = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    RESOURCES.map(|resource| room.and_then(|room| room.get(resource)).and_then(thousandths).unwrap_or(0))
}

pub(super) fn plus(one: Amounts, other: Amounts) -> Amounts {
    std::array::from_fn(|resource| one[resource] + other[resource])
}

pub(super) fn holds(room: Amounts, sum: Amounts) -> bool {
    sum.iter().zip(room).all(|(sum, room)| *sum <= room)
}

pub(super) fn selects(pod: &Pod, node: &Node) -> bool {
    let wanted = pod.spec.iter().flat_map(|spec| spec.node_selector.iter().flatten());
    wanted.into_iter().all(|(key, value)| node.labels().get(key) == Some(value))
}

pub(super) fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0)
}

#[derive(Debug)]
pub(super) struct Seen {
    pub(super) uid: String,
    pub(super) name: String,
    pub(super) node: Option<String>,
    /// Whether it is deleted or has ended.
    pub(super) over: bool,
    /// Whether a scheduler has marked it for preemption.
    pub(super) chosen: bool,
    priority: i32,
    asks: Amounts,
    nominated: BTreeSet<String>,
    /// Nodes that have fitted since its creation in addition to all pending pods; only while it is pending.
    fitted: BTreeSet<String>,
}

/// An eviction and its possible preemptors.
#[derive(Debug)]
struct Eviction {
    node: String,
    /// Pods of higher priority that needed it.
    needed_by: Vec<String>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Evictions {
    /// A pod nominated to the victim's node was bound there.
    pub(super) landed: usize,
    /// It was bound to another node: the leader has changed, or the other node was feasible before.
    pub(super) elsewhere: usize,
    /// The nomination was not written, but a preemptor was bound: the leader ended or was partitioned before.
    pub(super) untold: usize,
    /// No preemptor was bound; it is pending, or was deleted.
    pub(super) lost: usize,
}

impl fmt::Display for Evictions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { landed, elsewhere, untold, lost } = self;
        let all = landed + elsewhere + untold + lost;
        write!(
            f,
            "{all} evictions: {landed} for a pod that landed there, {elsewhere} for one that landed elsewhere, {untold} whose \
             nomination was not written, {lost} for one that waits or is gone"
        )
    }
}

#[derive(Debug, Default)]
pub(super) struct History {
    nodes: BTreeMap<String, (Node, Amounts)>,
    used: BTreeMap<String, Amounts>,
    overfull: BTreeSet<String>,
    pods: BTreeMap<String, Seen>,
    named: BTreeMap<String, String>,
    waiting: BTreeMap<String, Pod>,
    evictions: Vec<Eviction>,
    wrong: Vec<String>,
    revision: u64,
}

impl History {
    /// State before the first commit. Nodes do not change.
    #[must_use]
    pub(super) fn new(nodes: &[Node]) -> Self {
        let nodes = nodes.iter().map(|node| (node.name_any(), (node.clone(), has(node)))).collect();
        Self { nodes, ..Self::default() }
    }

    pub(super) fn apply(&mut self, commit: &Commit) {
        if commit.revision <= self.revision {
            self.wrong.push(format!("commit {} came after {}", commit.revision, self.revision));
        }
        self.revision = commit.revision;
        match commit.pod.as_deref() {
            None => self.gone(&commit.name),
            Some(pod) => {
                let uid = pod.uid().unwrap_or_default();
                if self.named.get(&commit.name).is_some_and(|known| *known != uid) {
                    self.gone(&commit.name);
                }
                self.named.insert(commit.name.clone(), uid.clone());
                if !self.pods.contains_key(&uid) {
                    self.created(&commit.name, &uid, pod);
                }
                self.changed(&uid, pod);
            }
        }
        self.keep_fitted();
    }

    fn created(&mut self, name: &str, uid: &str, pod: &Pod) {
        let fitted = self.nodes.values().filter(|(node, _)| selects(pod, node)).map(|(node, _)| node.name_any());
        let seen = Seen {
            uid: uid.to_owned(),
            name: name.to_owned(),
            node: None,
            over: false,
            chosen: false,
            priority: priority(pod),
            asks: asks(pod),
            nominated: BTreeSet::new(),
            fitted: fitted.collect(),
        };
        self.waiting.insert(uid.to_owned(), pod.clone());
        self.pods.insert(uid.to_owned(), seen);
    }

    fn changed(&mut self, uid: &str, pod: &Pod) {
        let is_chosen = is_chosen(pod);
        if is_chosen && self.pods.get(uid).is_some_and(|seen| !seen.chosen) {
            self.evicted(uid);
        }
        let nominated = pod.status.as_ref().and_then(|status| status.nominated_node_name.clone());
        let Some(seen) = self.pods.get_mut(uid) else { return };
        seen.chosen |= is_chosen;
        seen.nominated.extend(nominated.filter(|node| !node.is_empty()));
        match (seen.node.as_deref(), node_of(pod)) {
            (Some(before), now) if now != Some(before) => {
                let line = format!("{} was bound to {before} and then to {now:?}, at {}", seen.name, self.revision);
                self.wrong.push(line);
            }
            (None, Some(node)) => {
                seen.node = Some(node.to_owned());
                self.bound(uid, node);
            }
            _ => {}
        }
        if has_ended(pod) {
            self.over(uid);
        }
    }

    fn bound(&mut self, uid: &str, node: &str) {
        self.waiting.remove(uid);
        let Some(seen) = self.pods.get_mut(uid) else { return };
        seen.fitted.clear();
        let used = self.used.entry(node.to_owned()).or_default();
        *used = plus(*used, seen.asks);
        match self.nodes.get(node) {
            None => self.wrong.push(format!("{} was bound to {node}, which there is not", seen.name)),
            Some((_, room)) if !holds(*room, *used) && self.overfull.insert(node.to_owned()) => {
                self.wrong.push(format!(
                    "{node} is over its capacity at {} by {}: it has {room:?} and its pods ask for {used:?} (thousandths \
                     of {RESOURCES:?})",
                    self.revision, seen.name
                ));
            }
            Some(_) => {}
        }
    }

    fn gone(&mut self, name: &str) {
        if let Some(uid) = self.named.remove(name) {
            self.over(&uid);
        }
    }

    fn over(&mut self, uid: &str) {
        self.waiting.remove(uid);
        let Some(seen) = self.pods.get_mut(uid).filter(|seen| !seen.over) else { return };
        seen.over = true;
        seen.fitted.clear();
        let Some(node) = &seen.node else { return };
        if let Some(used) = self.used.get_mut(node) {
            *used = plus(*used, seen.asks.map(|amount| -amount));
            if self.nodes.get(node).is_some_and(|(_, room)| holds(*room, *used)) {
                self.overfull.remove(node);
            }
        }
    }

    /// Handles a mark for preemption, before the rest of the commit.
    fn evicted(&mut self, uid: &str) {
        let Some(victim) = self.pods.get(uid) else { return };
        let higher =
            || self.waiting.keys().filter_map(|uid| self.pods.get(uid)).filter(|pod| pod.priority > victim.priority);
        let needed_by: Vec<String> = higher().filter(|pod| pod.fitted.is_empty()).map(|pod| pod.uid.clone()).collect();
        if needed_by.is_empty() {
            let why = match higher().next() {
                None => "no pod of higher priority waits".to_owned(),
                Some(pod) => format!("{} has fitted on {:?} since it was created", pod.name, pod.fitted),
            };
            self.wrong.push(format!("the eviction of {} at {} is needless: {why}", victim.name, self.revision));
        }
        // A pod in its binding cycle occupies its node and may be preempted, as in kube-scheduler. No commit names its node.
        if let Some(node) = &victim.node {
            self.evictions.push(Eviction { node: node.clone(), needed_by });
        }
    }

    /// Removes nodes that do not fit any more from each pending pod.
    fn keep_fitted(&mut self) {
        let uids = self.waiting.keys().filter_map(|uid| self.pods.get(uid));
        let waiting = uids.fold(Amounts::default(), |sum, pod| plus(sum, pod.asks));
        for uid in self.waiting.keys() {
            let Some(pod) = self.pods.get_mut(uid) else { continue };
            pod.fitted.retain(|node| {
                let used = self.used.get(node).copied().unwrap_or_default();
                self.nodes.get(node).is_some_and(|(_, room)| holds(*room, plus(used, waiting)))
            });
        }
    }

    #[must_use]
    pub(super) fn wrong(&self) -> &[String] {
        &self.wrong
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = &Seen> {
        self.pods.values()
    }

    #[must_use]
    pub(super) fn pod(&self, uid: &str) -> Option<&Seen> {
        self.pods.get(uid)
    }

    #[must_use]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// CPU requests of all running and pending pods in percent of the cluster.
    #[must_use]
    pub(super) fn asked_percent(&self) -> i128 {
        let there: i128 = self.nodes.values().map(|(_, room)| room[0]).sum();
        let asked: i128 = self.pods.values().filter(|pod| !pod.over).map(|pod| pod.asks[0]).sum();
        asked * 100 / there.max(1)
    }

    #[must_use]
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    #[must_use]
    pub(super) fn evictions(&self) -> Evictions {
        let mut count = Evictions::default();
        for Eviction { node, needed_by } in &self.evictions {
            let needed: Vec<&Seen> = needed_by.iter().filter_map(|uid| self.pods.get(uid)).collect();
            let nominated = || needed.iter().filter(|pod| pod.nominated.contains(node));
            if nominated().any(|pod| pod.node.as_ref() == Some(node)) {
                count.landed += 1;
            } else if nominated().any(|pod| pod.node.is_some()) {
                count.elsewhere += 1;
            } else if nominated().next().is_none() && needed.iter().any(|pod| pod.node.is_some()) {
                count.untold += 1;
            } else {
                count.lost += 1;
            }
        }
        count
    }
}

fn is_chosen(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| {
        condition.type_ == "DisruptionTarget" && condition.reason.as_deref() == Some("PreemptionByScheduler")
    })
}

#[cfg(test)]
mod tests;
