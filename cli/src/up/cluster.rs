//! The cluster of `flotilla up`: a control plane, simulated nodes, a coordinator and workers.

use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use flotilla_control_plane::{
    Component, ControlPlane, JAEGER_NAME, Jaeger, NodeBuilder, Options, Progress, free_port, wait_until,
};
use flotilla_transport::{AUTHORITY_LIFE_S, Authority, Role, now_s};
use tokio::net::TcpStream;

use super::{
    devices,
    notes::{Note, Notifier},
    plan::{Config, Plan},
    running::{Running, plural},
};

const COORDINATOR: &str = "coordinator";

/// The start timeout of a Flotilla process, long enough even during a build.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The stop timeout of a process. The coordinator waits 5 s for pending requests.
const STOP_PATIENCE: Duration = Duration::from_secs(6);

/// Lines of a failed process's log in the error.
const TAIL_LINES: usize = 20;

/// The kinds of nodes in turn: CPUs, memory and name.
const KINDS: [(&str, &str, &str); 3] = [("8", "32Gi", "medium"), ("16", "64Gi", "large"), ("4", "16Gi", "small")];
const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];

/// A running cluster. Dropping it kills all processes.
pub(super) struct Cluster {
    control_plane: ControlPlane,
    workers: Vec<String>,
    running: Running,
    /// The flag with Jaeger's endpoint, if it runs.
    tracing: Option<String>,
}

impl Cluster {
    /// Builds missing programs, starts everything and waits until it is ready.
    ///
    /// # Errors
    /// A step failed, with the last log lines of the failed process.
    pub(super) async fn start(plan: &Plan, progress: Arc<dyn Progress>, teller: &dyn Notifier) -> anyhow::Result<Self> {
        let jaeger = if plan.tracing { Some(Jaeger::reserve()?) } else { None };
        let tracing = jaeger.map(|jaeger| jaeger.otlp_address());
        let mut options = Options {
            cache_dir: plan.cache_dir.clone(),
            progress: Arc::clone(&progress),
            tracing,
            ..Options::default()
        };
        if let Some(gates) = gates(plan) {
            options = options.with_arg(Component::ApiServer, &gates).with_arg(Component::ControllerManager, &gates);
            // A gate often needs an API that the API server does not serve by default.
            options = options.with_arg(Component::ApiServer, "--runtime-config=api/all=true");
        }
        let control_plane = ControlPlane::start(options).await?;
        if let Some(jaeger) = jaeger {
            let began = Instant::now();
            teller.tell(Note::began(JAEGER_NAME));
            jaeger.start(control_plane.processes(), &plan.cache_dir, &*progress).await?;
            teller.tell(Note::done(JAEGER_NAME, began.elapsed()));
        }
        let began = Instant::now();
        let nodes = format!("{} node{}", plan.nodes, plural(plan.nodes));
        teller.tell(Note::began(&nodes));
        control_plane.add_nodes((0..plan.nodes).map(node)).await?;
        teller.tell(Note::done(nodes, began.elapsed()));
        if plan.devices {
            publish_devices(plan, &control_plane, teller).await?;
        }

        let port = free_port()?;
        let running = running(plan, &control_plane, &format!("https://127.0.0.1:{port}"), jaeger)?;
        issue_certificates(control_plane.folder())?;
        let tracing = jaeger.map(|jaeger| format!("--tracing-endpoint={}", jaeger.otlp_endpoint()));
        let mut cluster = Self { control_plane, workers: Vec::new(), running, tracing };
        let addresses = cluster.start_workers(plan, teller).await?;
        cluster.start_coordinator(plan, port, &addresses, teller).await?;
        Ok(cluster)
    }

    pub(super) fn running(&self) -> &Running {
        &self.running
    }

    /// The name and the last log lines of an ended process; `None` while all run.
    pub(super) fn loss(&self) -> anyhow::Result<Option<String>> {
        let processes = self.control_plane.processes();
        for name in processes.names() {
            if let Some(status) = processes.exit_status(&name)? {
                return Ok(Some(format!("{name} has ended unexpectedly ({status})\n{}", self.tail(&name))));
            }
        }
        Ok(None)
    }

