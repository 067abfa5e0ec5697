//! Manifests of kube-scheduler run with Flotilla's image: the program of the image answers to their command, flags, files and probes.
//!
//! The manifests in `drop-in/` have the shape of the published ones, with another `image:`. Each container runs in the files of the image. All
//! use the port of kube-scheduler, so that the tests run one after another.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use flotilla_control_plane::{ControlPlane, Lines, NodeBuilder, Options, build, pod, wait_until};
use flotilla_integration_tests::{
    container::{Container, Manifest, Probe, with_certificates_inside},
    extender::{Extender, Respond},
    fleet::{Fleet, PATIENCE, Transport, binary, node_of, wait_for_event, wait_until_running},
};
use futures::FutureExt as _;
use k8s_openapi::{
    api::{coordination::v1::Lease, core::v1::Pod},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{
    Api, Client, Config, ResourceExt as _,
    api::{GetParams, Request},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Path of the kubeconfig in kubeadm's static pod.
const SCHEDULER_CONF: &str = "/etc/kubernetes/scheduler.conf";

/// All manifests use kube-scheduler's port.
const PORT: u16 = 10259;

const STOP: Duration = Duration::from_secs(20);

fn text(name: &str) -> anyhow::Result<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("drop-in").join(name);
    std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
}

async fn cluster() -> anyhow::Result<ControlPlane> {
    let cluster = ControlPlane::start(Options::default()).await?;
    cluster.add_nodes((0..2).map(|index| NodeBuilder::new(format!("node-{index}")))).await?;
    Ok(cluster)
}

/// Starts a container, and waits until all its probes succeed.
async fn start(cluster: &ControlPlane, name: &str, container: &Container) -> anyhow::Result<()> {
    let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT));
    wait_until(&format!("port {PORT}, which another process of this machine uses"), PATIENCE, async || {
        TcpListener::bind(address).await.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    container.start(cluster, name)?;
    let processes = cluster.processes();
    for (kind, probe) in &container.probes {
        let what = format!("the {kind} of {name}");
        let ended = wait_until(&what, PATIENCE, async || {
            if let Some(status) = processes.exit_status(name).map_err(|error| format!("{error:#}"))? {
                return Ok(Some(status));
            }
            match probe.get().await {
                Ok((200, _)) => Ok(None),
                other => Err(format!("{other:?}")),
            }
        });
        let ended = ended.await.with_context(|| processes.log_tail(name, 40))?;
        ensure!(ended.is_none(), "{name} ended with {ended:?}\n{}", processes.log_tail(name, 40));
    }
    Ok(())
}

async fn stop(cluster: &ControlPlane, name: &str) -> anyhow::Result<()> {
    ensure!(cluster.processes().stop(name, STOP).await?, "{name} did not end on SIGTERM");
    Ok(())
}

/// Creates a pod, and waits until a scheduler of that name has bound it.
async fn is_bound(cluster: &ControlPlane, name: &str, scheduler: &str) -> anyhow::Result<Pod> {
    cluster.create_pods([pod(name, scheduler, &[("cpu", "100m")])]).await?;
    let mut bound = wait_until_running(cluster, name, 1).await?;
    let note = wait_for_event(cluster, name, "Scheduled").await?;
    ensure!(note.starts_with(&format!("Successfully assigned default/{name} to node-")), "{note}");
    bound.pop().context("one pod")
}

fn warnings(cluster: &ControlPlane, process: &str) -> anyhow::Result<Vec<String>> {
    let log = cluster.log(process)?;
    Ok(log.lines().filter(|line| line.contains(" WARN ") || line.contains("ERROR ")).map(str::to_owned).collect())
}

/// The manifest `name` as deployed: its objects are in the cluster, and the kubeconfig of kubeadm is on the host.
fn deploy(cluster: &ControlPlane, text: &str, container: &str) -> anyhow::Result<Container> {
    let manifest = Manifest::read(text)?;
    manifest.apply(cluster)?;
    let conf = with_certificates_inside(&cluster.kubeconfig_for("system:kube-scheduler", None)?)?;
    manifest.container(container, &BTreeMap::from([(SCHEDULER_CONF, conf)]))
}

/// An administrator's GET from the program.
async fn get(cluster: &ControlPlane, path: &str) -> anyhow::Result<String> {
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig())?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.cluster_url = format!("https://127.0.0.1:{PORT}").parse()?;
    config.accept_invalid_certs = true;
    config.root_cert = None;
    config.proxy_url = None;
    Ok(Client::try_from(config)?.request_text(Request::new("").get(path, &GetParams::default())?).await?)
}

