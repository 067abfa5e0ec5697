//! What a cluster costs in memory: the watches and the machine of a coordinator are told of nodes and pods by an API
//! server that is a function.
//!
//! Knows: objects as large as those of real clusters. Must not know: what is kept of them.
//!
//! `cargo run --release --example watch_memory -- NODES PODS`

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use anyhow::{Context as _, Result};
use flotilla_configuration::Configuration;
use flotilla_coordinator::{
    lease::Leadership,
    status::Reporter,
    watch::{Needs, Watches},
};
use flotilla_framework::registry::Registry;
use flotilla_machine::{event::Event, machine::Machine};
use flotilla_runtime::driver;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long the machine may take for what it has been told.
const PATIENCE: Duration = Duration::from_secs(900);

/// How many objects there are.
#[derive(Debug, Clone, Copy)]
struct Cluster {
    nodes: usize,
    pods: usize,
}

fn main() -> Result<()> {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse::<usize>());
    let mut number = |what: &str| numbers.next().context(format!("give the number of {what}"))?.context("no number");
    let cluster = Cluster { nodes: number("nodes")?, pods: number("pods")? };
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(measure(cluster))
}

async fn measure(cluster: Cluster) -> Result<()> {
    let client = client(cluster);
    let (lead, leading) = watch::channel(Leadership::UNKNOWN);
    let reporter = Reporter::new(&client, &client, "host", &leading);
    let registry = Registry::built_in();
    let (handle, _thread) = driver::spawn(Machine::new(0, registry), drop);
    let profiles = Configuration::default().profiles;
    let configuration = flotilla_machine::event::Configuration::new(1, profiles.clone());
    handle.tell(Event::Configured(Arc::new(configuration))).await?;
    let begin = CancellationToken::new();
    let needs = Needs { registry, profiles: &profiles, with_groups: false };
    let (before, begun) = (memory("VmRSS")?, std::time::Instant::now());
    begin.cancel();
    let mut watches = Watches::start(client, handle.clone(), reporter, needs, begin, CancellationToken::new());
    watches.wait_synced().await;
    let known = async {
        while handle.waiting() > 0 || handle.status().nodes < cluster.nodes as u64 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, known).await.context("the machine did not get to the end of what it was told")?;
    println!("a pod is {} bytes of JSON, a node {}", made(&POD, 1, cluster).len(), made(&NODE, 1, cluster).len());
    println!("{cluster:?} in {:?}", begun.elapsed());
    println!("resident before {before} KiB, after {} KiB, at most {} KiB", memory("VmRSS")?, memory("VmHWM")?);
    drop(lead);
    Ok(())
}

/// A line of what the kernel says of this process, in KiB.
fn memory(line: &str) -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
    let line = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':')).context("no such line")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// An API server that makes up each page of nodes and pods when it is asked for it, and has no other objects.
fn client(cluster: Cluster) -> kube::Client {
    let service = tower::service_fn(move |request: Request<Body>| async move {
        let query = request.uri().query().unwrap_or_default();
        let silence = futures::stream::pending::<Result<hyper::body::Frame<bytes::Bytes>, std::io::Error>>();
        if query.contains("sendInitialEvents=true") {
            let refusal = Full::from("lists are in pages here").map_err(|never| match never {}).boxed_unsync();
            return Ok(Response::builder().status(422).body(refusal).unwrap_or_default());
        }
        let body = match query.contains("watch=true") {
            true => StreamBody::new(silence).boxed_unsync(),
            false => {
                let text = page(request.uri().path(), query, cluster);
                Full::from(text).map_err(|never| match never {}).boxed_unsync()
            }
        };
        Ok::<_, std::io::Error>(Response::new(body))
    });
    kube::Client::new(service, "default")
}

fn page(path: &str, query: &str, cluster: Cluster) -> String {
    let number = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.parse::<usize>().ok());
    let (from, limit) = (number("continue=").unwrap_or(0), number("limit=").unwrap_or(1_000));
    let (count, pattern): (usize, &str) = match path {
        "/api/v1/nodes" => (cluster.nodes, &NODE),
        "/api/v1/pods" => (cluster.pods, &POD),
        _ => (0, ""),
    };
    let end = count.min(from + limit);
    let items: Vec<String> = (from..end).map(|index| made(pattern, index, cluster)).collect();
    let more = if end < count { end.to_string() } else { String::new() };
    let metadata = json!({ "resourceVersion": "1000000", "continue": more });
    format!("{{\"metadata\":{metadata},\"items\":[{}]}}", items.join(","))
}

/// What all nodes and all pods have in common; `@words@` stand for what tells them apart.
static NODE: LazyLock<String> = LazyLock::new(|| json_of_node().to_string());
static POD: LazyLock<String> = LazyLock::new(|| json_of_pod().to_string());

/// One of 150,000: of 3,000 deployments and 200 teams, three zones and 20 pools.
fn made(pattern: &str, index: usize, cluster: Cluster) -> String {
    let words = [
        ("@app@", format!("application-{}", index % 3_000)),
        ("@team@", format!("team-{}", index % 200)),
        ("@node@", format!("node-{:05}.cluster.example", index % cluster.nodes.max(1))),
        ("@zone@", format!("zone-{}", index % 3)),
        ("@pool@", format!("pool-{}", index % 20)),
        ("@index@", format!("{index:05x}")),
        ("@number@", format!("{index:012x}")),
        ("@version@", (1_000 + index).to_string()),
    ];
    words.iter().fold(pattern.to_owned(), |text, (word, value)| text.replace(word, value))
}

/// Who writes which fields, as the API server keeps it: half of an object's JSON.
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

fn json_of_node() -> Value {
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

/// A pod of one of 3,000 deployments, on its node.
fn json_of_pod() -> Value {
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
