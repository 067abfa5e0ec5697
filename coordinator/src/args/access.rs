//! The flags for access to the endpoints, named as in kube-scheduler.

use std::{path::PathBuf, time::Duration};

use super::{duration::parse_duration, parse_bool};

/// Access to the endpoints.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Access to the endpoints")]
pub struct AccessFlags {
    /// Serve any client that reaches --secure-port, without authentication and authorization
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "false", default_missing_value = "true", value_parser = parse_bool)]
    #[arg(action = clap::ArgAction::Set)]
    pub insecure_open_endpoints: bool,

    /// The kubeconfig for the API server that reviews bearer tokens and publishes the authority of client certificates. Without it, the one
    /// for all other requests
    #[arg(long, value_name = "FILE")]
    pub authentication_kubeconfig: Option<PathBuf>,

    /// Do not look up the authority of client certificates in the cluster: use only --client-ca-file
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "false", default_missing_value = "true", value_parser = parse_bool)]
    #[arg(action = clap::ArgAction::Set)]
    pub authentication_skip_lookup: bool,

    /// Cache lifetime of token reviews
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    pub authentication_token_webhook_cache_ttl: Duration,

    /// The authority, in PEM, that signs client certificates; instead of the one that the cluster publishes
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,

    /// The kubeconfig for the API server that authorizes requests. Without it, the one for all other requests
    #[arg(long, value_name = "FILE")]
    pub authorization_kubeconfig: Option<PathBuf>,

    /// Paths that are served without authorization, separated by commas; one that ends in * is a prefix
    #[arg(long, value_name = "PATHS", value_delimiter = ',', default_value = "/healthz,/readyz,/livez")]
    pub authorization_always_allow_paths: Vec<String>,

    /// Cache lifetime of the answer that a user is authorized
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    pub authorization_webhook_cache_authorized_ttl: Duration,

    /// Cache lifetime of the answer that a user is not authorized
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    pub authorization_webhook_cache_unauthorized_ttl: Duration,
}
