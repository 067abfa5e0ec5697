//! `flotilla shadow` with a real kube-scheduler: equal decisions, and differences with another configuration. Permissions and arguments are
//! those of `deploy/overlays/shadow`. Pods are created one at a time, so that both schedulers decide by the same nodes.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use flotilla_control_plane::{ControlPlane, NodeBuilder, Options, free_port, pod, wait_until};
use flotilla_integration_tests::{
    deployed::{self, kubeconfig_of, kubectl},
    fleet::{PATIENCE, binary, node_of, pods, wait_until_refused, wait_until_running},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Config, ResourceExt as _,
    api::{DeleteParams, EvictParams, GetParams, ListParams, Patch, PatchParams, PostParams, Request},
    config::{KubeConfigOptions, Kubeconfig},
    core::response::Status,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, from_value, json};

/// Scheduler of pods without `schedulerName`.
const THEIRS: &str = "default-scheduler";
const PODS: usize = 60;
/// Pods per group of applications.
const BLOCK: usize = 60;
/// From 100 nodes on kube-scheduler evaluates only some of them.
const MOST_NODES: usize = 99;

/// Number of pods, from a variable for longer runs.
fn count() -> anyhow::Result<usize> {
    std::env::var("FLOTILLA_SHADOW_PODS")
        .map_or(Ok(PODS), |text| text.parse().context("FLOTILLA_SHADOW_PODS is no number"))
}

/// Three zones with different nodes, and kube-scheduler.
async fn cluster(pods: usize) -> anyhow::Result<ControlPlane> {
    let theirs = json!({ "profiles": [{ "schedulerName": THEIRS }] });
    let cluster = ControlPlane::start(Options { kube_scheduler: Some(theirs), ..Options::default() }).await?;
    let node = |index: usize| {
        let node =
            NodeBuilder::new(format!("node-{index}")).label("topology.kubernetes.io/zone", ["a", "b", "c"][index % 3]);
        let node = node.label("kubernetes.io/hostname", &format!("node-{index}"));
        node.capacity("cpu", ["2", "4", "8", "16"][index % 4])
    };
    cluster.add_nodes((0..(pods / 3).clamp(20, MOST_NODES)).map(node)).await?;
    Ok(cluster)
}

/// Pods of several applications: with anti-affinity, with spread constraints, or infeasible.
fn one(index: usize) -> anyhow::Result<Pod> {
    let cpu = match index % 20 {
        19 => "100",
        other => ["100m", "250m", "500m", "1"][other % 4],
    };
    let mut pod = pod(&format!("pod-{index:05}"), THEIRS, &[("cpu", cpu)]);
    let app = format!("app-{}-{}", index / BLOCK, index % 5);
    pod.labels_mut().insert("app".to_owned(), app.clone());
    let selector = json!({ "matchLabels": { "app": app } });
    let spec = pod.spec.as_mut().context("a spec")?;
    match index % 5 {
        0 => {
            let term = json!({ "labelSelector": selector, "topologyKey": "kubernetes.io/hostname" });
            let apart = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } });
            spec.affinity = Some(from_value(apart)?);
        }
        1 => {
            let constraint = json!({
                "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector,
            });
            spec.topology_spread_constraints = Some(vec![from_value(constraint)?]);
        }
        _ => {}
    }
    Ok(pod)
}

/// A kubeconfig with only the overlay's permissions.
fn reader(cluster: &ControlPlane) -> anyhow::Result<PathBuf> {
    for file in ["namespace.yaml", "rbac.yaml"] {
        let file = deployed::path("overlays/shadow").join(file);
        kubectl(cluster, &["apply", "-f", file.to_str().context("a path in UTF-8")?])?;
    }
    kubeconfig_of(cluster, "flotilla-shadow")
}

