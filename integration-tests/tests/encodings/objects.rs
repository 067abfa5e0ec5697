//! An object of each kind with all that scheduling reads of it, and a pod and a node as large as real ones.

use serde_json::{Value, json};

/// One object of each kind that is watched, in the order in which they can be created.
pub(crate) fn objects() -> Vec<Value> {
    let mut objects = vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop", "labels": { "team": "a", "empty": "" } } }),
        node(),
        pod(),
        pod_group(),
    ];
    objects.extend(selecting());
    objects.extend(storage());
    objects
}

fn selector() -> Value {
    json!({ "matchLabels": { "app": "web" }, "matchExpressions": [
        { "key": "tier", "operator": "NotIn", "values": ["b", "a"] }, { "key": "app", "operator": "Exists" },
    ] })
}

fn node_selector() -> Value {
    json!({ "nodeSelectorTerms": [{
        "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a", "b"] }, { "key": "size", "operator": "Gt", "values": ["3"] }],
        "matchFields": [{ "key": "metadata.name", "operator": "NotIn", "values": ["n9"] }],
    }] })
}

fn node() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": "node", "labels": { "zone": "a", "empty": "" } },
        "spec": { "unschedulable": true, "taints": [
            { "key": "gpu", "value": "yes", "effect": "NoSchedule" }, { "key": "old", "effect": "NoExecute" },
        ] },
        "status": {
            "capacity": { "cpu": "5" }, "declaredFeatures": ["RestartAllContainersOnContainerExits", "Unknown"],
            "allocatable": { "cpu": "3900m", "memory": "12Gi", "pods": "110", "example.com/gpu": "2", "ephemeral-storage": "1e3" },
            "images": [{ "names": ["a:1", "b:1"], "sizeBytes": 90_000_000 }, { "names": ["c"] }],
        },
    })
}

fn pod_affinity() -> Value {
    let term = json!({
        "labelSelector": selector(), "namespaces": ["shop", "default"], "topologyKey": "zone", "namespaceSelector": {},
    });
    json!({
        "requiredDuringSchedulingIgnoredDuringExecution": [term, { "topologyKey": "host" }],
        "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 7, "podAffinityTerm": term }],
    })
}

