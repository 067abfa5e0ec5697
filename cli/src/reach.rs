//! The flags that say where a cluster and its coordinators are, named as kubectl names them.
//!
//! Knows: flags, their texts and their grammar. Must not know: what a flag does.

#![cfg_attr(
    not(feature = "cluster"),
    allow(
        dead_code,
        reason = "without a client they are only read from the command line, so that the refusal can be told"
    )
)]

use std::path::PathBuf;

/// Where a live cluster is.
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

/// A live cluster beside files, or instead of them.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Live cluster")]
pub(crate) struct LiveArgs {
    /// Read a live cluster, that of the current context unless the next flags name another. Nothing is written to it (feature
    /// `cluster`)
    #[arg(long)]
    live: bool,

    /// Which one.
    #[command(flatten)]
    pub(crate) server: ClusterArgs,
}

impl LiveArgs {
    /// The flags of which any one says that a live cluster is to be read.
    pub(crate) const FLAGS: [&str; 5] = ["live", "kubeconfig", "context", "cluster", "user"];

    /// What the flags of another command say.
    pub(crate) fn new(live: bool, server: ClusterArgs) -> Self {
        Self { live, server }
    }

    /// Whether a live cluster is to be read.
    pub(crate) fn is_asked(&self) -> bool {
        let ClusterArgs { kubeconfig, context, cluster, user } = &self.server;
        self.live || kubeconfig.is_some() || context.is_some() || cluster.is_some() || user.is_some()
    }
}

/// Where a live cluster and its coordinators are.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Live cluster")]
pub(crate) struct ReachArgs {
    /// The cluster.
    #[command(flatten)]
    pub(crate) server: ClusterArgs,

    /// The authority, in PEM, that signed the certificate of --coordinator; without it, that of the API server
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

    /// The Lease whose holder decides; without it, the first that has a holder of flotilla/flotilla,
    /// kube-system/flotilla and kube-system/kube-scheduler
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = parse_pair)]
    pub(crate) lease: Option<(String, String)>,

    /// The namespace that the coordinators run in
    #[arg(long, value_name = "NAMESPACE", default_value = "flotilla")]
    pub(crate) coordinator_namespace: String,

    /// The --secure-port of the coordinators
    #[arg(long, value_name = "PORT", default_value_t = 10259, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) coordinator_port: u16,

    /// The service account that the coordinator is asked as, with a token that has no other use
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "flotilla/flotilla-reader", value_parser = parse_pair)]
    pub(crate) service_account: (String, String),
}

/// NAMESPACE/NAME.
pub(crate) fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err("write NAMESPACE/NAME".to_owned()),
    }
}

/// Where Jaeger is unless it is said.
pub(crate) const JAEGER: &str = "http://127.0.0.1:16686";

/// The URL of Jaeger's pages.
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
