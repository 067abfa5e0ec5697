//! Events: the machine's inputs.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use flotilla_framework::{
    class::{OwnerKind, PodInfo},
    extender::{Extended, Extender, Proposal},
    extension::objects::{Object, ObjectKey},
    labels::LabelSelector,
    node::NodeInfo,
    pod_group::{GroupKey, PodGroup},
    preemption::Budget,
    profile::Profile,
    shard::{Epoch, FromWorker, Generation, RequestId},
    volumes::objects::StorageKind,
};

/// A point in time, in milliseconds since a start that the runtime chose; never decreases.
pub type TimeMs = u64;

/// One connection to a worker. A worker that reconnects gets a new number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkerId(pub u64);

/// One PreBind of a pod; never reused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PreparationId(pub u64);

/// One preemption; never reused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PreemptionId(pub u64);

/// One input of the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// A first or changed configuration is in force.
    Configured(Arc<Configuration>),
    /// This process became leader.
    Leading {
        /// Higher than the epoch of any earlier leader.
        epoch: Epoch,
    },
    /// This process is no longer leader. The machine follows the cluster and decides nothing.
    Following,
    /// The initial lists are complete.
    Synced,
    /// A pod was added or updated.
    PodApplied(Arc<PodInfo>),
    /// A pod was deleted.
    PodDeleted {
        /// Its UID.
        uid: Arc<str>,
    },
    /// etcd was restored from a backup. The next watch event of a pod is valid even if it unsets the node of a placed pod.
    WentBack,
    /// A relist of all pods follows. A pod that was placed before the relist and is listed without a node was reverted by a restored
    /// backup.
    PodsRelisted,
    /// Claims or volumes were reverted by a restored backup, and a relist follows. Writes for waiting pods may be lost.
    ObjectsWentBack,
    /// A relist of all ResourceClaims follows, in no order of versions, until [`Self::ClaimsListed`].
    ClaimsRelisted,
    /// The list of ResourceClaims is complete.
    ClaimsListed {
        /// The resource version of the list.
        version: Arc<str>,
    },
    /// A node was added or updated. The same name with another UID is another node.
    NodeApplied(Arc<NodeInfo>),
    /// A node was deleted.
    NodeDeleted {
        /// Its name.
        name: Arc<str>,
    },
    /// A namespace was added or updated; labels are sorted by key.
    NamespaceApplied {
        /// Its name.
        name: Arc<str>,
        /// Its labels.
        labels: Vec<(Arc<str>, Arc<str>)>,
    },
    /// A namespace was deleted.
    NamespaceDeleted {
        /// Its name.
        name: Arc<str>,
    },
    /// A service or controller was added, or its selector changed.
    SelectorApplied {
        /// The object.
        object: Selecting,
        /// Its selector: a map of labels for a service or replication controller; empty for a service without a selector.
        selector: LabelSelector,
    },
    /// A service or controller was deleted.
    SelectorDeleted {
        /// The object.
        object: Selecting,
    },
    /// An object of a plugin, such as a claim or a volume, was added or updated.
    ObjectApplied(Object),
    /// An object of a plugin was deleted.
    ObjectDeleted(ObjectKey),
    /// A pod group was added or updated.
    PodGroupApplied(Arc<PodGroup>),
    /// A pod group was deleted.
    PodGroupDeleted(GroupKey),
    /// A PodDisruptionBudget was added or updated.
    BudgetApplied(Arc<Budget>),
    /// A PodDisruptionBudget was deleted.
    BudgetDeleted {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
    },
    /// A worker connected and completed the handshake.
    WorkerJoined {
        /// The connection.
        worker: WorkerId,
        /// Its address; nodes are assigned to workers by a hash of this name.
        name: Arc<str>,
    },
    /// A connection to a worker closed. Also the answer to [`crate::action::Action::DropWorker`].
    WorkerLost {
        /// The connection.
        worker: WorkerId,
    },
    /// A message from a worker.
    FromWorker {
        /// The connection.
        worker: WorkerId,
        /// The message.
        word: FromWorker,
    },
    /// The API server bound a pod.
    Bound {
        /// The pod.
        uid: Arc<str>,
    },
    /// A bind failed.
    BindFailed {
        /// The pod.
        uid: Arc<str>,
        /// The failure.
        failure: BindFailure,
    },
    /// The answer to [`crate::action::Action::Extend`].
    Extended {
        /// The number of the [`crate::action::Extension`].
        request: RequestId,
        /// The result.
        outcome: ExtensionOutcome,
    },
    /// The answer to [`crate::action::Action::PreBind`].
    Written {
        /// The pod.
        uid: Arc<str>,
        /// The number of the PreBind.
        id: PreparationId,
        /// The resource versions of the written objects, in the order of the writes.
        versions: Vec<Arc<str>>,
        /// The API server's error for the next write.
        failure: Option<String>,
    },
    /// The answer to [`crate::action::Action::ExtendPreemption`].
    Proposed {
        /// The number of the [`crate::action::PreemptionProposal`].
        request: RequestId,
        /// The remaining candidates, or the error.
        outcome: Result<Box<Proposal>, String>,
    },
    /// The answer to [`crate::action::Action::Preempt`].
    Preempted {
        /// The preemptor.
        uid: Arc<str>,
        /// The number of the preemption.
        id: PreemptionId,
        /// The API server's error for a victim.
        failure: Option<String>,
    },
    /// The time of [`crate::machine::Machine::next_wakeup`] has come.
    Tick,
    /// A relist of all claims or volumes follows. An object older than the version written for it was reverted by a restored backup.
    StorageRelisted(StorageKind),
}

