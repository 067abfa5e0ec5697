//! The protocol between the owner of the cluster state (leader) and the holder of a shard (worker).

use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, sync::Arc};

use crate::{
    class::{Class, ClassId},
    evaluation::Evaluation,
    explain::shard::{Local, Page},
    extension::Facts,
    modules::Digest,
    node::{NodeId, NodeInfo},
    preemption::{DryRunResult, Trial},
    profile::Profile,
    volumes::node::Attachment,
};

/// Numbers the changes of the cluster state, in order.
pub type Revision = u64;

/// Numbers leaders: a worker obeys the highest epoch that it has seen and ignores commands of lower ones.
pub type Epoch = u64;

/// Numbers configurations; every evaluation names its configuration.
pub type Generation = u64;

/// Identifies a request within one epoch.
pub type RequestId = u64;

/// A command of the leader.
#[derive(Debug, Clone, PartialEq)]
pub struct ToWorker {
    /// The leader's epoch.
    pub epoch: Epoch,
    /// The revision of the state at the time of the command.
    pub revision: Revision,
    /// The command.
    pub command: Command,
}

/// Commands to a worker, which executes them in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Use these profiles from now on.
    Configure {
        /// The configuration's number.
        generation: Generation,
        /// Part of every node's rank.
        tie_break_seed: u64,
        /// All profiles.
        profiles: Arc<[Profile]>,
    },
    /// A part of a module for the next configuration. A worker that has applied the configuration has loaded all modules.
    Module {
        /// The module.
        digest: Digest,
        /// The size of the whole module in bytes, at most [`MAX_BYTES`](crate::modules::MAX_BYTES).
        size: u32,
        /// The bytes after those of the previous parts.
        part: Arc<[u8]>,
    },
    /// A part of a whole shard.
    Snapshot {
        /// Drop all current nodes first.
        first: bool,
        /// The shard is complete.
        last: bool,
        /// The part, as changes.
        changes: Vec<Change>,
    },
    /// Changes of the shard.
    Delta {
        /// In order.
        changes: Vec<Change>,
    },
    /// Assigns a number to a class.
    RegisterClass {
        /// The number.
        id: ClassId,
        /// The class.
        class: Arc<Class>,
    },
    /// Forgets a class; its number is never reused.
    ForgetClass {
        /// The number.
        id: ClassId,
    },
    /// Filter and score every node of the shard for a class.
    Evaluate {
        /// Returned in the reply.
        request: RequestId,
        /// The configuration to use.
        generation: Generation,
        /// The profile's `schedulerName`.
        profile: Arc<str>,
        /// The class.
        class: ClassId,
        /// Cluster-wide facts about the class.
        facts: Arc<Facts>,
        /// The requested number of offers of each stratum.
        k: u32,
        /// W3C trace context of the caller; empty for none.
        trace: Arc<str>,
    },
    /// Find the victims on some nodes of the shard so that a pod of a class fits.
    DryRun {
        /// Returned in the reply.
        request: RequestId,
        /// The configuration to use.
        generation: Generation,
        /// The profile's `schedulerName`.
        profile: Arc<str>,
        /// The class, without filters that count over domains.
        class: ClassId,
        /// Cluster-wide facts about the class.
        facts: Arc<Facts>,
        /// At most [`MAX_TRIALS`] of at most [`MAX_TRIAL_PODS`] pods.
        trials: Arc<[Trial]>,
    },
    /// Explain the evaluation of a class on some nodes of the shard.
    Explain {
        /// Returned in the reply.
        request: RequestId,
        /// The configuration to use.
        generation: Generation,
        /// The profile's `schedulerName`.
        profile: Arc<str>,
        /// The class.
        class: ClassId,
        /// Cluster-wide facts about the class.
        facts: Arc<Facts>,
        /// Only nodes with larger numbers; `None` starts at the beginning.
        after: Option<NodeId>,
        /// The maximum number of nodes.
        limit: u32,
        /// W3C trace context of the caller; empty for none.
        trace: Arc<str>,
    },
}

/// The maximum number of trials in one command. A trial takes some 20 us, so these delay an evaluation by 10 ms.
pub const MAX_TRIALS: usize = 512;

