//! Explanations of the last decisions that placed pods.
//!
//! A decision is kept with little more than its revision. The nodes of that revision are reconstructed from a copy of the current ones by
//! undoing later changes; then every plugin evaluates every node again. So keeping a decision is cheap, and its explanation is exact or
//! refused.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use flotilla_framework::{
    class::{Class, ClassId},
    explain::{
        Explanation, NodeExplanation, PluginScore,
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
    judge::{cache::past::Rewind, decision::Basis},
    machine::Machine,
    outlook,
    subject::{PodName, Subject, Uid},
};

pub use crate::judge::cache::past::Unknowable;

/// Default number of kept decisions. One takes up to 256 bytes and some 200 for the pod's names. Its class and facts, some 3 KB, are shared
/// by the pods of a class. This is 7.5 MB with few classes, and up to `MAX_BYTES` if each pod has its own class.
pub const DECISIONS_KEPT: usize = 16_384;

/// Maximum number of bytes, with classes.
const MAX_BYTES: usize = 64 << 20;

/// Bytes of a pod's names.
const BYTES_OF_NAMES: usize = 200;

/// Bytes of a nomination.
const BYTES_OF_NOMINATION: usize = 64;

/// Number of kept preemptions. Each takes some 100 bytes per victim; most have less than ten: 1 MB.
const ROOMS_KEPT: usize = 1_024;

/// Number of nodes with all scores.
const MOST_CANDIDATES: usize = 10;

/// Number of node names per refusal.
const MOST_NAMES: usize = 5;

/// A decision that placed a pod.
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

#[derive(Debug, Clone)]
struct PastPreemption {
    uid: Uid,
    node: Arc<str>,
    victims: Arc<[PodName]>,
    at_ms: TimeMs,
}

#[derive(Debug)]
pub(crate) struct Decisions {
    most: usize,
    /// With the bytes of each.
    kept: VecDeque<(Kept, usize)>,
    bytes: usize,
    rooms: VecDeque<PastPreemption>,
}

/// A kept decision with a copy of the nodes. [`Self::account`] evaluates it, and may run on another thread.
#[derive(Debug)]
pub struct Recall {
    kept: Kept,
    registry: Registry,
    rewind: Result<Rewind, Unknowable>,
    rooms: Vec<PastPreemption>,
    now_ms: TimeMs,
}

/// An explained decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recalled {
    /// The pod's UID.
    pub uid: Arc<str>,
    /// The profile's `schedulerName`.
    pub profile: Arc<str>,
    /// The chosen node.
    pub node: Arc<str>,
    /// Its total at the decision; 0 for the nominated node, which is not scored.
    pub total: i64,
    /// The revision of the decision.
    pub revision: Revision,
    /// Number of changes since; `None`: too many.
    pub changes_since: Option<usize>,
    /// Its age.
    pub ago_ms: TimeMs,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The pod's waiting time.
    pub waited_ms: TimeMs,
    /// HTTP extenders took part; their answers are not kept.
    pub asked_extenders: bool,
    /// Earlier preemptions for the pod, oldest first.
    pub preemptions: Vec<Preempted>,
    /// The evaluation of all nodes.
    pub picture: Result<Picture, Unknowable>,
}

/// A preemption for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preempted {
    /// The node.
    pub node: Arc<str>,
    /// The victims.
    pub victims: Arc<[PodName]>,
    /// Its age.
    pub ago_ms: TimeMs,
}

/// The evaluation of all nodes at a revision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Picture {
    /// The number of nodes.
    pub nodes: usize,
    /// The number of feasible nodes.
    pub feasible: usize,
    /// The best feasible nodes, best first, and the chosen one.
    pub candidates: Vec<Candidate>,
    /// The number of nodes with the highest total.
    pub tied: usize,
    /// The chosen node was the pod's nominated node.
    pub was_nominated: bool,
    /// The refusals, most frequent first.
    pub refused: Vec<RefusedNodes>,
    /// Whether the chosen node is the best one, with the same total. Extenders may have decided otherwise.
    pub agrees: bool,
}

/// A feasible node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub node: Arc<str>,
    /// The sum of its scores; `None` if scoring fails.
    pub total: Option<i64>,
    /// The score of each plugin.
    pub scores: Vec<PluginScore>,
}

/// Nodes with the same refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedNodes {
    /// The plugin; `None` where kube-scheduler records none.
    pub plugin: Option<&'static str>,
    /// Its reasons.
    pub reasons: Arc<[String]>,
    /// The number of nodes.
    pub count: usize,
    /// Some of them.
    pub examples: Vec<Arc<str>>,
}

