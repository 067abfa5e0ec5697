//! The flags for a cluster and its coordinators, named as in kubectl.

#![cfg_attr(
    not(feature = "cluster"),
    allow(dead_code, reason = "without a client they are parsed only for the error message")
)]

use std::path::PathBuf;

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Live cluster")]
pub(crate) struct ClusterArgs {
    /// The kubeconfig; without it, those of $KUBECONFIG, ~/.kube/config, or the service account of this pod
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig; without it, the current one
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,

    /// The cluster of the kubeconfig; without it, that of the context
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: Option<String>,

    /// The user of the kubeconfig; without it, that of the context
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
}

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Live cluster")]
pub(crate) struct LiveArgs {
    /// Read a live cluster, by default that of the current context. Writes nothing to it (feature `cluster`)
    #[arg(long)]
    live: bool,

    #[command(flatten)]
    pub(crate) server: ClusterArgs,
}

impl LiveArgs {
    /// The flags that imply a live cluster.
    pub(crate) const FLAGS: [&str; 5] = ["live", "kubeconfig", "context", "cluster", "user"];

    pub(crate) fn new(live: bool, server: ClusterArgs) -> Self {
        Self { live, server }
    }

    /// Whether to read a live cluster.
    pub(crate) fn is_asked(&self) -> bool {
        let ClusterArgs { kubeconfig, context, cluster, user } = &self.server;
        self.live || kubeconfig.is_some() || context.is_some() || cluster.is_some() || user.is_some()
    }
}

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Live cluster")]
pub(crate) struct ReachArgs {
    #[command(flatten)]
    pub(crate) server: ClusterArgs,

    /// The CA certificate of --coordinator, in PEM; without it, that of the API server
    #[arg(
        long,
        value_name = "FILE",
        requires = "coordinator",
        conflicts_with = "coordinator_insecure_skip_tls_verify"
    )]
    pub(crate) coordinator_ca: Option<PathBuf>,

    /// Send the credentials to --coordinator without verifying its certificate
    #[arg(long, requires = "coordinator")]
    pub(crate) coordinator_insecure_skip_tls_verify: bool,

    /// The Lease of the coordinators; without it, the first with a holder of flotilla/flotilla, kube-system/flotilla and
    /// kube-system/kube-scheduler
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = parse_pair)]
    pub(crate) lease: Option<(String, String)>,

    /// The namespace of the coordinators
    #[arg(long, value_name = "NAMESPACE", default_value = "flotilla")]
    pub(crate) coordinator_namespace: String,

    /// The --secure-port of the coordinators
    #[arg(long, value_name = "PORT", default_value_t = 10259, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) coordinator_port: u16,

    /// The service account for requests to the coordinator, with a token for this purpose only
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "flotilla/flotilla-reader", value_parser = parse_pair)]
    pub(crate) service_account: (String, String),
}

/// Parses NAMESPACE/NAME.
pub(crate) fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err("write NAMESPACE/NAME".to_owned()),
    }
}

pub(crate) const JAEGER: &str = "http://127.0.0.1:16686";

/// Parses the URL of Jaeger's UI.
pub(crate) fn parse_jaeger(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match rest {
        Some(rest) if !rest.is_empty() => Ok(text.trim_end_matches('/').to_owned()),
        _ => Err("write http://HOST:PORT, or https:// with TLS; Jaeger's pages are on port 16686".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_has_two_halves() {
        assert_eq!(parse_pair("a/b"), Ok(("a".to_owned(), "b".to_owned())));
        for text in ["a", "a/", "/b", "a/b/c"] {
            assert_eq!(parse_pair(text), Err("write NAMESPACE/NAME".to_owned()), "{text}");
        }
    }
}
