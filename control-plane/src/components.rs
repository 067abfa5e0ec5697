//! Command lines and configuration files of the control plane's components.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context;
use serde_json::{Value, json};

use super::binaries::Binaries;
use super::credentials::Credentials;
use super::ports::free_port;
use super::{AuditLevel, Options};

/// kwok manages the nodes with this annotation.
pub(super) const KWOK_ANNOTATION: &str = "kwok.x-k8s.io/node";

/// Default value of [`KWOK_ANNOTATION`].
pub(super) const KUBELETS: &str = "fake";

/// kwok's stage that completes the pods of Jobs.
const COMPLETION: &str = "pod-complete.yaml";

/// Component of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// etcd.
    Etcd,
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager with its default controllers.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
    /// kwok, the simulated kubelet of all nodes.
    Kwok,
}

impl Component {
    const ALL: [Self; 5] = [Self::Etcd, Self::ApiServer, Self::ControllerManager, Self::Scheduler, Self::Kwok];

    /// Name of the process and its log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kwok => "kwok",
        }
    }

    /// Readiness endpoint: plain HTTP for etcd and kwok, HTTPS for the others.
    pub(super) fn ready_path(self) -> &'static str {
        match self {
            Self::Etcd => "health",
            Self::ControllerManager => "healthz",
            Self::ApiServer | Self::Scheduler | Self::Kwok => "readyz",
        }
    }
}

impl AsRef<str> for Component {
    fn as_ref(&self) -> &str {
        self.name()
    }
}

/// Inputs of the command lines. Ports never change, so that a component can be restarted.
pub(super) struct Layout {
    folder: PathBuf,
    binaries: Binaries,
    options: Options,
    ports: BTreeMap<Component, u16>,
    etcd_peer_port: u16,
}

impl Layout {
    pub(super) fn new(folder: PathBuf, binaries: Binaries, options: Options) -> anyhow::Result<Self> {
        let mut ports = BTreeMap::new();
        for component in Component::ALL {
            ports.insert(component, free_port()?);
        }
        Ok(Self { folder, binaries, options, ports, etcd_peer_port: free_port()? })
    }

    pub(super) fn url(&self, component: Component) -> String {
        let scheme = match component {
            Component::Etcd | Component::Kwok => "http",
            Component::ApiServer | Component::ControllerManager | Component::Scheduler => "https",
        };
        format!("{scheme}://127.0.0.1:{}", self.ports[&component])
    }

    pub(super) fn audit_log(&self) -> PathBuf {
        self.folder.join("audit.jsonl")
    }

    /// The selected components except etcd and the API server.
    pub(super) fn beside_the_api_server(&self) -> Vec<Component> {
        let options = &self.options;
        [
            (options.controller_manager, Component::ControllerManager),
            (options.kube_scheduler.is_some(), Component::Scheduler),
            (options.kwok, Component::Kwok),
        ]
        .into_iter()
        .filter_map(|(wanted, component)| wanted.then_some(component))
        .collect()
    }

    pub(super) fn command(&self, component: Component, credentials: &Credentials) -> anyhow::Result<Command> {
        let (program, arguments) = match component {
            Component::Etcd => (self.binaries.etcd(), self.etcd()),
            Component::ApiServer => (self.binaries.kube_apiserver(), self.api_server(credentials)?),
            Component::ControllerManager => {
                (self.binaries.kube_controller_manager(), self.controller_manager(credentials)?)
            }
            Component::Scheduler => (self.binaries.kube_scheduler(), self.scheduler(credentials)?),
            Component::Kwok => (self.binaries.kwok(), self.kwok(credentials, KUBELETS, self.ports[&component])?),
        };
        Ok(self.command_of(component, program, arguments))
    }

    /// One more kwok, for nodes with the [`KWOK_ANNOTATION`] `kubelets`.
    pub(super) fn more_kubelets(&self, kubelets: &str, credentials: &Credentials) -> anyhow::Result<Command> {
        let arguments = self.kwok(credentials, kubelets, free_port()?)?;
        Ok(self.command_of(Component::Kwok, self.binaries.kwok(), arguments))
    }

    fn command_of(&self, component: Component, program: PathBuf, arguments: Vec<String>) -> Command {
        let mut command = Command::new(program);
        // The user's proxy, KUBECONFIG or ~/.kwok must not affect the components.
        command.args(arguments).env_clear().env("HOME", &self.folder).current_dir(&self.folder);
        command.args(self.options.extra_args.get(&component).into_iter().flatten());
        command
    }

