//! A node as the scheduler reads it.
//!
//! Knows: the fields of a node that scheduling reads. Must not know: the pods on it (that is [`crate::snapshot`]).

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::{
    class::Taint, declared::DeclaredFeatures, devices::node::NodeDevices, resources::Resources, volumes::node::NodeCsi,
};

/// The number that the owner of the cluster state gave to a node; a node that is deleted and made anew gets a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u32);

/// A node without its pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`; the name where there is none.
    pub uid: Arc<str>,
    /// `metadata.labels`, sorted by key.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    /// `spec.taints`, in order.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// `status.allocatable` without `pods`.
    pub allocatable: Resources,
    /// `status.allocatable.pods`.
    pub allowed_pods: i64,
    /// `status.declaredFeatures`, as far as pods can need them.
    pub declared_features: DeclaredFeatures,
    /// `status.images`: each image's names and its size in bytes.
    pub images: Vec<(Vec<Arc<str>>, i64)>,
    /// What its drivers say of it; `None` where it has no CSINode. Not from the node itself: the code that holds the
    /// objects of storage fills it in.
    pub csi: Option<Arc<NodeCsi>>,
    /// What it can reach of devices; `None` where that is nothing. Filled in as `csi` is, so that it is not written down with the node.
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
