//! The last decisions that gave pods a node, and how they were made: who asks afterwards is told what was so then.
//!
//! A decision is kept as little more than the state that it was made in. The nodes of that state are found again by undoing, in a
//! copy of the nodes of now, what happened since; then every plugin is asked about every node once more. So a decision costs next
//! to nothing to keep, and what is told of it is exact, or it is told that it cannot be.
//!
//! Knows: what is kept, for how long, and how it is evaluated again. Must not know: who asks, or how it is worded for them.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use flotilla_framework::{
    class::{Class, ClassId},
    explain::{
        Explanation, Outcome, PluginScore,
        shard::{self, MAX_PAGE_NODES, Page},
    },
    node::NodeId,
    prepared::Prepared,
    profile::Profile,
    registry::Registry,
    select::Nominations,
    shard::Revision,
    snapshot::Snapshot,
};

use crate::{
    action::{Binding, Victim},
    event::{Configuration, TimeMs},
    judge::{decision::Basis, past::Rewind},
    machine::Machine,
    outlook,
    subject::{PodName, Subject, Uid},
};

pub use crate::judge::past::Unknowable;

/// How many decisions are kept unless the operator says otherwise. One takes up to 256 bytes and some 200 for the pod's names, and
/// keeps its class and what the cluster said about it, some 3 KB together, which pods of one class share: 7.5 MB where there are few
/// classes, up to [`MAX_BYTES`] where each pod is a class of its own.
pub const DECISIONS_KEPT: usize = 16_384;

/// How many bytes they may take, with their classes.
const MAX_BYTES: usize = 64 << 20;

/// What the names of a pod take.
const BYTES_OF_NAMES: usize = 200;

/// What one of the nominations takes that concern a pod.
const BYTES_OF_NOMINATION: usize = 64;

/// How many preemptions are kept. Each has some 100 bytes for each victim, of which most have less than ten: 1 MB.
const ROOMS_KEPT: usize = 1_024;

/// How many nodes are told of with all their scores.
const MOST_CANDIDATES: usize = 10;

/// How many nodes are named of those that were refused for one reason.
const MOST_NAMES: usize = 5;

/// A decision that gave a pod a node.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) pod: PodName,
    pub(crate) node: Arc<str>,
    pub(crate) subject: Subject,
    pub(crate) class: Arc<Class>,
    pub(crate) configuration: Arc<Configuration>,
    pub(crate) basis: Basis,
    pub(crate) revision: Revision,
    pub(crate) total: i64,
    pub(crate) attempt: u32,
    pub(crate) waited_ms: TimeMs,
    pub(crate) decided_ms: TimeMs,
}

const _: () = assert!(size_of::<Kept>() <= 256);

/// A preemption.
#[derive(Debug, Clone)]
struct Room {
    uid: Uid,
    node: Arc<str>,
    victims: Arc<[PodName]>,
    at_ms: TimeMs,
}

/// The last decisions.
#[derive(Debug)]
pub(crate) struct Decisions {
    most: usize,
    /// With the bytes that each takes.
    kept: VecDeque<(Kept, usize)>,
    bytes: usize,
    rooms: VecDeque<Room>,
}

/// A decision that was found, with the nodes of now. It is evaluated elsewhere than on the thread of the machine ([`Self::account`]).
#[derive(Debug)]
pub struct Recall {
    kept: Kept,
    registry: Registry,
    rewind: Result<Rewind, Unknowable>,
    rooms: Vec<Room>,
    now_ms: TimeMs,
}

/// A decision as it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recalled {
    /// The pod's UID.
    pub uid: Arc<str>,
    /// The profile's `schedulerName`.
    pub profile: Arc<str>,
    /// The node that was chosen.
    pub node: Arc<str>,
    /// Its total, as it was decided by; 0 for the node that the pod was nominated to, which is taken without a score.
    pub total: i64,
    /// The state of the cluster.
    pub revision: Revision,
    /// How many changes to nodes and to the pods on them there were since; `None`: too many to know.
    pub changes_since: Option<usize>,
    /// How long ago it was.
    pub ago_ms: TimeMs,
    /// Which attempt on the pod it was, counted from 1.
    pub attempt: u32,
    /// How long the pod had waited.
    pub waited_ms: TimeMs,
    /// HTTP extenders had a say, whose words are not kept.
    pub asked_extenders: bool,
    /// Preemptions for the pod before, the oldest first.
    pub preemptions: Vec<Preempted>,
    /// All nodes as they were.
    pub picture: Result<Picture, Unknowable>,
}

