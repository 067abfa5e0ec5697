//! Flotilla with the API server and the controllers of another Kubernetes version: the oldest supported one, or `FLOTILLA_KUBERNETES`.
//!
//! docs/reference/versions.md lists the differences between the versions, with the test of each.

use std::{collections::BTreeMap, env, path::Path, process::Command, time::Duration};

use anyhow::ensure;
use flotilla_control_plane::{ControlPlane, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::{
    e2e,
    fleet::{Fleet, PATIENCE, binary, node_of, pods, wait_for_event, wait_until_refused, wait_until_running},
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
    scheduling::v1::PriorityClass,
    storage::v1::StorageClass,
};
use kube::{Api, ResourceExt as _, api::PostParams};
use serde_json::{Value, from_value, json};

mod clusters;
mod devices;

/// The minor version of the API server.
fn minor() -> String {
    env::var("FLOTILLA_KUBERNETES").unwrap_or_else(|_| flotilla_test_programs::SUPPORTED[0].to_owned())
}

/// The number after the dot of the minor version.
fn number() -> anyhow::Result<u32> {
    Ok(minor().trim_start_matches("1.").parse()?)
}

fn options() -> anyhow::Result<Options> {
    Ok(Options { version: Some(Box::new(flotilla_test_programs::version(&minor())?)), ..Options::default() })
}

/// A cluster of four nodes in two zones.
async fn cluster(options: Options) -> anyhow::Result<ControlPlane> {
    let cluster = ControlPlane::start(options).await?;
    let node = |index: usize| {
        let builder = NodeBuilder::new(format!("node-{index}")).capacity("cpu", "4");
        builder.label("topology.kubernetes.io/zone", ["a", "b"][index % 2])
    };
    cluster.add_nodes((0..4).map(node)).await?;
    Ok(cluster)
}

fn preflight(cluster: &ControlPlane) -> anyhow::Result<(bool, String)> {
    let mut command = Command::new(binary("flotilla")?);
    command.args(["preflight", "--kubeconfig"]).arg(cluster.kubeconfig());
    command.env_remove("HTTPS_PROXY").env_remove("KUBERNETES_SERVICE_HOST");
    let output = command.output()?;
    Ok((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

#[tokio::test(flavor = "multi_thread")]
async fn preflight_passes_on_a_default_cluster_and_names_what_is_not_available() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options { kwok: false, ..options()? }).await?;
    for name in ["namespace.yaml", "rbac.yaml"] {
        let mut command = Command::new(cluster.kubectl());
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/base").join(name);
        command.args(["apply", "-f"]).arg(manifest).arg("--kubeconfig").arg(cluster.kubeconfig());
        let output = command.output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    // The authorizer receives new roles by a watch.
    let text = wait_until("preflight to pass", PATIENCE, async || match preflight(&cluster) {
        Ok((true, text)) => Ok(text),
        Ok((false, text)) => Err(text),
        Err(error) => Err(format!("{error:#}")),
    })
    .await?;
    let number = number()?;
    let expected = if number == 37 { "the release that Flotilla answers as" } else { "is supported" };
    let version = cluster.binaries().kubernetes_version().to_owned();
    assert!(text.lines().any(|line| line.contains(&version) && line.contains(expected)), "{text}");
    assert!(text.contains(" has all ") && !text.contains('✗'), "{text}");
    // DRA is on by default since 1.34, DeviceTaintRules since 1.37, and PodGroups are never.
    let claims = "resourceclaims, resourceslices: pods with ResourceClaims are not scheduled";
    assert_eq!(text.contains(claims), number < 34, "{text}");
    assert_eq!(text.contains("devicetaintrules: "), number < 37, "{text}");
    assert!(text.contains("podgroups: only the feature gate GenericWorkload needs it"), "{text}");
    Ok(())
}

/// A Deployment that spreads the pods of each rollout over zones.
fn deployment(image: &str) -> anyhow::Result<Deployment> {
    let labels = json!({ "app": "web" });
    let constraint = json!({
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": labels }, "matchLabelKeys": ["pod-template-hash"],
    });
    let container = json!({ "name": "main", "image": image, "resources": { "requests": { "cpu": "100m" } } });
    let spec = json!({
        "schedulerName": "flotilla", "containers": [container], "topologySpreadConstraints": [constraint],
    });
    Ok(from_value(json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": 4, "selector": { "matchLabels": labels },
            "strategy": { "rollingUpdate": { "maxSurge": 4, "maxUnavailable": 0 } },
            "template": { "metadata": { "labels": labels }, "spec": spec },
        },
    }))?)
}