    /// Stops the processes in order of dependence.
    ///
    /// # Errors
    /// The operating system reports an error. Dropping the cluster kills the rest.
    pub(super) async fn stop(&self, teller: &dyn Notifier) -> anyhow::Result<()> {
        let components = self.control_plane.components().iter().rev().map(|component| component.name());
        let ours = std::iter::once(COORDINATOR).chain(self.workers.iter().map(String::as_str));
        // Jaeger stops last, to receive the last spans of the others.
        let jaeger = self.tracing.iter().map(|_| JAEGER_NAME);
        for name in ours.chain(components).chain(jaeger) {
            teller.tell(Note::began(format!("ending {name}")));
            if !self.control_plane.processes().stop(name, STOP_PATIENCE).await? {
                teller.tell(Note::Line { what: format!("{name} did not end within {STOP_PATIENCE:?} and was killed") });
            }
        }
        Ok(())
    }

    /// Starts the workers, and returns their addresses once they listen.
    async fn start_workers(&mut self, plan: &Plan, teller: &dyn Notifier) -> anyhow::Result<Vec<String>> {
        let began = Instant::now();
        let workers = format!("{} worker{}", plan.workers, plural(plan.workers.into()));
        teller.tell(Note::began(&workers));
        let mut addresses = Vec::new();
        for index in 0..plan.workers {
            let (name, address) = (format!("worker-{index}"), format!("127.0.0.1:{}", free_port()?));
            let mut command = self.program("worker")?;
            command.args(["--worker-tls-dir", &certificates(Role::Worker), "--listen", &address]).args(&self.tracing);
            self.control_plane.processes().spawn(&name, command)?;
            self.workers.push(name);
            addresses.push(address);
        }
        for (name, address) in self.workers.iter().zip(&addresses) {
            self.wait_for(name, async || {
                TcpStream::connect(address).await.map(drop).map_err(|error| format!("{address}: {error}"))
            })
            .await?;
        }
        teller.tell(Note::done(workers, began.elapsed()));
        Ok(addresses)
    }

    /// Starts the coordinator, and waits until it leads and its workers have the configuration.
    async fn start_coordinator(
        &self,
        plan: &Plan,
        port: u16,
        workers: &[String],
        teller: &dyn Notifier,
    ) -> anyhow::Result<()> {
        let began = Instant::now();
        teller.tell(Note::began(COORDINATOR));
        let kubeconfig = self.control_plane.kubeconfig_for("flotilla:coordinator", Some("system:masters"))?;
        let (certificate, key) = self.control_plane.serving_certificate();
        let mut command = self.program(COORDINATOR)?;
        command.arg("--config").arg(self.config(&plan.config)?).arg("--kubeconfig").arg(kubeconfig);
        command.arg("--tls-cert-file").arg(certificate).arg("--tls-private-key-file").arg(key);
        command.args(["--bind-address=127.0.0.1", &format!("--secure-port={port}")]);
        command.args(["--worker-tls-dir", &certificates(Role::Coordinator)]);
        command.arg(format!("--workers={}", workers.join(","))).args(&self.tracing).args(gates(plan));
        self.control_plane.processes().spawn(COORDINATOR, command)?;
        self.wait_for(COORDINATOR, async || {
            let metrics = self.control_plane.get_from(&self.running.coordinator, "metrics").await;
            let metrics = metrics.map_err(|error| format!("{error:#}"))?;
            let ready = metrics.lines().find_map(|line| line.strip_prefix("flotilla_workers_ready "));
            match ready.map(str::parse::<f64>) {
                Some(Ok(ready)) if ready >= f64::from(plan.workers) => Ok(()),
                other => Err(format!("flotilla_workers_ready is {other:?}")),
            }
        })
        .await?;
        teller.tell(Note::done(COORDINATOR, began.elapsed()));
        Ok(())
    }

    /// Waits until a process is ready or has ended.
    async fn wait_for(&self, name: &str, mut ready: impl AsyncFnMut() -> Result<(), String>) -> anyhow::Result<()> {
        let processes = self.control_plane.processes();
        let what = format!("{name} to be ready");
        let ended = wait_until(&what, START_TIMEOUT, async || match processes.exit_status(name) {
            Ok(None) => ready().await.map(|()| None),
            Ok(Some(status)) => Ok(Some(status)),
            Err(error) => Err(format!("{error:#}")),
        });
        match ended.await.with_context(|| self.tail(name))? {
            None => Ok(()),
            Some(status) => bail!("{name} ended with {status} instead of becoming ready\n{}", self.tail(name)),
        }
    }

    /// A command that runs this executable as another program.
    fn program(&self, name: &str) -> anyhow::Result<Command> {
        let this = env::current_exe().context("cannot find the file of this program; has it been replaced?")?;
        let mut command = Command::new(this);
        // The user's proxy and KUBECONFIG must not affect the processes.
        command.arg(name).env_clear().current_dir(self.control_plane.folder());
        command.envs(env::var_os("RUST_LOG").map(|filter| ("RUST_LOG", filter)));
        Ok(command)
    }

