//! Clusters with GPUs on the nodes, and pods that claim them.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        core::v1 as api,
        resource::v1::{
            CELDeviceSelector, Device, DeviceAttribute, DeviceCapacity, DeviceClaim, DeviceClass, DeviceClassSpec,
            DeviceRequest, DeviceSelector, ExactDeviceRequest, ResourceClaimSpec, ResourceClaimTemplate,
            ResourceClaimTemplateSpec, ResourcePool, ResourceSlice, ResourceSliceSpec,
        },
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};

use super::{basic_pod, name, namespace, spread_over};
use crate::simulate::args::{Generate, Shape};

const DRIVER: &str = "gpu.example.com";

const GPUS: usize = 8;

/// The templates that pods use in turn: name and number of GPUs.
const CLAIMS: [(&str, i64); 2] = [("one-gpu", 1), ("four-gpus", 4)];

/// The CEL selectors of the class and of the templates.
const OF_CLASS: &str = "device.driver == \"gpu.example.com\"";
const LARGE: &str = "device.attributes[\"gpu.example.com\"].model == \"large\" && \
                     device.capacity[\"gpu.example.com\"].memory.compareTo(quantity(\"40Gi\")) >= 0";

pub(super) fn pod(words: &Generate, index: usize, count: usize) -> api::Pod {
    let mut pod = spread_over(words, index, basic_pod(index, count));
    if let Some(spec) = &mut pod.spec {
        spec.resource_claims = Some(vec![api::PodResourceClaim {
            name: "gpus".to_owned(),
            resource_claim_template_name: Some(CLAIMS[index % CLAIMS.len()].0.to_owned()),
            ..api::PodResourceClaim::default()
        }]);
    }
    pod
}

pub(in crate::simulate) fn classes(words: &Generate, class: impl FnMut(DeviceClass)) {
    let spec = DeviceClassSpec { selectors: Some(vec![selector(OF_CLASS)]), ..DeviceClassSpec::default() };
    let all = [DeviceClass { metadata: named(DRIVER), spec: Some(spec) }];
    all.into_iter().filter(|_| words.shape == Shape::Devices).for_each(class);
}

/// The templates, in each namespace.
pub(in crate::simulate) fn templates(words: &Generate, template: impl FnMut(ResourceClaimTemplate)) {
    let of = |turn: usize, (name, count): (&str, i64)| {
        let exactly = ExactDeviceRequest {
            device_class_name: DRIVER.to_owned(),
            count: Some(count),
            selectors: Some(vec![selector(LARGE)]),
            ..ExactDeviceRequest::default()
        };
        let request = DeviceRequest { name: "gpus".to_owned(), exactly: Some(exactly), ..DeviceRequest::default() };
        let devices = DeviceClaim { requests: Some(vec![request]), ..DeviceClaim::default() };
        let spec = ResourceClaimSpec { devices: Some(devices) };
        ResourceClaimTemplate {
            metadata: ObjectMeta { namespace: namespace(words, turn), ..named(name) },
            spec: Some(ResourceClaimTemplateSpec { metadata: None, spec: Some(spec) }),
        }
    };
    let turns = if words.shape == Shape::Devices { words.namespaces } else { 0 };
    (0..turns).flat_map(|turn| CLAIMS.map(|claim| of(turn, claim))).for_each(template);
}

/// The devices of each node, equal except for their UUIDs.
pub(in crate::simulate) fn slices(words: &Generate, slice: impl FnMut(ResourceSlice)) {
    let nodes = if words.shape == Shape::Devices { words.nodes } else { 0 };
    (0..nodes).map(|index| slice_of(&name("node", index, words.nodes))).for_each(slice);
}

fn slice_of(node: &str) -> ResourceSlice {
    let device = |index: usize| {
        let text = |text: String| DeviceAttribute { string: Some(text), ..DeviceAttribute::default() };
        let attributes = [("model", text("large".to_owned())), ("uuid", text(format!("{node}-{index}")))];
        let memory = DeviceCapacity { value: Quantity("80Gi".to_owned()), ..DeviceCapacity::default() };
        Device {
            name: format!("gpu-{index}"),
            attributes: Some(attributes.map(|(name, value)| (name.to_owned(), value)).into()),
            capacity: Some(BTreeMap::from([("memory".to_owned(), memory)])),
            ..Device::default()
        }
    };
    ResourceSlice {
        metadata: named(&format!("{node}-gpus")),
        spec: ResourceSliceSpec {
            driver: DRIVER.to_owned(),
            node_name: Some(node.to_owned()),
            pool: ResourcePool { name: node.to_owned(), generation: 1, resource_slice_count: 1 },
            devices: Some((0..GPUS).map(device).collect()),
            ..ResourceSliceSpec::default()
        },
    }
}

fn selector(expression: &str) -> DeviceSelector {
    DeviceSelector { cel: Some(CELDeviceSelector { expression: expression.to_owned() }) }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}