/// The maximum number of pods in all trials of one command: with 10 bytes for each class and 1 for its budget they take 1.4 MiB.
pub const MAX_TRIAL_PODS: usize = 1 << 17;

/// A change to the nodes of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A node was added or changed. Its pods stay.
    UpsertNode {
        /// The node's number.
        id: NodeId,
        /// The node.
        node: Arc<NodeInfo>,
    },
    /// A node was removed from the shard, with its pods.
    RemoveNode {
        /// The node's number.
        id: NodeId,
    },
    /// Pods of a class were added to a node.
    AddPods {
        /// The node.
        node: NodeId,
        /// Their class.
        class: ClassId,
        /// The number of pods.
        count: u32,
    },
    /// Pods of a class were removed from a node.
    RemovePods {
        /// The node.
        node: NodeId,
        /// Their class.
        class: ClassId,
        /// The number of pods.
        count: u32,
    },
    /// Sets the volumes that each pod of a class attaches to its node.
    SetAttachments {
        /// The registered class.
        class: ClassId,
        /// The volumes, sorted and unique.
        attachments: Arc<[Attachment]>,
    },
}

/// A reply of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FromWorker {
    /// The epoch of its leader.
    pub epoch: Epoch,
    /// The revision of its state.
    pub revision: Revision,
    /// The reply.
    pub reply: Reply,
}

/// Replies of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// The first message on a stream.
    Hello {
        /// The worker's version.
        version: Arc<str>,
        /// Differs for each start of a worker, to detect restarts.
        nonce: u64,
        /// The names of its plugins, in registry order.
        plugins: Vec<Arc<str>>,
    },
    /// A configuration or a whole shard was applied.
    Applied {
        /// The configuration in use.
        generation: Generation,
        /// The number of nodes.
        nodes: u32,
    },
    /// The answer to an evaluation.
    Evaluated {
        /// The request.
        request: RequestId,
        /// The answer.
        evaluation: Evaluation,
    },
    /// The answer to a dry run.
    DryRunResults {
        /// The request.
        request: RequestId,
        /// The outcome of each trial, in order.
        outcomes: Vec<DryRunResult>,
    },
    /// A part of an explanation.
    Explained {
        /// The request.
        request: RequestId,
        /// The part.
        page: Page,
    },
    /// The request failed.
    Unable {
        /// The request.
        request: RequestId,
        /// The reason.
        why: Unable,
    },
}

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Unable {
    /// The worker does not use this configuration.
    #[error("the requested configuration is not active")]
    Generation,
    /// The configuration has no such profile.
    #[error("the requested profile is unknown")]
    Profile,
    /// The class is not registered.
    #[error("the requested class is unknown")]
    Class,
    /// One offer of each stratum exceeds the size of an answer.
    #[error("the class has more strata than an answer may hold")]
    TooManyStrata,
    /// The explanation of this many nodes exceeds the size of an answer; fewer may fit.
    #[error("the explanation of this many nodes exceeds the size of an answer")]
    TooLarge,
    /// A plugin panicked.
    #[error("a plugin panicked")]
    Panicked,
}

/// The refusal details in an answer for which a module may have messages.
#[must_use]
pub fn numbers(answer: &FromWorker) -> BTreeSet<u64> {
    match &answer.reply {
        Reply::Evaluated { evaluation, .. } => evaluation.refused.iter().map(|group| group.refusal.detail).collect(),
        Reply::DryRunResults { outcomes, .. } => {
            let refused = |outcome: &DryRunResult| match outcome {
                DryRunResult::Refused(_, refusal) => Some(refusal.detail),
                _ => None,
            };
            outcomes.iter().filter_map(refused).collect()
        }
        Reply::Explained { page, .. } => {
            let refused = |local: &Local| match local {
                Local::Refused(_, refusal) => Some(refusal.detail),
                Local::Feasible(_) => None,
            };
            page.nodes.iter().filter_map(|node| refused(&node.local)).collect()
        }
        Reply::Hello { .. } | Reply::Applied { .. } | Reply::Unable { .. } => BTreeSet::new(),
    }
}
