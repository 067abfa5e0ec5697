//! Cost of the largest objects that the API server accepts: one list each, at etcd's size limit.
//!
//! etcd accepts 1.5 MiB by default, which JSON may double. All watches share one thread, so reading one object delays every other watch, at
//! each of its changes.

#![allow(missing_docs)]

use std::time::{Duration, Instant};

use flotilla_encoding::{Encoding, testing::read};
use serde_json::{Value, json};

/// etcd's size limit.
const STORED: usize = 3 << 19;
/// The same limit in JSON.
const LARGEST: usize = 3 << 20;

/// Memory limit in bytes, of the 2 GiB that the manifests give a coordinator. Measured maxima in JSON: 645 MB for a pod of 66,000 volumes,
/// 459 MB for one of 91,000 containers, because the types have room for all fields. In protobuf: 364 and 312 MB. Conversion frees the
/// memory, and `flotilla_framework::excess` bounds the retained part of a pod.
const MOST: u64 = 900 << 20;

/// Time limit without optimization and under load. The measured maximum is 2.7 s, for a pod with 158,000 resource names. A quadratic loop
/// over such a list would exceed the limit.
const LONGEST: Duration = Duration::from_secs(120);

/// A list of maximum size, with elements built from their index.
fn list(element: impl Fn(usize) -> Value) -> Value {
    let sample = element(100_000).to_string().len() + 1;
    (0..LARGEST / sample).map(element).collect()
}

/// A map of maximum size from names to one value.
fn map(value: &str) -> Value {
    let sample = format!("\"k/{}\":\"{value}\",", 100_000).len();
    Value::Object((0..LARGEST / sample).map(|number| (format!("k/{number}"), json!(value))).collect())
}

fn pod(spec: Value) -> Value {
    json!({ "metadata": { "name": "p", "namespace": "default", "uid": "u", "resourceVersion": "7" }, "spec": spec })
}

fn labelled(labels: Value) -> Value {
    json!({ "metadata": { "name": "p", "namespace": "default", "uid": "u", "labels": labels }, "spec": {} })
}

fn node(spec: Value, status: Value) -> Value {
    json!({ "metadata": { "name": "n", "uid": "u" }, "spec": spec, "status": status })
}

fn budget(selector: Value) -> Value {
    json!({
        "metadata": { "name": "b", "namespace": "default", "uid": "u" },
        "spec": { "selector": selector, "maxUnavailable": 1 },
    })
}

fn affinity(kind: &str, term: impl Fn(usize) -> Value) -> Value {
    pod(json!({ "affinity": { kind: { "requiredDuringSchedulingIgnoredDuringExecution": list(term) } } }))
}

fn pods() -> Vec<(&'static str, Value)> {
    let term = |number: usize| json!({ "topologyKey": "t", "namespaceSelector": { "matchLabels": { "k": number.to_string() } } });
    let values = |of: &dyn Fn(Value) -> Value| of(list(|number| json!(number.to_string())));
    let managed = json!({ "metadata": { "name": "p", "namespace": "default", "uid": "u",
        "managedFields": [{ "manager": "m", "operation": "Update", "fieldsV1": map("") }] }, "spec": {} });
    vec![
        ("labels", labelled(map(""))),
        ("managedFields", managed),
        (
            "annotations",
            json!({ "metadata": { "name": "p", "namespace": "default", "uid": "u", "annotations": map("") }, "spec": {} }),
        ),
        ("nodeSelector", pod(json!({ "nodeSelector": map("") }))),
        ("terms of podAffinity", affinity("podAffinity", term)),
        ("terms of podAntiAffinity", affinity("podAntiAffinity", |_| json!({ "topologyKey": "t" }))),
        (
            "values of nodeAffinity",
            values(&|values| {
                let expression = json!({ "key": "k", "operator": "In", "values": values });
                let terms = json!({ "nodeSelectorTerms": [{ "matchExpressions": [expression] }] });
                pod(
                    json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": terms } } }),
                )
            }),
        ),
        ("tolerations", pod(json!({ "tolerations": list(|number| json!({ "key": number.to_string() })) }))),
        (
            "containers",
            pod(json!({ "containers": list(|number| json!({ "name": number.to_string(), "image": "i" })) })),
        ),
        ("requests", pod(json!({ "containers": [{ "name": "c", "resources": { "requests": map("1") } }] }))),
        ("volumes", pod(json!({ "volumes": list(|number| json!({ "name": number.to_string(), "emptyDir": {} })) }))),
        (
            "topologySpreadConstraints",
            pod(json!({ "topologySpreadConstraints": list(|number| json!({
            "maxSkew": 1, "topologyKey": number.to_string(), "whenUnsatisfiable": "DoNotSchedule" })) })),
        ),
        ("schedulingGates", pod(json!({ "schedulingGates": list(|number| json!({ "name": number.to_string() })) }))),
    ]
}

fn others() -> Vec<(&'static str, &'static str, Value)> {
    let nodes = |number: usize| json!({ "key": number.to_string(), "effect": "NoSchedule" });
    let image = |number: usize| json!({ "names": [number.to_string()], "sizeBytes": 1 });
    let values = json!({ "key": "k", "operator": "In", "values": list(|number| json!(number.to_string())) });
    vec![
        ("Node", "labels", json!({ "metadata": { "name": "n", "uid": "u", "labels": map("") } })),
        ("Node", "taints", node(json!({ "taints": list(nodes) }), json!({}))),
        ("Node", "images", node(json!({}), json!({ "images": list(image) }))),
        ("Node", "allocatable", node(json!({}), json!({ "allocatable": map("1") }))),
        ("PodDisruptionBudget", "matchLabels", budget(json!({ "matchLabels": map("") }))),
        ("PodDisruptionBudget", "values", budget(json!({ "matchExpressions": [values] }))),
        (
            "Service",
            "selector",
            json!({
            "metadata": { "name": "s", "namespace": "default", "uid": "u" }, "spec": { "selector": map("") } }),
        ),
    ]
}

