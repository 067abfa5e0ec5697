//! Connections to an API server, or directly to a coordinator, from a kubeconfig.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context as _, anyhow};
use kube::{
    Client, Config,
    config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext},
};

use crate::reach::{ClusterArgs, ReachArgs};

/// The files that the kubelet mounts into a pod with API access.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const IN_CLUSTER: &str = "in-cluster";
/// Timeouts to connect and to read, short because a user waits.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const READ_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Connection {
    kubeconfig: Kubeconfig,
    options: KubeConfigOptions,
    /// The client of the API server.
    pub(crate) client: Client,
    /// The namespace of the context.
    pub(crate) namespace: String,
    /// The context and the server, for messages.
    pub(crate) place: String,
}

impl Connection {
    /// Reads the kubeconfig that the flags name. Sends nothing.
    pub(crate) async fn open(args: &ClusterArgs) -> anyhow::Result<Self> {
        let kubeconfig = match &args.kubeconfig {
            Some(path) => Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read the kubeconfig {}; check --kubeconfig", path.display()))?,
            None => found()?,
        };
        let ClusterArgs { context, cluster, user, .. } = args;
        let options = KubeConfigOptions { context: context.clone(), cluster: cluster.clone(), user: user.clone() };
        let context = args.context.clone().or_else(|| kubeconfig.current_context.clone()).unwrap_or_default();
        let config = config(&kubeconfig, &options).await?;
        let place = format!("context {context:?}, {}", config.cluster_url);
        let namespace = config.default_namespace.clone();
        let client = Client::try_from(config).with_context(|| format!("cannot use the credentials of {place}"))?;
        Ok(Self { kubeconfig, options, client, namespace, place })
    }

    /// A client without a read timeout, for watches.
    pub(crate) async fn watching(&self, purpose: &'static str) -> anyhow::Result<Client> {
        let mut config = config(&self.kubeconfig, &self.options).await?;
        config.read_timeout = None;
        flotilla_coordinator::client::with_config(config, &self.place, purpose)
    }

    /// A client for `--coordinator` with the kubeconfig's credentials.
    pub(super) async fn directly(&self, url: &str, args: &ReachArgs) -> anyhow::Result<Client> {
        let mut kubeconfig = self.kubeconfig.clone();
        for cluster in kubeconfig.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
            cluster.server = Some(url.to_owned());
            cluster.proxy_url = None;
            cluster.tls_server_name = None;
            cluster.insecure_skip_tls_verify = Some(args.coordinator_insecure_skip_tls_verify);
            if let Some(path) = &args.coordinator_ca {
                cluster.certificate_authority = Some(path.display().to_string());
                cluster.certificate_authority_data = None;
            }
        }
        let mut config = config(&kubeconfig, &self.options).await?;
        config.proxy_url = None;
        Client::try_from(config).with_context(|| format!("cannot use --coordinator {url}"))
    }
}

async fn config(kubeconfig: &Kubeconfig, options: &KubeConfigOptions) -> anyhow::Result<Config> {
    let options = KubeConfigOptions {
        context: options.context.clone(),
        cluster: options.cluster.clone(),
        user: options.user.clone(),
    };
    let mut config = Config::from_custom_kubeconfig(kubeconfig.clone(), &options).await.with_context(|| {
        let names: Vec<&str> = kubeconfig.contexts.iter().map(|context| context.name.as_str()).collect();
        format!(
            "the kubeconfig has no usable context; see `kubectl config view`, and choose with --context one of: {}",
            names.join(", ")
        )
    })?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    Ok(config)
}

/// The user's kubeconfig, or that of the pod's service account.
fn found() -> anyhow::Result<Kubeconfig> {
    match (Kubeconfig::read(), std::env::var("KUBERNETES_SERVICE_HOST")) {
        (Ok(kubeconfig), _) if !kubeconfig.contexts.is_empty() => Ok(kubeconfig),
        (_, Ok(host)) => Ok(of_service_account(&host, Path::new(SERVICE_ACCOUNT))),
        (Err(error), Err(_)) => {
            Err(anyhow!(error).context("there is no kubeconfig; name one with --kubeconfig, or in $KUBECONFIG"))
        }
        (Ok(_), Err(_)) => {
            Err(anyhow!("the kubeconfig names no context; name another with --kubeconfig, or in $KUBECONFIG"))
        }
    }
}

fn of_service_account(host: &str, folder: &Path) -> Kubeconfig {
    let port = std::env::var("KUBERNETES_SERVICE_PORT").unwrap_or_else(|_| "443".to_owned());
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let file = |name: &str| Some(folder.join(name).display().to_string());
    let server = Some(format!("https://{host}:{port}"));
    let cluster = Cluster { server, certificate_authority: file("ca.crt"), ..Cluster::default() };
    let user = AuthInfo { token_file: file("token"), ..AuthInfo::default() };
    let namespace = fs::read_to_string(folder.join("namespace")).ok().map(|namespace| namespace.trim().to_owned());
    let context = kube::config::Context {
        cluster: IN_CLUSTER.to_owned(),
        user: Some(IN_CLUSTER.to_owned()),
        namespace,
        ..Default::default()
    };
    let name = || IN_CLUSTER.to_owned();
    Kubeconfig {
        clusters: vec![NamedCluster { name: name(), cluster: Some(cluster), ..NamedCluster::default() }],
        auth_infos: vec![NamedAuthInfo { name: name(), auth_info: Some(user), ..NamedAuthInfo::default() }],
        contexts: vec![NamedContext { name: name(), context: Some(context), ..NamedContext::default() }],
        current_context: Some(name()),
        ..Kubeconfig::default()
    }
}
