//! What a machine asked for in answer to an event, as far as it is compared.
//!
//! Decisions are kept as they are, so that people can read how two differ. Of all else there is a digest of its numbers: which
//! worker was asked what, for which class, at which revision. It has no names, so that it stays the same where names are replaced.
//!
//! Must not know: where either is written.

use std::{fmt, sync::Arc};

use flotilla_framework::shard::{Command, ToWorker};
use flotilla_machine::{
    action::{Action, Nomination, PodName, Reason, Victim},
    event::TimeMs,
};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::read::BadEntry;

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PodId {
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

/// Something that was decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// A pod is bound.
    Bind {
        /// The pod.
        pod: PodId,
        /// The node.
        node: Arc<str>,
        /// The weighted score of the node.
        total: i64,
        /// How often the pod was tried.
        attempt: u32,
        /// How long it had waited, in milliseconds.
        waited_ms: u64,
        /// The state of the cluster that it was decided on.
        revision: u64,
    },
    /// A pod has its node, and something is to be written before it is bound.
    Reserve {
        /// The pod.
        pod: PodId,
        /// The node.
        node: Arc<str>,
        /// How many writes.
        writes: usize,
    },
    /// Pods make room for another.
    Preempt {
        /// The pod, or the pod group.
        preemptor: PodId,
        /// The node; `cluster` for a pod group.
        node: Arc<str>,
        /// The pods that are deleted, in order.
        victims: Vec<PodId>,
        /// Those that were not bound yet.
        in_memory: Vec<PodId>,
    },
    /// A pod finds no node, or what it is nominated to changes.
    Refuse {
        /// The pod.
        pod: PodId,
        /// Every node was judged and none would do; otherwise something went wrong.
        is_unschedulable: bool,
        /// The message.
        message: String,
        /// The node that it is nominated to from now on: empty for none, `None` for what it was before.
        nomination: Option<Arc<str>>,
        /// An attempt has ended; otherwise only the nomination changes.
        ends_attempt: bool,
    },
    /// Extenders are asked about a pod.
    Extend {
        /// The pod.
        pod: PodId,
        /// How many nodes they are asked about.
        nodes: usize,
    },
    /// Extenders are asked about the victims of a preemption.
    ExtendPreemption {
        /// Who preempts.
        preemptor: PodId,
        /// On how many nodes.
        nodes: usize,
    },
    /// A pod group is placed, or is not.
    Group {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
        /// Whether it is placed.
        is_placed: bool,
        /// Why not.
        message: String,
    },
}

/// What came of one turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Answers that arrived after this time may have waited.
    pub heard_ms: TimeMs,
    /// All decisions, in order.
    pub decisions: Vec<Decision>,
    /// The digest of all else; 0 where there is nothing.
    pub rest: u64,
}

// === impl Outcome ===

impl Outcome {
    /// What actions come to.
    #[must_use]
    pub fn of(heard_ms: TimeMs, actions: &[Action]) -> Self {
        let mut rest = Rest::default();
        let decisions = actions.iter().filter_map(|action| rest.split(action)).collect();
        Self { heard_ms, decisions, rest: rest.digest() }
    }

    /// Appends its bytes to those of its turn.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn encode(&self, bytes: Vec<u8>) -> Result<Vec<u8>, BadEntry> {
        postcard::to_extend(self, bytes).map_err(|error| BadEntry(error.to_string()))
    }
}

// === impl PodId ===

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

// === impl Decision ===

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
                    Some("") => write!(text, "; it is nominated no more"),
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
        }
    }
}

/// The digest of what is no decision.
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

    /// The decision that an action is; what is none goes into the digest.
    fn split(&mut self, action: &Action) -> Option<Decision> {
        match action {
            Action::Bind(_) | Action::PreBind(_) | Action::Preempt(_) | Action::Report(_) | Action::ReportGroup(_) => {}
            Action::Extend(_) | Action::ExtendPreemption(_) => {}
            Action::Send { worker, word } => {
                self.add(&[1, worker.0]);
                self.word(word);
            }
            Action::DropWorker { worker, pause_ms, .. } => self.add(&[2, worker.0, *pause_ms]),
            Action::Unreserve(unreserve) => self.add(&[3, unreserve.writes.len() as u64]),
            Action::Acknowledged { generation, workers } => self.add(&[4, *generation, *workers as u64]),
            Action::Alone(alone) => self.add(&[5, u64::from(*alone)]),
            Action::DeviceWait(wait) => self.add(&[6, u64::from(wait.end.is_some())]),
            // What is traced is for the operator to say, and decides nothing.
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
            node: Arc::clone(&preemption.node),
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