fn of_devices(spec: Value, status: Value) -> Value {
    json!({ "metadata": { "name": "x", "namespace": "default", "uid": "u" }, "spec": spec, "status": status })
}

fn devices() -> Vec<(&'static str, &'static str, Value)> {
    let spec = |devices: Value| of_devices(json!({ "devices": devices }), json!({}));
    let slice = |devices: Value| {
        let pool = json!({ "name": "p", "generation": 1, "resourceSliceCount": 1 });
        of_devices(json!({ "driver": "d", "pool": pool, "devices": devices }), json!({}))
    };
    let request = |number: usize| json!({ "name": number.to_string(), "exactly": { "deviceClassName": "c" } });
    let alternative = |number: usize| json!({ "name": number.to_string(), "deviceClassName": "c" });
    let selector = |number: usize| json!({ "cel": { "expression": number.to_string() } });
    let result = |number: usize| json!({ "request": "r", "driver": "d", "pool": "p", "device": number.to_string() });
    let consumer = |number: usize| json!({ "resource": "pods", "name": "p", "uid": number.to_string() });
    let opaque = json!({ "opaque": { "driver": "d", "parameters": list(|number| json!({ "a": number })) } });
    let in_status = |status: Value| of_devices(json!({}), status);
    vec![
        ("ResourceClaim", "requests", spec(json!({ "requests": list(request) }))),
        (
            "ResourceClaim",
            "alternatives",
            spec(json!({ "requests": [{ "name": "r", "firstAvailable": list(alternative) }] })),
        ),
        ("ResourceClaim", "parameters", spec(json!({ "config": [opaque] }))),
        ("ResourceClaim", "results", in_status(json!({ "allocation": { "devices": { "results": list(result) } } }))),
        ("ResourceClaim", "reservedFor", in_status(json!({ "reservedFor": list(consumer) }))),
        ("ResourceClaim", "statuses", in_status(json!({ "devices": list(result) }))),
        ("DeviceClass", "selectors", of_devices(json!({ "selectors": list(selector) }), json!({}))),
        ("ResourceSlice", "devices", slice(list(|number| json!({ "name": number.to_string() })))),
        ("ResourceSlice", "attributes", slice(json!([{ "name": "d", "attributes": values("bool") }]))),
        ("ResourceSlice", "capacity", slice(json!([{ "name": "d", "capacity": values("value") }]))),
    ]
}

/// A map of maximum size from names to objects with this field.
fn values(field: &str) -> Value {
    let value = || if field == "bool" { json!({ field: true }) } else { json!({ field: "1" }) };
    let sample = format!("\"k/100000\":{},", value()).len();
    Value::Object((0..LARGEST / sample).map(|number| (format!("k/{number}"), value())).collect())
}

fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut written = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 128 {
        written.push(u8::try_from(length % 128).expect("less than 128") | 128);
        length /= 128;
    }
    written.push(u8::try_from(length).expect("less than 128"));
    [&written, content].concat()
}

/// Protobuf pods of etcd's size limit with many elements of one spec field.
fn in_protobuf() -> Vec<(&'static str, Vec<u8>)> {
    let pod = |element: &dyn Fn(&[u8]) -> Vec<u8>| {
        let sample = element(b"100000").len();
        let spec: Vec<u8> = (0..STORED / sample).flat_map(|number| element(number.to_string().as_bytes())).collect();
        let metadata = [field(1, b"p"), field(3, b"default"), field(5, b"u")].concat();
        [b"k8s\0".to_vec(), field(2, &[field(1, &metadata), field(2, &spec)].concat())].concat()
    };
    let claim = field(2, &field(10, &field(1, b"c")));
    vec![
        ("volumes", pod(&|name| field(1, &[&field(1, name)[..], &claim].concat()))),
        ("containers", pod(&|name| field(2, &[field(1, name), field(2, b"i")].concat()))),
    ]
}

/// A valid object of maximum size is read or rejected by name within these limits.
#[test]
fn the_largest_objects_are_read_within_a_stated_time_and_memory() {
    let pods = pods().into_iter().map(|(field, object)| ("Pod", field, object));
    let json = pods.chain(others()).chain(devices()).map(|(kind, field, object)| {
        let text = object.to_string().into_bytes();
        assert!(text.len() > LARGEST * 3 / 4 && text.len() < LARGEST * 5 / 4, "{kind} {field}: {} bytes", text.len());
        (kind, field, Encoding::Json, text)
    });
    let protobuf = in_protobuf().into_iter().map(|(field, bytes)| ("Pod", field, Encoding::Protobuf, bytes));
    for (kind, field, encoding, bytes) in json.chain(protobuf) {
        let begun = Instant::now();
        let held = allocation_counter::measure(|| drop(read(kind, encoding, &bytes))).bytes_max;
        let took = begun.elapsed();
        let (length, took_ms, megabytes) = (bytes.len(), took.as_millis(), held / 1_000_000);
        println!("{kind} {field} in {encoding:?}: {length} bytes in {took_ms} ms, {megabytes} MB held");
        assert!(took < LONGEST, "{kind} {field}: {took:?}");
        assert!(held < MOST, "{kind} {field}: {held} bytes");
    }
}
