//! Cluster events that may requeue pods.

use crate::{class::Class, devices::objects::DeviceObject, node::NodeInfo, volumes::objects::StorageObject};

/// A cluster event that may make a refused pod schedulable.
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
    /// A node was removed.
    NodeRemoved(&'a NodeInfo),
    /// A pod was added to a node.
    PodAdded(&'a Class),
    /// A pod on a node changed its class.
    PodUpdated {
        /// Before.
        old: &'a Class,
        /// After.
        new: &'a Class,
    },
    /// A pod was removed from a node.
    PodRemoved(&'a Class),
    /// The refused pod itself changed its class.
    TargetUpdated {
        /// Before.
        old: &'a Class,
        /// After.
        new: &'a Class,
    },
    /// A namespace was added, removed, or changed its labels.
    NamespaceChanged(&'a str),
    /// A service or controller of a namespace changed, and with it the counts of default spread constraints.
    SelectorChanged(&'a str),
    /// A storage object was added, changed or removed.
    StorageChanged {
        /// Before; `None` if added.
        old: Option<&'a StorageObject>,
        /// After; `None` if removed.
        new: Option<&'a StorageObject>,
    },
    /// An object of Dynamic Resource Allocation was added, changed or removed.
    DeviceChanged {
        /// Before; `None` if added.
        old: Option<&'a DeviceObject>,
        /// After; `None` if removed.
        new: Option<&'a DeviceObject>,
    },
}
