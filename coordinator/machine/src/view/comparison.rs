//! Comparison of another scheduler's decision with Flotilla's on the same pod, nodes and revision.
//!
//! A follower knows the cluster as the other scheduler does, apart from the delay of watches. The comparison runs before the machine
//! handles the event with the other's decision.

use std::sync::Arc;

use flotilla_framework::{
    class::{Class, PodInfo},
    explain::{Explanation, NodeExplanation, PluginScore},
    node::NodeId,
    registry::Registry,
    snapshot::Snapshot,
};

use crate::{
    event::{Configuration, Event},
    judge::{cache::past::Rewind, decision::Basis},
    machine::Machine,
    recall::{Unknowable, explain},
    subject::{PodName, Subject},
};

/// The reason of a `PodScheduled` condition of an infeasible pod.
const UNSCHEDULABLE: &str = "Unschedulable";

/// A decision of another scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Theirs {
    /// The pod's node.
    Node(Arc<str>),
    /// Infeasible on all nodes, with this message.
    Unschedulable(Arc<str>),
}

/// A decision of another scheduler, with a copy of the nodes: some 3 MB for 5,000. [`Self::judge`] evaluates it, and may run on another
/// thread.
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

/// Both decisions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// The pod.
    pub pod: PodName,
    /// Its `schedulerName`.
    pub profile: Arc<str>,
    /// The other scheduler's decision.
    pub theirs: Theirs,
    /// The number of nodes.
    pub nodes: usize,
    /// The number of feasible nodes.
    pub feasible: usize,
    /// The difference.
    pub verdict: DecisionDifference,
}

/// The difference between another scheduler's decision and Flotilla's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecisionDifference {
    /// The same node.
    SameNode,
    /// Different nodes with the same total, the highest.
    EqualTotal {
        /// Flotilla's node.
        ours: Arc<str>,
        /// The total of both.
        total: i64,
    },
    /// Flotilla's node has a higher total.
    Lower {
        /// Flotilla's node.
        ours: Arc<str>,
        /// The totals of Flotilla's and of the other scheduler's node.
        totals: (i64, i64),
        /// The plugins with different scores.
        parts: Vec<Part>,
    },
    /// The other scheduler's node is infeasible for Flotilla.
    Refused {
        /// The refusing plugin; `None` where kube-scheduler records none.
        plugin: Option<&'static str>,
        /// Its reasons.
        reasons: Arc<[String]>,
    },
    /// The other scheduler found no node, Flotilla did.
    Feasible {
        /// Flotilla's node.
        ours: Arc<str>,
    },
    /// Neither found a node.
    Neither {
        /// Flotilla's message, without the part about preemption.
        ours: String,
        /// The other scheduler's message is the same.
        same_words: bool,
    },
    /// An error in Flotilla.
    Failed {
        /// The error.
        error: String,
    },
    /// Flotilla does not know the other scheduler's node.
    NodeUnknown,
}

/// A plugin's scores of two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The plugin.
    pub plugin: &'static str,
    /// Weighted score of Flotilla's node.
    pub ours: i64,
    /// Weighted score of the other scheduler's node.
    pub theirs: i64,
}

impl Machine {
    /// The decision of another scheduler in an event that is about to be handled. `None`: the event has none, the pod was not seen waiting,
    /// or it is too large.
    #[must_use]
    pub fn compare(&mut self, event: &Event) -> Option<Comparison> {
        let Event::PodApplied(told) = event else { return None };
        let theirs = decision(&self.pods.get(&told.uid)?.info, told)?;
        self.compare_decision(&told.uid, theirs)
    }

    /// The decision of another scheduler on a pod, to compare with the current state. `None`: as for [`Self::compare`].
    #[must_use]
    pub fn compare_decision(&mut self, uid: &str, theirs: Theirs) -> Option<Comparison> {
        let pod = self.pods.get(uid).filter(|pod| pod.stage.waits() && !pod.is_placed())?;
        let configuration = self.settings.configuration().cloned().filter(|_| self.synced)?;
        let subject = (self.settings.profile_index(&pod.info.scheduler_name)?, pod.class);
        let (name, uid, priority) = (pod.name(), Arc::clone(&pod.info.uid), pod.info.priority);
        let class = self.judge.cache().classes().get(subject.1).map(Arc::clone)?;
        let basis = self.judge.open(subject).then(|| self.judge.basis_of(subject, &uid, priority))?;
        // The current state is the state of the decision.
        let nominations = Ok(Some(Box::new(self.judge.nominations(&uid, priority))));
        let basis = Basis { nominations, ..basis };
        let nodes = self.judge.cache().rewind_to(self.judge.cache().revision()).ok()?;
        let registry = self.settings.registry();
        Some(Comparison { registry, configuration, subject, class, basis, nodes, pod: name, theirs })
    }
}

