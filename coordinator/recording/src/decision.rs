//! The actions of a turn, reduced for comparison.
//!
//! Decisions are kept whole, so that differences are readable. All other actions form a digest of numbers: worker, request, class and
//! revision. It contains no names, so that anonymisation does not change it.

use std::{fmt, sync::Arc};

use flotilla_framework::shard::{Command, ToWorker};
use flotilla_machine::{
    action::{Action, Nomination, PodName, Reason, Victim},
    event::TimeMs,
};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::read::BadEntry;

/// Identity of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PodId {
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

/// A decision of the coordinator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// Binds a pod.
    Bind {
        /// The pod.
        pod: PodId,
        /// The node.
        node: Arc<str>,
        /// Weighted score of the node.
        total: i64,
        /// Number of the attempt.
        attempt: u32,
        /// Time since the pod was first queued, in milliseconds.
        waited_ms: u64,
        /// Revision of the cluster state that the decision used.
        revision: u64,
    },
    /// Assumes a pod and writes objects before binding it.
    Reserve {
        /// The pod.
        pod: PodId,
        /// The node.
        node: Arc<str>,
        /// Number of writes.
        writes: usize,
    },
    /// Preempts pods for another.
    Preempt {
        /// The pod or pod group.
        preemptor: PodId,
        /// The node; `cluster` for a pod group.
        node: Arc<str>,
        /// Pods to delete, in order.
        victims: Vec<PodId>,
        /// Victims that were not bound yet.
        in_memory: Vec<PodId>,
    },
    /// Rejects a pod.
    Refuse {
        /// The pod.
        pod: PodId,
        /// Whether every node was evaluated and infeasible; otherwise an error occurred.
        is_unschedulable: bool,
        /// The message.
        message: String,
        /// The new nominated node: empty for none, `None` for unchanged.
        nomination: Option<Arc<str>>,
        /// Whether an attempt ended.
        ends_attempt: bool,
    },
    /// Calls extenders for a pod.
    Extend {
        /// The pod.
        pod: PodId,
        /// Number of nodes in the call.
        nodes: usize,
    },
    /// Calls extenders for the victims of a preemption.
    ExtendPreemption {
        /// The preemptor.
        preemptor: PodId,
        /// Number of candidate nodes.
        nodes: usize,
    },
    /// Schedules or rejects a pod group.
    Group {
        /// Namespace.
        namespace: Arc<str>,
        /// Name.
        name: Arc<str>,
        /// Whether the group is scheduled.
        is_placed: bool,
        /// The reason if it is not.
        message: String,
    },
    /// Changes the nomination of a pod, and nothing else.
    Nominate {
        /// The pod.
        pod: PodId,
        /// The new nominated node; `None` for none.
        node: Option<Arc<str>>,
    },
}

/// The result of one turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnOutcome {
    /// Answers that arrived after this time may still be queued.
    pub heard_ms: TimeMs,
    /// All decisions, in order.
    pub decisions: Vec<Decision>,
    /// Digest of all other actions; 0 for none.
    pub rest: u64,
}

impl TurnOutcome {
    /// Reduces actions to their outcome.
    #[must_use]
    pub fn of(heard_ms: TimeMs, actions: &[Action]) -> Self {
        let mut rest = Rest::default();
        let decisions = actions.iter().filter_map(|action| rest.split(action)).collect();
        Self { heard_ms, decisions, rest: rest.digest() }
    }

    /// Appends the encoded outcome to the bytes of its turn.
    ///
    /// # Errors
    /// Encoding fails.
    pub fn encode(&self, bytes: Vec<u8>) -> Result<Vec<u8>, BadEntry> {
        postcard::to_extend(self, bytes).map_err(|error| BadEntry(error.to_string()))
    }
}

impl From<&PodName> for PodId {
    fn from(name: &PodName) -> Self {
        Self { uid: Arc::clone(&name.uid), namespace: Arc::clone(&name.namespace), name: Arc::clone(&name.name) }
    }
}

impl fmt::Display for PodId {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(text, "{}/{}", self.namespace, self.name)
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind { pod, node, total, attempt, .. } => {
                write!(text, "{pod} goes to {node} with a total of {total}, in attempt {attempt}")
            }
            Self::Reserve { pod, node, writes } => write!(text, "{pod} goes to {node} after {writes} writes"),
            Self::Preempt { preemptor, node, victims, in_memory } => {
                write!(text, "{preemptor} preempts on {node}:")?;
                victims.iter().chain(in_memory).try_for_each(|victim| write!(text, " {victim}"))
            }
            Self::Refuse { pod, message, nomination, .. } => {
                write!(text, "{pod} is not placed: {message}")?;
                match nomination.as_deref() {
                    None => Ok(()),
                    Some("") => write!(text, "; it is no longer nominated"),
                    Some(node) => write!(text, "; it is nominated to {node}"),
                }
            }
            Self::Extend { pod, nodes } => write!(text, "extenders are asked about {pod} on {nodes} nodes"),
            Self::ExtendPreemption { preemptor, nodes } => {
                write!(text, "extenders are asked about the preemption of {preemptor} on {nodes} nodes")
            }
            Self::Group { namespace, name, is_placed: true, .. } => {
                write!(text, "the pod group {namespace}/{name} is placed")
            }
            Self::Group { namespace, name, message, .. } => {
                write!(text, "the pod group {namespace}/{name} is not placed: {message}")
            }
            Self::Nominate { pod, node: Some(node) } => write!(text, "{pod} is nominated to {node}"),
            Self::Nominate { pod, node: None } => write!(text, "{pod} is no longer nominated"),
        }
    }
}

