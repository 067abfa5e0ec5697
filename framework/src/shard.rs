//! The conversation between the owner of the cluster state and the holder of a shard of it.
//!
//! Knows: what is said, both ways. Must not know: how it is written on a wire, or who listens.

use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, sync::Arc};

use crate::{
    class::{Class, ClassId},
    evaluation::Evaluation,
    explain::shard::{Local, Page},
    extension::Facts,
    modules::Digest,
    node::{NodeId, NodeInfo},
    preemption::{Outcome, Trial},
    profile::Profile,
    volumes::node::Attachment,
};

/// Counts the changes of the cluster state, in the order in which its owner made them.
pub type Revision = u64;

/// Counts leaders: a holder of a shard obeys the highest it has seen and drops what comes from a lower one.
pub type Epoch = u64;

/// Counts configurations; every evaluation names the one it is to be made under.
pub type Generation = u64;

/// Tells evaluations apart within one epoch.
pub type RequestId = u64;

/// What the owner says: who it is, how far the state had got, and what to do.
#[derive(Debug, Clone, PartialEq)]
pub struct ToWorker {
    /// The leader's epoch.
    pub epoch: Epoch,
    /// The state's revision when this was said.
    pub revision: Revision,
    /// What to do.
    pub command: Command,
}

/// What a holder of a shard is told to do. Commands are obeyed in the order they are said.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Work by these profiles from now on.
    Configure {
        /// The configuration's number.
        generation: Generation,
        /// Goes into every node's rank.
        tie_break_seed: u64,
        /// All profiles.
        profiles: Arc<[Profile]>,
    },
    /// A part of a module that the next configuration names. Whoever has the configuration applied has all modules ready.
    Module {
        /// The module.
        digest: Digest,
        /// How many bytes it has, at most [`MAX_BYTES`](crate::modules::MAX_BYTES).
        size: u32,
        /// The bytes that come after those of the parts before.
        part: Arc<[u8]>,
    },
    /// A part of a whole shard.
    Snapshot {
        /// Forget every node held so far.
        first: bool,
        /// Nothing is missing any more.
        last: bool,
        /// The part, as changes to what is held.
        changes: Vec<Change>,
    },
    /// What changed in the shard.
    Delta {
        /// In order.
        changes: Vec<Change>,
    },
    /// From now on this number means this class.
    RegisterClass {
        /// The number.
        id: ClassId,
        /// The class.
        class: Arc<Class>,
    },
    /// This number will not be used again.
    ForgetClass {
        /// The number.
        id: ClassId,
    },
    /// Judge and score every node of the shard for a class.
    Evaluate {
        /// Comes back with the answer.
        request: RequestId,
        /// The configuration to work by.
        generation: Generation,
        /// The profile's `schedulerName`.
        profile: Arc<str>,
        /// The class.
        class: ClassId,
        /// What the whole cluster says about the class.
        facts: Arc<Facts>,
        /// How many offers of each stratum are wanted.
        k: u32,
        /// W3C trace context of the caller; empty for none.
        trace: Arc<str>,
    },
    /// Try on some nodes of the shard which pods would have to go so that one of a class fits.
    DryRun {
        /// Comes back with the answer.
        request: RequestId,
        /// The configuration to work by.
        generation: Generation,
        /// The profile's `schedulerName`.
        profile: Arc<str>,
        /// The class, of which no filter counts over domains.
        class: ClassId,
        /// What the whole cluster says about the class.
        facts: Arc<Facts>,
        /// At most [`MAX_TRIALS`] of at most [`MAX_TRIAL_PODS`] pods.
        trials: Arc<[Trial]>,
    },
    /// Give account of some nodes of the shard for a class, one by one.
    Explain {
        /// Comes back with the answer.
        request: RequestId,
        /// The configuration to work by.
        generation: Generation,
        /// The profile's `schedulerName`.
        profile: Arc<str>,
        /// The class.
        class: ClassId,
        /// What the whole cluster says about the class.
        facts: Arc<Facts>,
        /// Only nodes of larger numbers are wanted; `None` for the beginning.
        after: Option<NodeId>,
        /// How many nodes are wanted at most.
        limit: u32,
        /// W3C trace context of the caller; empty for none.
        trace: Arc<str>,
    },
}