/// The number of pods with an image in each zone.
async fn zones(cluster: &ControlPlane, image: &str) -> anyhow::Result<BTreeMap<&'static str, usize>> {
    let mut zones = BTreeMap::new();
    for pod in pods(cluster).await? {
        let is_of_rollout = pod.spec.as_ref().is_some_and(|spec| spec.containers[0].image.as_deref() == Some(image));
        if let Some(node) = node_of(&pod).filter(|_| is_of_rollout && pod.metadata.deletion_timestamp.is_none()) {
            *zones.entry(["a", "b"][usize::from(node.ends_with(['1', '3']))]).or_default() += 1;
        }
    }
    Ok(zones)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_rollout_of_a_deployment_is_spread_separately() -> anyhow::Result<()> {
    let cluster = cluster(options()?).await?;
    let _fleet = Fleet::start(&cluster, "flotilla", 1).await?;
    // The pods of another rollout, all in one zone: without `matchLabelKeys` they would draw the new ones to the other zone.
    let label = |mut pod: Pod| {
        pod.metadata.labels = Some(BTreeMap::from([("app".to_owned(), "web".to_owned())]));
        let zone = ("topology.kubernetes.io/zone".to_owned(), "a".to_owned());
        pod.spec.get_or_insert_default().node_selector = Some(BTreeMap::from([zone]));
        pod
    };
    cluster.create_pods((0..3).map(|index| label(pod(&format!("old-{index}"), "flotilla", &[])))).await?;
    wait_until_running(&cluster, "old-", 3).await?;
    let deployments: Api<Deployment> = Api::namespaced(cluster.client(), "default");
    deployments.create(&PostParams::default(), &deployment("first")?).await?;
    let spread = BTreeMap::from([("a", 2), ("b", 2)]);
    wait_until("both zones to have two pods", PATIENCE, async || match zones(&cluster, "first").await {
        Ok(zones) if zones == spread => Ok(()),
        Ok(zones) => Err(format!("{zones:?}")),
        Err(error) => Err(format!("{error:#}")),
    })
    .await?;
    // Since 1.34 the API server merges the keys into the selector, before that the scheduler does.
    let created = pods(&cluster).await?;
    let web = created.iter().find(|pod| pod.name_any().starts_with("web-")).expect("it runs");
    let constraints = web.spec.as_ref().and_then(|spec| spec.topology_spread_constraints.as_ref());
    let selector = constraints.and_then(|list| list[0].label_selector.clone()).unwrap_or_default();
    assert_eq!(selector.match_expressions.is_some(), number()? >= 34, "{selector:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_pod_has_its_message_and_event_and_is_written_once() -> anyhow::Result<()> {
    let cluster = cluster(options()?).await?;
    let fleet = Fleet::start(&cluster, "flotilla", 1).await?;
    cluster.create_pods([pod("huge", "flotilla", &[("cpu", "100")])]).await?;
    let preemption = "preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling.";
    let message = format!("0/4 nodes are available: 4 Insufficient cpu. {preemption}");
    assert_eq!(wait_until_refused(&cluster, "huge").await?, ("Unschedulable".to_owned(), message.clone()));
    assert_eq!(wait_for_event(&cluster, "huge", "FailedScheduling").await?, message);
    // A field that the API server drops, such as `observedGeneration` before 1.33, must not be written again and again.
    let version = async || anyhow::Ok(pods(&cluster).await?.first().and_then(|pod| pod.resource_version()));
    let before = version().await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(version().await?, before);
    let log = cluster.log("coordinator")?;
    let unserved = log.matches("the API server does not serve this resource").count();
    let expected = match number()? {
        ..34 => 4,
        34..37 => 1,
        _ => 0,
    };
    assert_eq!(unserved, expected, "each kind that is not served is reported once:\n{log}");
    assert_eq!(fleet.get("coordinator", "/readyz").await?.trim(), "ok");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_high_priority_preempts_one_of_low_priority() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(options()?).await?;
    cluster.add_nodes([NodeBuilder::new("node-0").capacity("cpu", "1")]).await?;
    let _fleet = Fleet::start(&cluster, "flotilla", 1).await?;
    let classes: Api<PriorityClass> = Api::all(cluster.client());
    for (name, value) in [("low", 10), ("high", 20)] {
        let class = json!({ "metadata": { "name": name }, "value": value });
        classes.create(&PostParams::default(), &from_value(class)?).await?;
    }
    let filling = |name: &str| {
        let mut pod = pod(name, "flotilla", &[("cpu", "800m")]);
        pod.spec.get_or_insert_default().priority_class_name = Some(name.to_owned());
        pod
    };
    cluster.create_pods([filling("low")]).await?;
    wait_until_running(&cluster, "low", 1).await?;
    cluster.create_pods([filling("high")]).await?;
    wait_until_running(&cluster, "high", 1).await?;
    let note = wait_for_event(&cluster, "low", "Preempted").await?;
    assert!(note.starts_with("Preempted by pod "), "{note}");
    let left = pods(&cluster).await?;
    assert_eq!(left.len(), 1);
    // The API server removes the nomination of a bound pod since 1.35. Before that it remains, and Flotilla does not write it again.
    let nominated = left[0].status.as_ref().and_then(|status| status.nominated_node_name.as_deref());
    assert_eq!(nominated.is_none(), number()? >= 35, "{nominated:?}");
    let version = left[0].resource_version();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(pods(&cluster).await?[0].resource_version(), version);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_lands_on_the_node_of_its_volume() -> anyhow::Result<()> {
    let cluster = cluster(options()?).await?;
    let _fleet = Fleet::start(&cluster, "flotilla", 1).await?;
    let client = cluster.client();
    let class = json!({
        "metadata": { "name": "local" }, "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    Api::<StorageClass>::all(client.clone()).create(&PostParams::default(), &from_value(class)?).await?;
    let expression = json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": ["node-2"] });
    let volume = json!({
        "metadata": { "name": "disk" },
        "spec": {
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
            "local": { "path": "/disk" },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [expression] }] } },
        },
    });
    Api::<PersistentVolume>::all(client.clone()).create(&PostParams::default(), &from_value(volume)?).await?;
    let claim = json!({
        "metadata": { "name": "data" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
            "resources": { "requests": { "storage": "1Gi" } },
        },
    });
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client, "default");
    claims.create(&PostParams::default(), &from_value(claim)?).await?;
    let mut with_volume = pod("db", "flotilla", &[("cpu", "100m")]);
    let volumes = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }]);
    with_volume.spec.get_or_insert_default().volumes = Some(from_value(volumes)?);
    cluster.create_pods([with_volume]).await?;
    let landed = wait_until_running(&cluster, "db", 1).await?;
    assert_eq!(node_of(&landed[0]), Some("node-2"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn another_coordinator_takes_over() -> anyhow::Result<()> {
    let cluster = cluster(options()?).await?;
    let mut fleet = Fleet::start(&cluster, "flotilla", 1).await?;
    cluster.create_pods([pod("before", "flotilla", &[("cpu", "100m")])]).await?;
    wait_until_running(&cluster, "before", 1).await?;
    let config = fleet.config(&flotilla_integration_tests::fleet::profile("flotilla"))?;
    fleet.start_coordinator("second", Some(&config))?;
    wait_until("the second coordinator to be synced", PATIENCE, async || match cluster.log("second") {
        Ok(log) if log.contains("initial lists complete") => Ok(()),
        log => Err(log.unwrap_or_default()),
    })
    .await?;
    cluster.processes().kill("coordinator")?;
    cluster.create_pods([pod("after", "flotilla", &[("cpu", "100m")])]).await?;
    wait_until_running(&cluster, "after", 1).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_merges_the_label_keys_of_pod_affinity_and_the_rollout_is_kept_apart() -> anyhow::Result<()> {
    let cluster = cluster(options()?).await?;
    let _fleet = Fleet::start(&cluster, "flotilla", 1).await?;
    let apart = |name: &str, rollout: &str| -> anyhow::Result<Pod> {
        let mut pod = pod(name, "flotilla", &[("cpu", "100m")]);
        let labels = [("app", "web"), ("rollout", rollout)];
        pod.metadata.labels = Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        let term = json!({
            "topologyKey": "topology.kubernetes.io/zone", "labelSelector": { "matchLabels": { "app": "web" } },
            "matchLabelKeys": ["rollout"],
        });
        let affinity = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } });
        pod.spec.get_or_insert_default().affinity = Some(from_value(affinity)?);
        Ok(pod)
    };
    let created = cluster.create_pods([apart("first", "a")?]).await?;
    let affinity = serde_json::to_value(created[0].spec.as_ref().and_then(|spec| spec.affinity.as_ref()))?;
    let terms = &affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(terms[0]["labelSelector"]["matchExpressions"][0]["key"], "rollout", "{affinity:#}");
    wait_until_running(&cluster, "first", 1).await?;
    // Two zones: two pods of one rollout exclude a third, but no pod of another rollout.
    cluster.create_pods([apart("second", "a")?, apart("other", "b")?]).await?;
    wait_until_running(&cluster, "second", 1).await?;
    wait_until_running(&cluster, "other", 1).await?;
    cluster.create_pods([apart("third", "a")?]).await?;
    let (_, message) = wait_until_refused(&cluster, "third").await?;
    assert!(message.contains("didn't match pod anti-affinity rules"), "{message}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes three minutes; cargo xtask versions runs it"]
async fn the_quick_specs_of_kubernetes_pass() -> anyhow::Result<()> {
    let number = number()?;
    let (program, record) = (e2e::build()?, e2e::Record::read()?);
    crate::e2e::passes(&program, &record, |entry| entry.is_repeated_with(number), Some(minor())).await
}

/// Sends an administrator's request and returns its answer.
async fn send(cluster: &ControlPlane, method: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
    let request = http::Request::builder().method(method).uri(path).header("content-type", "application/json");
    let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body)? };
    Ok(cluster.client().request(request.body(body)?).await?)
}
