//! Coordinators and workers as processes, and queries of their endpoints.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::Duration,
};

use anyhow::{Context as _, bail};
use http::HeaderName;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Config, ResourceExt as _,
    api::{ListParams, Request},
    config::{KubeConfigOptions, Kubeconfig},
};

use flotilla_control_plane::{ControlPlane, free_port, wait_until};
use flotilla_transport::Role;

use crate::certificates;

/// Timeout of bindings and starts, long enough during a concurrent build.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A Flotilla program: from `FLOTILLA_BIN_DIR`, or else built with the tests' settings.
///
/// # Errors
/// The build fails.
pub fn binary(name: &str) -> anyhow::Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let folder = BUILT.get_or_init(|| build().map_err(|error| format!("{error:#}")));
    let folder = folder.as_ref().map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(folder.join(name))
}

/// The optimized program `flotilla` without cluster commands: from `FLOTILLA_BIN_DIR`, or else built by the README's first command.
///
/// # Errors
/// The build fails.
pub fn optimized() -> anyhow::Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let build = || match env::var_os("FLOTILLA_BIN_DIR") {
        Some(folder) => Ok(PathBuf::from(folder).join("flotilla")),
        None => flotilla_test_programs::released().map_err(|error| format!("{error:#}")),
    };
    BUILT.get_or_init(build).clone().map_err(|error| anyhow::anyhow!("{error}"))
}

fn build() -> anyhow::Result<PathBuf> {
    if let Some(folder) = env::var_os("FLOTILLA_BIN_DIR") {
        return Ok(PathBuf::from(folder));
    }
    flotilla_test_programs::programs()
}

/// Flotilla's processes for a control plane.
#[derive(Debug)]
pub struct Fleet<'a> {
    cluster: &'a ControlPlane,
    kubeconfig: PathBuf,
    ports: BTreeMap<String, u16>,
    secure_ports: BTreeMap<String, u16>,
    election: [&'static str; 3],
    launcher: Vec<String>,
    more_args: Vec<String>,
    more_worker_args: Vec<String>,
    transport: Transport,
}

/// Transport between coordinators and workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Certificates of one authority, in a folder per role.
    Files,
    /// Certificates of the coordinator's authority; the test writes the workers' folder.
    OwnAuthority,
    /// Plaintext.
    Plaintext,
}

/// Short Lease times, so that a failover takes seconds. During a burst, an API server that shares two cores with other tests may leave
/// a renewal unanswered for 3 s.
const ELECTION: [&str; 3] =
    ["--leader-elect-lease-duration=10s", "--leader-elect-renew-deadline=9s", "--leader-elect-retry-period=500ms"];

/// Lease times that outlast an API server's restart on a busy machine.
const PATIENT_ELECTION: [&str; 3] =
    ["--leader-elect-lease-duration=90s", "--leader-elect-renew-deadline=80s", "--leader-elect-retry-period=500ms"];

impl<'a> Fleet<'a> {
    /// A fleet without processes.
    #[must_use]
    pub fn new(cluster: &'a ControlPlane) -> Self {
        let kubeconfig = cluster.kubeconfig().to_owned();
        Self {
            cluster,
            kubeconfig,
            ports: BTreeMap::new(),
            secure_ports: BTreeMap::new(),
            election: ELECTION,
            launcher: Vec::new(),
            more_args: Vec::new(),
            more_worker_args: Vec::new(),
            transport: Transport::Files,
        }
    }

    /// Sets the coordinators' API server user, by default an administrator.
    #[must_use]
    pub fn speaking_as(self, kubeconfig: PathBuf) -> Self {
        Self { kubeconfig, ..self }
    }

    /// Sets the transport, by default files.
    #[must_use]
    pub fn over(self, transport: Transport) -> Self {
        Self { transport, ..self }
    }

    /// Adds another fleet's workers to the coordinators' configuration.
    #[must_use]
    pub fn beside(mut self, other: &Self) -> Self {
        self.ports.extend(other.ports.iter().map(|(worker, port)| (worker.clone(), *port)));
        self
    }

    /// Certificate folder of all coordinators, or of all workers.
    #[must_use]
    pub fn certificates(&self, role: Role) -> PathBuf {
        self.cluster.folder().join(format!("{role}-tls"))
    }