/// A preemption for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preempted {
    /// Where.
    pub node: Arc<str>,
    /// Who had to go.
    pub victims: Arc<[PodName]>,
    /// How long ago it was.
    pub ago_ms: TimeMs,
}

/// What the plugins made of the nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Picture {
    /// How many nodes there were.
    pub nodes: usize,
    /// How many would have done.
    pub feasible: usize,
    /// The best of those, the best first; the chosen one is among them.
    pub candidates: Vec<Candidate>,
    /// How many had the highest total.
    pub tied: usize,
    /// The node was taken because the pod was nominated to it.
    pub was_nominated: bool,
    /// Why nodes were refused, the most frequent first.
    pub refused: Vec<RefusedNodes>,
    /// Whether the chosen node is the best of these with the total that was decided by. Extenders may have decided otherwise.
    pub agrees: bool,
}

/// A node that would have done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub node: Arc<str>,
    /// The sum of its scores; `None` where nodes cannot be scored.
    pub total: Option<i64>,
    /// Each plugin's part.
    pub scores: Vec<PluginScore>,
}

/// Nodes that were refused for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedNodes {
    /// The plugin; `None` where upstream notes none.
    pub plugin: Option<&'static str>,
    /// Its words.
    pub reasons: Arc<[String]>,
    /// How many nodes.
    pub count: usize,
    /// Some of them.
    pub examples: Vec<Arc<str>>,
}

// === impl Decisions ===

impl Default for Decisions {
    fn default() -> Self {
        Self { most: DECISIONS_KEPT, kept: VecDeque::new(), bytes: 0, rooms: VecDeque::new() }
    }
}

impl Decisions {
    /// How many are kept, and what they take.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.kept.len(), self.bytes)
    }

    /// Whether any are kept.
    pub(crate) const fn are_kept(&self) -> bool {
        self.most > 0
    }

    pub(crate) fn keep(&mut self, new: Kept) {
        let last = self.kept.back().map(|(last, _)| last);
        // Those that share a class come one after the other, or take more than they are counted for.
        let shares_class = last.is_some_and(|last| Arc::ptr_eq(&last.class, &new.class));
        let shares_facts = last.is_some_and(|last| Arc::ptr_eq(&last.basis.facts, &new.basis.facts));
        let class = if shares_class { 0 } else { new.basis.class_bytes };
        let facts = if shares_facts { 0 } else { new.basis.fact_bytes };
        let nominations = new.basis.nominations.as_ref().ok().and_then(Option::as_ref);
        let nominated = nominations.map_or(0, |known| BYTES_OF_NOMINATION * (1 + known.beside.len()));
        let bytes = size_of::<Kept>() + BYTES_OF_NAMES + class + facts + nominated;
        self.bytes += bytes;
        self.kept.push_back((new, bytes));
        while (self.kept.len() > self.most || self.bytes > MAX_BYTES)
            && let Some((_, bytes)) = self.kept.pop_front()
        {
            self.bytes -= bytes;
        }
    }

    /// Pods have to make room.
    pub(crate) fn note_preemption<'a>(
        &mut self,
        now_ms: TimeMs,
        uid: &Uid,
        node: &Arc<str>,
        victims: impl Iterator<Item = &'a Victim>,
    ) {
        if !self.are_kept() {
            return;
        }
        let victims = victims.map(|victim| victim.pod.clone()).collect();
        self.rooms.push_back(Room { uid: Arc::clone(uid), node: Arc::clone(node), victims, at_ms: now_ms });
        if self.rooms.len() > ROOMS_KEPT {
            self.rooms.pop_front();
        }
    }
}

// === impl Machine ===

