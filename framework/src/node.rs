//! The fields of a node that scheduling reads. The pods on it are in [`crate::snapshot`].

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::{
    class::Taint, declared::DeclaredFeatures, devices::node::NodeDevices, resources::Resources, volumes::node::NodeCsi,
};

/// The number that the owner of the cluster state assigns to a node; a recreated node gets a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u32);

/// A node without its pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`; the name if missing.
    pub uid: Arc<str>,
    /// `metadata.labels`, sorted by key.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    /// `spec.taints`, in order.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// Whether `spec.podPreemptionPolicy.disableResizePreemption` has entries.
    pub resize_preemption_disabled: bool,
    /// `status.allocatable` without `pods`.
    pub allocatable: Resources,
    /// `status.allocatable.pods`.
    pub allowed_pods: i64,
    /// `status.declaredFeatures`, limited to features that pods can require.
    pub declared_features: DeclaredFeatures,
    /// `status.images`: names and size in bytes.
    pub images: Vec<(Vec<Arc<str>>, i64)>,
    /// Data of the node's CSI drivers; `None` without a CSINode. Filled in from storage objects, not from the node.
    pub csi: Option<Arc<NodeCsi>>,
    /// The devices that the node can reach; `None` without devices. Filled in like `csi`, so not serialised with the node.
    #[serde(skip)]
    pub devices: Option<Arc<NodeDevices>>,
}

impl NodeInfo {
    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        let index = self.labels.binary_search_by(|(known, _)| known.as_ref().cmp(key)).ok()?;
        Some(&self.labels[index].1)
    }
}
