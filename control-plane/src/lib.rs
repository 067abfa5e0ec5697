//! Starts a real control plane on loopback for tests.
//!
//! Contains: etcd, kube-apiserver and optionally kube-controller-manager, kube-scheduler and kwok, built from their Go modules. Does not
//! depend on: Flotilla; tests start its processes through [`ControlPlane::processes`].
//!
//! Everything listens on 127.0.0.1 and is in a temporary folder. The folder is deleted with the [`ControlPlane`], unless `FLOTILLA_KEEP=1`
//! is set or the process is killed.

mod binaries;
mod components;
mod create;
mod credentials;
mod jaeger;
mod nodes;
mod pods;
mod ports;
mod process;
mod progress;
mod wait;

use std::{
    collections::BTreeMap,
    env, fmt,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicU32},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, GetParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;

pub use binaries::{Binaries, build};
pub use components::Component;
pub use flotilla_go_programs::{about, go_version};
pub use jaeger::{JAEGER_NAME, Jaeger};
pub use nodes::NodeBuilder;
pub use pods::pod;
pub use ports::free_port;
pub use process::ProcessGroup;
pub use progress::{Lines, Progress, Step};
pub use wait::wait_until;

use components::Layout;
use credentials::Credentials;
use flotilla_go_programs::Programs;

/// A component takes a few seconds alone, and longer while other tests and a build run.
const START_TIMEOUT: Duration = Duration::from_secs(180);

/// Longer than any answer of a component on a busy machine, and short against [`START_TIMEOUT`].
const LONGEST_LOOK: Duration = Duration::from_secs(10);

const TAIL_LINES: usize = 20;

/// Components and settings of a control plane. The default is a cluster without a scheduler.
#[derive(Clone, Debug)]
pub struct Options {
    /// Runs kube-controller-manager with its default controllers.
    pub controller_manager: bool,
    /// Runs kwok, which keeps nodes Ready and pods Running.
    pub kwok: bool,
    /// Lets kwok complete the pods of Jobs as soon as they run.
    pub completes_jobs: bool,
    /// Configuration of kube-scheduler; `None` does not run it. Empty means the defaults. The connection is filled in; leader election is
    /// off unless it is configured.
    pub kube_scheduler: Option<Value>,
    /// Level of the API server's audit log; `None` writes none.
    pub audit: Option<AuditLevel>,
    /// OTLP gRPC endpoint (`host:port`) for the API server's spans of sampled requests. Spans of an administrator's requests continue the
    /// client's trace; others are linked to it.
    pub tracing: Option<String>,
    /// kube-apiserver and kube-controller-manager of another Kubernetes version. The default is that of the other programs.
    pub version: Option<Box<Programs>>,
    /// Additional flags by component, such as `--feature-gates=...` or `--runtime-config=...`.
    pub extra_args: BTreeMap<Component, Vec<String>>,
    /// Parent of the folder `control-plane` with the built programs. The default is the target folder of the checkout.
    pub cache_dir: PathBuf,
    /// Parent of the temporary folder, which contains etcd's data. The default is the operating system's.
    pub folder_in: Option<PathBuf>,
    /// Receiver of progress. The default prints builds to the standard error.
    pub progress: Arc<dyn Progress>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            controller_manager: true,
            kwok: true,
            completes_jobs: true,
            kube_scheduler: None,
            audit: None,
            tracing: None,
            version: None,
            extra_args: BTreeMap::new(),
            cache_dir: Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
            folder_in: None,
            progress: Arc::new(Lines),
        }
    }
}

impl Options {
    /// Runs kube-scheduler with its default configuration.
    #[must_use]
    pub fn with_kube_scheduler(mut self) -> Self {
        self.kube_scheduler = Some(json!({}));
        self
    }

    /// Writes an audit log.
    #[must_use]
    pub fn with_audit(mut self, level: AuditLevel) -> Self {
        self.audit = Some(level);
        self
    }

    /// Exports the API server's spans.
    #[must_use]
    pub fn with_tracing(mut self, address: impl Into<String>) -> Self {
        self.tracing = Some(address.into());
        self
    }

    /// Adds a flag to a component's command line.
    #[must_use]
    pub fn with_arg(mut self, component: Component, flag: impl Into<String>) -> Self {
        self.extra_args.entry(component).or_default().push(flag.into());
        self
    }
}

/// Audit level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditLevel {
    /// User, request and response code.
    Metadata,
    /// Also the request's body.
    Request,
    /// Both bodies.
    RequestResponse,
}