fn volumes() -> Value {
    json!([
        { "name": "scratch", "emptyDir": {} },
        { "name": "claim", "persistentVolumeClaim": { "claimName": "data", "readOnly": true } },
        { "name": "own", "ephemeral": { "volumeClaimTemplate": { "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } } } },
        { "name": "inline", "csi": { "driver": "inline.example.com" } },
        { "name": "gce", "gcePersistentDisk": { "pdName": "pd", "readOnly": true } },
        { "name": "aws", "awsElasticBlockStore": { "volumeID": "aws://a/vol-1" } },
        { "name": "iscsi", "iscsi": { "targetPortal": "p", "iqn": "iqn.2000-01.x:y", "lun": 0, "readOnly": true } },
        { "name": "rbd", "rbd": { "monitors": ["m1", "m2"], "image": "i", "pool": "p", "readOnly": true } },
        { "name": "cinder", "cinder": { "volumeID": "c" } },
        { "name": "share", "azureFile": { "secretName": "azure-storage-account-me-secret", "shareName": "s" } },
        { "name": "azure", "azureDisk": { "diskName": "d", "diskURI": "/subscriptions/x/disks/d", "kind": "Managed" } },
        { "name": "vsphere", "vsphereVolume": { "volumePath": "[x] y" } },
        { "name": "portworx", "portworxVolume": { "volumeID": "p" } },
        { "name": "image", "image": { "reference": "registry.example/data" } },
    ])
}

fn pod() -> Value {
    let amounts = |cpu: &str| json!({ "requests": { "cpu": cpu, "example.com/gpu": "1" }, "limits": { "cpu": "2", "example.com/gpu": "1" } });
    let owner =
        json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u-1", "controller": true });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "pod", "namespace": "shop", "generation": 2, "ownerReferences": [owner],
            "labels": { "app": "web", "empty": "" }, "finalizers": ["example.com/wait"],
            "annotations": { "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" },
        },
        "spec": {
            "schedulerName": "flotilla", "hostNetwork": true,
            "nodeSelector": { "disk": "ssd", "empty": "" }, "volumes": volumes(),
            "schedulingGroup": { "podGroupName": "group" }, "resourceClaims": [{ "name": "c", "resourceClaimName": "x" }],
            "initContainers": [
                { "name": "first", "image": "first:1", "resources": amounts("1") },
                { "name": "beside", "image": "beside", "restartPolicy": "Always", "ports": [{ "containerPort": 80, "hostPort": 80 }] },
            ],
            "containers": [{
                "name": "main", "image": "registry.example:5000/web", "resources": amounts("1500m"),
                "ports": [{ "containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "127.0.0.1" }, { "containerPort": 90, "hostPort": 90 }],
                "env": [{ "name": "A", "value": "b" }], "livenessProbe": { "httpGet": { "path": "/", "port": 80 } },
                "volumeMounts": [{ "name": "scratch", "mountPath": "/x" }],
            }],
            "tolerations": [{ "operator": "Exists" }, { "key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 3 }],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": node_selector(),
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        { "weight": 5, "preference": { "matchExpressions": [{ "key": "zone", "operator": "Exists" }] } },
                    ],
                },
                "podAffinity": pod_affinity(), "podAntiAffinity": pod_affinity(),
            },
            "topologySpreadConstraints": [{
                "maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector(),
                "minDomains": 3, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor", "matchLabelKeys": ["rack"],
            }, { "maxSkew": 1, "topologyKey": "host", "whenUnsatisfiable": "ScheduleAnyway" }],
        },
        "status": {
            "phase": "Pending", "nominatedNodeName": "other", "startTime": "2026-01-02T03:04:05Z",
            "conditions": [
                { "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes" },
                { "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler" },
            ],
            "containerStatuses": [{
                "name": "main", "image": "web", "imageID": "x", "ready": true, "restartCount": 1,
                "allocatedResources": { "cpu": "1700m" }, "resources": { "requests": { "cpu": "1800m" } },
            }],
        },
    })
}

fn pod_group() -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": { "name": "group", "namespace": "shop" },
        "spec": { "schedulingPolicy": { "gang": { "minCount": 3 } } },
        "status": { "conditions": [{
            "type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable", "message": "m",
            "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
        }] },
    })
}

fn selecting() -> Vec<Value> {
    let named = |name: &str| json!({ "name": name, "namespace": "shop", "labels": { "a": "b" } });
    let template = json!({
        "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] },
    });
    let by_map = json!({ "selector": { "app": "web" }, "replicas": 3, "template": template });
    let by_selector = json!({ "selector": { "matchLabels": { "app": "web" } }, "replicas": 3, "serviceName": "s", "template": template });
    let mut replica_set = by_selector.clone();
    replica_set.as_object_mut().expect("an object").remove("serviceName");
    let port = json!([{ "port": 80 }]);
    vec![
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": named("service"), "spec": { "selector": { "app": "web" }, "ports": port } }),
        json!({ "apiVersion": "v1", "kind": "ReplicationController", "metadata": named("controller"), "spec": by_map }),
        json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": named("replicas"), "spec": replica_set }),
        json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": named("stateful"), "spec": by_selector }),
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": named("budget"),
            "spec": { "minAvailable": "50%", "selector": selector() },
            "status": {
                "disruptionsAllowed": 2, "currentHealthy": 4, "desiredHealthy": 2, "expectedPods": 4,
                "disruptedPods": { "web-1": "2026-01-01T00:00:00Z" },
            },
        }),
    ]
}

