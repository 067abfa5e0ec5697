//! The command line of `flotilla preflight`.

use std::path::PathBuf;

use clap::ValueEnum;
use flotilla_configuration::Configuration;

use crate::reach::{ClusterArgs, parse_pair};

const EXAMPLES: &str = "\
Examples:
  # Is the cluster ready for the manifests in deploy/?
  flotilla preflight --config scheduler.yaml

  # The same for workers at known addresses, with the coordinators' certificate
  flotilla preflight --workers 10.0.0.7:10270,10.0.0.8:10270 --worker-tls-dir coordinator-tls

  # The failed checks, from JSON
  flotilla preflight -o json | jq -r '.[] | select(.verdict == \"failed\") | .name'

Exit codes:
  0  no check failed; checks that could not be completed do not count
  1  a check failed
  2  the flags are not valid";

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PreflightArgs {
    /// The KubeSchedulerConfiguration for the coordinators
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,

    /// The namespace for Flotilla
    #[arg(short, long, value_name = "NAMESPACE", default_value = "flotilla")]
    pub(super) namespace: String,

    /// The service account of the coordinators
    #[arg(long, value_name = "NAME", default_value = "flotilla-coordinator")]
    pub(super) service_account: String,

    /// The Lease of the coordinators; without it, that of --config, else flotilla/flotilla
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = parse_pair)]
    lease: Option<(String, String)>,

    /// The workers' addresses; without it, those of the Service
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub(super) workers: Vec<String>,

    /// The Service of the workers
    #[arg(long, value_name = "NAME", default_value = "flotilla-worker")]
    pub(super) worker_service: String,

    /// The Secret with the certificate of the workers
    #[arg(long, value_name = "NAME", default_value = "flotilla-worker-tls")]
    pub(super) worker_tls_secret: String,

    /// A directory with tls.crt, tls.key and ca.crt of a coordinator, for a TLS handshake with the workers
    #[arg(long, value_name = "FOLDER")]
    pub(super) worker_tls_dir: Option<PathBuf>,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Text)]
    pub(super) output: Format,

    #[command(flatten)]
    pub(super) server: ClusterArgs,
}

impl PreflightArgs {
    pub(super) fn lease(&self, configuration: Option<&Configuration>) -> (String, String) {
        let configured = || {
            let election = &configuration?.leader_election;
            Some((election.resource_namespace.clone(), election.resource_name.clone()))
        };
        let named = self.lease.clone().or_else(configured);
        named.unwrap_or_else(|| ("flotilla".to_owned(), "flotilla".to_owned()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// One line for each check, and its next step
    Text,
    /// One JSON array
    Json,
}
