//! A real control plane on loopback: etcd, kube-apiserver and, as wanted, kube-controller-manager, kube-scheduler and
//! kwok, built from their Go modules, started, watched until they are ready, and ended with this process.
//!
//! Knows: which component needs which. Must not know: anything of Flotilla; its processes are started beside these,
//! through [`ControlPlane::processes`].
//!
//! Everything listens on 127.0.0.1 and lives in a temporary folder. The folder goes with the [`ControlPlane`], unless
//! `FLOTILLA_KEEP=1` is set or the process was killed.

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

/// How long a component may take until it is ready: a few seconds alone, more beside other tests and a build.
const START_TIMEOUT: Duration = Duration::from_secs(90);

/// How much of each log is shown when something has gone wrong.
const TAIL_LINES: usize = 20;

/// What to start. The default is a cluster that lacks only a scheduler.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether kube-controller-manager runs, with all controllers that are on by default.
    pub controller_manager: bool,
    /// Whether kwok runs, which keeps nodes Ready and their pods Running.
    pub kwok: bool,
    /// The configuration of the stock kube-scheduler, or `None` to leave it out. An empty object is its default
    /// configuration; the connection is filled in, and that there is no leader election where it does not say so.
    pub kube_scheduler: Option<Value>,
    /// How much the API server writes to its audit log, if anything.
    pub audit: Option<AuditLevel>,
    /// The OTLP gRPC endpoint, as `host:port`, that the API server sends spans to: those of requests that are part of a trace
    /// that is recorded. An administrator's requests continue their trace, those of others are linked to it.
    pub tracing: Option<String>,
    /// More flags by component, such as `--feature-gates=...` or `--runtime-config=...`.
    pub extra_args: BTreeMap<Component, Vec<String>>,
    /// Below which folder the programs are kept once they are built, in one named `control-plane`. The default is the
    /// target folder of the checkout that this was built from.
    pub cache_dir: PathBuf,
    /// In which folder the temporary folder is made, with the data of etcd in it. Without one it is that of the operating
    /// system.
    pub folder_in: Option<PathBuf>,
    /// Who is told of what is built and started. The default writes of builds on the standard error.
    pub progress: Arc<dyn Progress>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            controller_manager: true,
            kwok: true,
            kube_scheduler: None,
            audit: None,
            tracing: None,
            extra_args: BTreeMap::new(),
            cache_dir: Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
            folder_in: None,
            progress: Arc::new(Lines),
        }
    }
}

impl Options {
    /// Runs the stock kube-scheduler with its default configuration.
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

    /// Lets the API server send spans.
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

/// How much of each request is in the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditLevel {
    /// Who asked for what, and the answer's code.
    Metadata,
    /// The body of the request too.
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

/// A running control plane. Dropping it ends all its processes, and those started through
/// [`ControlPlane::processes`]; so does the end of the test process, whatever its cause.
pub struct ControlPlane {
    // Fields are dropped in this order: the processes end before their folder goes.
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
    /// Builds what is missing, starts the components and waits until they are ready.
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let progress = Arc::clone(&options.progress);
        let binaries = build(&options.cache_dir, &*progress).await?;
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

    /// A client with all rights. It belongs to the runtime in which this is called.
    pub fn client(&self) -> Client {
        client(&self.config).expect("the same configuration made a client at the start")
    }

    /// The kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Writes a kubeconfig for any user, in a group if one is given: `system:kube-scheduler`, or
    /// `system:serviceaccount:<namespace>:<name>` for what a service account may do.
    pub fn kubeconfig_for(&self, user: &str, group: Option<&str>) -> anyhow::Result<PathBuf> {
        self.credentials.kubeconfig(user, group, &self.layout.url(Component::ApiServer))
    }

    /// The same for a user who reaches the API server at another URL, such as that of a proxy.
    pub fn kubeconfig_at(&self, url: &str, user: &str, group: Option<&str>) -> anyhow::Result<PathBuf> {
        self.credentials.kubeconfig(user, group, url)
    }

    /// The URL of the API server.
    pub fn url(&self) -> String {
        self.layout.url(Component::ApiServer)
    }

    /// The folder of this control plane, for files that should go with it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The path of kubectl; give it [`ControlPlane::kubeconfig`].
    pub fn kubectl(&self) -> PathBuf {
        self.binaries.kubectl()
    }

