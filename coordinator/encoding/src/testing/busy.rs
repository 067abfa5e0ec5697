//! A node and a pod of realistic size: images, conditions, settings, probes, managed fields.

use serde_json::{Value, json};

/// Managed fields, which are half of an object's JSON.
fn managed_fields(names: &[&str]) -> Value {
    let fields: serde_json::Map<_, _> =
        (0..12).map(|index| (format!("f:field-{index}"), json!({ "f:name": {}, "f:value": {}, ".": {} }))).collect();
    let of = |name: &&str| {
        json!({
            "manager": name, "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": { "f:metadata": fields.clone(), "f:spec": fields.clone() },
        })
    };
    names.iter().map(of).collect()
}

const UID: &str = "0a1b2c3d-0000-4000-8000-@number@";

/// A node with placeholders between two `@`.
#[must_use]
pub fn node() -> Value {
    let name = "@node@";
    let images: Vec<Value> = (0..50)
        .map(|image| {
            let digest = format!("registry.example/team/application-{image}@sha256:{image:064x}");
            json!({ "names": [digest, format!("registry.example/team/application-{image}:v1.{image}")], "sizeBytes": 90_000_000 + image })
        })
        .collect();
    let amounts =
        json!({ "cpu": "32", "memory": "131072Mi", "pods": "110", "ephemeral-storage": "200Gi", "hugepages-2Mi": "0" });
    let condition = |kind: &str| {
        json!({
            "type": kind, "status": "False", "reason": format!("Kubelet{kind}"), "message": "kubelet has what it needs",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let conditions = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"].map(condition);
    json!({
        "metadata": {
            "name": name, "uid": UID, "resourceVersion": "@version@",
            "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": managed_fields(&["kubelet"]),
            "labels": {
                "kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
                "topology.kubernetes.io/zone": "@zone@", "topology.kubernetes.io/region": "here",
                "node.kubernetes.io/instance-type": "large", "pool": "@pool@",
            },
            "annotations": { "volumes.kubernetes.io/controller-managed-attach-detach": "true", "csi.volume.kubernetes.io/nodeid": "{}" },
        },
        "spec": { "podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"], "providerID": "cloud://@node@" },
        "status": {
            "capacity": amounts, "allocatable": amounts, "images": images,
            "conditions": conditions,
            "addresses": [{ "type": "InternalIP", "address": "10.0.0.1" }, { "type": "Hostname", "address": name }],
            "nodeInfo": { "kubeletVersion": "v1.37.1", "osImage": "Linux", "architecture": "amd64", "kernelVersion": "6.12" },
        },
    })
}

/// A pod of a ReplicaSet on its node, with placeholders as in [`node`].
#[must_use]
pub fn pod() -> Value {
    let (app, name) = ("@app@", "@app@-5d4f8c7b9d-@index@");
    let env: Vec<Value> = (0..12)
        .map(|one| json!({ "name": format!("SETTING_{one}"), "value": format!("http://service-{one}.shop.svc:8080") }))
        .collect();
    let amounts = json!({ "cpu": "100m", "memory": "256Mi" });
    let probe = json!({ "httpGet": { "path": "/healthz", "port": 8080, "scheme": "HTTP" }, "periodSeconds": 10, "timeoutSeconds": 1 });
    let mount = json!({ "name": "kube-api-access", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount" });
    let container = json!({
        "name": "main", "image": format!("registry.example/team/{app}:v1.2.3"), "env": env,
        "resources": { "requests": amounts, "limits": amounts }, "volumeMounts": [mount], "livenessProbe": probe,
        "readinessProbe": probe, "terminationMessagePath": "/dev/termination-log", "imagePullPolicy": "IfNotPresent",
    });
    let condition =
        |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" });
    let conditions =
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition);
    json!({
        "metadata": {
            "name": name, "namespace": "@team@", "uid": UID, "generation": 1,
            "resourceVersion": "@version@", "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": { "app": app, "pod-template-hash": "5d4f8c7b9d", "team": "@team@" },
            "annotations": { "prometheus.io/scrape": "true", "checksum/config": "0123456789abcdef0123456789abcdef" },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{app}-5d4f8c7b9d"),
                "uid": "0a1b2c3d-0000-4000-8000-0123456789ab", "controller": true, "blockOwnerDeletion": true }],
            "managedFields": managed_fields(&["kube-controller-manager", "kubelet"]),
        },
        "spec": {
            "containers": [container], "nodeName": "@node@",
            "schedulerName": "default-scheduler", "serviceAccountName": "default", "priority": 0,
            "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30,
            "tolerations": [
                { "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 },
                { "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 },
            ],
            "volumes": [{ "name": "kube-api-access", "projected": { "sources": [
                { "serviceAccountToken": { "expirationSeconds": 3607, "path": "token" } },
                { "configMap": { "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
            ] } }],
        },
        "status": {
            "phase": "Running", "qosClass": "Guaranteed", "hostIP": "10.0.0.1", "podIP": "10.1.0.1",
            "startTime": "2026-01-01T00:00:00Z", "conditions": conditions,
            "containerStatuses": [{ "name": "main", "ready": true, "restartCount": 0, "started": true,
                "image": format!("registry.example/team/{app}:v1.2.3"), "imageID": "sha256:@number@@number@@number@@number@@number@",
                "containerID": "containerd://@number@@number@@number@@number@@number@", "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } } }],
        },
    })
}
