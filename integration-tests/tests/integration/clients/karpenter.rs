//! Karpenter buys nodes for pods that the scheduler reports as unschedulable, and gives them back.

use std::time::{Duration, Instant};

use flotilla_control_plane::{ControlPlane, Options, wait_until};
use flotilla_integration_tests::{
    clients::Karpenter,
    fleet::{Fleet, PATIENCE, node_of, pods},
};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, from_value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
/// Karpenter validates a consolidation 15 s after it has found it.
const QUIET: Duration = Duration::from_secs(40);
const CONSOLIDATION: Duration = Duration::from_secs(240);

/// A Deployment that is created at once.
struct Scene {
    name: &'static str,
    replicas: usize,
    /// Fields of the pods.
    spec: Value,
}

fn scenes() -> Vec<Scene> {
    let of = |name: &str| json!({ "matchLabels": { "app": name } });
    let spread = json!({ "topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": of("spread"),
    }] });
    let term = json!({ "labelSelector": of("apart"), "topologyKey": HOST });
    let apart =
        json!({ "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } } });
    vec![
        Scene { name: "plain", replicas: 40, spec: json!({}) },
        Scene { name: "spread", replicas: 12, spec: spread },
        Scene { name: "apart", replicas: 7, spec: apart },
        Scene { name: "burst", replicas: 150, spec: json!({}) },
    ]
}

fn deployment(scene: &Scene, scheduler: &str) -> anyhow::Result<Deployment> {
    let mut spec = json!({
        "schedulerName": scheduler,
        "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": "1", "memory": "1Gi" } } }],
    });
    spec.as_object_mut().into_iter().for_each(|spec| spec.extend(scene.spec.as_object().cloned().unwrap_or_default()));
    let labels = json!({ "app": scene.name });
    Ok(from_value(json!({
        "metadata": { "name": scene.name },
        "spec": {
            "replicas": scene.replicas,
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": spec },
        },
    }))?)
}

/// The result of a scene.
#[derive(Debug)]
struct Outcome {
    scene: &'static str,
    /// Until all pods were bound.
    seconds: f64,
    nodes: usize,
    /// Nodes without a pod after that.
    in_vain: usize,
}

/// The results of one scheduler.
#[derive(Debug)]
struct Run {
    scheduler: &'static str,
    outcomes: Vec<Outcome>,
    /// The nodes after the replicas were reduced to a fifth.
    nodes_left: usize,
}

fn of<'a>(pods: &'a [Pod], app: &str) -> impl Iterator<Item = &'a Pod> {
    let prefix = format!("{app}-");
    pods.iter().filter(move |pod| pod.name_any().starts_with(&prefix) && pod.metadata.deletion_timestamp.is_none())
}

async fn bound(cluster: &ControlPlane, scene: &Scene) -> anyhow::Result<()> {
    wait_until(&format!("all pods of {} to be bound", scene.name), 2 * PATIENCE, async || {
        let all = pods(cluster).await.map_err(|error| format!("{error:#}"))?;
        let bound = of(&all, scene.name).filter(|pod| node_of(pod).is_some()).count();
        if bound == scene.replicas { Ok(()) } else { Err(format!("{bound} of {}", scene.replicas)) }
    })
    .await
}

/// Waits until Karpenter has given back nodes, and gives back no more. Returns the number of nodes.
async fn consolidated(karpenter: &Karpenter<'_>) -> anyhow::Result<usize> {
    let (mut last, mut since) = (karpenter.nodes().await?, Instant::now());
    let before = last.len();
    wait_until("Karpenter to give back no more nodes", CONSOLIDATION, async || {
        let nodes = karpenter.nodes().await.map_err(|error| format!("{error:#}"))?;
        if nodes != last {
            (last, since) = (nodes, Instant::now());
        }
        let is_done = last.len() < before && since.elapsed() > QUIET;
        if is_done { Ok(last.len()) } else { Err(format!("{} of {before} nodes", last.len())) }
    })
    .await
}

async fn run(cluster: &ControlPlane, scheduler: &'static str) -> anyhow::Result<Run> {
    let karpenter = Karpenter::start(cluster).await?;
    let deployments: Api<Deployment> = Api::namespaced(cluster.client(), "default");
    let mut outcomes = Vec::new();
    let mut before = 0;
    for scene in scenes() {
        let began = Instant::now();
        deployments.create(&PostParams::default(), &deployment(&scene, scheduler)?).await?;
        bound(cluster, &scene).await?;
        let seconds = began.elapsed().as_secs_f64();
        let (nodes, in_vain) = (karpenter.nodes().await?.len(), karpenter.empty_nodes().await?.len());
        outcomes.push(Outcome { scene: scene.name, seconds, nodes: nodes.saturating_sub(before), in_vain });
        before = nodes;
    }
    for Scene { name, replicas, .. } in scenes() {
        let fewer = json!({ "spec": { "replicas": replicas / 5 } });
        deployments.patch(name, &PatchParams::default(), &Patch::Merge(fewer)).await?;
    }
    let nodes_left = consolidated(&karpenter).await?;
    // On a busy machine Karpenter may have evicted more pods by now.
    let none_is_pending = wait_until("all pods to be bound", PATIENCE, async || {
        let all = pods(cluster).await.map_err(|error| format!("{error:#}"))?;
        let pending: Vec<_> = all.iter().filter(|pod| node_of(pod).is_none()).map(|pod| pod.name_any()).collect();
        if pending.is_empty() { Ok(()) } else { Err(format!("{pending:?} are pending")) }
    });
    none_is_pending.await?;
    karpenter.stop().await?;
    Ok(Run { scheduler, outcomes, nodes_left })
}

async fn with_kube_scheduler() -> anyhow::Result<Run> {
    let cluster = ControlPlane::start(Options::default().with_kube_scheduler()).await?;
    run(&cluster, "default-scheduler").await
}

async fn with_flotilla() -> anyhow::Result<Run> {
    let cluster = ControlPlane::start(Options::default()).await?;
    let _fleet = Fleet::new(&cluster).patient().up("flotilla", 2).await?;
    run(&cluster, "flotilla").await
}

fn table(runs: &[Run]) -> String {
    let mut lines = Vec::new();
    for Run { scheduler, outcomes, nodes_left } in runs {
        for Outcome { scene, seconds, nodes, in_vain } in outcomes {
            lines
                .push(format!("{scheduler}: {scene}: bound in {seconds:.1} s on {nodes} new nodes, {in_vain} in vain"));
        }
        lines.push(format!("{scheduler}: a fifth of the replicas: {nodes_left} nodes"));
    }
    lines.join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn karpenter_buys_the_nodes_that_flotilla_needs_and_gives_back_the_others() -> anyhow::Result<()> {
    let (theirs, ours) = tokio::join!(with_kube_scheduler(), with_flotilla());
    let runs = [theirs?, ours?];
    println!("{}", table(&runs));
    let bought = |run: &Run| run.outcomes.iter().map(|outcome| outcome.nodes).sum::<usize>();
    for run in &runs {
        let Run { scheduler, nodes_left, .. } = run;
        assert!(*nodes_left < bought(run), "{scheduler}: {nodes_left} of {} nodes are left", bought(run));
    }
    // Karpenter buys for a batch of pods before the scheduler has bound the previous one, so that a few nodes in vain may be chance.
    let in_vain = |run: &Run| run.outcomes.iter().map(|outcome| outcome.in_vain).sum::<usize>();
    let [theirs, ours] = &runs;
    assert!(in_vain(ours) <= in_vain(theirs) + bought(ours) / 10, "{}", table(&runs));
    Ok(())
}