impl Machine {
    /// Keeps so many decisions for who asks afterwards, in the place of [`DECISIONS_KEPT`].
    #[must_use]
    pub fn keeping_decisions(mut self, most: usize) -> Self {
        self.decisions.most = most;
        self
    }

    /// A pod goes where the binding says, by a decision on a class.
    pub(crate) fn keep_decision(&mut self, subject: Subject, class: &Arc<Class>, binding: &Binding, basis: Basis) {
        let Some(configuration) = self.configuration.as_ref().filter(|_| self.decisions.are_kept()) else { return };
        let Binding { uid, namespace, name, node, revision, total, attempt, waited_ms, decided_ms, .. } = binding;
        let (uid, namespace, name) = (Arc::clone(uid), Arc::clone(namespace), Arc::clone(name));
        self.decisions.keep(Kept {
            pod: PodName { uid, namespace, name },
            node: Arc::clone(node),
            subject,
            class: Arc::clone(class),
            configuration: Arc::clone(configuration),
            basis,
            revision: *revision,
            total: *total,
            attempt: *attempt,
            waited_ms: *waited_ms,
            decided_ms: *decided_ms,
        });
    }

    /// The last decision that gave a pod a node; `None`: it is not kept, or was not made by this process.
    ///
    /// Looks through all that are kept, and copies the nodes: some 2 ms for 5,000.
    #[must_use]
    pub fn recall(&self, now_ms: TimeMs, asked: &outlook::PodName) -> Option<Recall> {
        let is_asked = |kept: &&Kept| kept.pod.name == asked.name && kept.pod.namespace == asked.namespace;
        let kept = self.decisions.kept.iter().rev().map(|(kept, _)| kept).find(is_asked)?.clone();
        let rooms = self.decisions.rooms.iter().filter(|room| room.uid == kept.pod.uid).cloned().collect();
        let rewind = self.judge.cache().rewind_to(kept.revision);
        Some(Recall { kept, registry: self.registry, rewind, rooms, now_ms })
    }
}

// === impl Recall ===

impl Recall {
    /// Evaluates the decision again. Takes as long as an evaluation of all nodes, and a microsecond for each change since.
    #[must_use]
    pub fn account(self) -> Recalled {
        let Self { kept, registry, rewind, rooms, now_ms } = self;
        let changes_since = rewind.as_ref().ok().map(Rewind::len);
        let picture = rewind.and_then(Rewind::into_nodes).and_then(|nodes| picture(&kept, registry, nodes));
        let preempted = |room: Room| Preempted {
            node: room.node,
            victims: room.victims,
            ago_ms: now_ms.saturating_sub(room.at_ms),
        };
        Recalled {
            uid: Arc::clone(&kept.pod.uid),
            profile: kept.profile().map(|profile| Arc::clone(&profile.scheduler_name)).unwrap_or_default(),
            node: Arc::clone(&kept.node),
            total: kept.total,
            revision: kept.revision,
            changes_since,
            ago_ms: now_ms.saturating_sub(kept.decided_ms),
            attempt: kept.attempt,
            waited_ms: kept.waited_ms,
            asked_extenders: kept.basis.asked_extenders,
            preemptions: rooms.into_iter().map(preempted).collect(),
            picture,
        }
    }
}

impl Kept {
    fn profile(&self) -> Option<&Profile> {
        self.configuration.profiles.get(self.subject.0)
    }
}

/// What the plugins made of the nodes.
fn picture(kept: &Kept, registry: Registry, mut nodes: Snapshot) -> Result<Picture, Unknowable> {
    let profile = kept.profile().ok_or(Unknowable::TooLongAgo)?;
    let explanation = explain(profile, &kept.class, &kept.basis, registry, &mut nodes)?;
    let name = |id: NodeId| -> Arc<str> {
        nodes.slot(id).map_or_else(Arc::default, |slot| nodes.symbols.text(nodes.name(slot)).into())
    };
    let best = explanation.best();
    let is_best = best.iter().any(|&id| name(id) == kept.node);
    let was_nominated = explanation.nominated.is_some_and(|id| name(id) == kept.node);
    let candidates = candidates(&explanation, &kept.node, &nodes, &name);
    let of_chosen = candidates.iter().find(|candidate| candidate.node == kept.node).map(|chosen| chosen.total);
    Ok(Picture {
        nodes: explanation.nodes.len(),
        feasible: explanation.feasible(),
        tied: best.len(),
        was_nominated,
        refused: refused(&explanation, &name),
        agrees: was_nominated || (is_best && of_chosen == Some(Some(kept.total))),
        candidates,
    })
}

