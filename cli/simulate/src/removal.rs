//! Removes nodes one after the other, the emptiest first, and undoes each removal that a pod or a budget holds.
//!
//! A node is removed if its pods can be evicted and find other nodes without preemption, after all removals before it. Source of the order and
//! of the annotations: `simulator` and `core/scaledown` of Cluster Autoscaler.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_cluster::Cluster;
use flotilla_framework::{
    class::{PodInfo, Taint},
    node::NodeInfo,
};
use flotilla_machine::event::{Configuration, Event};
use flotilla_model::{Blocked, Resident};
use indicatif::{ProgressBar, ProgressStyle};

use crate::{ledger::Saved, model::Model, rest, rounds::Parts};

mod room;

use room::Room;
pub use room::Share;

/// The limit of nodes that are tried, the size of the largest clusters. An attempt copies the state of all pods: 40 ms for 40,000 pods, so
/// all take some three minutes.
const MOST_TRIED: usize = 5_000;

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// The label of nodes that run the control plane.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// The nodes that may be removed.
#[derive(Debug, Clone, Default)]
pub struct Search {
    /// The nodes by name, each with the annotation by which autoscalers keep it.
    pub candidates: BTreeMap<Arc<str>, Option<&'static str>>,
    /// The template of the progress bar, which counts nodes.
    pub progress: &'static str,
}

/// The result for all candidates.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Removals {
    /// The nodes that can go together, in the order of their removal.
    pub removed: Vec<RemovedNode>,
    /// All others, in the order of the attempts.
    pub held: Vec<HeldNode>,
}

/// A node that can go.
#[derive(Debug, Clone, PartialEq)]
pub struct RemovedNode {
    /// The node.
    pub node: Arc<NodeInfo>,
    /// The largest requested share of a resource before the first removal.
    pub requested: Share,
    /// The evicted pods, as `namespace/name`.
    pub pods: Vec<String>,
}

/// A node that cannot go.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldNode {
    /// The name.
    pub node: Arc<str>,
    /// The largest requested share of a resource before the first removal.
    pub requested: Share,
    /// The first obstacle.
    pub hold: Hold,
}

/// Why a node cannot go. Pods are `namespace/name`.
#[derive(Debug, Clone, PartialEq)]
pub enum Hold {
    /// An annotation of the node, such as `karpenter.sh/do-not-disrupt=true`.
    Annotation(&'static str),
    /// The node has the label of the control plane.
    ControlPlane,
    /// An annotation of a pod.
    PodAnnotation {
        /// The pod.
        pod: String,
        /// The annotation.
        annotation: &'static str,
    },
    /// No controller recreates the pod.
    Unmanaged(String),
    /// The pod has a volume of type emptyDir.
    EmptyDir(String),
    /// The pods request more of a resource than is free on all other nodes.
    Room {
        /// The resource.
        resource: Arc<str>,
        /// The sum of the requests, in the smallest unit of the resource.
        requested: i128,
        /// The free amount.
        free: i128,
    },
    /// A pod stays pending.
    Pending {
        /// The pod.
        pod: String,
        /// Its message.
        message: String,
        /// Pods of lower priority run, which it does not preempt here.
        may_preempt: bool,
    },
    /// The API server refuses the eviction of a pod.
    Blocked(Blocked),
    /// This number of nodes was tried before.
    NotTried(usize),
}

impl Parts<'_> {
    /// The pods that were created since the attempt began and are undecided, by name.
    fn pending(self, saved: &Saved) -> Vec<Arc<PodInfo>> {
        let mut pods = self.ledger.undecided();
        pods.retain(|pod| saved.undecided(&pod.uid).is_none());
        pods
    }
}

