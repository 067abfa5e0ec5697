//! Everything that can happen to the machine: one half of the conversation with the shell.
//!
//! Knows: what the shell has to tell. Must not know: how the shell learned of it.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use flotilla_framework::{
    class::{OwnerKind, PodInfo},
    extender::{Extended, Extender, Proposal},
    extension::objects::{Object, ObjectKey},
    labels::LabelSelector,
    node::NodeInfo,
    pod_group::PodGroup,
    preemption::Budget,
    profile::Profile,
    shard::{Epoch, FromWorker, Generation, RequestId},
    volumes::objects::StorageKind,
};

/// A point in time, in milliseconds since a start that the shell chose; it never goes back.
pub type TimeMs = u64;

/// The number that the shell gave to one connection to a worker. A worker that comes back gets a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkerId(pub u64);

/// Tells one PreBind of a pod from another one of the same pod; never used twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PreparationId(pub u64);

/// Tells preemptions apart; never used twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PreemptionId(pub u64);

/// Something happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// A configuration is in force: the first one, or another than before.
    Configured(Arc<Configuration>),
    /// This process leads from now on.
    Leading {
        /// Higher than that of any leader before.
        epoch: Epoch,
    },
    /// This process does not lead any more. It keeps up with the cluster and decides nothing.
    Following,
    /// The watches have told all there was when they began; from here on the view is whole.
    Synced,
    /// A pod is new or looks like this now.
    PodApplied(Arc<PodInfo>),
    /// A pod is gone.
    PodDeleted {
        /// Its UID.
        uid: Arc<str>,
    },
    /// The cluster has gone back in time, as after a restored backup of etcd. What the watch tells of a pod next holds, also where
    /// it says that a pod which was placed is not.
    WentBack,
    /// All pods are told anew after this, as they are at a moment after it: one that was placed by then and is told without a node
    /// was taken back with the history of a cluster that was restored.
    PodsListedAnew,
    /// Claims or volumes have gone back in time, and are told anew after this. What was written of them for pods that wait for it
    /// may never have been.
    ObjectsWentBack,
    /// All ResourceClaims are told anew after this, in no order of versions, until [`Self::ClaimsListed`].
    ClaimsListedAnew,
    /// All ResourceClaims have been told, as they are at a version.
    ClaimsListed {
        /// The version of the list.
        version: Arc<str>,
    },
    /// A node is new or looks like this now. The same name with another UID is another node.
    NodeApplied(Arc<NodeInfo>),
    /// A node is gone.
    NodeDeleted {
        /// Its name.
        name: Arc<str>,
    },
    /// A namespace is new or has these labels now, sorted by key.
    NamespaceApplied {
        /// Its name.
        name: Arc<str>,
        /// Its labels.
        labels: Vec<(Arc<str>, Arc<str>)>,
    },
    /// A namespace is gone.
    NamespaceDeleted {
        /// Its name.
        name: Arc<str>,
    },
    /// A service or controller is new or selects other pods than before.
    SelectorApplied {
        /// Which.
        object: Selecting,
        /// What it selects: for a service and a replication controller its map of labels; nothing for a service without
        /// a selector.
        selector: LabelSelector,
    },
    /// A service or controller is gone.
    SelectorDeleted {
        /// Which.
        object: Selecting,
    },
    /// An object that plugins keep, such as a claim or a volume, is new or looks like this now.
    ObjectApplied(Object),
    /// Such an object is gone.
    ObjectDeleted(ObjectKey),
    /// A pod group is new or looks like this now.
    PodGroupApplied(Arc<PodGroup>),
    /// A pod group is gone.
    PodGroupDeleted {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
    },
    /// A PodDisruptionBudget is new or looks like this now.
    BudgetApplied(Arc<Budget>),
    /// A PodDisruptionBudget is gone.
    BudgetDeleted {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
    },
    /// A worker is connected and has said hello.
    WorkerJoined {
        /// The connection.
        worker: WorkerId,
        /// Where it is; shards are dealt out by this name.
        name: Arc<str>,
    },
    /// A connection to a worker is gone. Also the answer to [`crate::action::Action::DropWorker`].
    WorkerLost {
        /// The connection.
        worker: WorkerId,
    },
    /// A worker said something.
    FromWorker {
        /// The connection.
        worker: WorkerId,
        /// What it said.
        word: FromWorker,
    },
    /// A pod is bound, the API server says so.
    Bound {
        /// The pod.
        uid: Arc<str>,
    },
    /// A pod is not bound to where it was to go.
    BindFailed {
        /// The pod.
        uid: Arc<str>,
        /// What is known of it.
        failure: BindFailure,
    },
    /// What came of asking extenders about a pod.
    Extended {
        /// The number of the [`crate::action::Extension`].
        request: RequestId,
        /// What came of it.
        outcome: ExtensionOutcome,
    },
    /// The answer to [`crate::action::Action::PreBind`].
    Written {
        /// The pod.
        uid: Arc<str>,
        /// Which PreBind.
        id: PreparationId,
        /// The versions that the written objects have now, in the order they were asked for.
        versions: Vec<Arc<str>>,
        /// What kept the next one from being written, in the API server's words.
        failure: Option<String>,
    },
    /// The answer to [`crate::action::Action::ExtendPreemption`].
    Proposed {
        /// The number of the [`crate::action::PreemptionProposal`].
        request: RequestId,
        /// What is left of it, or why there is no preemption.
        outcome: Result<Box<Proposal>, String>,
    },
    /// The answer to [`crate::action::Action::Preempt`].
    Preempted {
        /// The pod that preempts.
        uid: Arc<str>,
        /// Which preemption.
        id: PreemptionId,
        /// What kept a victim from being deleted, in the API server's words.
        failure: Option<String>,
    },
    /// The time of the last wake-up asked for has come.
    Tick,
    /// All claims, or all volumes, are told anew after this, as they are at a moment after it: one that is older than what was
    /// written of it by then was taken back with the history of a cluster that was restored.
    StorageListedAnew(StorageKind),
}

