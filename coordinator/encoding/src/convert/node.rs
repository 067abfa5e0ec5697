//! Nodes.

use k8s_openapi::api::core::v1 as api;

use super::{amounts, list, some, texts};
use crate::{object::Node, pb};

impl From<pb::Node> for Node {
    fn from(node: pb::Node) -> Self {
        Self {
            metadata: node.metadata.unwrap_or_default().into(),
            spec: node.spec.map(api::NodeSpec::from),
            status: node.status.map(api::NodeStatus::from),
        }
    }
}

impl From<pb::NodeSpec> for api::NodeSpec {
    fn from(spec: pb::NodeSpec) -> Self {
        Self { taints: list(spec.taints), unschedulable: spec.unschedulable.then_some(true), ..Self::default() }
    }
}

impl From<pb::Taint> for api::Taint {
    fn from(taint: pb::Taint) -> Self {
        Self { effect: taint.effect, key: taint.key, time_added: None, value: some(taint.value) }
    }
}

impl From<pb::NodeStatus> for api::NodeStatus {
    fn from(status: pb::NodeStatus) -> Self {
        Self {
            allocatable: amounts(status.allocatable),
            declared_features: texts(status.declared_features),
            images: list(status.images),
            ..Self::default()
        }
    }
}

impl From<pb::ContainerImage> for api::ContainerImage {
    fn from(image: pb::ContainerImage) -> Self {
        Self { names: texts(image.names), size_bytes: Some(image.size_bytes).filter(|bytes| *bytes != 0) }
    }
}
