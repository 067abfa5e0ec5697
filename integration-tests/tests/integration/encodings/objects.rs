//! Objects with all fields that scheduling reads, and a pod and a node of realistic size.

use flotilla_encoding::testing::busy;
use serde_json::{Value, json};

#[path = "devices.rs"]
mod devices;

pub(crate) fn objects() -> Vec<Value> {
    let mut objects = vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop", "labels": {
            "team": "a", "empty": "", "resource.kubernetes.io/admin-access": "true" } } }),
        node(),
        pod(),
        pod_group(),
        composite_pod_group(),
    ];
    objects.extend(selecting());
    objects.extend(storage());
    objects.extend(devices::devices());
    objects
}

fn selector() -> Value {
    json!({ "matchLabels": { "app": "web" }, "matchExpressions": [
        { "key": "tier", "operator": "NotIn", "values": ["b", "a"] }, { "key": "app", "operator": "Exists" },
    ] })
}

pub(crate) fn node_selector() -> Value {
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
            "schedulingGroup": { "podGroupName": "group" }, "resourceClaims": [
                { "name": "c", "resourceClaimName": "x" }, { "name": "d", "resourceClaimTemplateName": "t" },
                { "name": "e", "resourceClaimTemplateName": "t" },
            ],
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
            "resourceClaimStatuses": [{ "name": "d", "resourceClaimName": "pod-d-1" }, { "name": "e" }],
            "extendedResourceClaimStatus": { "resourceClaimName": "pod-extended-resources-1", "requestMappings": [
                { "containerName": "main", "resourceName": "example.com/gpu", "requestName": "container-2-request-1" },
            ] },
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
        "spec": {
            "schedulingPolicy": { "gang": { "minCount": 3 } }, "preemptionPolicy": "PreemptLowerPriority",
            "schedulingConstraints": { "topology": [{ "key": "example.com/rack" }] },
            "parentCompositePodGroupName": "above",
            "workloadRef": { "workloadName": "w", "templateName": "g" },
            "resourceClaims": [
                { "name": "gpus", "resourceClaimTemplateName": "gpu" }, { "name": "nic", "resourceClaimName": "nic" },
            ],
        },
        "status": {
            "conditions": [{
                "type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable", "message": "m",
                "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
            "resourceClaimStatuses": [{ "name": "gpus", "resourceClaimName": "group-gpus" }],
        },
    })
}

fn composite_pod_group() -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup",
        "metadata": { "name": "above", "namespace": "shop" },
        "spec": {
            "workloadRef": { "workloadName": "w", "templateName": "t" }, "parentCompositePodGroupName": "top",
            "schedulingPolicy": { "gang": { "minGroupCount": 2 } }, "preemptionPolicy": "PreemptLowerPriority",
            "schedulingConstraints": { "topology": [{ "key": "example.com/block" }] }, "disruptionMode": { "all": {} },
        },
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

/// A node and a pod of realistic size, without fields of the API server.
pub(crate) fn busy() -> Vec<Value> {
    let (mut node, mut pod) = (busy::node(), busy::pod());
    pod["metadata"]["namespace"] = json!("default");
    for (kind, object) in [("Node", &mut node), ("Pod", &mut pod)] {
        (object["apiVersion"], object["kind"]) = (json!("v1"), json!(kind));
        for name in ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"] {
            _ = object["metadata"].as_object_mut().and_then(|metadata| metadata.remove(name));
        }
        *object = object.to_string().replace("@", "").parse().unwrap_or_default();
    }
    vec![node, pod]
}
