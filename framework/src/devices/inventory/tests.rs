//! Adding and removing slices, and the numbers of their devices.

use super::*;
use crate::devices::model::slice::{Device, Nodes};

fn slice(name: &str, node: Option<&str>, devices: &[&str]) -> Arc<Slice> {
    let devices = devices.iter().map(|name| Device { name: (*name).into(), ..Device::default() }).collect();
    let nodes = Nodes { name: node.map(Into::into), ..Nodes::default() };
    Arc::new(Slice { name: name.into(), driver: "d".into(), pool: "p".into(), nodes, devices, ..Slice::default() })
}

fn names<'a>(found: impl Iterator<Item = &'a Published>) -> Vec<String> {
    found.map(|published| published.slice.name.to_string()).collect()
}

#[test]
fn a_slice_is_found_by_node_and_by_pool_until_it_is_gone() {
    let mut inventory = Inventory::default();
    inventory.apply(slice("b", Some("node"), &["x"]));
    inventory.apply(slice("a", Some("node"), &["y"]));
    inventory.apply(slice("c", None, &["z"]));
    assert_eq!(names(inventory.of_node("node")), ["a", "b"]);
    assert_eq!(names(inventory.of_no_node()), ["c"]);
    assert!(names(inventory.of_node("")).is_empty());
    inventory.apply(slice("b", None, &["x"]));
    assert_eq!(names(inventory.of_node("node")), ["a"]);
    assert_eq!(names(inventory.of_no_node()), ["b", "c"]);
    inventory.remove("a");
    assert_eq!(names(inventory.of_pool(&"d".into(), &"p".into())), ["b", "c"]);
    assert_eq!(names(inventory.all()), ["b", "c"]);
}

#[test]
fn a_device_keeps_its_number_and_gets_a_new_place_or_serial() {
    let mut inventory = Inventory::default();
    inventory.apply(slice("a", None, &["x", "y"]));
    let before = inventory.get("a").map(|published| published.devices.clone()).unwrap_or_default();
    inventory.apply(slice("a", None, &["y", "x"]));
    let after = inventory.get("a").map(|published| published.devices.clone()).unwrap_or_default();
    assert_eq!((before[0].0, before[1].0), (after[1].0, after[0].0));
    assert!(before.iter().all(|(_, old)| after.iter().all(|(_, new)| old != new)));
    assert!(after.iter().all(|(_, subject)| subject.place < 2), "places are used again");
    assert_eq!(inventory.names().len(), 2);
}