/// The decision between two states of a pod, the first of which has no node.
fn decision(before: &PodInfo, after: &PodInfo) -> Option<Theirs> {
    if let Some(node) = &after.node_name {
        return Some(Theirs::Node(Arc::clone(node)));
    }
    let said = after.condition.as_ref().filter(|said| !said.status && &*said.reason == UNSCHEDULABLE)?;
    (before.condition.as_ref() != Some(said)).then(|| Theirs::Unschedulable(Arc::clone(&said.message)))
}

impl Comparison {
    /// Evaluates every plugin on every node. Takes as long as an evaluation of all nodes.
    ///
    /// # Errors
    /// The past state cannot be reconstructed.
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

/// Flotilla's evaluation of all nodes.
struct Sight<'a> {
    explanation: &'a Explanation,
    nodes: &'a Snapshot,
}

impl Sight<'_> {
    fn verdict(&self, theirs: &Theirs) -> DecisionDifference {
        if let Some(error) = &self.explanation.error {
            return DecisionDifference::Failed { error: error.clone() };
        }
        match theirs {
            Theirs::Node(node) => self.beside(node),
            Theirs::Unschedulable(message) => match self.choice() {
                Some(ours) => DecisionDifference::Feasible { ours: self.name(ours) },
                None => DecisionDifference::Neither {
                    same_words: reasons(message) == reasons(&self.explanation.message),
                    ours: self.explanation.message.clone(),
                },
            },
        }
    }

    /// Compares a node with Flotilla's choice.
    fn beside(&self, theirs: &Arc<str>) -> DecisionDifference {
        let Some((id, outcome)) = self.explanation.nodes.iter().find(|(id, _)| self.name(**id) == *theirs) else {
            return DecisionDifference::NodeUnknown;
        };
        match (outcome, self.choice()) {
            (NodeExplanation::Refused { plugin, reasons, .. }, _) => {
                DecisionDifference::Refused { plugin: *plugin, reasons: Arc::clone(reasons) }
            }
            (NodeExplanation::Feasible { .. }, Some(ours)) if ours == *id => DecisionDifference::SameNode,
            (NodeExplanation::Feasible { scores, total }, Some(ours)) => {
                let best = self.explanation.nodes.get(&ours);
                let totals = (best.and_then(NodeExplanation::total).unwrap_or(0), total.unwrap_or(0));
                let ours = self.name(ours);
                match best {
                    Some(NodeExplanation::Feasible { scores: best, .. }) if totals.0 != totals.1 => {
                        DecisionDifference::Lower { ours, totals, parts: parts(best, scores) }
                    }
                    _ => DecisionDifference::EqualTotal { ours, total: totals.0 },
                }
            }
            (NodeExplanation::Feasible { .. }, None) => DecisionDifference::SameNode,
        }
    }

    /// Flotilla's choice.
    fn choice(&self) -> Option<NodeId> {
        let rank = |id: &NodeId| (self.nodes.slot(*id).map_or(u64::MAX, |slot| self.nodes.rank(slot)), *id);
        self.explanation.nominated.or_else(|| self.explanation.best().into_iter().min_by_key(rank))
    }

    fn name(&self, id: NodeId) -> Arc<str> {
        self.nodes.slot(id).map_or_else(Arc::default, |slot| self.nodes.symbols.text(self.nodes.name(slot)).into())
    }
}

/// The part of a message before preemption.
fn reasons(message: &str) -> &str {
    message.split(" preemption: ").next().unwrap_or_default().trim_end()
}

fn parts(ours: &[PluginScore], theirs: &[PluginScore]) -> Vec<Part> {
    let of = |plugin: &str| theirs.iter().find(|score| score.plugin == plugin).map_or(0, |score| score.weighted);
    let parts = ours.iter().map(|score| Part { plugin: score.plugin, ours: score.weighted, theirs: of(score.plugin) });
    parts.filter(|part| part.ours != part.theirs).collect()
}