/// What every plugin says of every node to a class.
pub(crate) fn explain(
    profile: &Profile,
    class: &Class,
    basis: &Basis,
    registry: Registry,
    nodes: &mut Snapshot,
) -> Result<Explanation, Unknowable> {
    let none = Nominations::default();
    let nominations = basis.nominations.as_ref().map_err(|unknowable| *unknowable)?.as_deref().unwrap_or(&none);
    let known = |class: &ClassId| nodes.class(*class).is_some();
    if !nominations.beside.iter().flat_map(|(_, classes)| classes).all(known) {
        return Err(Unknowable::ClassForgotten);
    }
    let prepared = Prepared::new(registry, profile, class, &basis.facts, nodes);
    let pages = pages(&prepared, nodes);
    Ok(Explanation::beside(&prepared, profile, &pages, nodes, nominations))
}

/// All nodes as one shard.
fn pages(prepared: &Prepared, nodes: &Snapshot) -> Vec<Page> {
    let mut pages: Vec<Page> = Vec::new();
    loop {
        let after = pages.last().and_then(|page| Some(page.nodes.last()?.node));
        let page = shard::page(prepared, nodes, after, MAX_PAGE_NODES);
        let more = page.more;
        pages.push(page);
        if !more {
            return pages;
        }
    }
}

/// Which plugin refuses, and why.
type Grounds<'a> = (Option<&'static str>, &'a Arc<[String]>);

/// The best nodes in the order of a decision, and the chosen one.
fn candidates(
    explanation: &Explanation,
    chosen: &Arc<str>,
    nodes: &Snapshot,
    name: &impl Fn(NodeId) -> Arc<str>,
) -> Vec<Candidate> {
    let feasible = explanation.nodes.iter().filter_map(|(&id, outcome)| match outcome {
        Outcome::Feasible { scores, total } => Some((id, scores, *total)),
        Outcome::Refused { .. } => None,
    });
    let mut feasible: Vec<_> = feasible.collect();
    let rank = |id: NodeId| nodes.slot(id).map_or(u64::MAX, |slot| nodes.rank(slot));
    feasible.sort_unstable_by_key(|(id, _, total)| (std::cmp::Reverse(*total), rank(*id), *id));
    let candidate = |(id, scores, total): (NodeId, &Vec<PluginScore>, Option<i64>)| Candidate {
        node: name(id),
        total,
        scores: scores.clone(),
    };
    let mut told: Vec<Candidate> = feasible.iter().take(MOST_CANDIDATES).copied().map(candidate).collect();
    if !told.iter().any(|known| known.node == *chosen) {
        let chosen = feasible.iter().skip(MOST_CANDIDATES).copied().find(|(id, ..)| name(*id) == *chosen);
        told.extend(chosen.map(candidate));
    }
    told
}

fn refused(explanation: &Explanation, name: &impl Fn(NodeId) -> Arc<str>) -> Vec<RefusedNodes> {
    let mut groups: BTreeMap<Grounds<'_>, Vec<NodeId>> = BTreeMap::new();
    for (&id, outcome) in &explanation.nodes {
        if let Outcome::Refused { plugin, reasons, .. } = outcome {
            groups.entry((*plugin, reasons)).or_default().push(id);
        }
    }
    let group = |((plugin, reasons), nodes): (Grounds<'_>, Vec<NodeId>)| RefusedNodes {
        plugin,
        reasons: Arc::clone(reasons),
        count: nodes.len(),
        examples: nodes.into_iter().take(MOST_NAMES).map(name).collect(),
    };
    let mut groups: Vec<RefusedNodes> = groups.into_iter().map(group).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    groups
}
