//! `flotilla shadow` beside a real kube-scheduler: both decide alike, and a configuration that differs is seen.
//!
//! Knows: pods that come one at a time, so that both decide by the same nodes. Must not know: how decisions are compared.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use flotilla_control_plane::{ControlPlane, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::{
    deployed::{kubeconfig_of, kubectl},
    fleet::{PATIENCE, binary, node_of, pods, wait_until_refused, wait_until_running},
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, from_value, json};

/// The scheduler of pods that name none.
const THEIRS: &str = "default-scheduler";
const PODS: usize = 60;

/// A cluster of three zones with unequal nodes, and kube-scheduler.
async fn cluster() -> anyhow::Result<ControlPlane> {
    let theirs = json!({ "profiles": [{ "schedulerName": THEIRS }] });
    let cluster = ControlPlane::start(Options { kube_scheduler: Some(theirs), ..Options::default() }).await?;
    let node = |index: usize| {
        let node =
            NodeBuilder::new(format!("node-{index}")).label("topology.kubernetes.io/zone", ["a", "b", "c"][index % 3]);
        let node = node.label("kubernetes.io/hostname", &format!("node-{index}"));
        node.capacity("cpu", ["2", "4", "8", "16"][index % 4])
    };
    cluster.add_nodes((0..20).map(node)).await?;
    Ok(cluster)
}

/// Pods of several applications, some of which keep apart, some of which spread, and some of which fit nowhere.
fn one(index: usize) -> anyhow::Result<Pod> {
    let cpu = match index % 20 {
        19 => "100",
        other => ["100m", "250m", "500m", "1"][other % 4],
    };
    let mut pod = pod(&format!("pod-{index:03}"), THEIRS, &[("cpu", cpu)]);
    let app = format!("app-{}", index % 5);
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

/// A kubeconfig with the rights that docs/shadow.md lists, and no others.
fn reader(cluster: &ControlPlane) -> anyhow::Result<PathBuf> {
    let document = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/shadow.md"))?;
    let rights = document.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).context("the rights")?;
    let file = cluster.folder().join("rights.yaml");
    std::fs::write(&file, rights)?;
    kubectl(cluster, &["apply", "-f", file.to_str().context("a path in UTF-8")?])?;
    kubectl(cluster, &["create", "namespace", "flotilla"])?;
    kubectl(cluster, &["create", "serviceaccount", "shadow", "--namespace=flotilla"])?;
    let words =
        ["create", "clusterrolebinding", "shadow", "--clusterrole=flotilla-shadow", "--serviceaccount=flotilla:shadow"];
    kubectl(cluster, &words)?;
    kubeconfig_of(cluster, "shadow")
}

/// A `flotilla shadow` that runs.
struct Shadow {
    process: Child,
    report: PathBuf,
}

impl Shadow {
    /// Returns once it compares.
    async fn start(cluster: &ControlPlane, reader: &Path, name: &str, words: &[&str]) -> anyhow::Result<Self> {
        let [report, told] = ["json", "log"].map(|end| cluster.folder().join(format!("{name}.{end}")));
        let mut command = Command::new(binary("flotilla")?);
        command.args(["shadow", "-o", "json", "--kubeconfig"]).arg(reader).args(words);
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

    /// What it says once it is interrupted.
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

/// Creates the pods one by one, each once kube-scheduler has decided on the one before.
async fn decide_on_all(cluster: &ControlPlane) -> anyhow::Result<()> {
    let mut placed = 0;
    for index in 0..PODS {
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
    let cluster = cluster().await?;
    let packing = cluster.folder().join("packing.yaml");
    let strategy = json!({ "type": "MostAllocated", "resources": [{ "name": "cpu", "weight": 1 }] });
    let fit = json!({ "name": "NodeResourcesFit", "args": { "scoringStrategy": strategy } });
    let text = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{ "schedulerName": "packing", "pluginConfig": [fit] }],
    });
    std::fs::write(&packing, text.to_string())?;
    let reader = reader(&cluster)?;
    let same = Shadow::start(&cluster, &reader, "same", &[]).await?;
    let words = ["--config", packing.to_str().context("a path in UTF-8")?, "--as-scheduler", THEIRS];
    let packs = Shadow::start(&cluster, &reader, "packs", &words).await?;
    decide_on_all(&cluster).await?;
    // What the watches tell last, they tell both.
    tokio::time::sleep(Duration::from_secs(1)).await;

    let same = same.end()?;
    assert_eq!((&same["compared"], &same["missed"]), (&PODS.into(), &0.into()), "{same:#}");
    assert_eq!(same["agreementPercent"], 100.0, "{same:#}");
    assert_eq!(same["outcomes"]["neitherPlaced"], PODS / 20, "{same:#}");
    let packs = packs.end()?;
    assert_eq!(packs["compared"], PODS, "{packs:#}");
    assert!(packs["outcomes"]["lowerTotal"].as_u64().is_some_and(|count| count > 20), "{packs:#}");
    assert_eq!(packs["byPlugin"]["NodeResourcesFit"], packs["outcomes"]["lowerTotal"], "{packs:#}");
    assert_eq!(packs["cases"][0]["outcome"], "lowerTotal", "{packs:#}");
    Ok(())
}
