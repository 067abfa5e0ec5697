//! The reach of an expression determines its verdict: no other change of a device affects it.

use flotilla_cel::{Attribute, Device, Expression, MAX_COST};
use flotilla_selectors::Generator;

const CASES: usize = 3_000;

#[test]
fn what_is_not_reached_changes_no_verdict() {
    let mut generator = Generator::new(7);
    let (mut taken, mut kept) = (0, 0);
    for _ in 0..CASES {
        let case = generator.case();
        let Ok(expression) = Expression::compile(&case.expression) else { continue };
        let device = case.device.device().expect("a device");
        let (verdict, reach) = (expression.matches(&device, MAX_COST), expression.reaches());
        for name in case.device.attributes.keys().chain(case.device.capacity.keys()) {
            let (domain, id) = name.split_once('/').unwrap_or((&case.device.driver, name));
            let mut less = case.device.clone();
            let is_reached = if less.attributes.remove(name).is_some() {
                reach.reaches_attribute(domain, id)
            } else {
                less.capacity.remove(name);
                reach.reaches_capacity(domain, id)
            };
            if is_reached {
                kept += 1;
                continue;
            }
            taken += 1;
            let less = less.device().expect("a device");
            assert_eq!(reach.key(&less), reach.key(&device), "{} without {name}", case.expression);
            assert_eq!(expression.matches(&less, MAX_COST), verdict, "{} without {name}", case.expression);
        }
    }
    assert!(taken > 1_000 && kept > 100, "{taken} names were not reached, {kept} were");
}

#[test]
fn single_names_are_told_apart() {
    let reaches = |text: &str, id: &str| {
        let expression = Expression::compile(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        expression.reaches().reaches_attribute("gpu.example.com", id)
    };
    for text in [
        "device.attributes['gpu.example.com'].model == 'a'",
        "device.attributes['gpu.example.com']['model'] == 'a'",
        "device.attributes['gpu.example.com'].?model.orValue('a') == 'a'",
        "has(device.attributes['gpu.example.com'].model)",
        "cel.bind(gpu, device.attributes['gpu.example.com'], gpu.model == 'a')",
        "[1].exists(device, .device.attributes['gpu.example.com'].model == 'a')",
    ] {
        assert!(reaches(text, "model"), "{text}");
        assert!(!reaches(text, "uuid"), "{text}");
    }
    for text in [
        "device.attributes['gpu.example.com'].exists(name, name == 'model')",
        "device.attributes['gpu.example.com'][device.driver] == 'a'",
        "device.attributes[device.driver].model == 'a'",
        "device == device",
    ] {
        assert!(reaches(text, "uuid"), "{text}");
    }
}

#[test]
fn equal_devices_have_one_key() {
    let expression = Expression::compile("device.attributes['gpu.example.com'].model == 'a'").expect("it compiles");
    let device = |uuid: &str, model: &str| {
        let attributes = [("uuid", Attribute::String(uuid.into())), ("model", Attribute::String(model.into()))];
        Device::new("gpu.example.com", false, attributes, [("memory", "40Gi")]).expect("a device")
    };
    let key = |uuid: &str, model: &str| expression.reaches().key(&device(uuid, model));
    assert_eq!(key("1", "a"), key("2", "a"));
    assert_ne!(key("1", "a"), key("1", "b"));
}
