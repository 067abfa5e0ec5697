//! What another scheduler decided, beside what would be decided here: the same pod, the same nodes, the same moment.
//!
//! A machine that does not lead knows the cluster as the other scheduler does, but for what neither watch has told yet. So it is asked
//! just before it takes in the event that tells of the other's decision.
//!
//! Knows: which events tell of a decision, and how the two answers may differ. Must not know: who the other is, or what becomes of
//! what is found.

use std::sync::Arc;

use flotilla_framework::{
    class::{Class, PodInfo},
    explain::{Explanation, Outcome, PluginScore},
    node::NodeId,
    registry::Registry,
    snapshot::Snapshot,
};

use crate::{
    event::{Configuration, Event},
    judge::{decision::Basis, past::Rewind},
    machine::Machine,
    pods::{Pod, Stage},
    recall::{Unknowable, explain},
    subject::{PodName, Subject},
};

/// The reason of a `PodScheduled` condition that says that no node will do.
const UNSCHEDULABLE: &str = "Unschedulable";

/// What another scheduler decided on a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Theirs {
    /// It goes to this node.
    Node(Arc<str>),
    /// No node will do, in these words.
    Unschedulable(Arc<str>),
}

/// A decision of another scheduler, with the nodes of that moment. It is judged elsewhere than on the thread of the machine
/// ([`Self::judge`]). It holds a copy of the nodes: some 3 MB for 5,000.
#[derive(Debug)]
pub struct Comparison {
    registry: Registry,
    configuration: Arc<Configuration>,
    subject: Subject,
    class: Arc<Class>,
    basis: Basis,
    nodes: Rewind,
    pod: PodName,
    theirs: Theirs,
}

/// Both answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// The pod.
    pub pod: PodName,
    /// Its `schedulerName`.
    pub profile: Arc<str>,
    /// What the other scheduler decided.
    pub theirs: Theirs,
    /// How many nodes there were.
    pub nodes: usize,
    /// How many would do.
    pub feasible: usize,
    /// How the answers stand to each other.
    pub verdict: Verdict,
}

/// How the answer of another scheduler stands to the one here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The same node.
    SameNode,
    /// Another node of the same total, which is the highest: the choice is free.
    EqualTotal {
        /// What would be taken here.
        ours: Arc<str>,
        /// The total of both.
        total: i64,
    },
    /// Another node would have a higher total.
    Lower {
        /// That node.
        ours: Arc<str>,
        /// Its total, and that of the other scheduler's node.
        totals: (i64, i64),
        /// Each plugin's part in both totals, where they differ.
        parts: Vec<Part>,
    },
    /// The other scheduler's node would be refused here.
    Refused {
        /// By this plugin; `None` where upstream notes none.
        plugin: Option<&'static str>,
        /// In these words.
        reasons: Arc<[String]>,
    },
    /// The other scheduler found no node, and here is one.
    Feasible {
        /// That node.
        ours: Arc<str>,
    },
    /// Neither finds a node.
    Neither {
        /// Why, in the words of here: those of a message before what it says of preemption.
        ours: String,
        /// The other scheduler gives the same reasons.
        same_words: bool,
    },
    /// It would be an error here.
    Failed {
        /// Which.
        error: String,
    },
    /// The other scheduler's node is not known here.
    NodeUnknown,
}

/// A plugin's part in the totals of two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The plugin.
    pub plugin: &'static str,
    /// For the node of here, weighted.
    pub ours: i64,
    /// For the other scheduler's, weighted.
    pub theirs: i64,
}

// === impl Machine ===

impl Machine {
    /// The decision of another scheduler that an event tells of, before the event is taken in. `None`: it tells of none, of one on a
    /// pod that was not seen waiting, or of one that cannot be judged here because the pod is too large.
    #[must_use]
    pub fn compare(&mut self, event: &Event) -> Option<Comparison> {
        let Event::PodApplied(told) = event else { return None };
        let theirs = decision(&self.pods.get(&told.uid)?.info, told)?;
        self.compare_decision(&told.uid, theirs)
    }

    /// The decision of another scheduler on a pod, beside what would be decided now. `None`: as for [`Self::compare`].
    #[must_use]
    pub fn compare_decision(&mut self, uid: &str, theirs: Theirs) -> Option<Comparison> {
        let pod = self.pods.get(uid).filter(|pod| pod.waits())?;
        let configuration = self.configuration.clone().filter(|_| self.synced)?;
        let subject = (self.profile_index(&pod.info.scheduler_name)?, pod.class);
        let (name, uid, priority) = (pod.name(), Arc::clone(&pod.info.uid), pod.info.priority);
        let class = self.judge.cache().classes.get(subject.1).map(Arc::clone)?;
        let basis = self.judge.open(subject).then(|| self.judge.basis_of(subject, &uid, priority))?;
        // Nothing has changed since now.
        let nominations = Ok(Some(Box::new(self.judge.nominations(&uid, priority))));
        let basis = Basis { nominations, ..basis };
        let nodes = self.judge.cache().rewind_to(self.judge.cache().revision()).ok()?;
        Some(Comparison { registry: self.registry, configuration, subject, class, basis, nodes, pod: name, theirs })
    }
}