    /// The programs this control plane runs.
    pub fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// The processes of this control plane. Other processes of a test are best started here, so that its
    /// output is kept and it ends with the rest.
    pub fn processes(&self) -> &ProcessGroup {
        &self.processes
    }

    /// All that a component, or a process started through [`ControlPlane::processes`], has printed so far.
    pub fn log(&self, process: impl AsRef<str>) -> anyhow::Result<String> {
        self.processes.log(process.as_ref())
    }

    /// Where the audit log is, one JSON object for each answered request. It exists if [`Options::audit`] asked for it.
    pub fn audit_log(&self) -> PathBuf {
        self.layout.audit_log()
    }

    /// Whether this control plane was started with a component.
    pub fn runs(&self, component: Component) -> bool {
        self.running.contains(&component)
    }

    /// The authority that signed the certificates of all servers here.
    pub fn authority_certificate(&self) -> PathBuf {
        self.credentials.authority_certificate()
    }

    /// The certificate that every server on 127.0.0.1 shows, and its key: also for servers that are started beside.
    pub fn serving_certificate(&self) -> (PathBuf, PathBuf) {
        (self.credentials.serving_certificate(), self.credentials.serving_key())
    }

    /// The client certificate of the administrator of [`ControlPlane::kubeconfig`], and its key.
    pub fn administrator_certificate(&self) -> (PathBuf, PathBuf) {
        (self.kubeconfig.with_extension("crt"), self.kubeconfig.with_extension("key"))
    }

    /// The components that were started, in that order.
    pub fn components(&self) -> &[Component] {
        &self.running
    }

    /// What a server with [`ControlPlane::serving_certificate`] answers to a GET of `path`, asked by an administrator.
    ///
    /// # Errors
    /// Where it does not answer with success.
    pub async fn get_from(&self, base: &str, path: &str) -> anyhow::Result<String> {
        let mut config = self.config.clone();
        config.cluster_url = base.parse().with_context(|| format!("{base} is no URL"))?;
        get(&client(&config)?, path).await
    }

    /// What a component answers to a GET of `path`, such as `metrics`, asked by an administrator.
    pub async fn get(&self, component: Component, path: &str) -> anyhow::Result<String> {
        get(&self.client_of(component)?, path).await
    }

    /// Kills a component, as a crash of its machine would. [`ControlPlane::restart`] brings it back.
    pub fn kill(&self, component: Component) -> anyhow::Result<()> {
        self.processes.kill(component.name())
    }

    /// Kills a component if it runs, starts it at the same address, and waits until it is ready.
    pub async fn restart(&self, component: Component) -> anyhow::Result<()> {
        self.kill(component)?;
        self.start_component(component).await
    }

    /// Waits until a component that runs is ready, such as one that [`ControlPlane::restart`] gave up because the machine was
    /// busy with other things.
    pub async fn ready(&self, component: Component) -> anyhow::Result<()> {
        self.wait_until_ready(component, Instant::now()).await
    }

    /// Starts one more kwok, as a process called `name`, for the nodes of [`NodeBuilder::kubelets`] with that name. While
    /// that process is stopped these nodes fail: nothing renews their Leases, and pods that are deleted stay on them.
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
        let client = self.client_of(component)?;
        let ended = wait_until(&format!("{name} to be ready"), START_TIMEOUT, async || {
            match self.processes.exit_status(name) {
                Ok(None) => {}
                Ok(Some(status)) => return Ok(Some(status)),
                Err(error) => return Err(format!("{error:#}")),
            }
            match get(&client, component.ready_path()).await {
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

    /// Until it exists no pod can be created.
    async fn wait_for_the_default_service_account(&self) -> anyhow::Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), "default");
        wait_until("the service account default/default", START_TIMEOUT, async || {
            accounts.get("default").await.map(drop).map_err(|error| error.to_string())
        })
        .await
        .with_context(|| self.tails(&[Component::ControllerManager]))
    }

    /// A client of the address at which a component answers, with the administrator's certificate.
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
    // Taken from the environment otherwise, and no proxy can reach our loopback.
    config.proxy_url = None;
    Ok(config)
}

fn client(config: &Config) -> anyhow::Result<Client> {
    Client::try_from(config.clone()).context("cannot make a client from the kubeconfig just written")
}

async fn get(client: &Client, path: &str) -> anyhow::Result<String> {
    let request = kube::core::Request::new("").get(path, &GetParams::default())?;
    Ok(client.request_text(request).await?)
}