fn storage() -> Vec<Value> {
    let topology = json!([{ "matchLabelExpressions": [{ "key": "zone", "values": ["b", "a"] }] }]);
    vec![
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": "data", "namespace": "shop",
                "annotations": { "pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": "node" },
                "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u-2", "controller": true }],
            },
            "spec": {
                "accessModes": ["ReadWriteOnce", "ReadWriteMany"], "selector": selector(), "volumeName": "volume",
                "storageClassName": "", "volumeMode": "Block", "resources": { "requests": { "storage": "1.5Gi" } },
            },
            "status": { "phase": "Lost" },
        }),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": "volume", "labels": { "zone": "a" } },
            "spec": {
                "capacity": { "storage": "10Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "class",
                "volumeMode": "Block", "nodeAffinity": { "required": node_selector() },
                "claimRef": { "namespace": "shop", "name": "data", "uid": "u-3" },
                "csi": { "driver": "disks.example.com", "volumeHandle": "h" },
            },
            "status": { "phase": "Available" },
        }),
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "class" },
            "provisioner": "disks.example.com", "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": topology,
            "parameters": { "a": "b" },
        }),
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": { "name": "disks.example.com" },
            "spec": { "storageCapacity": true },
        }),
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity", "metadata": { "name": "room", "namespace": "shop" },
            "storageClassName": "class", "nodeTopology": selector(), "capacity": "5Gi", "maximumVolumeSize": "1Gi",
        }),
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
            "metadata": { "name": "node", "annotations": { "storage.alpha.kubernetes.io/migrated-plugins": "b,a" } },
            "spec": { "drivers": [
                { "name": "b", "nodeID": "n", "topologyKeys": ["zone"], "allocatable": { "count": 0 } }, { "name": "a", "nodeID": "n", "topologyKeys": null },
            ] },
        }),
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": { "name": "attachment" },
            "spec": { "attacher": "disks.example.com", "nodeName": "node", "source": { "persistentVolumeName": "volume" } },
        }),
    ]
}

/// A pod and a node as large as real ones.
pub(crate) fn busy() -> Vec<Value> {
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
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": "node-00001.cluster.example",
            "labels": {
                "kubernetes.io/hostname": "node-00001.cluster.example", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
                "topology.kubernetes.io/zone": "zone-1", "topology.kubernetes.io/region": "here",
                "node.kubernetes.io/instance-type": "large", "pool": "pool-1",
            },
            "annotations": { "volumes.kubernetes.io/controller-managed-attach-detach": "true" },
        },
        "spec": { "podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"], "providerID": "cloud://node-00001" },
        "status": {
            "capacity": amounts, "allocatable": amounts, "images": images,
            "conditions": (["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"].map(condition)),
            "addresses": [{ "type": "InternalIP", "address": "10.0.0.1" }],
        },
    });
    vec![node, busy_pod()]
}

/// A pod of a deployment with settings, probes and a status.
fn busy_pod() -> Value {
    let env: Vec<Value> = (0..12)
        .map(|one| json!({ "name": format!("SETTING_{one}"), "value": format!("http://service-{one}.shop.svc:8080") }))
        .collect();
    let probe = json!({ "httpGet": { "path": "/healthz", "port": 8080, "scheme": "HTTP" }, "periodSeconds": 10, "timeoutSeconds": 1 });
    let amounts = json!({ "cpu": "100m", "memory": "256Mi" });
    let container = json!({
        "name": "main", "image": "registry.example/team/application-1:v1.2.3", "env": env,
        "resources": { "requests": amounts, "limits": amounts },
        "volumeMounts": [{ "name": "token", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount" }],
        "livenessProbe": probe, "readinessProbe": probe,
    });
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "application-1-5d4f8c7b9d",
        "uid": "0a1b2c3d-0000-4000-8000-0123456789ab", "controller": true, "blockOwnerDeletion": true,
    });
    let condition =
        |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "application-1-5d4f8c7b9d-x2k4j", "namespace": "default", "ownerReferences": [owner],
            "labels": { "app": "application-1", "pod-template-hash": "5d4f8c7b9d", "team": "team-1" },
            "annotations": { "prometheus.io/scrape": "true", "checksum/config": "0123456789abcdef0123456789abcdef" },
        },
        "spec": {
            "containers": [container], "nodeName": "node-00001.cluster.example", "serviceAccountName": "default",
            "tolerations": [
                { "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 },
                { "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 },
            ],
            "volumes": [{ "name": "token", "projected": { "sources": [
                { "serviceAccountToken": { "expirationSeconds": 3607, "path": "token" } },
                { "configMap": { "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
            ] } }],
        },
        "status": {
            "phase": "Running", "hostIP": "10.0.0.1", "podIP": "10.1.0.1", "startTime": "2026-01-01T00:00:00Z",
            "conditions": (["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition)),
            "containerStatuses": [{
                "name": "main", "ready": true, "restartCount": 0, "started": true, "image": "registry.example/team/application-1:v1.2.3",
                "imageID": format!("sha256:{:064x}", 7), "containerID": format!("containerd://{:064x}", 9),
                "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } },
            }],
        },
    })
}