/// Arguments of the overlay with local files and a local port.
fn arguments(port: u16) -> anyhow::Result<Vec<String>> {
    let manifest = std::fs::read_to_string(deployed::path("overlays/shadow/shadow.yaml"))?;
    let deployment: Value = serde_yaml::from_str(&manifest)?;
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    ensure!(container["command"] == json!(["/flotilla"]), "another program");
    let config = deployed::path("overlays/shadow/config.yaml");
    let args = container["args"].as_array().context("arguments")?.iter().filter_map(Value::as_str);
    let here = args.map(|word| match word {
        "--config=/etc/flotilla/config.yaml" => format!("--config={}", config.display()),
        "--metrics-listen=0.0.0.0:10273" => format!("--metrics-listen=127.0.0.1:{port}"),
        "--output=yaml" => "--output=json".to_owned(),
        word => word.to_owned(),
    });
    Ok(here.collect())
}

async fn outcomes(port: u16) -> anyhow::Result<BTreeMap<String, u64>> {
    let mut config = Config::new(format!("http://127.0.0.1:{port}").parse()?);
    config.proxy_url = None;
    let request = Request::new("").get("metrics", &GetParams::default())?;
    let page = Client::try_from(config)?.request_text(request).await?;
    let lines = page.lines().filter_map(|line| line.strip_prefix("flotilla_shadow_decisions_total{outcome=\""));
    lines
        .map(|line| {
            let (outcome, count) = line.split_once("\"} ").context("a count")?;
            Ok((outcome.to_owned(), count.parse()?))
        })
        .collect()
}

struct Shadow {
    process: Child,
    report: PathBuf,
}

impl Shadow {
    /// Waits until it compares.
    async fn start(cluster: &ControlPlane, reader: &Path, name: &str, words: &[String]) -> anyhow::Result<Self> {
        let [report, told] = ["json", "log"].map(|end| cluster.folder().join(format!("{name}.{end}")));
        let mut command = Command::new(binary("flotilla")?);
        command.args(words).arg("--kubeconfig").arg(reader);
        let process = command
            .env_remove("HTTPS_PROXY")
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(&report)?)
            .stderr(std::fs::File::create(&told)?)
            .spawn()?;
        wait_until("flotilla shadow to follow", PATIENCE, async || {
            let text = std::fs::read_to_string(&told).map_err(|error| error.to_string())?;
            text.contains("Following default-scheduler on ").then_some(()).ok_or(text)
        })
        .await?;
        Ok(Self { process, report })
    }

    /// Its report after an interrupt.
    fn end(mut self) -> anyhow::Result<Value> {
        kill_process(Pid::from_child(&self.process), Signal::INT)?;
        ensure!(self.process.wait()?.success(), "it fails when it is interrupted");
        said(&self.report)
    }
}

fn said(path: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read_to_string(path)?;
    serde_json::from_str(&text).with_context(|| text.clone())
}