impl Pod {
    /// Whether a scheduler is to find it a node.
    const fn waits(&self) -> bool {
        matches!(self.stage, Stage::Gated(_) | Stage::Queued(_) | Stage::Member(_))
    }
}

/// What was decided between two states of a pod, the first of which has no node.
fn decision(before: &PodInfo, after: &PodInfo) -> Option<Theirs> {
    if let Some(node) = &after.node_name {
        return Some(Theirs::Node(Arc::clone(node)));
    }
    let said = after.condition.as_ref().filter(|said| !said.status && &*said.reason == UNSCHEDULABLE)?;
    (before.condition.as_ref() != Some(said)).then(|| Theirs::Unschedulable(Arc::clone(&said.message)))
}

// === impl Comparison ===

impl Comparison {
    /// Asks every plugin about every node. Takes as long as an evaluation of all nodes.
    ///
    /// # Errors
    /// The nodes cannot be told as they were.
    pub fn judge(self) -> Result<Compared, Unknowable> {
        let Self { registry, configuration, subject, class, basis, nodes, pod, theirs } = self;
        let profile = configuration.profiles.get(subject.0).ok_or(Unknowable::TooLongAgo)?;
        let mut nodes = nodes.into_nodes()?;
        let explanation = explain(profile, &class, &basis, registry, &mut nodes)?;
        let verdict = Sight { explanation: &explanation, nodes: &nodes }.verdict(&theirs);
        Ok(Compared {
            pod,
            profile: Arc::clone(&profile.scheduler_name),
            theirs,
            nodes: explanation.nodes.len(),
            feasible: explanation.feasible(),
            verdict,
        })
    }
}

/// What is seen here.
struct Sight<'a> {
    explanation: &'a Explanation,
    nodes: &'a Snapshot,
}

impl Sight<'_> {
    fn verdict(&self, theirs: &Theirs) -> Verdict {
        if let Some(error) = &self.explanation.error {
            return Verdict::Failed { error: error.clone() };
        }
        match theirs {
            Theirs::Node(node) => self.beside(node),
            Theirs::Unschedulable(message) => match self.choice() {
                Some(ours) => Verdict::Feasible { ours: self.name(ours) },
                None => Verdict::Neither {
                    same_words: reasons(message) == reasons(&self.explanation.message),
                    ours: self.explanation.message.clone(),
                },
            },
        }
    }

    /// How a node stands to the one that would be taken.
    fn beside(&self, theirs: &Arc<str>) -> Verdict {
        let Some((id, outcome)) = self.explanation.nodes.iter().find(|(id, _)| self.name(**id) == *theirs) else {
            return Verdict::NodeUnknown;
        };
        match (outcome, self.choice()) {
            (Outcome::Refused { plugin, reasons, .. }, _) => {
                Verdict::Refused { plugin: *plugin, reasons: Arc::clone(reasons) }
            }
            (Outcome::Feasible { .. }, Some(ours)) if ours == *id => Verdict::SameNode,
            (Outcome::Feasible { scores, total }, Some(ours)) => {
                let best = self.explanation.nodes.get(&ours);
                let totals = (best.and_then(Outcome::total).unwrap_or(0), total.unwrap_or(0));
                let ours = self.name(ours);
                match best {
                    Some(Outcome::Feasible { scores: best, .. }) if totals.0 != totals.1 => {
                        Verdict::Lower { ours, totals, parts: parts(best, scores) }
                    }
                    _ => Verdict::EqualTotal { ours, total: totals.0 },
                }
            }
            (Outcome::Feasible { .. }, None) => Verdict::SameNode,
        }
    }

    /// The node that would be taken.
    fn choice(&self) -> Option<NodeId> {
        let rank = |id: &NodeId| (self.nodes.slot(*id).map_or(u64::MAX, |slot| self.nodes.rank(slot)), *id);
        self.explanation.nominated.or_else(|| self.explanation.best().into_iter().min_by_key(rank))
    }

    fn name(&self, id: NodeId) -> Arc<str> {
        self.nodes.slot(id).map_or_else(Arc::default, |slot| self.nodes.symbols.text(self.nodes.name(slot)).into())
    }
}

/// What a message says before it comes to preemption.
fn reasons(message: &str) -> &str {
    message.split(" preemption: ").next().unwrap_or_default().trim_end()
}

fn parts(ours: &[PluginScore], theirs: &[PluginScore]) -> Vec<Part> {
    let of = |plugin: &str| theirs.iter().find(|score| score.plugin == plugin).map_or(0, |score| score.weighted);
    let parts = ours.iter().map(|score| Part { plugin: score.plugin, ours: score.weighted, theirs: of(score.plugin) });
    parts.filter(|part| part.ours != part.theirs).collect()
}
