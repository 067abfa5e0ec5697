//! Amounts of devices, in the notation of [`device`], and their sum with the requests of a pod.

use super::*;
use crate::devices::{
    inventory::Inventory,
    model::{DeviceName, slice::Nodes, slice::Slice},
};

fn amount(text: &str) -> Amount {
    Amount::parse(text).expect("a quantity")
}

fn listed(list: &[(&str, &str)]) -> Quantities {
    list.iter().map(|(name, text)| ((*name).into(), Quantity::parse(text).expect("a quantity"))).collect()
}

/// A device on node `n`. Entries: `cpu*2` per device, `memory=slots*2` per capacity, `cpu+100m/50m` as overhead for the pod and each
/// container.
fn device(name: &str, entries: &[&str]) -> Device {
    let mut allocatable: BTreeMap<&str, NodeAllocatable> = BTreeMap::new();
    for entry in entries {
        let at = entry.find(['*', '=', '+']).expect("an operator");
        let (resource, rest) = (&entry[..at], &entry[at + 1..]);
        let one = allocatable.entry(resource).or_default();
        one.resource = resource.into();
        match (&entry[at..=at], rest.split_once(['*', '/'])) {
            ("*", _) => {
                one.mapping = Some(AllocatableMapping { per_device: Some(amount(rest)), ..Default::default() });
            }
            ("=", Some((key, factor))) => {
                let (capacity, per_capacity) = (Some(key.into()), Some(amount(factor)));
                one.mapping = Some(AllocatableMapping { capacity, per_capacity, per_device: None });
            }
            (_, Some((pod, container))) => {
                let read = |text: &str| (!text.is_empty()).then(|| amount(text));
                one.overhead = Some(AllocatableOverhead { per_pod: read(pod), per_container: read(container) });
            }
            (_, None) => panic!("{entry}"),
        }
    }
    Device { name: name.into(), allocatable: allocatable.into_values().collect(), ..Device::default() }
}

fn pools(devices: Vec<Device>) -> NodePools {
    let mut inventory = Inventory::default();
    inventory.apply(Arc::new(Slice {
        name: "slice".into(),
        driver: "driver".into(),
        pool: "pool".into(),
        slice_count: 1,
        nodes: Nodes { name: Some("n".into()), ..Nodes::default() },
        devices,
        ..Slice::default()
    }));
    NodePools::of(&crate::testing::node("n").build(), &inventory)
}

fn result(device: &str, consumed: Option<&[(&str, &str)]>) -> DeviceResult {
    let consumed = consumed.map(|list| list.iter().map(|(name, text)| ((*name).into(), amount(text))).collect());
    let device = DeviceName { driver: "driver".into(), pool: "pool".into(), device: device.into() };
    DeviceResult { device, consumed, ..DeviceResult::default() }
}

fn container(name: &str, claims: &[&str]) -> ClaimingContainer {
    let claims = claims.iter().map(|name| (*name).into()).collect();
    ClaimingContainer { name: name.into(), claims, ..ClaimingContainer::default() }
}

/// Amounts of one claim, as text.
fn of(devices: Vec<Device>, results: &[DeviceResult], containers: &[ClaimingContainer]) -> Result<String, String> {
    let claim = AllocatedClaim { label: "default/claim", name: "claim", results };
    let found = amounts_of_claims(&[claim], &[("devices".into(), 0)], containers, &pools(devices))?;
    let Some(found) = found else { return Ok("nothing".to_owned()) };
    let texts = found.iter().map(|found| {
        let mapping = found.mapping.iter().map(|(name, amount)| format!(" {name}={}", amount.text()));
        let text =
            |amount: &Option<Amount>| amount.as_ref().map_or_else(String::new, |amount| amount.text().to_string());
        let overhead = found
            .overhead
            .iter()
            .map(|(name, overhead)| format!(" {name}+{}/{}", text(&overhead.per_pod), text(&overhead.per_container)));
        let containers = found.containers.join(",");
        format!("{} [{containers}]{}", found.claim, mapping.chain(overhead).collect::<String>())
    });
    Ok(texts.collect::<Vec<_>>().join("; "))
}