/// Removes the candidates that can go. `without_preemption`: the configuration of the machine during the search.
///
/// # Errors
/// Those of [`crate::run::run`].
pub(super) async fn search(
    parts: Parts<'_>,
    model: &mut Model,
    cluster: &Cluster,
    search: &Search,
    without_preemption: Configuration,
    progress: &ProgressBar,
) -> anyhow::Result<Removals> {
    let messages = parts.ledger.messages();
    let saved = parts.ledger.begin();
    let next = Configuration { generation: without_preemption.generation + 1, ..without_preemption.clone() };
    parts.handle.send_event_applied(Event::Configured(Arc::new(without_preemption))).await?;
    parts.run(model).await?;
    parts.ledger.keep(saved);
    let (mut room, shares) = Room::of(&cluster.nodes, model.controllers().pods());
    let mut order: Vec<(&Arc<NodeInfo>, Share, Option<&'static str>)> = Vec::new();
    for (node, share) in cluster.nodes.iter().zip(shares) {
        order.extend(search.candidates.get(&node.name).map(|annotation| (node, share, *annotation)));
    }
    order.sort_by(|(left, share, _), (right, other, _)| {
        share.percent.total_cmp(&other.percent).then_with(|| left.name.cmp(&right.name))
    });
    progress.set_style(ProgressStyle::with_template(search.progress).unwrap_or_else(|_| ProgressStyle::default_bar()));
    progress.set_length(order.len().min(MOST_TRIED) as u64);
    let mut removals = Removals::default();
    for (tried, (node, requested, annotation)) in order.into_iter().enumerate() {
        progress.set_position(tried as u64);
        let outcome = match tried < MOST_TRIED {
            true => attempt(parts, model, &mut room, node, annotation).await?,
            false => Err(Hold::NotTried(MOST_TRIED)),
        };
        match outcome {
            Ok(pods) => removals.removed.push(RemovedNode { node: Arc::clone(node), requested, pods }),
            Err(hold) => removals.held.push(HeldNode { node: Arc::clone(&node.name), requested, hold }),
        }
    }
    if removals.removed.is_empty() {
        parts.run(model).await?;
        parts.ledger.set_messages(messages);
    } else {
        // Pods that wait are tried again, for their messages.
        parts.handle.send_event_applied(Event::Configured(Arc::new(next))).await?;
        parts.run(model).await?;
    }
    Ok(removals)
}

/// Removes a node, or undoes the attempt. Returns the evicted pods.
async fn attempt(
    parts: Parts<'_>,
    model: &mut Model,
    room: &mut Room,
    node: &Arc<NodeInfo>,
    annotation: Option<&'static str>,
) -> anyhow::Result<Result<Vec<String>, Hold>> {
    let residents = model.controllers().residents(&node.name);
    if let Some(hold) = standing(node, annotation, &residents) {
        return Ok(Err(hold));
    }
    let left = match room.without(node, &residents) {
        Ok(left) => left,
        Err(hold) => return Ok(Err(hold)),
    };
    let (before, saved) = (model.clone(), parts.ledger.begin());
    model.vacate(&node.name);
    parts.handle.send_together(vec![Event::NodeApplied(closed(node))]).await?;
    parts.run(model).await?;
    let mut pending = parts.pending(&saved);
    let blocked = model.controllers().first_blocked();
    let is_spread = pending.iter().any(|pod| pod.class.spread.iter().any(|constraint| constraint.required));
    // An empty domain may refuse pods as long as the node exists.
    if blocked.is_none() && (pending.is_empty() || is_spread) {
        let events = model.remove_node(&node.name);
        parts.handle.send_together(events).await?;
        parts.run(model).await?;
        pending = parts.pending(&saved);
    }
    let hold = match pending.first() {
        Some(pod) => {
            let is_victim = |other: &Arc<PodInfo>| other.node_name.is_some() && other.priority < pod.priority;
            let may_preempt = !pod.never_preempts && model.controllers().pods().any(is_victim);
            Some(Hold::Pending { pod: pod.key(), message: message(parts, model, pod).await?, may_preempt })
        }
        None => blocked.map(Hold::Blocked),
    };
    let Some(hold) = hold else {
        model.take_journal();
        parts.ledger.keep(saved);
        *room = left;
        let evicted = residents.iter().filter(|resident| !resident.goes_with_node());
        return Ok(Ok(evicted.map(|resident| resident.pod.key()).collect()));
    };
    let later = std::mem::replace(model, before);
    let mut events = vec![Event::NodeApplied(Arc::clone(node))];
    events.extend(model.revert(later, &saved));
    parts.ledger.undo(saved);
    parts.handle.send_together(events).await?;
    Ok(Err(hold))
}

async fn message(parts: Parts<'_>, model: &Model, pod: &PodInfo) -> anyhow::Result<String> {
    match parts.ledger.report(&pod.uid) {
        Some(message) => Ok(message),
        None => rest::words(parts.handle, pod, model).await,
    }
}

/// The obstacle that needs no simulation.
///
/// Source: `filters` in `k8s.io/kubectl/pkg/drain`, and `drainability/rules` of Cluster Autoscaler.
fn standing(node: &NodeInfo, annotation: Option<&'static str>, residents: &[Resident]) -> Option<Hold> {
    if let Some(annotation) = annotation {
        return Some(Hold::Annotation(annotation));
    }
    if node.label(CONTROL_PLANE).is_some() {
        return Some(Hold::ControlPlane);
    }
    residents.iter().filter(|resident| !resident.goes_with_node() && !resident.pod.deleting).find_map(|resident| {
        let Resident { pod, facts, is_controlled } = resident;
        match facts.keeps_node {
            Some(annotation) => Some(Hold::PodAnnotation { pod: pod.key(), annotation }),
            None if facts.is_safe_to_evict => None,
            None if !is_controlled => Some(Hold::Unmanaged(pod.key())),
            None => facts.has_empty_dir.then(|| Hold::EmptyDir(pod.key())),
        }
    })
}

/// The cordoned node, also closed to pods that tolerate the taint of cordoned nodes.
fn closed(node: &NodeInfo) -> Arc<NodeInfo> {
    let mut closed = NodeInfo { unschedulable: true, allowed_pods: 0, ..node.clone() };
    let taint = Taint { key: UNSCHEDULABLE.into(), value: "".into(), effect: "NoSchedule".into() };
    if !closed.taints.contains(&taint) {
        closed.taints.push(taint);
    }
    Arc::new(closed)
}
