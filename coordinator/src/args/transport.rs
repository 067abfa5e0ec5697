//! The flags for the transport between coordinator and workers.

use std::path::PathBuf;

use super::parse_bool;

/// Transport between coordinator and workers.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Workers")]
pub struct TransportFlags {
    /// The folder with tls.crt, tls.key and ca.crt of this coordinator, in the layout of a mounted Secret, reloaded when they change.
    /// Without it, the leading coordinator keeps its own authority and issues certificates
    #[arg(long, value_name = "FOLDER")]
    pub worker_tls_dir: Option<PathBuf>,

    /// The Secret with the coordinator's own authority, in --worker-namespace; only coordinators may read it
    #[arg(long, value_name = "NAME", default_value = "flotilla-worker-ca", conflicts_with = "worker_tls_dir")]
    pub worker_ca_secret: String,

    /// The Secret that the workers' certificate is written to, in --worker-namespace; workers mount it
    #[arg(long, value_name = "NAME", default_value = "flotilla-worker-tls", conflicts_with = "worker_tls_dir")]
    pub worker_tls_secret: String,

    /// Connect to the workers in plaintext without authentication. The workers need the same flag
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "false", default_missing_value = "true", value_parser = parse_bool)]
    #[arg(action = clap::ArgAction::Set)]
    #[arg(conflicts_with_all = ["worker_tls_dir", "worker_ca_secret", "worker_tls_secret"])]
    pub insecure_worker_transport: bool,
}