#[test]
fn devices_add_amounts_by_number_by_capacity_and_as_overhead() {
    let two = [container("a", &["devices"]), container("b", &["devices", "other"])];
    for (entries, consumed, expected) in [
        (&[][..], None, "nothing"),
        (&["cpu*2"], None, "claim [a,b] cpu=4"),
        (&["cpu*500m"], None, "claim [a,b] cpu=1"),
        (&["memory=slots*2"], Some(&[("slots", "1Gi")][..]), "claim [a,b] memory=4Gi"),
        (&["memory=slots*1"], Some(&[("slots", "1500m")]), "claim [a,b] memory=3"),
        (&["memory=slots*2"], Some(&[("others", "1Gi")]), ""),
        (&["memory+64Mi/32Mi"], None, "claim [a,b] memory+128Mi/64Mi"),
        (&["cpu*1", "cpu+/100m"], None, "claim [a,b] cpu=2 cpu+/200m"),
    ] {
        let devices = vec![device("x", entries), device("y", entries)];
        let results = [result("x", consumed), result("y", consumed)];
        assert_eq!(of(devices, &results, &two), Ok(expected.to_owned()), "{entries:?}");
    }
    let devices = vec![device("x", &["cpu*2"])];
    assert_eq!(of(devices, &[result("x", None)], &[container("a", &[])]), Ok("claim [] cpu=2".to_owned()));
}

#[test]
fn a_device_that_is_missing_or_lacks_the_capacity_is_an_error() {
    let devices = || vec![device("x", &["memory=slots*2"])];
    let missing =
        "claim default/claim, device gone, driver driver: device gone not found in pool pool for driver driver";
    let results = [result("x", Some(&[("slots", "1")])), result("gone", None)];
    assert_eq!(of(devices(), &results, &[]), Err(missing.to_owned()));
    assert_eq!(of(devices(), &[result("gone", None)], &[]), Ok("nothing".to_owned()));
    let unset = "claim default/claim, device x: ConsumedCapacity is nil, but Capacity key 'slots' is set in \
                 NodeAllocatableResources for resource memory";
    assert_eq!(of(devices(), &[result("x", None)], &[]), Err(unset.to_owned()));
}

fn claims() -> Vec<ClaimAmounts> {
    let overhead = AllocatableOverhead { per_pod: Some(amount("100m")), per_container: Some(amount("50m")) };
    let both = ClaimAmounts {
        claim: "claim".into(),
        containers: vec!["a".into(), "b".into()],
        mapping: vec![("cpu".into(), amount("2")), ("hugepages-2Mi".into(), amount("4Mi"))],
        overhead: vec![("cpu".into(), overhead)],
    };
    vec![both]
}

#[test]
fn amounts_add_to_requests_unless_the_pod_sets_the_resource() {
    let plain = Footprint {
        total: listed(&[("cpu", "1"), ("memory", "1Gi")]),
        nonzero: [Quantity::parse("1").expect("valid"), Quantity::parse("1Gi").expect("valid")],
        ..Footprint::default()
    };
    let sum = plain.with(&claims());
    assert_eq!((sum.milli_cpu, sum.memory, sum.get("hugepages-2Mi")), (3200, 1 << 30, 4 << 20));
    assert_eq!(plain.nonzero_with(&claims()), (3200, 1 << 30));
    let of_pod = Footprint { pod_requests: listed(&[("cpu", "1")]), ..plain };
    let sum = of_pod.with(&claims());
    assert_eq!((sum.milli_cpu, sum.get("hugepages-2Mi")), (1000, 4 << 20));
    assert_eq!(of_pod.nonzero_with(&claims()), (1000, 1 << 30));
}

#[test]
fn pod_level_requests_and_limits_must_cover_the_devices() {
    let base = || Footprint {
        requests: listed(&[("cpu", "1")]),
        containers: vec![ClaimingContainer { limits: listed(&[("cpu", "1")]), ..container("a", &["devices"]) }],
        ..Footprint::default()
    };
    let request =
        "pod level request for cpu is insufficient to cover the aggregated container and node-allocatable DRA requests";
    let huge = "pod level limit for hugepages-2Mi is insufficient to cover the aggregated container and node-allocatable DRA limits";
    let limit = "pod level limit for cpu is insufficient to cover the limit and DRA overhead for container a";
    for (requests, limits, expected) in [
        (&[][..], &[][..], Ok(())),
        (&[("cpu", "3200m")], &[], Ok(())),
        (&[("cpu", "3199m")], &[], Err(request)),
        (&[], &[("hugepages-2Mi", "4Mi"), ("cpu", "3150m")], Ok(())),
        (&[], &[("hugepages-2Mi", "2Mi")], Err(huge)),
        (&[], &[("cpu", "3149m")], Err(limit)),
    ] {
        let footprint = Footprint { pod_requests: listed(requests), pod_limits: listed(limits), ..base() };
        assert_eq!(footprint.covers(&claims()), expected.map_err(str::to_owned), "{requests:?} {limits:?}");
        assert_eq!(footprint.covers(&[]), Ok(()));
    }
}
