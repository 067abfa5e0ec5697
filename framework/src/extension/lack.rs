//! The unmet requirements of a pod on one node, in terms that an administrator can act on.

use std::sync::Arc;

use super::Facts;
use crate::{
    class::{HostPort, Requirement, Taint},
    devices::allocate::lacking::DeviceLack,
    node::NodeInfo,
    snapshot::{Slot, Snapshot},
};

/// A node in its snapshot.
#[derive(Debug, Clone, Copy)]
pub struct NodeContext<'a> {
    /// The node.
    pub node: &'a NodeInfo,
    /// The nodes.
    pub nodes: &'a Snapshot,
    /// The node's position in the snapshot.
    pub slot: Slot,
    /// Cluster-wide facts about the class.
    pub facts: &'a Facts,
}

/// One unmet requirement of a pod on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lack {
    /// The free amount of a resource.
    Resource {
        /// The resource; `pods` for the number of pods.
        name: Arc<str>,
        /// The missing amount, in the unit of [`crate::resources::Resources`]; above 0.
        short: i64,
        /// The pod's request.
        request: i64,
        /// The node's allocatable amount. If less than the request, evicting pods does not help.
        allocatable: i64,
    },
    /// The pod does not tolerate a taint.
    Toleration(Taint),
    /// The node is cordoned.
    Cordoned,
    /// The node's kubelet does not declare a feature.
    Feature(&'static str),
    /// A label does not match the requirement of the pod or its profile.
    Label {
        /// The requirement.
        requirement: Requirement,
        /// The node's value.
        found: Option<Arc<str>>,
    },
    /// The node's name does not match.
    Name(Requirement),
    /// A host port is in use.
    Port(HostPort),
    /// The node's volume limit of a driver.
    Volumes {
        /// The driver.
        driver: Arc<str>,
        /// The number of volumes above the limit; above 0.
        over: i64,
    },
    /// A driver is not installed on the node.
    Driver(Arc<str>),
    /// The node lacks this topology key.
    Key(Arc<str>),
    /// The node's domain exceeds the maximum skew of a spread constraint.
    Skew {
        /// The topology key.
        key: Arc<str>,
        /// The number of pods above the limit; above 0.
        over: i64,
    },
    /// The node's domain has no pod that the required affinity matches.
    Near(Arc<str>),
    /// The node's domain has a pod that the required anti-affinity matches.
    Away(Arc<str>),
    /// The required anti-affinity of a pod in the node's domain matches this pod.
    Welcome(Arc<str>),
    /// Devices for the pod's claims.
    Devices(DeviceLack),
}