/// Digest of actions that are no decisions.
#[derive(Default)]
struct Rest {
    hash: Option<Box<Xxh3>>,
}

impl Rest {
    fn add(&mut self, numbers: &[u64]) {
        let hash = self.hash.get_or_insert_with(|| Box::new(Xxh3::new()));
        numbers.iter().for_each(|number| hash.update(&number.to_le_bytes()));
    }

    fn digest(&self) -> u64 {
        self.hash.as_ref().map_or(0, |hash| hash.digest())
    }

    /// The decision of an action; other actions are added to the digest.
    fn split(&mut self, action: &Action) -> Option<Decision> {
        match action {
            Action::Bind(_) | Action::PreBind(_) | Action::Preempt(_) | Action::Report(_) | Action::ReportGroup(_) => {}
            Action::Extend(_) | Action::ExtendPreemption(_) | Action::Nominate(_) => {}
            Action::Send { worker, word } => {
                self.add(&[1, worker.0]);
                self.word(word);
            }
            Action::DropWorker { worker, pause_ms, .. } => self.add(&[2, worker.0, *pause_ms]),
            Action::Unreserve(unreserve) => self.add(&[3, unreserve.writes.len() as u64]),
            Action::Acknowledged { generation, workers } => self.add(&[4, *generation, *workers as u64]),
            Action::Alone(alone) => self.add(&[5, u64::from(*alone)]),
            Action::DeviceWaitBegan(_) => self.add(&[6, 0]),
            Action::DeviceWaitEnded(_) => self.add(&[6, 1]),
            // Tracing depends on the operator and does not affect decisions.
            Action::Trace(_) => {}
        }
        decision(action)
    }

    fn word(&mut self, word: &ToWorker) {
        self.add(&[word.epoch, word.revision]);
        match &word.command {
            Command::Configure { generation, tie_break_seed, profiles } => {
                self.add(&[1, *generation, *tie_break_seed, profiles.len() as u64]);
            }
            Command::Snapshot { first, last, changes } => {
                self.add(&[2, u64::from(*first), u64::from(*last), changes.len() as u64]);
            }
            Command::Delta { changes } => self.add(&[3, changes.len() as u64]),
            Command::RegisterClass { id, .. } => self.add(&[4, id.0]),
            Command::ForgetClass { id } => self.add(&[5, id.0]),
            Command::Evaluate { request, generation, class, k, .. } => {
                self.add(&[6, *request, *generation, class.0, u64::from(*k)]);
            }
            Command::DryRun { request, generation, class, trials, .. } => {
                self.add(&[7, *request, *generation, class.0, trials.len() as u64]);
            }
            Command::Explain { request, generation, class, after, limit, .. } => {
                let after = after.map_or(0, |node| u64::from(node.0) + 1);
                self.add(&[8, *request, *generation, class.0, after, u64::from(*limit)]);
            }
            // A stream sends modules before a configuration; no machine does.
            Command::Module { size, part, .. } => self.add(&[9, u64::from(*size), part.len() as u64]),
        }
    }
}

fn decision(action: &Action) -> Option<Decision> {
    let id = |uid: &Arc<str>, namespace: &Arc<str>, name: &Arc<str>| PodId {
        uid: Arc::clone(uid),
        namespace: Arc::clone(namespace),
        name: Arc::clone(name),
    };
    let all = |victims: &[Victim]| victims.iter().map(|victim| PodId::from(&victim.pod)).collect();
    Some(match action {
        Action::Bind(binding) => Decision::Bind {
            pod: id(&binding.uid, &binding.namespace, &binding.name),
            node: Arc::clone(&binding.node),
            total: binding.total,
            attempt: binding.attempt,
            waited_ms: binding.waited_ms,
            revision: binding.revision,
        },
        Action::PreBind(ahead) => Decision::Reserve {
            pod: id(&ahead.uid, &ahead.namespace, &ahead.name),
            node: Arc::clone(&ahead.node),
            writes: ahead.writes.len(),
        },
        Action::Preempt(preemption) => Decision::Preempt {
            preemptor: PodId::from(&preemption.preemptor),
            node: preemption.place().into(),
            victims: all(&preemption.victims),
            in_memory: all(&preemption.in_memory),
        },
        Action::Report(report) => Decision::Refuse {
            pod: id(&report.uid, &report.namespace, &report.name),
            is_unschedulable: report.reason == Reason::Unschedulable,
            message: report.message.clone(),
            nomination: match &report.nomination {
                Nomination::Keep => None,
                Nomination::Clear => Some(Arc::default()),
                Nomination::To(node) => Some(Arc::clone(node)),
            },
            ends_attempt: report.began_ms.is_some(),
        },
        Action::Nominate(change) => Decision::Nominate { pod: PodId::from(&change.pod), node: change.node.clone() },
        Action::Extend(extension) => Decision::Extend {
            pod: id(&extension.uid, &extension.namespace, &extension.name),
            nodes: extension.nodes.len(),
        },
        Action::ExtendPreemption(proposal) => Decision::ExtendPreemption {
            preemptor: PodId::from(&proposal.preemptor),
            nodes: proposal.proposal.nodes.len(),
        },
        Action::ReportGroup(report) => Decision::Group {
            namespace: Arc::clone(&report.namespace),
            name: Arc::clone(&report.name),
            is_placed: report.status,
            message: report.message.clone(),
        },
        _ => return None,
    })
}
