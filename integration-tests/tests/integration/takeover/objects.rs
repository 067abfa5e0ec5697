//! What users of the cluster create.
//!
//! Knows: the shape of these objects. Must not know: what is expected of them.

use serde_json::{Value, json};

/// The label of a node's zone.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
/// The label of a node's name.
pub(crate) const HOST: &str = "kubernetes.io/hostname";
/// The class of volumes that are there, each on one node.
pub(crate) const LOCAL: &str = "local";
/// The class of volumes that kube-controller-manager makes.
pub(crate) const MADE: &str = "made";

/// An image of this version; it is not pulled.
pub(crate) fn image(version: &str) -> String {
    format!("registry.k8s.io/pause:{version}")
}

/// The pods of an application, which name no scheduler.
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

/// A Deployment.
pub(crate) fn deployment(app: &str, replicas: usize) -> Value {
    json!({
        "metadata": { "name": app },
        "spec": { "replicas": replicas, "selector": selecting(app), "template": template(app, "100m") },
    })
}

/// A Deployment of which each version is spread evenly over the values of a label, whatever the others do.
pub(crate) fn spread_deployment(app: &str, replicas: usize, label: &str) -> Value {
    let mut deployment = deployment(app, replicas);
    deployment["spec"]["strategy"] = json!({ "rollingUpdate": { "maxUnavailable": 1, "maxSurge": 2 } });
    deployment["spec"]["template"]["spec"]["topologySpreadConstraints"] = json!([{
        "maxSkew": 1, "topologyKey": label, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selecting(app),
        "matchLabelKeys": ["pod-template-hash"], "nodeTaintsPolicy": "Honor",
    }]);
    deployment
}

/// A DaemonSet.
pub(crate) fn daemon_set(app: &str) -> Value {
    json!({
        "metadata": { "name": app },
        "spec": { "selector": selecting(app), "template": template(app, "50m") },
    })
}

/// A StatefulSet, each of whose pods has a volume that is there, and one that is made for it.
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

/// A class of volumes that wait for a pod.
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

/// A Job, of whose pods four run at a time.
pub(crate) fn job(app: &str, completions: usize) -> Value {
    json!({ "metadata": { "name": app }, "spec": job_spec(app, completions) })
}

/// A CronJob for every minute.
pub(crate) fn cron_job(app: &str) -> Value {
    json!({
        "metadata": { "name": app },
        "spec": { "schedule": "* * * * *", "jobTemplate": { "spec": job_spec(app, 2) } },
    })
}

/// A PodDisruptionBudget.
pub(crate) fn disruption_budget(app: &str, available: usize) -> Value {
    json!({ "metadata": { "name": app }, "spec": { "minAvailable": available, "selector": selecting(app) } })
}