/// Creates each pod after kube-scheduler's decision on the previous one.
async fn decide_on_all(cluster: &ControlPlane, count: usize) -> anyhow::Result<()> {
    let mut placed = 0;
    for index in 0..count {
        let pod = one(index)?;
        let name = pod.name_any();
        let fits = index % 20 != 19;
        cluster.create_pods([pod]).await?;
        if fits {
            placed += 1;
            wait_until_running(cluster, "pod-", placed).await?;
        } else {
            wait_until_refused(cluster, &name).await?;
        }
    }
    let all = pods(cluster).await?;
    ensure!(all.iter().filter(|pod| node_of(pod).is_some()).count() == placed, "a pod is bound that fits nowhere");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_scheduler_and_flotilla_decide_alike_and_another_profile_is_seen_to_differ() -> anyhow::Result<()> {
    let count = count()?;
    let cluster = cluster(count).await?;
    let packing = cluster.folder().join("packing.yaml");
    let strategy = json!({ "type": "MostAllocated", "resources": [{ "name": "cpu", "weight": 1 }] });
    let fit = json!({ "name": "NodeResourcesFit", "args": { "scoringStrategy": strategy } });
    let text = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{ "schedulerName": "packing", "pluginConfig": [fit] }],
    });
    std::fs::write(&packing, text.to_string())?;
    let reader = reader(&cluster)?;
    let port = free_port()?;
    let same = Shadow::start(&cluster, &reader, "same", &arguments(port)?).await?;
    let words =
        ["shadow", "-o", "json", "--config", packing.to_str().context("a path in UTF-8")?, "--as-scheduler", THEIRS];
    let packs = Shadow::start(&cluster, &reader, "packs", &words.map(str::to_owned)).await?;
    decide_on_all(&cluster, count).await?;
    // Let both receive the last watch events.
    tokio::time::sleep(Duration::from_secs(1)).await;

    let outcomes = outcomes(port).await?;
    let same = same.end()?;
    println!("{same:#}");
    assert_eq!((&same["compared"], &same["missed"]), (&count.into(), &0.into()), "{same:#}");
    assert!(same["agreementPercent"].as_f64().is_some_and(|percent| percent >= 99.9), "{same:#}");
    assert_eq!(same["outcomes"]["neitherPlaced"], count / 20, "{same:#}");
    let told = |outcome: &str| same["outcomes"][outcome].as_u64().unwrap_or(0);
    assert_eq!(outcomes.len(), 9, "{outcomes:?}");
    for (metric, outcome) in
        [("same_node", "sameNode"), ("equal_total", "equalTotal"), ("neither_placed", "neitherPlaced")]
    {
        assert_eq!(outcomes[metric], told(outcome), "{metric}: {outcomes:?} {same:#}");
    }
    assert_eq!(outcomes.values().sum::<u64>(), count as u64, "{outcomes:?}");
    let packs = packs.end()?;
    assert_eq!(packs["compared"], count, "{packs:#}");
    assert!(packs["outcomes"]["lowerTotal"].as_u64().is_some_and(|count| count > 20), "{packs:#}");
    assert_eq!(packs["byPlugin"]["NodeResourcesFit"], packs["outcomes"]["lowerTotal"], "{packs:#}");
    assert_eq!(packs["cases"][0]["outcome"], "lowerTotal", "{packs:#}");
    Ok(())
}

fn is_forbidden<T: std::fmt::Debug>(answer: Result<T, kube::Error>) -> anyhow::Result<()> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
        other => anyhow::bail!("it is not forbidden: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_account_of_the_overlay_can_neither_bind_nor_evict_nor_write_anything_else() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default()).await?;
    cluster.add_nodes([NodeBuilder::new("node")]).await?;
    let kubeconfig = Kubeconfig::read_from(reader(&cluster)?)?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.proxy_url = None;
    cluster.create_pods([pod("waiting", "nobody", &[("cpu", "1")])]).await?;
    let [theirs, ours]: [Api<Pod>; 2] =
        [Client::try_from(config)?, cluster.client()].map(|client| Api::namespaced(client, "default"));
    let listed = theirs.list(&ListParams::default()).await?;
    assert_eq!(listed.items.len(), 1, "it may read pods");

    let target = json!({ "apiVersion": "v1", "kind": "Node", "name": "node" });
    let binding = json!({ "apiVersion": "v1", "kind": "Binding", "metadata": { "name": "waiting" }, "target": target });
    let post = PostParams::default();
    let bind =
        async |api: &Api<Pod>| api.create_subresource::<Value, Status>("binding", "waiting", &post, &binding).await;
    is_forbidden(bind(&theirs).await).context("a binding")?;
    is_forbidden(theirs.evict("waiting", &EvictParams::default()).await).context("an eviction")?;
    is_forbidden(theirs.delete("waiting", &DeleteParams::default()).await).context("a deletion")?;
    let status = Patch::Merge(json!({ "status": { "nominatedNodeName": "node" } }));
    is_forbidden(theirs.patch_status("waiting", &PatchParams::default(), &status).await).context("a status")?;
    is_forbidden(theirs.patch("waiting", &PatchParams::default(), &status).await).context("a patch")?;
    is_forbidden(theirs.create(&post, &pod("other", THEIRS, &[])).await).context("a pod")?;

    // With permission it succeeds.
    bind(&ours).await?;
    ours.evict("waiting", &EvictParams::default()).await?;
    Ok(())
}
