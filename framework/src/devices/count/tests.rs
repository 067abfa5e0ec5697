//! Number of devices of a class on a node.

use super::*;
use crate::{
    devices::{
        allocated::Allocated,
        inventory::Inventory,
        model::{
            DeviceName,
            allocation::DeviceResult,
            slice::{Device, Nodes, Slice},
        },
        node::LocalPools,
        pools::NodePools,
    },
    testing::node,
};

/// A node with three GPUs and a network card; `gpu-1` is allocated.
fn devices() -> NodeDevices {
    let mut inventory = Inventory::default();
    let slice = |driver: &str, names: &[&str]| {
        let devices = names.iter().map(|name| Device { name: (*name).into(), ..Device::default() }).collect();
        let nodes = Nodes { name: Some("n".into()), ..Nodes::default() };
        let (name, driver, pool) = (format!("{driver}-n").into(), driver.into(), "n".into());
        Arc::new(Slice { name, driver, pool, slice_count: 1, nodes, devices, ..Slice::default() })
    };
    inventory.apply(slice("gpu.example.com", &["gpu-0", "gpu-1", "gpu-2"]));
    inventory.apply(slice("nic.example.com", &["nic-0"]));
    let device = DeviceName { driver: "gpu.example.com".into(), pool: "n".into(), device: "gpu-1".into() };
    let mut allocated = Allocated::default();
    allocated.add(&[DeviceResult { device, ..DeviceResult::default() }], inventory.names());
    LocalPools::of(NodePools::of(&node("n").build(), &inventory)).with(&allocated)
}

type Case = (&'static [Option<&'static str>], (i64, i64));

#[test]
fn the_devices_that_the_selectors_of_a_class_match_are_counted() {
    let cases: [Case; 5] = [
        (&[], (4, 1)),
        (&[Some("device.driver == \"gpu.example.com\"")], (3, 1)),
        (&[None, Some("device.driver == \"nic.example.com\"")], (1, 0)),
        (&[Some("device.driver == \"none\"")], (0, 0)),
        (&[Some("device.attributes[\"x\"].y == 1")], (0, 0)),
    ];
    let devices = devices();
    for (selectors, expected) in cases {
        let selectors = selectors.iter().map(|text| text.map(Into::into)).collect();
        let class = DeviceClass { selectors, ..DeviceClass::default() };
        assert_eq!(Counter::of(&class).count(&devices), expected, "{class:?}");
    }
}