    fn etcd(&self) -> Vec<String> {
        let client = self.url(Component::Etcd);
        let peer = format!("http://127.0.0.1:{}", self.etcd_peer_port);
        vec![
            format!("--data-dir={}", self.folder.join("etcd").display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            // At `info` the log's tail would contain only etcd's start.
            "--log-level=warn".into(),
            // The data is temporary, and fsync would only measure the disk.
            "--unsafe-no-fsync=true".into(),
        ]
    }

    fn api_server(&self, credentials: &Credentials) -> anyhow::Result<Vec<String>> {
        let mut arguments = self.serving(Component::ApiServer, credentials);
        arguments.extend([
            format!("--etcd-servers={}", self.url(Component::Etcd)),
            "--advertise-address=127.0.0.1".into(),
            // A loopback address is invalid as an endpoint of the service `kubernetes`.
            "--endpoint-reconciler-type=none".into(),
            format!("--client-ca-file={}", credentials.authority_certificate().display()),
            "--authorization-mode=RBAC".into(),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            format!("--service-account-key-file={}", credentials.service_account_public_key().display()),
            format!("--service-account-signing-key-file={}", credentials.service_account_key().display()),
            "--service-cluster-ip-range=10.96.0.0/16".into(),
            "--allow-privileged=true".into(),
        ]);
        if !self.options.controller_manager {
            // Both depend on controllers: one creates service accounts, the other removes a taint from ready nodes.
            arguments.push("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition".into());
        }
        if let Some(level) = self.options.audit {
            let policy = self.write("audit-policy.json", &audit_policy(level))?;
            arguments.push(format!("--audit-policy-file={}", policy.display()));
            arguments.push(format!("--audit-log-path={}", self.audit_log().display()));
        }
        if let Some(endpoint) = &self.options.tracing {
            let config = self.write("tracing.json", &tracing_configuration(endpoint))?;
            arguments.push(format!("--tracing-config-file={}", config.display()));
        }
        Ok(arguments)
    }

    fn controller_manager(&self, credentials: &Credentials) -> anyhow::Result<Vec<String>> {
        // As an administrator: the per-controller roles belong to service accounts, and their tokens would take a few seconds at each start.
        let kubeconfig = self.kubeconfig(credentials, "flotilla:controller-manager", Some("system:masters"))?;
        let mut arguments = self.serving(Component::ControllerManager, credentials);
        arguments.extend(self.delegating(&kubeconfig));
        arguments.extend([
            format!("--kubeconfig={}", kubeconfig.display()),
            "--leader-elect=false".into(),
            format!("--service-account-private-key-file={}", credentials.service_account_key().display()),
            format!("--root-ca-file={}", credentials.authority_certificate().display()),
            // The default of 20 requests a second would take minutes to untaint thousands of new nodes.
            "--kube-api-qps=1000".into(),
            "--kube-api-burst=2000".into(),
            // kwok sends heartbeats every ten to twenty minutes. With the default of 50 seconds the node controller would mark pods as not
            // ready. Leases of thousands of nodes would cost more.
            "--node-monitor-grace-period=1h".into(),
        ]);
        Ok(arguments)
    }

    fn scheduler(&self, credentials: &Credentials) -> anyhow::Result<Vec<String>> {
        let kubeconfig = self.kubeconfig(credentials, "system:kube-scheduler", None)?;
        let mut config = self.options.kube_scheduler.clone().unwrap_or_else(|| json!({}));
        let fields = config.as_object_mut().context("the kube-scheduler configuration must be an object")?;
        fields.entry("apiVersion").or_insert("kubescheduler.config.k8s.io/v1".into());
        fields.entry("kind").or_insert("KubeSchedulerConfiguration".into());
        let connection = fields.entry("clientConnection").or_insert_with(|| json!({}));
        connection["kubeconfig"] = json!(kubeconfig);
        fields.entry("leaderElection").or_insert_with(|| json!({ "leaderElect": false }));
        let config = self.write("kube-scheduler.json", &config)?;

        let mut arguments = self.serving(Component::Scheduler, credentials);
        arguments.extend(self.delegating(&kubeconfig));
        arguments.push(format!("--config={}", config.display()));
        Ok(arguments)
    }

    fn kwok(&self, credentials: &Credentials, kubelets: &str, port: u16) -> anyhow::Result<Vec<String>> {
        let kubeconfig = self.kubeconfig(credentials, "flotilla:kwok", Some("system:masters"))?;
        let config = self.write(
            "kwok.json",
            &json!({
                "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
                "kind": "KwokConfiguration",
                // With the default of 4, kwok is the slowest part of a test with thousands of pods.
                "options": {
                    "podPlayStageParallelism": 16,
                    "nodePlayStageParallelism": 16,
                    "nodeLeaseParallelism": 16,
                },
            }),
        )?;
        let mut arguments = vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--manage-nodes-with-annotation-selector={KWOK_ANNOTATION}={kubelets}"),
            // The default is to listen on all addresses.
            format!("--server-address=127.0.0.1:{port}"),
            format!("--node-port={port}"),
            "--cidr=10.0.0.0/9".into(),
            format!("--config={}", config.display()),
        ];
        let mut stages = self.binaries.kwok_stages();
        if !self.options.completes_jobs {
            stages.retain(|stage| !stage.ends_with(COMPLETION));
        }
        arguments.extend(stages.iter().map(|stage| format!("--config={}", stage.display())));
        Ok(arguments)
    }

    /// Flags common to Kubernetes' servers.
    fn serving(&self, component: Component, credentials: &Credentials) -> Vec<String> {
        vec![
            "--bind-address=127.0.0.1".into(),
            format!("--secure-port={}", self.ports[&component]),
            format!("--tls-cert-file={}", credentials.serving_certificate().display()),
            format!("--tls-private-key-file={}", credentials.serving_key().display()),
        ]
    }

    /// Flags for delegated authentication and authorization; without them only health endpoints are served.
    fn delegating(&self, kubeconfig: &Path) -> [String; 2] {
        ["authentication", "authorization"].map(|what| format!("--{what}-kubeconfig={}", kubeconfig.display()))
    }

    fn kubeconfig(&self, credentials: &Credentials, user: &str, group: Option<&str>) -> anyhow::Result<PathBuf> {
        credentials.kubeconfig(user, group, &self.url(Component::ApiServer))
    }

    fn write(&self, name: &str, content: &Value) -> anyhow::Result<PathBuf> {
        let path = self.folder.join(name);
        fs::write(&path, serde_json::to_string_pretty(content)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

fn audit_policy(level: AuditLevel) -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        // One line per request, written at its end. A watch has one line at its start and one at its end.
        "omitStages": ["RequestReceived"],
        "rules": [{ "level": level.name() }],
    })
}

/// Without a sampling rate the API server records only the traces that its clients record.
fn tracing_configuration(endpoint: &str) -> Value {
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "TracingConfiguration",
        "endpoint": endpoint,
    })
}
