//! Adding and removing rules returns only slices with changed taints.

use super::*;
use crate::devices::model::{
    slice::Device,
    taint::{DeviceTaint, TaintEffect, TaintSelector},
};

fn slice(name: &str, driver: &str, devices: &[&str]) -> Arc<Slice> {
    let devices = devices.iter().map(|name| Device { name: (*name).into(), ..Device::default() }).collect();
    Arc::new(Slice { name: name.into(), driver: driver.into(), pool: "pool".into(), devices, ..Slice::default() })
}

fn rule(name: &str, selector: Option<(Option<&str>, Option<&str>)>) -> DeviceTaintRule {
    let selector = selector.map(|(driver, device)| TaintSelector {
        driver: driver.map(Into::into),
        pool: None,
        device: device.map(Into::into),
    });
    let taint = DeviceTaint { key: name.into(), value: "".into(), effect: TaintEffect::NoExecute };
    DeviceTaintRule { name: name.into(), selector, taint }
}

/// `slice/device=keys` of each device.
fn shown(slices: &[Arc<Slice>]) -> Vec<String> {
    let of_slice = |slice: &Arc<Slice>| {
        let name = Arc::clone(&slice.name);
        let devices = slice.devices.iter().map(move |device| {
            let keys: Vec<&str> = device.taints.iter().map(|taint| &*taint.key).collect();
            format!("{name}/{}={}", device.name, keys.join(","))
        });
        devices.collect::<Vec<_>>()
    };
    slices.iter().flat_map(of_slice).collect()
}

#[test]
fn a_rule_taints_the_devices_that_it_names_and_no_others() {
    let mut tracker = TaintTracker::default();
    let plain = tracker.apply_slice(slice("one", "a", &["x", "y"]));
    assert_eq!(shown(&[plain]), ["one/x=", "one/y="]);
    assert_eq!(shown(&tracker.apply_rule(rule("r1", Some((Some("a"), Some("x")))))), ["one/x=r1", "one/y="]);
    assert!(tracker.apply_rule(rule("r2", Some((Some("b"), None)))).is_empty());
    assert!(tracker.apply_rule(rule("r3", None)).is_empty());
    assert_eq!(shown(&[tracker.apply_slice(slice("two", "b", &["z"]))]), ["two/z=r2"]);
    assert!(tracker.apply_rule(rule("r2", Some((Some("b"), None)))).is_empty(), "nothing has changed");
    assert_eq!(shown(&tracker.apply_rule(rule("r2", Some((None, None))))), ["one/x=r1,r2", "one/y=r2"]);
    assert_eq!(shown(&tracker.remove_rule(&"r2".into())), ["one/x=r1", "one/y=", "two/z="]);
    tracker.remove_slice("one");
    assert!(tracker.remove_rule(&"r1".into()).is_empty());
}