    fn config(&self, config: &Config) -> anyhow::Result<PathBuf> {
        match config {
            Config::File(path) => Ok(path.clone()),
            Config::Text(text) => write(&self.control_plane.folder().join("scheduler.json"), text),
        }
    }

    fn tail(&self, name: &str) -> String {
        self.control_plane.processes().log_tail(name, TAIL_LINES)
    }
}

/// The flag for the plan's feature gates.
fn gates(plan: &Plan) -> Option<String> {
    (!plan.feature_gates.is_empty()).then(|| format!("--feature-gates={}", plan.feature_gates))
}

/// Publishes the devices of all nodes, and creates their classes.
async fn publish_devices(plan: &Plan, control_plane: &ControlPlane, teller: &dyn Notifier) -> anyhow::Result<()> {
    let began = Instant::now();
    teller.tell(Note::began("devices"));
    control_plane.create_for_cluster(devices::classes()?).await.context("cannot create the device classes")?;
    let mut slices = Vec::new();
    for index in 0..plan.nodes {
        slices.extend(devices::slices(index, &node_name(index))?);
    }
    control_plane.create_for_cluster(slices).await.context("cannot publish the devices")?;
    teller.tell(Note::done("devices", began.elapsed()));
    Ok(())
}

/// Writes the files that the user needs, and returns the description of the cluster.
fn running(
    plan: &Plan,
    control_plane: &ControlPlane,
    coordinator: &str,
    jaeger: Option<Jaeger>,
) -> anyhow::Result<Running> {
    let folder = control_plane.folder();
    let kubeconfig = folder.join("kubeconfig");
    fs::copy(control_plane.kubeconfig(), &kubeconfig).context("cannot copy the kubeconfig")?;
    let kubectl_folder = folder.join("bin");
    fs::create_dir_all(&kubectl_folder)
        .and_then(|()| symlink(control_plane.kubectl(), kubectl_folder.join("kubectl")))
        .with_context(|| format!("cannot put kubectl into {}", kubectl_folder.display()))?;
    let scheduler = plan.scheduler_names.first().map_or("", String::as_str);
    Ok(Running {
        kubernetes: control_plane.binaries().kubernetes_version().to_owned(),
        nodes: plan.nodes,
        workers: plan.workers,
        scheduler_names: plan.scheduler_names.clone(),
        kubeconfig,
        kubectl_folder,
        hello: write(&folder.join("hello.yaml"), &Running::hello_manifest(scheduler))?,
        coordinator: coordinator.to_owned(),
        authority: control_plane.authority_certificate(),
        administrator: control_plane.administrator_certificate(),
        devices: match plan.devices {
            true => Some(write(&folder.join("devices.yaml"), &devices::manifest(scheduler))?),
            false => None,
        },
        jaeger: jaeger.map(|jaeger| jaeger.url()),
        logs: control_plane.processes().logs().to_owned(),
    })
}

/// The directory, inside that of the cluster, with the certificate of a role.
fn certificates(role: Role) -> String {
    format!("{role}-tls")
}

/// Creates a CA for this cluster and a certificate for each role. The CA's key is not stored: the certificates are valid as long as the CA,
/// which is longer than such a cluster runs.
fn issue_certificates(folder: &Path) -> anyhow::Result<()> {
    let issued = now_s();
    let authority = Authority::make(issued).context("cannot make an authority for the workers")?;
    for role in [Role::Coordinator, Role::Worker] {
        let place = folder.join(certificates(role));
        let pem = authority.issue_for(role, issued, AUTHORITY_LIFE_S).context("cannot make a certificate")?;
        fs::create_dir_all(&place)
            .and_then(|()| pem.write_to(&place))
            .with_context(|| format!("cannot write certificates to {}", place.display()))?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> anyhow::Result<PathBuf> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path.to_owned())
}

fn node_name(index: u32) -> String {
    format!("node-{index}")
}

fn node(index: u32) -> NodeBuilder {
    let name = node_name(index);
    let index = index as usize;
    // Zones change with each node and kinds with each round of zones, so that every zone has nodes of every kind.
    let zone = ZONES[index % ZONES.len()];
    let (cpu, memory, kind) = KINDS[index / ZONES.len() % KINDS.len()];
    NodeBuilder::new(name)
        .capacity("cpu", cpu)
        .capacity("memory", memory)
        .capacity("ephemeral-storage", "100Gi")
        .label("topology.kubernetes.io/region", "region-1")
        .label("topology.kubernetes.io/zone", zone)
        .label("node.kubernetes.io/instance-type", kind)
}