async fn holder(cluster: &ControlPlane, namespace: &str, name: &str) -> anyhow::Result<String> {
    let leases: Api<Lease> = Api::namespaced(cluster.client(), namespace);
    let lease = leases.get(name).await?;
    Ok(lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn kubeadms_static_pod_runs_with_the_image_and_scales_out_when_workers_are_named() -> anyhow::Result<()> {
    let cluster = cluster().await?;
    let container = deploy(&cluster, &text("kubeadm.yaml")?, "kube-scheduler")?;
    let paths: Vec<(&str, &str)> = container.probes.iter().map(|(kind, probe)| (*kind, &*probe.path)).collect();
    assert_eq!(paths, [("livenessProbe", "/livez"), ("readinessProbe", "/readyz"), ("startupProbe", "/livez")]);
    start(&cluster, "kube-scheduler", &container).await?;
    is_bound(&cluster, "alone", "default-scheduler").await?;

    assert!(!holder(&cluster, "kube-system", "kube-scheduler").await?.is_empty());
    let metrics = get(&cluster, "metrics").await?;
    for line in [
        "scheduler_schedule_attempts_total{",
        "leader_election_master_status{name=\"kube-scheduler\"} 1",
        "flotilla_workers_expected 0",
    ] {
        assert!(metrics.contains(line), "{line} is not in the metrics");
    }
    let origin = format!("https://127.0.0.1:{PORT}");
    let strangers = Probe { origin, path: "/metrics".to_owned() }.get().await?;
    assert_eq!(strangers.0, 401, "{strangers:?}");
    assert_eq!(warnings(&cluster, "kube-scheduler")?, Vec::<String>::new());
    let status: Value = serde_json::from_str(&get(&cluster, "status").await?)?;
    assert_eq!((&status["evaluatesAlone"], &status["workers"]), (&json!(true), &json!([])));
    let url = format!("--coordinator=https://127.0.0.1:{PORT}");
    let kubeconfig = format!("--kubeconfig={}", cluster.kubeconfig().display());
    let flags = ["status", &url, "--coordinator-insecure-skip-tls-verify", &kubeconfig];
    let (healthy, said) = printed(&binary("flotilla")?, &flags.map(str::to_owned))?;
    assert!(healthy && !said.contains("no workers are known"), "{said}");
    stop(&cluster, "kube-scheduler").await?;
    assert_eq!(holder(&cluster, "kube-system", "kube-scheduler").await?, "", "the lease was released");

    let mut workers = Fleet::new(&cluster).over(Transport::Plaintext);
    workers.reserve("worker")?;
    workers.start_worker("worker")?;
    let mut scaled = container.clone();
    let flags = [format!("--workers={}", workers.worker_address("worker")?), "--insecure-worker-transport".to_owned()];
    scaled.command.extend(flags);
    start(&cluster, "kube-scheduler-scaled", &scaled).await?;
    is_bound(&cluster, "distributed", "default-scheduler").await?;
    wait_until("the worker to be ready", PATIENCE, async || {
        let metrics = get(&cluster, "metrics").await.map_err(|error| format!("{error:#}"))?;
        metrics.contains("\nflotilla_workers_ready 1\n").then_some(()).ok_or_else(|| "it is not".to_owned())
    })
    .await?;
    stop(&cluster, "kube-scheduler-scaled").await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_scheduler_of_the_documentation_runs_with_the_image_also_after_a_migration() -> anyhow::Result<()> {
    let cluster = cluster().await?;
    let text = text("second-scheduler.yaml")?;
    let container = deploy(&cluster, &text, "kube-second-scheduler")?;
    start(&cluster, "current", &container).await?;
    is_bound(&cluster, "current", "my-scheduler").await?;
    assert_eq!(warnings(&cluster, "current")?, Vec::<String>::new());
    stop(&cluster, "current").await?;

    let config = PathBuf::from("/etc/kubernetes/my-scheduler/my-scheduler-config.yaml");
    for version in ["v1beta2", "v1beta3"] {
        let mut old = container.clone();
        let v1 = old.files.get_mut(&config).context("the file of --config")?;
        let expected = v1.clone();
        *v1 = v1.replace("config.k8s.io/v1\n", &format!("config.k8s.io/{version}\n"));
        old.start(&cluster, version)?;
        let ended = wait_until("the old file to be refused", PATIENCE, async || {
            let status = cluster.processes().exit_status(version).map_err(|error| format!("{error:#}"))?;
            status.ok_or_else(|| "it runs".to_owned())
        });
        assert!(!ended.await?.success());
        let log = cluster.log(version)?;
        assert!(
            log.starts_with("kube-scheduler: /etc/kubernetes/my-scheduler/my-scheduler-config.yaml:1:13: "),
            "{log}"
        );
        let (_, migrated) = log.split_once("start again:\n\n").with_context(|| log.clone())?;
        assert_eq!(migrated.trim_end(), expected.trim_end());
        old.files.insert(config.clone(), migrated.to_owned());
        start(&cluster, &format!("{version}-migrated"), &old).await?;
        is_bound(&cluster, version, "my-scheduler").await?;
        stop(&cluster, &format!("{version}-migrated")).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scheduler_of_the_scheduler_plugins_chart_runs_with_the_image_and_the_plugin_coscheduling()
-> anyhow::Result<()> {
    let cluster = cluster().await?;
    let container = deploy(&cluster, &text("scheduler-plugins.yaml")?, "scheduler-plugins-scheduler")?;
    start(&cluster, "scheduler-plugins", &container).await?;
    is_bound(&cluster, "pod", "scheduler-plugins-scheduler").await?;
    // The chart's role is older than DeviceTaintRules.
    let warnings = warnings(&cluster, "scheduler-plugins")?;
    let [warning] = warnings.as_slice() else { bail!("one warning is expected: {warnings:#?}") };
    let lacks = "DeviceTaintRules have no effect until list and watch on devicetaintrules are granted";
    assert!(warning.contains(lacks), "{warning}");
    stop(&cluster, "scheduler-plugins").await
}

/// HAMi's extender: selects a node for a pod with devices, and binds the pod.
fn hami(client: Client) -> Respond {
    Arc::new(move |verb, question| {
        let client = client.clone();
        async move {
            if verb == "filter" {
                let nodes = question["NodeNames"].as_array().cloned().unwrap_or_default();
                let left: Vec<&Value> = nodes.iter().filter(|node| **node == "node-1").collect();
                return json!({ "NodeNames": left, "FailedNodes": { "node-0": "no card with enough memory" } });
            }
            let (name, namespace) = (question["PodName"].as_str(), question["PodNamespace"].as_str());
            let (name, namespace) = (name.unwrap_or_default(), namespace.unwrap_or_default());
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding",
                "metadata": { "name": name, "namespace": namespace, "uid": question["PodUID"],
                              "annotations": { "hami.io/bind-phase": "allocating" } },
                "target": { "kind": "Node", "name": question["Node"] },
            });
            let request = Request::new(format!("/api/v1/namespaces/{namespace}/pods"));
            let request = request.create_subresource("binding", name, &Default::default(), binding.to_string().into());
            let bound = async { client.request_text(request?).await.map_err(anyhow::Error::from) };
            match bound.await {
                Ok(_) => json!({ "Error": "" }),
                Err(error) => json!({ "Error": format!("{error:#}") }),
            }
        }
        .boxed()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn hamis_scheduler_runs_with_the_image_and_its_extender_filters_and_binds() -> anyhow::Result<()> {
    let cluster = cluster().await?;
    let (certificate, key) = cluster.serving_certificate();
    let extender = Extender::start_secured(hami(cluster.client()), &certificate, &key).await?;
    let text = text("hami.yaml")?.replace("9443", &extender.address().port().to_string());
    let container = deploy(&cluster, &text, "kube-scheduler")?;
    start(&cluster, "hami", &container).await?;

    let mut card = pod("card", "hami-scheduler", &[]);
    let container = card.spec.as_mut().and_then(|spec| spec.containers.first_mut()).context("a container")?;
    let limits = [("nvidia.com/gpu", "1"), ("nvidia.com/gpumem", "3000")];
    let limits = limits.map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())));
    container.resources.get_or_insert_default().limits = Some(limits.into());
    cluster.create_pods([card]).await?;
    let bound = wait_until_running(&cluster, "card", 1).await?;
    assert!(!holder(&cluster, "hami-system", "hami-scheduler").await?.is_empty());
    assert_eq!(node_of(&bound[0]), Some("node-1"));
    assert_eq!(bound[0].annotations().get("hami.io/bind-phase").map(String::as_str), Some("allocating"));
    let question = &extender.calls_about("filter", "card").pop().context("a call")?.question;
    assert!(question["NodeNames"].is_array() && question["Nodes"].is_null(), "nodeCacheCapable: {question}");

    is_bound(&cluster, "plain", "hami-scheduler").await?;
    assert_eq!(extender.calls_about("filter", "plain").len(), 0, "it has no managed resource");
    stop(&cluster, "hami").await
}

fn printed(program: &Path, arguments: &[String]) -> anyhow::Result<(bool, String)> {
    let output = Command::new(program).args(arguments).output()?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    Ok((output.status.success(), text))
}

/// The flags in a help text of Go, each with the name of its type; `None` for a boolean.
fn flags(help: &str) -> BTreeMap<String, Option<String>> {
    let flag = |line: &str| -> Option<(String, Option<String>)> {
        let line = line.trim_start();
        let (_, rest) = line.strip_prefix('-').and_then(|_| line.split_once("--"))?;
        let name: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        let kind: String = rest[name.len()..].strip_prefix(' ')?.chars().take_while(|c| !c.is_whitespace()).collect();
        Some((name, (!kind.is_empty()).then_some(kind)))
    };
    help.lines().filter_map(flag).collect()
}

/// Valid values for a flag of this name and type.
fn values(name: &str, kind: Option<&str>) -> &'static [&'static str] {
    match (name, kind) {
        (_, None) => &["true", "false"],
        ("config", _) => &["CONFIG"],
        ("master", _) => &["https://127.0.0.1:6443"],
        ("write-config-to", _) => &["/dev/null"],
        ("tls-cipher-suites", _) => &["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"],
        ("tls-min-version", _) => &["VersionTLS12"],
        ("tls-curve-preferences", _) => &["29"],
        ("logging-format", _) => &["json"],
        ("leader-elect-resource-lock", _) => &["leases"],
        ("leader-elect-renew-deadline", _) => &["9s"],
        ("leader-elect-retry-period", _) => &["3s"],
        ("emulated-version" | "min-compatibility-version", _) => &["1.35"],
        ("feature-gates", _) => &["kube:CBORServingAndStorage=true"],
        (_, Some("ip")) => &["127.0.0.1"],
        (_, Some("duration")) => &["20s"],
        (_, Some("int" | "int32" | "float32" | "Level" | "quantity")) => &["7"],
        _ => &["value"],
    }
}

#[tokio::test]
async fn every_flag_of_kube_scheduler_is_accepted_and_one_without_effect_says_so_once() -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let kube_scheduler = build(&root.join("target"), &Lines).await?.kube_scheduler();
    let reference = std::fs::read_to_string(root.join("docs/reference/command-line.md"))?;
    let folder = tempfile::tempdir()?;
    let ours = folder.path().join("kube-scheduler");
    std::os::unix::fs::symlink(binary("flotilla-coordinator")?, &ours)?;
    let config = folder.path().join("config.yaml").display().to_string();
    std::fs::write(&config, "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")?;
    let flags = flags(&printed(&kube_scheduler, &["--help".to_owned()])?.1);
    assert!(flags.len() > 60, "the flags were not found: {flags:?}");
    for (name, kind) in flags.iter().filter(|(name, _)| !["help", "version"].contains(&name.as_str())) {
        let row =
            reference.lines().find(|line| ["=", "[", "`"].iter().any(|end| line.contains(&format!("`--{name}{end}"))));
        let row = row.with_context(|| format!("--{name} is not in docs/reference/command-line.md"))?;
        let mut without_effect = 0;
        for value in values(name, kind.as_deref()) {
            let pair = match name.as_str() {
                "tls-cert-file" => "--tls-private-key-file=value",
                "tls-private-key-file" => "--tls-cert-file=value",
                _ => "--v=0",
            };
            let given = format!("--{name}={}", value.replace("CONFIG", &config));
            let (accepted, said) =
                printed(&ours, &[given.clone(), pair.to_owned(), "--write-config-to=/dev/null".to_owned()])?;
            assert!(accepted, "{given}: {said}");
            without_effect += said.matches(&format!("warning: --{name} has no effect: ")).count();
        }
        assert_eq!(without_effect, usize::from(row.contains("| No effect: ")), "--{name}");
    }
    Ok(())
}