    fn transport_args(&self, role: Role) -> anyhow::Result<Vec<String>> {
        if self.transport == Transport::Plaintext {
            return Ok(vec!["--insecure-worker-transport".to_owned()]);
        }
        if self.transport == Transport::OwnAuthority && role == Role::Coordinator {
            return Ok(Vec::new());
        }
        if self.transport == Transport::Files && !self.certificates(role).exists() {
            certificates::issue(&[Role::Coordinator, Role::Worker].map(|role| (role, self.certificates(role))))?;
        }
        Ok(vec![format!("--worker-tls-dir={}", self.certificates(role).display())])
    }

    /// Keeps the leader during outages of the API server.
    #[must_use]
    pub fn patient(self) -> Self {
        Self { election: PATIENT_ELECTION, ..self }
    }

    /// Sets other Lease times, as flags.
    #[must_use]
    pub fn electing(self, election: [&'static str; 3]) -> Self {
        Self { election, ..self }
    }

    /// Starts every process through a launcher, which receives the command line as further arguments.
    #[must_use]
    pub fn launched_by(self, launcher: impl IntoIterator<Item = String>) -> Self {
        Self { launcher: launcher.into_iter().collect(), ..self }
    }

    /// Lets coordinators reach a worker at another port, such as a proxy's.
    #[must_use]
    pub fn with_worker_at(mut self, worker: &str, port: u16) -> Self {
        self.ports.insert(worker.to_owned(), port);
        self
    }

    /// Adds arguments of coordinators.
    #[must_use]
    pub fn with_args(mut self, arguments: impl IntoIterator<Item = String>) -> Self {
        self.more_args.extend(arguments);
        self
    }

    /// Adds arguments of workers.
    #[must_use]
    pub fn with_worker_args(mut self, arguments: impl IntoIterator<Item = String>) -> Self {
        self.more_worker_args.extend(arguments);
        self
    }

    /// Starts a coordinator for the pods of `scheduler` and some workers, and waits until they are ready.
    ///
    /// # Errors
    /// A process does not become ready.
    pub async fn start(cluster: &'a ControlPlane, scheduler: &str, workers: usize) -> anyhow::Result<Self> {
        Self::new(cluster).up(scheduler, workers).await
    }

    /// Like [`Fleet::start`], with the current settings.
    ///
    /// # Errors
    /// A process does not become ready.
    pub async fn up(self, scheduler: &str, workers: usize) -> anyhow::Result<Self> {
        let mut fleet = self;
        for index in 0..workers {
            fleet.reserve(&format!("worker-{index}"))?;
        }
        for index in 0..workers {
            fleet.start_worker(&format!("worker-{index}"))?;
        }
        let config = fleet.config(&profile(scheduler))?;
        fleet.start_coordinator("coordinator", Some(&config))?;
        fleet.wait_for_workers("coordinator", workers).await?;
        Ok(fleet)
    }

    /// Reserves a worker's port without starting it, so that a coordinator can be configured before.
    ///
    /// # Errors
    /// No port is free.
    pub fn reserve(&mut self, worker: &str) -> anyhow::Result<()> {
        self.ports.insert(worker.to_owned(), free_port()?);
        Ok(())
    }

    /// Address of a worker, started or not.
    ///
    /// # Errors
    /// It has no port.
    pub fn worker_address(&self, name: &str) -> anyhow::Result<String> {
        let port = self.ports.get(name).with_context(|| format!("{name} has no port; reserve one"))?;
        Ok(format!("127.0.0.1:{port}"))
    }

    /// Starts a worker at its reserved port.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start_worker(&self, name: &str) -> anyhow::Result<()> {
        let port = self.ports.get(name).with_context(|| format!("{name} has no port; reserve one"))?;
        let mut command = self.command("flotilla-worker")?;
        command.args(["--listen", &format!("127.0.0.1:{port}"), "-v=2"]).args(self.transport_args(Role::Worker)?);
        command.args(&self.more_worker_args);
        self.cluster.processes().spawn(name, command)?;
        Ok(())
    }

