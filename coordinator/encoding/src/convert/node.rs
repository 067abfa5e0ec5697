//! Nodes.

use k8s_openapi::api::core::v1 as api;

use super::read;
use crate::{object::Node, pb};

read! {
    node: pb::Node => Node { metadata, spec, status };
    spec: pb::NodeSpec => api::NodeSpec { pod_preemption_policy, taints, unschedulable } ..default;
    policy: pb::NodePodPreemptionPolicy => api::NodePodPreemptionPolicy { disable_resize_preemption };
    taint: pb::Taint => api::Taint { effect, key, time_added = None, value };
    status: pb::NodeStatus => api::NodeStatus { allocatable, declared_features, images } ..default;
    image: pb::ContainerImage => api::ContainerImage { names, size_bytes };
}