/// How many nodes are tried at once at most. A node is tried in some 20 us, so that an evaluation waits for 10 ms behind
/// these.
pub const MAX_TRIALS: usize = 512;

/// How many pods all trials of one command may name: with 10 bytes for the class of each and 1 for its budget they take
/// 1.4 MiB.
pub const MAX_TRIAL_PODS: usize = 1 << 17;

/// A change to the nodes of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A node is new here, or looks like this now. Its pods stay.
    UpsertNode {
        /// The node's number.
        id: NodeId,
        /// The node.
        node: Arc<NodeInfo>,
    },
    /// A node is gone from the shard, with its pods.
    RemoveNode {
        /// The node's number.
        id: NodeId,
    },
    /// Pods of a class came to a node.
    AddPods {
        /// The node.
        node: NodeId,
        /// Their class.
        class: ClassId,
        /// How many.
        count: u32,
    },
    /// Pods of a class left a node.
    RemovePods {
        /// The node.
        node: NodeId,
        /// Their class.
        class: ClassId,
        /// How many.
        count: u32,
    },
    /// Each pod of a class attaches these volumes to its node from now on.
    SetAttachments {
        /// The class, which is registered.
        class: ClassId,
        /// The volumes, sorted, each once.
        attachments: Arc<[Attachment]>,
    },
}

/// What a holder of a shard says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FromWorker {
    /// The epoch it obeys.
    pub epoch: Epoch,
    /// How far its state has got.
    pub revision: Revision,
    /// What it says.
    pub reply: Reply,
}

/// What a holder of a shard can say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// The first word on a stream.
    Hello {
        /// The worker's version.
        version: Arc<str>,
        /// Differs for each start of a worker, so that a restarted one is not taken for the one before.
        nonce: u64,
        /// The names of its plugins, in the order of its registry.
        plugins: Vec<Arc<str>>,
    },
    /// A configuration or a whole shard was taken over.
    Applied {
        /// The configuration it works by.
        generation: Generation,
        /// How many nodes it holds.
        nodes: u32,
    },
    /// The answer to an evaluation.
    Evaluated {
        /// Whose answer it is.
        request: RequestId,
        /// The answer.
        evaluation: Evaluation,
    },
    /// The answer to a dry run.
    Rehearsed {
        /// Whose answer it is.
        request: RequestId,
        /// What came of each trial, in their order.
        outcomes: Vec<Outcome>,
    },
    /// A part of the account of a class.
    Explained {
        /// Whose answer it is.
        request: RequestId,
        /// The part.
        page: Page,
    },
    /// There is no answer.
    Unable {
        /// What there is no answer to.
        request: RequestId,
        /// Why.
        why: Unable,
    },
}

/// Why an evaluation or an account has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Unable {
    /// It names a configuration that is not in force here.
    #[error("the configuration it names is not in force here")]
    Generation,
    /// It names a profile that the configuration lacks.
    #[error("the profile it names is unknown")]
    Profile,
    /// It names a class that was not registered.
    #[error("the class it names is unknown")]
    Class,
    /// Not even one offer of each stratum would fit in an answer.
    #[error("the class has more strata than an answer may hold")]
    TooManyStrata,
    /// So many nodes do not fit in an answer; fewer may.
    #[error("the account of so many nodes is larger than an answer may be")]
    TooLarge,
    /// A plugin panicked.
    #[error("a plugin panicked")]
    Panicked,
}

/// The numbers in an answer for which some module may have words.
#[must_use]
pub fn numbers(answer: &FromWorker) -> BTreeSet<u64> {
    match &answer.reply {
        Reply::Evaluated { evaluation, .. } => evaluation.refused.iter().map(|group| group.refusal.detail).collect(),
        Reply::Rehearsed { outcomes, .. } => {
            let refused = |outcome: &Outcome| match outcome {
                Outcome::Refused(_, refusal) => Some(refusal.detail),
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