impl AuditLevel {
    fn name(self) -> &'static str {
        match self {
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

/// A running control plane. Its end, or that of the test process for any reason, ends all processes, including those started through
/// [`ControlPlane::processes`].
pub struct ControlPlane {
    // Dropped before the folder is deleted.
    processes: ProcessGroup,
    folder: TempDir,
    binaries: Binaries,
    layout: Layout,
    credentials: Credentials,
    kubeconfig: PathBuf,
    config: Config,
    running: Vec<Component>,
    progress: Arc<dyn Progress>,
    nodes_made: AtomicU32,
}

impl ControlPlane {
    /// Builds missing programs, starts the components and waits until they are ready.
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let progress = Arc::clone(&options.progress);
        let mut binaries = build(&options.cache_dir, &*progress).await?;
        if let Some(version) = options.version.clone() {
            binaries = Box::pin(binaries.with_version(version, &*progress)).await?;
        }
        let folder_in = options.folder_in.clone().unwrap_or_else(env::temp_dir);
        let folder = tempfile::Builder::new()
            .prefix("flotilla-")
            .disable_cleanup(keeps_folders())
            .tempdir_in(&folder_in)
            .with_context(|| format!("cannot create a temporary folder in {}; is it writable?", folder_in.display()))?;
        progress.tell(Step::Folder { path: folder.path() });
        let processes = ProcessGroup::new(folder.path().join("logs"))?;
        let credentials = Credentials::create(folder.path().join("pki"))?;
        let layout = Layout::new(folder.path().to_owned(), binaries.clone(), options)?;
        let url = layout.url(Component::ApiServer);
        let kubeconfig = credentials.kubeconfig("flotilla:admin", Some("system:masters"), &url)?;
        let config = config_from(&kubeconfig).await?;
        let mut control_plane = Self {
            processes,
            folder,
            binaries,
            layout,
            credentials,
            kubeconfig,
            config,
            running: Vec::new(),
            progress,
            nodes_made: AtomicU32::new(1),
        };
        control_plane.start_components().await?;
        Ok(control_plane)
    }

    async fn start_components(&mut self) -> anyhow::Result<()> {
        for first in [Component::Etcd, Component::ApiServer] {
            self.running.push(first);
            self.start_component(first).await?;
        }
        let others = self.layout.beside_the_api_server();
        self.running.extend(&others);
        let began = Instant::now();
        for &other in &others {
            self.spawn(other)?;
        }
        for &other in &others {
            self.wait_until_ready(other, began).await?;
        }
        if self.runs(Component::ControllerManager) {
            self.wait_for_the_default_service_account().await?;
        }
        Ok(())
    }

    /// Client of an administrator, bound to the calling runtime.
    pub fn client(&self) -> Client {
        client(&self.config).expect("the same configuration made a client at the start")
    }

    /// Kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Writes a kubeconfig for a user and optionally a group: `system:kube-scheduler`, or `system:serviceaccount:<namespace>:<name>` for
    /// the permissions of a service account.
    pub fn kubeconfig_for(&self, user: &str, group: Option<&str>) -> anyhow::Result<PathBuf> {
        self.credentials.kubeconfig(user, group, &self.layout.url(Component::ApiServer))
    }

    /// Like [`Self::kubeconfig_for`], for another URL, such as a proxy's.
    pub fn kubeconfig_at(&self, url: &str, user: &str, group: Option<&str>) -> anyhow::Result<PathBuf> {
        self.credentials.kubeconfig(user, group, url)
    }

    /// URL of the API server.
    pub fn url(&self) -> String {
        self.layout.url(Component::ApiServer)
    }

    /// Folder that is deleted with this control plane.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Path of kubectl, for use with [`ControlPlane::kubeconfig`].
    pub fn kubectl(&self) -> PathBuf {
        self.binaries.kubectl()
    }

    /// Programs of this control plane.
    pub fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// Process group of this control plane. A test starts its other processes here, so that their output is kept and they end together.
    pub fn processes(&self) -> &ProcessGroup {
        &self.processes
    }

    /// Output so far of a component, or of a process of [`ControlPlane::processes`].
    pub fn log(&self, process: impl AsRef<str>) -> anyhow::Result<String> {
        self.processes.log(process.as_ref())
    }

    /// Path of the audit log, with one JSON object per answered request. Exists with [`Options::audit`].
    pub fn audit_log(&self) -> PathBuf {
        self.layout.audit_log()
    }

    /// Whether this control plane includes a component.
    pub fn runs(&self, component: Component) -> bool {
        self.running.contains(&component)
    }

    /// CA certificate of all servers.
    pub fn authority_certificate(&self) -> PathBuf {
        self.credentials.authority_certificate()
    }

    /// Serving certificate for 127.0.0.1 and its key, also for other servers of a test.
    pub fn serving_certificate(&self) -> (PathBuf, PathBuf) {
        (self.credentials.serving_certificate(), self.credentials.serving_key())
    }

    /// Client certificate of [`ControlPlane::kubeconfig`] and its key.
    pub fn administrator_certificate(&self) -> (PathBuf, PathBuf) {
        (self.kubeconfig.with_extension("crt"), self.kubeconfig.with_extension("key"))
    }

    /// The components in the order of their start.
    pub fn components(&self) -> &[Component] {
        &self.running
    }

    /// Body of an administrator's GET of `path` from a server with [`ControlPlane::serving_certificate`].
    ///
    /// # Errors
    /// The status is not a success.
    pub async fn get_from(&self, base: &str, path: &str) -> anyhow::Result<String> {
        let mut config = self.config.clone();
        config.cluster_url = base.parse().with_context(|| format!("{base} is no URL"))?;
        get(&client(&config)?, path).await
    }

    /// Body of an administrator's GET of a component's `path`, such as `metrics`.
    pub async fn get(&self, component: Component, path: &str) -> anyhow::Result<String> {
        get(&self.client_of(component)?, path).await
    }

    /// Kills a component with SIGKILL. [`ControlPlane::restart`] starts it again.
    pub fn kill(&self, component: Component) -> anyhow::Result<()> {
        self.processes.kill(component.name())
    }

    /// Kills a component if it runs, starts it at the same address, and waits until it is ready.
    pub async fn restart(&self, component: Component) -> anyhow::Result<()> {
        self.kill(component)?;
        self.start_component(component).await
    }

    /// Waits until a running component is ready, such as after [`ControlPlane::restart`] timed out on a busy machine.
    pub async fn ready(&self, component: Component) -> anyhow::Result<()> {
        self.wait_until_ready(component, Instant::now()).await
    }

    /// Starts one more kwok as the process `name`, for nodes with the same [`NodeBuilder::kubelets`]. While the process is stopped these
    /// nodes fail: their Leases expire, and their deleted pods remain.
    pub fn start_kubelets(&self, name: &str) -> anyhow::Result<()> {
        let command = self.layout.more_kubelets(name, &self.credentials)?;
        self.processes.spawn(name, command)?;
        Ok(())
    }

    async fn start_component(&self, component: Component) -> anyhow::Result<()> {
        let began = Instant::now();
        self.spawn(component)?;
        self.wait_until_ready(component, began).await
    }

    fn spawn(&self, component: Component) -> anyhow::Result<()> {
        let command = self.layout.command(component, &self.credentials)?;
        self.processes.spawn(component.name(), command)?;
        Ok(())
    }

    async fn wait_until_ready(&self, component: Component, began: Instant) -> anyhow::Result<()> {
        let name = component.name();
        self.progress.tell(Step::Starting { component });
        let ended = wait_until(&format!("{name} to be ready"), START_TIMEOUT, async || {
            match self.processes.exit_status(name) {
                Ok(None) => {}
                Ok(Some(status)) => return Ok(Some(status)),
                Err(error) => return Err(format!("{error:#}")),
            }
            match self.get(component, component.ready_path()).await {
                Ok(_) => Ok(None),
                Err(error) => Err(format!("{error:#}")),
            }
        })
        .await
        .with_context(|| self.tails(&[component]))?;
        match ended {
            None => {
                self.progress.tell(Step::Ready { component, took: began.elapsed() });
                Ok(())
            }
            Some(status) => {
                bail!("{name} ended with {status} instead of becoming ready\n{}", self.tails(&[component]))
            }
        }
    }

    /// No pod can be created before it exists.
    async fn wait_for_the_default_service_account(&self) -> anyhow::Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), "default");
        wait_until("the service account default/default", START_TIMEOUT, async || {
            accounts.get("default").await.map(drop).map_err(|error| error.to_string())
        })
        .await
        .with_context(|| self.tails(&[Component::ControllerManager]))
    }

    /// Administrator's client of a component.
    pub fn client_of(&self, component: Component) -> anyhow::Result<Client> {
        let mut config = self.config.clone();
        config.cluster_url = self.layout.url(component).parse().context("the URL of a component")?;
        client(&config)
    }

    fn tails(&self, components: &[Component]) -> String {
        let running = components.iter().filter(|component| self.runs(**component));
        running.map(|component| self.processes.log_tail(component.name(), TAIL_LINES) + "\n").collect()
    }
}