impl Default for Decisions {
    fn default() -> Self {
        Self { most: DECISIONS_KEPT, kept: VecDeque::new(), bytes: 0, rooms: VecDeque::new() }
    }
}

impl Decisions {
    /// The number of kept decisions, and their bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.kept.len(), self.bytes)
    }

    pub(crate) const fn are_kept(&self) -> bool {
        self.most > 0
    }

    pub(crate) fn keep_binding(
        &mut self,
        configuration: &Arc<Configuration>,
        subject: Subject,
        class: &Arc<Class>,
        binding: &Binding,
        basis: Basis,
    ) {
        if !self.are_kept() {
            return;
        }
        let Binding { uid, namespace, name, node, revision, total, attempt, waited_ms, decided_ms, .. } = binding;
        let (uid, namespace, name) = (Arc::clone(uid), Arc::clone(namespace), Arc::clone(name));
        self.keep(Kept {
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

    pub(crate) fn keep(&mut self, new: Kept) {
        let last = self.kept.back().map(|(last, _)| last);
        // Decisions that share a class are consecutive; otherwise the count of bytes is too low.
        let shares_class = last.is_some_and(|last| Arc::ptr_eq(&last.class, &new.class));
        let shares_facts = last.is_some_and(|last| Arc::ptr_eq(&last.basis.facts, &new.basis.facts));
        let class = if shares_class { 0 } else { new.basis.class_bytes };
        let facts = if shares_facts { 0 } else { new.basis.fact_bytes };
        let nominations = new.basis.nominations.as_ref().ok().and_then(Option::as_ref);
        let nominated = nominations.map_or(0, |known| BYTES_OF_NOMINATION * (1 + known.nodes().len()));
        let bytes = size_of::<Kept>() + BYTES_OF_NAMES + class + facts + nominated;
        self.bytes += bytes;
        self.kept.push_back((new, bytes));
        while (self.kept.len() > self.most || self.bytes > MAX_BYTES)
            && let Some((_, bytes)) = self.kept.pop_front()
        {
            self.bytes -= bytes;
        }
    }

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
        self.rooms.push_back(PastPreemption { uid: Arc::clone(uid), node: Arc::clone(node), victims, at_ms: now_ms });
        if self.rooms.len() > ROOMS_KEPT {
            self.rooms.pop_front();
        }
    }
}

impl Machine {
    /// Sets the number of kept decisions instead of [`DECISIONS_KEPT`].
    #[must_use]
    pub fn keeping_decisions(mut self, most: usize) -> Self {
        self.decisions.most = most;
        self
    }

    /// The last decision that placed a pod; `None`: not kept, or not made by this process.
    ///
    /// Searches all kept decisions and copies the nodes: some 2 ms for 5,000.
    #[must_use]
    pub fn recall(&self, now_ms: TimeMs, asked: &outlook::PodName) -> Option<Recall> {
        let is_asked = |kept: &&Kept| kept.pod.name == asked.name && kept.pod.namespace == asked.namespace;
        let kept = self.decisions.kept.iter().rev().map(|(kept, _)| kept).find(is_asked)?.clone();
        let rooms = self.decisions.rooms.iter().filter(|room| room.uid == kept.pod.uid).cloned().collect();
        let rewind = self.judge.cache().rewind_to(kept.revision);
        Some(Recall { kept, registry: self.settings.registry(), rewind, rooms, now_ms })
    }
}

impl Recall {
    /// Evaluates the decision again. Takes as long as an evaluation of all nodes, and a microsecond for each later change.
    #[must_use]
    pub fn account(self) -> Recalled {
        let Self { kept, registry, rewind, rooms, now_ms } = self;
        let changes_since = rewind.as_ref().ok().map(Rewind::len);
        let picture = rewind.and_then(Rewind::into_nodes).and_then(|nodes| picture(&kept, registry, nodes));
        let preempted = |room: PastPreemption| Preempted {
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

/// Evaluates every plugin on every node for a class.
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
    if !nominations.nodes().iter().flat_map(|(_, classes)| classes).all(known) {
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

/// The refusing plugin and its reasons.
type Grounds<'a> = (Option<&'static str>, &'a Arc<[String]>);

/// The best nodes in the order of a decision, and the chosen one.
fn candidates(
    explanation: &Explanation,
    chosen: &Arc<str>,
    nodes: &Snapshot,
    name: &impl Fn(NodeId) -> Arc<str>,
) -> Vec<Candidate> {
    let feasible = explanation.nodes.iter().filter_map(|(&id, outcome)| match outcome {
        NodeExplanation::Feasible { scores, total } => Some((id, scores, *total)),
        NodeExplanation::Refused { .. } => None,
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
        if let NodeExplanation::Refused { plugin, reasons, .. } = outcome {
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
