//! What one node lacks for a pod, in terms that a person can act on.

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
pub struct Place<'a> {
    /// The node.
    pub node: &'a NodeInfo,
    /// The nodes.
    pub nodes: &'a Snapshot,
    /// The node's position among them.
    pub slot: Slot,
    /// What the whole cluster says about the class.
    pub facts: &'a Facts,
}

/// One thing that a node lacks, or a pod for a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lack {
    /// Free amounts of a resource.
    Resource {
        /// The resource, `pods` for the number of pods.
        name: Arc<str>,
        /// How much more would have to be free, in the unit of [`crate::resources::Resources`]; above 0.
        short: i64,
        /// How much the pod asks for.
        request: i64,
        /// How much the node has in all; where that is less than the request, no pod's leaving helps.
        allocatable: i64,
    },
    /// The pod does not tolerate a taint.
    Toleration(Taint),
    /// The node is cordoned.
    Cordoned,
    /// The node's kubelet does not declare a feature.
    Feature(&'static str),
    /// A label is not as the pod or its profile demands.
    Label {
        /// The demand.
        requirement: Requirement,
        /// The value that the node has.
        found: Option<Arc<str>>,
    },
    /// The node has not the name that the pod demands.
    Name(Requirement),
    /// A port of the node is taken.
    Port(HostPort),
    /// The node takes no more volumes of a driver.
    Volumes {
        /// The driver.
        driver: Arc<str>,
        /// How many volumes there would be above the limit; above 0.
        over: i64,
    },
    /// A driver is not on the node.
    Driver(Arc<str>),
    /// The node has no label of this key, so that it is in none of the domains that are counted over.
    Key(Arc<str>),
    /// The node's domain holds more of the pods that are spread than the constraint allows.
    Skew {
        /// The label that pods are spread over.
        key: Arc<str>,
        /// How many pods less would do; above 0.
        over: i64,
    },
    /// In the node's domain is no pod that the pod's required affinity asks for.
    Near(Arc<str>),
    /// In the node's domain is a pod that the pod's required anti-affinity avoids.
    Away(Arc<str>),
    /// In the node's domain is a pod whose required anti-affinity refuses this one.
    Welcome(Arc<str>),
    /// Devices that the pod's claims ask for.
    Devices(DeviceLack),
}
