//! The components of the control plane, and the command line and configuration files of each.
//!
//! Knows: their flags. Must not know: how processes are kept, or how long to wait for one.

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

/// By this annotation a kwok knows the nodes that it keeps alive.
pub(super) const KWOK_ANNOTATION: &str = "kwok.x-k8s.io/node";

/// The value of that annotation where nothing else is asked for.
pub(super) const KUBELETS: &str = "fake";

/// A program of the control plane that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// The store.
    Etcd,
    /// The API server.
    ApiServer,
    /// The controllers: deployments, replica sets, service accounts, node lifecycle and the others on by default.
    ControllerManager,
    /// The stock scheduler.
    Scheduler,
    /// The kubelet of every node, simulated.
    Kwok,
}

impl Component {
    const ALL: [Self; 5] = [Self::Etcd, Self::ApiServer, Self::ControllerManager, Self::Scheduler, Self::Kwok];

    /// The name of its process and of its log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kwok => "kwok",
        }
    }

    /// Where it says that it is ready. etcd and kwok have it on plain HTTP, the others on HTTPS.
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

/// Everything that the command lines are made of. Ports stay the same for the life of the cluster, so that a
/// component can be started again.
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

    /// The base URL at which a component answers.
    pub(super) fn url(&self, component: Component) -> String {
        let scheme = match component {
            Component::Etcd | Component::Kwok => "http",
            Component::ApiServer | Component::ControllerManager | Component::Scheduler => "https",
        };
        format!("{scheme}://127.0.0.1:{}", self.ports[&component])
    }

    /// Where the API server writes its audit log, one JSON object a line.
    pub(super) fn audit_log(&self) -> PathBuf {
        self.folder.join("audit.jsonl")
    }

    /// The components that the options ask for beside etcd and the API server.
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

    /// The command that starts a component, after the files that it reads have been written.
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

    /// The command that starts one more kwok, for the nodes whose annotation says `kubelets`.
    pub(super) fn more_kubelets(&self, kubelets: &str, credentials: &Credentials) -> anyhow::Result<Command> {
        let arguments = self.kwok(credentials, kubelets, free_port()?)?;
        Ok(self.command_of(Component::Kwok, self.binaries.kwok(), arguments))
    }

    fn command_of(&self, component: Component, program: PathBuf, arguments: Vec<String>) -> Command {
        let mut command = Command::new(program);
        // A cleared environment: a proxy, a KUBECONFIG or a ~/.kwok of the user who runs this must not change them.
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
            // At `info` the end of its log, shown when a test fails, would be its start and nothing else.
            "--log-level=warn".into(),
            // The data is thrown away with the folder; waiting for the disk would only measure the disk.
            "--unsafe-no-fsync=true".into(),
        ]
    }

    fn api_server(&self, credentials: &Credentials) -> anyhow::Result<Vec<String>> {
        let mut arguments = self.serving(Component::ApiServer, credentials);
        arguments.extend([
            format!("--etcd-servers={}", self.url(Component::Etcd)),
            "--advertise-address=127.0.0.1".into(),
            // The service `kubernetes` may not have a loopback address as its endpoint.
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
            // Both wait for a controller: one that makes service accounts, one that takes a taint off ready nodes.
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
        // As an administrator, because the roles of the single controllers belong to service accounts whose tokens
        // would cost a few seconds at each start.
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
            // kwok speaks for a node every ten to twenty minutes. By default a node is given up after 50 seconds: its pods
            // would be marked as not ready again and again, and stay so. Leases of thousands of nodes would cost more.
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
                // The default of 4 at a time makes kwok the slowest part of a test with thousands of pods.
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
            // Without an address of its own it would listen on all of them.
            format!("--server-address=127.0.0.1:{port}"),
            format!("--node-port={port}"),
            "--cidr=10.0.0.0/9".into(),
            format!("--config={}", config.display()),
        ];
        arguments.extend(self.binaries.kwok_stages().iter().map(|stage| format!("--config={}", stage.display())));
        Ok(arguments)
    }

    /// The flags that all of Kubernetes' own servers share.
    fn serving(&self, component: Component, credentials: &Credentials) -> Vec<String> {
        vec![
            "--bind-address=127.0.0.1".into(),
            format!("--secure-port={}", self.ports[&component]),
            format!("--tls-cert-file={}", credentials.serving_certificate().display()),
            format!("--tls-private-key-file={}", credentials.serving_key().display()),
        ]
    }

    /// The flags with which a server asks the API server who is calling; without them only health is answered.
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
        // One line for each request, written when it has been answered. A watch has one when it begins, and one when it ends.
        "omitStages": ["RequestReceived"],
        "rules": [{ "level": level.name() }],
    })
}

/// Without a rate of its own the API server records what its clients record, and nothing else.
fn tracing_configuration(endpoint: &str) -> Value {
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "TracingConfiguration",
        "endpoint": endpoint,
    })
}
