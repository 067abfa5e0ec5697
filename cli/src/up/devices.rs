//! Simulated devices: the slices of two drivers, and pods that claim devices.

use k8s_openapi::api::resource::v1::{DeviceClass, ResourceSlice};
use serde_json::{Value, json};

use super::running::DEFAULT_SCHEDULER;

/// The driver of GPUs, each allocated to one claim.
const GPU: &str = "gpu.example.com";
/// The driver of network cards; claims share their bandwidth.
const NIC: &str = "nic.example.com";

/// The extended resource of the GPUs.
const EXTENDED: &str = "example.com/gpu";

/// The GPUs of the nodes in turn: number, model and memory.
const GPUS: [(u32, &str, &str); 3] = [(4, "swift", "40Gi"), (8, "grand", "80Gi"), (0, "", "")];
/// Network cards per node.
const NICS: u32 = 2;

/// The device classes: one for each driver, and one for the larger GPUs.
///
/// # Errors
/// An object does not fit the API types.
pub(super) fn classes() -> serde_json::Result<Vec<DeviceClass>> {
    let class = |name: &str, spec: Value| json!({ "metadata": { "name": name }, "spec": spec });
    let of = |expression: String| json!([{ "cel": { "expression": expression } }]);
    let of_driver = |driver: &str| of(format!("device.driver == '{driver}'"));
    let large = format!("device.driver == '{GPU}' && device.capacity['{GPU}'].memory.compareTo(quantity('80Gi')) >= 0");
    let classes = [
        class(GPU, json!({ "selectors": of_driver(GPU), "extendedResourceName": EXTENDED })),
        class(&format!("large.{GPU}"), json!({ "selectors": of(large) })),
        class(NIC, json!({ "selectors": of_driver(NIC) })),
    ];
    classes.map(serde_json::from_value).into_iter().collect()
}

/// The slices of a node: one pool with one slice for each driver.
///
/// # Errors
/// An object does not fit the API types.
pub(super) fn slices(number: u32, node: &str) -> serde_json::Result<Vec<ResourceSlice>> {
    let (count, model, memory) = GPUS[number as usize % GPUS.len()];
    let gpus: Vec<Value> = (0..count).map(|index| gpu(index, count, model, memory)).collect();
    let nics = (0..NICS).map(nic).collect();
    let of_drivers = [(GPU, gpus), (NIC, nics)].into_iter().filter(|(_, devices)| !devices.is_empty());
    of_drivers.map(|(driver, devices)| serde_json::from_value(slice(driver, node, &devices))).collect()
}

fn slice(driver: &str, node: &str, devices: &[Value]) -> Value {
    json!({
        "metadata": { "name": format!("{node}-{driver}") },
        "spec": {
            "driver": driver, "nodeName": node, "devices": devices,
            "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 },
        },
    })
}

/// A GPU. Each NUMA node has half of them.
fn gpu(index: u32, count: u32, model: &str, memory: &str) -> Value {
    json!({
        "name": format!("gpu-{index}"),
        "attributes": {
            "model": { "string": model }, "index": { "int": index }, "driverVersion": { "version": "1.2.3" },
            "example.com/numaNode": { "int": 2 * index / count },
        },
        "capacity": { "memory": { "value": memory } },
    })
}

/// A network card of 10 Gbit/s. Claims get 1 Gbit/s by default.
fn nic(index: u32) -> Value {
    let range = json!({ "min": "1G", "max": "10G", "step": "1G" });
    json!({
        "name": format!("nic-{index}"), "allowMultipleAllocations": true,
        "attributes": { "rdma": { "bool": index == 0 }, "example.com/numaNode": { "int": index } },
        "capacity": { "bandwidth": { "value": "10G", "requestPolicy": { "default": "1G", "validRange": range } } },
    })
}

/// Pods with device claims: one GPU each from a template, two large GPUs and a network card, a GPU of either size, and an extended
/// resource.
pub(super) fn manifest(scheduler_name: &str) -> String {
    let name = match scheduler_name {
        DEFAULT_SCHEDULER => String::new(),
        // JSON strings are valid YAML.
        other => format!("\n  schedulerName: {}", Value::from(other)),
    };
    EXAMPLE.replace("\n  # schedulerName: flotilla", &name)
}

const EXAMPLE: &str = include_str!("../../../examples/devices/pods.yaml");

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::Deserialize as _;

    use super::*;

    fn documents(text: &str) -> Vec<Value> {
        serde_yaml::Deserializer::from_str(text).map(|one| Value::deserialize(one).expect("YAML")).collect()
    }

    #[test]
    fn every_node_has_pools_of_its_own_and_some_have_gpus() {
        let of: Vec<Vec<ResourceSlice>> =
            (0..3).map(|number| slices(number, &format!("node-{number}")).expect("slices")).collect();
        let counts: Vec<Vec<usize>> = of
            .iter()
            .map(|slices| slices.iter().map(|slice| slice.spec.devices.as_ref().map_or(0, Vec::len)).collect())
            .collect();
        assert_eq!(counts, [vec![4, 2], vec![8, 2], vec![2]]);
        let names: BTreeSet<_> = of.iter().flatten().filter_map(|slice| slice.metadata.name.clone()).collect();
        assert_eq!(names.len(), 5);
    }

    #[test]
    fn the_pods_of_the_manifest_name_the_scheduler_and_classes_that_there_are() {
        let names: BTreeSet<String> =
            classes().expect("classes").into_iter().filter_map(|class| class.metadata.name).collect();
        let text = manifest("a: \"b\"#");
        for pod in documents(&text).iter().filter(|object| object["kind"] == "Pod") {
            assert_eq!(pod["spec"]["schedulerName"], "a: \"b\"#");
        }
        let asked: BTreeSet<String> = text
            .lines()
            .filter_map(|line| line.split_once("deviceClassName: ")?.1.split([',', '}']).next().map(str::to_owned))
            .collect();
        assert!(!asked.is_empty() && asked.is_subset(&names), "{asked:?} of {names:?}");
        let unnamed = documents(&manifest(DEFAULT_SCHEDULER));
        assert!(unnamed.iter().all(|object| object["spec"]["schedulerName"].is_null()), "{unnamed:?}");
    }
}
