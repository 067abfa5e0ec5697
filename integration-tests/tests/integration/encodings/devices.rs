//! Device objects with all fields that scheduling reads.

use serde_json::{Value, json};

use super::node_selector;

pub(super) fn devices() -> Vec<Value> {
    vec![class(), rule(), slice(), claim()]
}

fn opaque(driver: &str) -> Value {
    json!({ "driver": driver, "parameters": { "apiVersion": "a.example.com/v1", "kind": "Sharing", "z": [1, 2.5, { "a": "\u{e9}\\\"" }], "b": null } })
}

fn cel(expression: &str) -> Value {
    json!({ "cel": { "expression": expression } })
}

fn tolerations() -> Value {
    json!([
        { "operator": "Exists" },
        { "key": "gpu.example.com/old", "operator": "Equal", "value": "yes", "effect": "NoExecute", "tolerationSeconds": 7 },
    ])
}

fn class() -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": { "name": "gpu" },
        "spec": {
            "selectors": [cel("device.driver == 'gpu.example.com'"), cel("!device.allowMultipleAllocations || true")],
            "config": [{ "opaque": opaque("gpu.example.com") }], "extendedResourceName": "example.com/gpu",
        },
    })
}

fn rule() -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": { "name": "rule" },
        "spec": {
            "deviceSelector": { "driver": "gpu.example.com", "pool": "node", "device": "gpu-0" },
            "taint": { "key": "gpu.example.com/hot", "value": "very", "effect": "NoSchedule" },
        },
    })
}

fn slice() -> Value {
    let attributes = json!({
        "model": { "string": "a100" }, "gpu.example.com/index": { "int": -3 }, "empty": { "string": "" },
        "ecc": { "bool": false }, "other.example.com/driver": { "version": "1.2.3-rc.1+build" }, "zero": { "int": 0 },
    });
    let policies = json!({
        "memory": { "value": "40Gi", "requestPolicy": { "default": "1Gi", "validRange": { "min": "1Gi", "max": "40Gi", "step": "512Mi" } } },
        "slots": { "value": "7", "requestPolicy": { "default": "1", "validValues": ["1", "3", "7"] } },
        "bandwidth": { "value": "2500m" },
    });
    let counters =
        json!([{ "counterSet": "cores", "counters": { "sm": { "value": "14" }, "copy": { "value": "1500m" } } }]);
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": { "name": "node-gpu", "labels": { "a": "b" } },
        "spec": {
            "driver": "gpu.example.com", "perDeviceNodeSelection": true,
            "pool": { "name": "node", "generation": 3, "resourceSliceCount": 2 },
            "devices": [
                {
                    "name": "gpu-0", "attributes": attributes, "capacity": policies, "nodeName": "node",
                    "allowMultipleAllocations": true, "bindsToNode": true,
                    "taints": [
                        { "key": "gpu.example.com/old", "value": "yes", "effect": "NoExecute" },
                        { "key": "gpu.example.com/seen", "effect": "None" },
                    ],
                    "bindingConditions": ["gpu.example.com/Ready", "Attached"],
                    "bindingFailureConditions": ["gpu.example.com/Broken"],
                },
                { "name": "gpu-1", "nodeSelector": node_selector(), "consumesCounters": counters },
                { "name": "gpu-2", "allNodes": true, "allowMultipleAllocations": false },
            ],
        },
    })
}

fn request() -> Value {
    json!({
        "name": "one", "exactly": {
            "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2, "adminAccess": false,
            "selectors": [cel("device.attributes['gpu.example.com'].model == 'a100'"), cel("true")],
            "tolerations": tolerations(), "capacity": { "requests": { "memory": "2Gi", "slots": "3" } },
        },
    })
}

fn alternatives() -> Value {
    json!({
        "name": "any", "firstAvailable": [
            {
                "name": "large", "deviceClassName": "gpu", "allocationMode": "All", "selectors": [cel("true")],
                "tolerations": tolerations(), "capacity": { "requests": { "memory": "20Gi" } },
            },
            { "name": "small", "deviceClassName": "gpu" },
        ],
    })
}

fn claim() -> Value {
    let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "u-1", "controller": true });
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {
            "name": "claim", "namespace": "shop", "ownerReferences": [owner],
            "annotations": { "resource.kubernetes.io/extended-resource-claim": "true" },
            "finalizers": ["resource.kubernetes.io/delete-protection", "example.com/wait"],
        },
        "spec": { "devices": {
            "requests": [request(), alternatives(), { "name": "seen", "exactly": { "deviceClassName": "gpu" } }],
            "constraints": [
                { "requests": ["one", "any/small"], "matchAttribute": "gpu.example.com/model" },
                { "distinctAttribute": "gpu.example.com/index" },
            ],
            "config": [{ "requests": ["one", "any"], "opaque": opaque("gpu.example.com") }, { "opaque": opaque("net.example.com") }],
        } },
        "status": status(),
    })
}

fn status() -> Value {
    let (gpu, share) = ("gpu.example.com", "3a1b2c3d-0000-4000-8000-0123456789ab");
    json!({
        "allocation": {
            "devices": {
                "results": [
                    {
                        "request": "one", "driver": gpu, "pool": "node", "device": "gpu-0", "tolerations": tolerations(),
                        "bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"], "shareID": share,
                        "consumedCapacity": { "memory": "2Gi", "slots": "3" },
                    },
                    { "request": "any/small", "driver": gpu, "pool": "node", "device": "gpu-1", "adminAccess": true },
                ],
                "config": [
                    { "source": "FromClass", "requests": ["one"], "opaque": opaque(gpu) },
                    { "source": "FromClaim", "opaque": opaque("net.example.com") },
                ],
            },
            "nodeSelector": node_selector(), "allocationTimestamp": "2026-01-02T03:04:05Z",
        },
        "reservedFor": [
            { "resource": "pods", "name": "pod", "uid": "u-1" },
            { "apiGroup": "example.com", "resource": "jobs", "name": "job", "uid": "u-2" },
        ],
        "devices": [
            {
                "driver": gpu, "pool": "node", "device": "gpu-0", "shareID": share, "data": { "b": [1, "x"], "a": {} },
                "networkData": { "interfaceName": "eth0", "ips": ["10.0.0.1/24", "fd00::1/64"], "hardwareAddress": "00:11:22:33:44:55" },
                "conditions": [{
                    "type": "Attached", "status": "True", "reason": "Done", "message": "m", "observedGeneration": 4,
                    "lastTransitionTime": "2026-01-02T03:04:06Z",
                }],
            },
            { "driver": gpu, "pool": "node", "device": "gpu-1" },
        ],
    })
}