impl Event {
    /// Whether the machine handles it before events of watches: an answer to a request of the machine, or the end of leadership, after
    /// which the machine must decide nothing. The start of leadership is not: earlier events of watches come first.
    #[must_use]
    pub const fn is_preferred(&self) -> bool {
        matches!(
            self,
            Self::Following
                | Self::WorkerJoined { .. }
                | Self::WorkerLost { .. }
                | Self::FromWorker { .. }
                | Self::Bound { .. }
                | Self::BindFailed { .. }
                | Self::Extended { .. }
                | Self::Written { .. }
                | Self::Proposed { .. }
                | Self::Preempted { .. }
        )
    }
}

/// An object that selects pods: default spread constraints count what it selects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selecting {
    /// Its kind.
    pub kind: SelectingKind,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// Kinds of objects that select pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SelectingKind {
    /// `v1` Service.
    Service,
    /// A controller.
    Controller(OwnerKind),
}

/// How a bind failed. The shell has made sure that it did fail: an answer that got lost is looked up, not guessed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum BindFailure {
    /// The pod is gone, or is being deleted.
    Gone,
    /// Another scheduler has bound the pod.
    Elsewhere,
    /// Anything else; worth another try later.
    Error(String),
}

/// What came of asking extenders about a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExtensionOutcome {
    /// All that had to answer did, or can be ignored.
    Done(Box<Extended>),
    /// One that cannot be ignored failed, or could not be asked, for this reason.
    Failed(String),
    /// The pod is gone.
    Gone,
}

/// What the operator configured, as far as the machine needs it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    /// Counts configurations; a changed one has a higher number.
    pub generation: Generation,
    /// All profiles.
    pub profiles: Arc<[Profile]>,
    /// All extenders, in the order that they are asked in.
    pub extenders: Arc<[Arc<Extender>]>,
    /// Whether the gate GenericWorkload is on: pods of a pod group are placed together.
    pub generic_workload: bool,
    /// Goes into every node's rank, so that ties fall differently in another cluster.
    pub tie_break_seed: u64,
    /// The first backoff of a pod.
    pub pod_initial_backoff_ms: u64,
    /// The longest backoff of a pod.
    pub pod_max_backoff_ms: u64,
    /// Whether a pod is taken from backoffQ before its time if nothing else is to be tried: the feature gate
    /// `SchedulerPopFromBackoffQ`.
    pub pops_from_backoff: bool,
    /// How long a pod may lie among the unschedulable ones before it is tried again without any event.
    pub pod_max_in_unschedulable_ms: u64,
    /// How many binds may be under way at once.
    pub max_binds_in_flight: usize,
    /// The nodes of a worker that owes an answer for longer are judged by the coordinator meanwhile.
    pub worker_hedge_ms: u64,
    /// A worker that owes an answer for longer is given up.
    pub worker_deadline_ms: u64,
    /// How long a new leader waits for its first worker before it evaluates by itself.
    pub worker_grace_ms: u64,
}

impl Configuration {
    /// kube-scheduler's times, and bounds of our own, around these profiles.
    ///
    /// 1,000 binds in flight at 10 ms each are 100,000 binds a second, more than an API server takes. A worker that
    /// owes an answer for two seconds has had more than a hundred times what the largest evaluation needs; after five times
    /// as much as that, 100 ms, it is not waited for any more.
    #[must_use]
    pub fn new(generation: Generation, profiles: Vec<Profile>) -> Self {
        Self {
            generation,
            profiles: profiles.into(),
            extenders: Arc::default(),
            generic_workload: false,
            tie_break_seed: 0,
            pod_initial_backoff_ms: 1_000,
            pod_max_backoff_ms: 10_000,
            pops_from_backoff: true,
            pod_max_in_unschedulable_ms: 300_000,
            max_binds_in_flight: 1_000,
            worker_hedge_ms: 100,
            worker_deadline_ms: 2_000,
            worker_grace_ms: 1_000,
        }
    }
}