impl Event {
    /// Whether the machine handles the event before watch events. True for answers to the machine's requests, and for the end of
    /// leadership, after which it must decide nothing. The start of leadership comes after earlier watch events.
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

/// An object that selects pods; default spread constraints count the selected pods.
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

/// The reason of a failed bind. The runtime has verified the failure: it looks up a lost answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum BindFailure {
    /// The pod is deleted or terminating.
    Gone,
    /// Another scheduler bound the pod.
    Elsewhere,
    /// Any other error; the pod is retried.
    Error(String),
}

/// The result of calling extenders for a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExtensionOutcome {
    /// All extenders answered, or are ignorable.
    Done(Box<Extended>),
    /// An extender that is not ignorable failed.
    Failed(String),
    /// The pod was deleted.
    Gone,
}

/// The configuration, as far as the machine needs it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    /// Increases with each changed configuration.
    pub generation: Generation,
    /// All profiles.
    pub profiles: Arc<[Profile]>,
    /// All extenders, in calling order.
    pub extenders: Arc<[Arc<Extender>]>,
    /// Feature gate `GenericWorkload`: the pods of a group are placed together.
    pub generic_workload: bool,
    /// Feature gate `NominatedNodeNameForExpectation`: PreBind nominates the pod to its node before it writes anything else.
    pub announces_nodes: bool,
    /// Part of every node's rank, so that ties resolve differently in different clusters.
    pub tie_break_seed: u64,
    /// `podInitialBackoffSeconds`, in milliseconds.
    pub pod_initial_backoff_ms: u64,
    /// `podMaxBackoffSeconds`, in milliseconds.
    pub pod_max_backoff_ms: u64,
    /// Feature gate `SchedulerPopFromBackoffQ`: an empty activeQ pops pods from backoffQ.
    pub pops_from_backoff: bool,
    /// Maximum time among the unschedulable pods before a retry without an event.
    pub pod_max_in_unschedulable_ms: u64,
    /// Maximum number of binds in flight.
    pub max_binds_in_flight: usize,
    /// Time after which the coordinator evaluates the nodes of a worker that has not answered.
    pub worker_hedge_ms: u64,
    /// Time after which the coordinator drops a worker that has not answered.
    pub worker_deadline_ms: u64,
    /// Time that a new leader waits for its first worker before it evaluates all nodes itself.
    pub worker_grace_ms: u64,
}

impl Configuration {
    /// kube-scheduler's default times and Flotilla's limits, with these profiles.
    ///
    /// 1,000 binds in flight at 10 ms each are 100,000 binds a second, more than an API server handles. The deadline of two seconds is more
    /// than a hundred times the largest evaluation; the hedge of 100 ms is five times as much.
    #[must_use]
    pub fn new(generation: Generation, profiles: Vec<Profile>) -> Self {
        Self {
            generation,
            profiles: profiles.into(),
            extenders: Arc::default(),
            generic_workload: false,
            announces_nodes: true,
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