    /// Writes a configuration file for a coordinator.
    ///
    /// # Errors
    /// The file is not writable.
    pub fn config(&self, text: &str) -> anyhow::Result<PathBuf> {
        let path = self.cluster.folder().join(format!("config-{}.yaml", free_port()?));
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// Starts a coordinator with all reserved workers.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start_coordinator(&mut self, name: &str, config: Option<&Path>) -> anyhow::Result<()> {
        let port = free_port()?;
        let command = self.coordinator(config, port)?;
        self.cluster.processes().spawn(name, command)?;
        self.secure_ports.insert(name.to_owned(), port);
        Ok(())
    }

    /// Command line of a coordinator, for tests of its exit.
    ///
    /// # Errors
    /// The build fails.
    pub fn coordinator(&self, config: Option<&Path>, secure_port: u16) -> anyhow::Result<Command> {
        let workers: Vec<String> = self.ports.values().map(|port| format!("127.0.0.1:{port}")).collect();
        let mut command = self.command("flotilla-coordinator")?;
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        if let Some(config) = config {
            command.arg("--config").arg(config);
        }
        if !workers.is_empty() {
            command.arg(format!("--workers={}", workers.join(",")));
        }
        command.args(["--bind-address=127.0.0.1", &format!("--secure-port={secure_port}")]);
        command.arg("-v=4").args(self.transport_args(Role::Coordinator)?).args(self.election).args(&self.more_args);
        Ok(command)
    }

    fn command(&self, program: &str) -> anyhow::Result<Command> {
        let program = binary(program)?;
        let Some((launcher, words)) = self.launcher.split_first() else { return Ok(Command::new(program)) };
        let mut command = Command::new(launcher);
        command.args(words).arg(program);
        Ok(command)
    }

    /// URL of a coordinator's endpoints.
    ///
    /// # Errors
    /// It was not started.
    pub fn url(&self, coordinator: &str) -> anyhow::Result<String> {
        let port = self.secure_ports.get(coordinator).with_context(|| format!("{coordinator} was not started"))?;
        Ok(format!("https://127.0.0.1:{port}"))
    }

    /// Code and body of a GET from a coordinator with only these headers, without a client certificate.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn get_with(
        &self,
        coordinator: &str,
        path: &str,
        headers: &[(&'static str, String)],
    ) -> anyhow::Result<(u16, String)> {
        let mut config = Config::new(self.url(coordinator)?.parse()?);
        config.accept_invalid_certs = true;
        config.proxy_url = None;
        for (name, value) in headers {
            config.headers.push((HeaderName::from_static(name), value.parse()?));
        }
        let request = Request::new("").get(path.trim_start_matches('/'), &kube::api::GetParams::default())?;
        match Client::try_from(config)?.request_text(request).await {
            Ok(body) => Ok((200, body)),
            Err(kube::Error::Api(status)) => Ok((status.code, status.message)),
            Err(error) => Err(error.into()),
        }
    }

    /// Body of an administrator's GET from a coordinator, such as of `/metrics`.
    ///
    /// # Errors
    /// The status is not a success.
    pub async fn get(&self, coordinator: &str, path: &str) -> anyhow::Result<String> {
        let kubeconfig = Kubeconfig::read_from(self.cluster.kubeconfig())?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.cluster_url = self.url(coordinator)?.parse()?;
        config.accept_invalid_certs = true;
        config.root_cert = None;
        config.proxy_url = None;
        let client = Client::try_from(config)?;
        let request = Request::new("").get(path.trim_start_matches('/'), &kube::api::GetParams::default())?;
        Ok(client.request_text(request).await?)
    }

    /// Sum of a metric's samples over all labels; `None` without samples.
    ///
    /// # Errors
    /// The metrics are not available.
    pub async fn metric(&self, coordinator: &str, name: &str) -> anyhow::Result<Option<f64>> {
        let text = self.get(coordinator, "/metrics").await?;
        let sample = |line: &str| -> Option<f64> {
            let (series, value) = line.rsplit_once(' ')?;
            (series.split('{').next()? == name).then(|| value.parse().ok())?
        };
        let samples: Vec<f64> = text.lines().filter_map(sample).collect();
        Ok((!samples.is_empty()).then(|| samples.iter().sum()))
    }

    /// Waits until a coordinator leads and this many workers have acknowledged its configuration.
    ///
    /// # Errors
    /// Timeout; contains the tail of the coordinator's log.
    pub async fn wait_for_workers(&self, coordinator: &str, workers: usize) -> anyhow::Result<()> {
        let what = format!("{workers} workers to be ready for {coordinator}");
        let processes = self.cluster.processes();
        let ended = wait_until(&what, PATIENCE, async || {
            match processes.exit_status(coordinator) {
                Ok(None) => {}
                Ok(Some(status)) => return Ok(Some(status)),
                Err(error) => return Err(format!("{error:#}")),
            }
            match self.metric(coordinator, "flotilla_workers_ready").await {
                Ok(Some(ready)) if ready == workers as f64 => Ok(None),
                other => Err(format!("flotilla_workers_ready is {other:?}")),
            }
        })
        .await
        .with_context(|| processes.log_tail(coordinator, 40))?;
        if let Some(status) = ended {
            bail!("{coordinator} ended with {status} instead of leading\n{}", processes.log_tail(coordinator, 40));
        }
        Ok(())
    }
}

/// Configuration of one profile with the default plugins.
#[must_use]
pub fn profile(scheduler: &str) -> String {
    format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: {scheduler}\n"
    )
}

