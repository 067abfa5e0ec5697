//! What happens in the cluster and may have pods tried again.

use crate::{class::Class, devices::objects::DeviceObject, node::NodeInfo, volumes::objects::StorageObject};

/// Something that happened in the cluster and may make room for a pod that was refused.
#[derive(Debug, Clone, Copy)]
pub enum ClusterEvent<'a> {
    /// A node appeared.
    NodeAdded(&'a NodeInfo),
    /// A node changed.
    NodeUpdated {
        /// Before.
        old: &'a NodeInfo,
        /// After.
        new: &'a NodeInfo,
    },
    /// A node went away.
    NodeRemoved(&'a NodeInfo),
    /// A pod took a node.
    PodAdded(&'a Class),
    /// A pod that holds a node is of another class than before.
    PodUpdated {
        /// Before.
        old: &'a Class,
        /// After.
        new: &'a Class,
    },
    /// A pod that held a node went away.
    PodRemoved(&'a Class),
    /// The pod itself that was refused is of another class than before.
    TargetUpdated {
        /// Before.
        old: &'a Class,
        /// After.
        new: &'a Class,
    },
    /// A namespace appeared, changed its labels or went away.
    NamespaceChanged(&'a str),
    /// A service or controller of a namespace, and so what default spread constraints count, changed.
    SelectorChanged(&'a str),
    /// An object of storage appeared, changed or went away, as the API has it.
    StorageChanged {
        /// Before; `None` where it was not there.
        old: Option<&'a StorageObject>,
        /// After; `None` where it is gone.
        new: Option<&'a StorageObject>,
    },
    /// An object of Dynamic Resource Allocation appeared, changed or went away.
    DeviceChanged {
        /// Before; `None` where it was not there.
        old: Option<&'a DeviceObject>,
        /// After; `None` where it is gone.
        new: Option<&'a DeviceObject>,
    },
}
