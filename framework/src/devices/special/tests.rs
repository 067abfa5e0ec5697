//! Extended resources from devices on a node, and the claim for them.

use super::*;

fn classes(of: &[(&str, Option<&str>)]) -> DeviceClasses {
    let mut classes = DeviceClasses::default();
    for (name, resource) in of {
        let extended_resource = resource.map(Into::into);
        classes.apply(Arc::new(DeviceClass { name: (*name).into(), extended_resource, ..DeviceClass::default() }));
    }
    classes
}

fn asking(requests: &[(&str, i64)]) -> PodDevices {
    let requests = requests.iter().map(|(name, amount)| (Arc::from(*name), Some(*amount))).collect();
    let containers = vec![Asking { name: "main".into(), is_short_lived: false, requests }];
    PodDevices { containers, ..PodDevices::default() }
}

const GPU: &str = "example.com/gpu";
const NIC: &str = "example.com/nic";

#[test]
fn without_a_class_behind_a_resource_there_is_nothing_to_claim() {
    let devices = asking(&[("cpu", 1), (GPU, 1)]);
    assert_eq!(Extended::of(&devices, &classes(&[])), None);
    assert_eq!(Extended::of(&devices, &classes(&[("nics", Some(NIC))])), None);
    assert_eq!(Extended::of(&asking(&[(GPU, 0)]), &classes(&[("gpus", Some(GPU))])), None);
    assert!(Extended::of(&devices, &classes(&[("gpus", Some(GPU))])).is_some());
}

type Case = (&'static [(&'static str, i64)], Result<Served, Unserved>);

#[test]
fn a_node_serves_by_devices_what_it_has_by_no_device_plugin() {
    let classes = classes(&[("gpus", Some(GPU))]);
    let extended = Extended::of(&asking(&[("cpu", 1), (GPU, 2), (NIC, 1)]), &classes).expect("a class is behind one");
    let cases: [Case; 6] = [
        (&[(GPU, 4), (NIC, 1)], Ok(Served(0))),
        (&[(NIC, 1)], Ok(Served(1))),
        (&[(GPU, 0), (NIC, 1)], Ok(Served(1))),
        (&[(GPU, 4)], Err(Unserved::Lacking)),
        (&[(GPU, 4), (NIC, 0)], Ok(Served(0))),
        (&[(NIC, 0)], Ok(Served(1))),
    ];
    for (has, expected) in cases {
        let of = |name: &str| has.iter().find(|(known, _)| *known == name).map(|(_, amount)| *amount);
        assert_eq!(extended.served(of), expected, "{has:?}");
    }
    let left = Extended { has_left: true, ..extended };
    assert_eq!(left.served(|_| Some(4)), Err(Unserved::Left));
}

#[test]
fn the_claim_has_a_request_for_each_container_and_the_name_of_the_pod() {
    let classes = classes(&[("gpus", Some(GPU))]);
    let extended = Extended::of(&asking(&[("cpu", 1), (GPU, 2)]), &classes).expect("a class is behind it");
    assert_eq!(extended.claimed(Served(0)), None);
    let (spec, mappings) = extended.claimed(Served(1)).expect("one is served");
    assert_eq!(spec.requests.iter().map(|request| &*request.name).collect::<Vec<_>>(), ["container-0-request-1"]);
    assert_eq!((&*mappings[0].container, &*mappings[0].resource), ("main", GPU));
    let pod = Owner { name: "training".into(), uid: "u".into() };
    let made = claim(&"team".into(), &pod, 7, &spec);
    assert!(made.name.starts_with("training-extended-resources-") && made.name.len() == 33, "{}", made.name);
    assert_ne!(made.name, claim(&"team".into(), &pod, 8, &spec).name, "another attempt makes another claim");
    let long = Owner { name: "x".repeat(253).into(), uid: "u".into() };
    assert_eq!(claim(&"team".into(), &long, 7, &spec).name.len(), 63);
    assert!(made.is_extended && made.controller.is_some_and(|owner| *owner.uid == *"u"));
}

#[test]
fn a_class_of_pods_keeps_no_names_and_the_places_of_requests() {
    let classes = classes(&[("gpus", Some(GPU))]);
    let extended = Extended::of(&asking(&[("cpu", 3), (GPU, 2)]), &classes).expect("a class is behind it");
    let shared = Extended { containers: extended.shared(), ..extended.clone() };
    assert_eq!(shared.claimed(Served(1)).map(|(spec, _)| spec), extended.claimed(Served(1)).map(|(spec, _)| spec));
    assert!(shared.containers[0].name.is_empty());
    assert_eq!(shared.containers[0].requests[0], ("cpu".into(), Some(0)));
}