impl fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlPlane")
            .field("folder", &self.folder.path())
            .field("url", &self.url())
            .field("running", &self.running)
            .finish_non_exhaustive()
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if thread::panicking() {
            for name in self.processes.names() {
                eprintln!("{}", self.processes.log_tail(&name, TAIL_LINES));
            }
        }
        if keeps_folders() {
            eprintln!("control plane: kept {}", self.folder.path().display());
        }
    }
}

fn keeps_folders() -> bool {
    env::var("FLOTILLA_KEEP").is_ok_and(|value| value == "1")
}

async fn config_from(kubeconfig: &Path) -> anyhow::Result<Config> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).context("the kubeconfig just written")?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .context("the kubeconfig just written")?;
    // The default is the environment's proxy, which cannot reach our loopback.
    config.proxy_url = None;
    Ok(config)
}

fn client(config: &Config) -> anyhow::Result<Client> {
    Client::try_from(config.clone()).context("cannot make a client from the kubeconfig just written")
}

async fn get(client: &Client, path: &str) -> anyhow::Result<String> {
    let request = kube::core::Request::new("").get(path, &GetParams::default())?;
    // A component of the first moments can accept a connection and never answer; the next look uses another connection.
    match timeout(LONGEST_LOOK, client.request_text(request)).await {
        Ok(answer) => Ok(answer?),
        Err(_) => bail!("no answer to GET {path} within {LONGEST_LOOK:?}"),
    }
}