/// Pods of the namespace `default`.
///
/// # Errors
/// The API server does not answer.
pub async fn pods(cluster: &ControlPlane) -> anyhow::Result<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(cluster.client(), "default");
    Ok(api.list(&ListParams::default()).await.context("cannot list the pods")?.items)
}

/// Waits until `count` pods of the namespace `default` with this prefix run.
///
/// # Errors
/// Timeout; lists the other pods.
pub async fn wait_until_running(cluster: &ControlPlane, prefix: &str, count: usize) -> anyhow::Result<Vec<Pod>> {
    wait_until(&format!("{count} pods {prefix}* to run"), PATIENCE * 2, async || {
        let pods = pods(cluster).await.map_err(|error| format!("{error:#}"))?;
        let (running, others): (Vec<Pod>, Vec<Pod>) =
            pods.into_iter().filter(|pod| pod.name_any().starts_with(prefix)).partition(|pod| phase(pod) == "Running");
        if running.len() == count {
            return Ok(running);
        }
        let names: Vec<String> =
            others.iter().take(5).map(|pod| format!("{} is {}", pod.name_any(), phase(pod))).collect();
        Err(format!("{} run; {}", running.len(), names.join(", ")))
    })
    .await
    .with_context(|| {
        cluster.processes().names().iter().map(|name| cluster.processes().log_tail(name, 15) + "\n").collect::<String>()
    })
}

/// Phase of a pod.
#[must_use]
pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

/// Node of a bound pod.
#[must_use]
pub fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// Reason and message of an unscheduled pod's condition `PodScheduled`.
#[must_use]
pub fn not_scheduled(pod: &Pod) -> Option<(String, String)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let condition =
        conditions.iter().find(|condition| condition.type_ == "PodScheduled" && condition.status == "False")?;
    Some((condition.reason.clone().unwrap_or_default(), condition.message.clone().unwrap_or_default()))
}

/// Waits until a pod's condition `PodScheduled` is `False`, and returns its reason and message.
///
/// # Errors
/// Timeout.
pub async fn wait_until_refused(cluster: &ControlPlane, name: &str) -> anyhow::Result<(String, String)> {
    let api: Api<Pod> = Api::namespaced(cluster.client(), "default");
    wait_until(&format!("{name} to be refused"), PATIENCE, async || {
        let pod = api.get(name).await.map_err(|error| error.to_string())?;
        not_scheduled(&pod).ok_or_else(|| format!("it is {} on {:?}", phase(&pod), node_of(&pod)))
    })
    .await
}

/// Waits for an event of a pod and returns its note.
///
/// # Errors
/// Timeout; lists the other events.
pub async fn wait_for_event(cluster: &ControlPlane, pod: &str, reason: &str) -> anyhow::Result<String> {
    wait_until(&format!("an event {reason} about {pod}"), PATIENCE, async || {
        let events = cluster.events_for("default", pod).await.map_err(|error| format!("{error:#}"))?;
        let found = events.iter().find(|event| event.reason.as_deref() == Some(reason));
        found.and_then(|event| event.note.clone()).ok_or_else(|| {
            let reasons: Vec<_> = events.iter().filter_map(|event| event.reason.clone()).collect();
            format!("there are {reasons:?}")
        })
    })
    .await
}
