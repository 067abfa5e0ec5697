//! Objects of the cluster's users.

use serde_json::{Value, json};

pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
pub(crate) const HOST: &str = "kubernetes.io/hostname";
/// Class of existing volumes on one node each.
pub(crate) const LOCAL: &str = "local";
/// Class of volumes that kube-controller-manager provisions.
pub(crate) const MADE: &str = "made";

/// An image of this version, never pulled.
pub(crate) fn image(version: &str) -> String {
    format!("registry.k8s.io/pause:{version}")
}

/// Pod template of an application without `schedulerName`.
fn template(app: &str, cpu: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": app } },
        "spec": { "containers": [{
            "name": "main", "image": image("3.9"), "resources": { "requests": { "cpu": cpu, "memory": "64Mi" } },
        }] },
    })
}

fn selecting(app: &str) -> Value {
    json!({ "matchLabels": { "app": app } })
}

pub(crate) fn deployment(app: &str, replicas: usize) -> Value {
    json!({
        "metadata": { "name": app },
        "spec": { "replicas": replicas, "selector": selecting(app), "template": template(app, "100m") },
    })
}

/// A Deployment that spreads each version over the values of a label.
pub(crate) fn spread_deployment(app: &str, replicas: usize, label: &str) -> Value {
    let mut deployment = deployment(app, replicas);
    deployment["spec"]["strategy"] = json!({ "rollingUpdate": { "maxUnavailable": 1, "maxSurge": 2 } });
    deployment["spec"]["template"]["spec"]["topologySpreadConstraints"] = json!([{
        "maxSkew": 1, "topologyKey": label, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selecting(app),
        "matchLabelKeys": ["pod-template-hash"], "nodeTaintsPolicy": "Honor",
    }]);
    deployment
}

pub(crate) fn daemon_set(app: &str) -> Value {
    json!({
        "metadata": { "name": app },
        "spec": { "selector": selecting(app), "template": template(app, "50m") },
    })
}

/// A StatefulSet with an existing and a provisioned volume per pod.
pub(crate) fn stateful_set(app: &str, replicas: usize) -> Value {
    let claim = |name: &str| {
        json!({
            "metadata": { "name": name },
            "spec": {
                "storageClassName": name, "accessModes": ["ReadWriteOnce"],
                "resources": { "requests": { "storage": "1Gi" } },
            },
        })
    };
    json!({
        "metadata": { "name": app },
        "spec": {
            "serviceName": app, "replicas": replicas, "selector": selecting(app), "template": template(app, "100m"),
            "volumeClaimTemplates": [claim(LOCAL), claim(MADE)],
        },
    })
}

/// A class with `WaitForFirstConsumer`.
pub(crate) fn storage_class(name: &str, provisioner: &str) -> Value {
    json!({ "metadata": { "name": name }, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer" })
}

/// A volume of [`LOCAL`] on a node.
pub(crate) fn local_volume(node: &str) -> Value {
    let here = json!({ "key": HOST, "operator": "In", "values": [node] });
    json!({
        "metadata": { "name": format!("disk-{node}") },
        "spec": {
            "storageClassName": LOCAL, "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" },
            "local": { "path": "/disk" },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [here] }] } },
        },
    })
}

fn job_spec(app: &str, completions: usize) -> Value {
    let mut template = template(app, "200m");
    template["spec"]["restartPolicy"] = json!("Never");
    json!({ "completions": completions, "parallelism": 4, "template": template })
}

pub(crate) fn job(app: &str, completions: usize) -> Value {
    json!({ "metadata": { "name": app }, "spec": job_spec(app, completions) })
}

pub(crate) fn cron_job(app: &str) -> Value {
    json!({
        "metadata": { "name": app },
        "spec": { "schedule": "* * * * *", "jobTemplate": { "spec": job_spec(app, 2) } },
    })
}

pub(crate) fn disruption_budget(app: &str, available: usize) -> Value {
    json!({ "metadata": { "name": app }, "spec": { "minAvailable": available, "selector": selecting(app) } })
}
