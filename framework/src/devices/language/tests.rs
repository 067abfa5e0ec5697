//! CEL selectors are evaluated once per set of values that they read.

use super::*;
use crate::devices::{
    amount::Amount,
    inventory::Inventory,
    model::slice::{Capacity, Nodes, Slice},
    selectors::{SelectorError, Verdicts},
};

fn gpu(name: &str, model: &str) -> Device {
    let memory = Capacity { value: Amount::parse("40Gi").expect("an amount"), policy: None };
    Device {
        name: name.into(),
        attributes: vec![
            ("model".into(), Attribute::Text(model.into())),
            ("other.example.com/model".into(), Attribute::Text("z".into())),
            ("uuid".into(), Attribute::Text(name.into())),
        ],
        capacity: vec![("memory".into(), memory)],
        ..Device::default()
    }
}

#[test]
fn equal_devices_cost_one_evaluation() {
    let devices = (0..8).map(|at| gpu(&format!("gpu-{at}"), if at < 6 { "a" } else { "b" })).collect();
    let nodes = Nodes { all: true, ..Nodes::default() };
    let slice = Slice { name: "s".into(), driver: "gpu.example.com".into(), nodes, devices, ..Slice::default() };
    let mut inventory = Inventory::default();
    inventory.apply(Arc::new(slice));
    let published = inventory.get("s").expect("the slice");
    let mut verdicts = Verdicts::new(Arc::new(Cel::default()));
    let selector = verdicts.selector(
        &r#"device.attributes["gpu.example.com"].model == "a" && device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0"#
            .into(),
    );
    let mut matching = 0;
    for (device, (_, subject)) in published.slice.devices.iter().zip(&published.devices) {
        let verdict = verdicts.matches(selector, *subject, &published.slice.driver, device);
        matching += usize::from(verdict.expect("a verdict"));
    }
    assert_eq!((matching, verdicts.evaluations()), (6, 2), "of two models");
}

#[test]
fn errors_are_upstreams() {
    let mut inventory = Inventory::default();
    let slice = Slice { name: "s".into(), devices: vec![gpu("gpu-0", "a")], ..Slice::default() };
    inventory.apply(Arc::new(slice));
    let published = inventory.get("s").expect("the slice");
    let mut verdicts = Verdicts::new(Arc::new(Cel::default()));
    let mut say = |expression: &str| {
        let selector = verdicts.selector(&expression.into());
        match verdicts.matches(selector, published.devices[0].1, &"gpu.example.com".into(), &published.slice.devices[0])
        {
            Ok(verdict) => verdict.to_string(),
            Err(SelectorError::Compile(error)) => format!("compile: {error}"),
            Err(SelectorError::Runtime(error)) => format!("runtime: {error}"),
            Err(SelectorError::Exhausted) => "exhausted".to_owned(),
        }
    };
    assert_eq!(say("device.attributes['gpu.example.com'].none == 1"), "runtime: no such key: none");
    assert_eq!(say("1"), "compile: must evaluate to bool or the unknown type, not int");
}
