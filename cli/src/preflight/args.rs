//! The command line of `flotilla preflight`.
//!
//! Knows: flags, their texts and their grammar. Must not know: what a flag does.

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

  # What failed, for a program
  flotilla preflight -o json | jq -r '.[] | select(.verdict == \"failed\") | .name'

Exit codes:
  0  nothing failed; what could not be checked does not count
  1  something failed
  2  the flags are not valid";

/// The flags of `flotilla preflight`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PreflightArgs {
    /// The KubeSchedulerConfiguration that the coordinators are to get
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,

    /// The namespace that Flotilla is to run in
    #[arg(short, long, value_name = "NAMESPACE", default_value = "flotilla")]
    pub(super) namespace: String,

    /// The service account of the coordinators
    #[arg(long, value_name = "NAME", default_value = "flotilla-coordinator")]
    pub(super) service_account: String,

    /// The Lease that the coordinators are to stand for; without it, that of --config, else flotilla/flotilla
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = parse_pair)]
    lease: Option<(String, String)>,

    /// The workers, as the coordinators are to get them; without it, those of the Service
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub(super) workers: Vec<String>,

    /// The Service of the workers
    #[arg(long, value_name = "NAME", default_value = "flotilla-worker")]
    pub(super) worker_service: String,

    /// The Secret with the certificate of the workers
    #[arg(long, value_name = "NAME", default_value = "flotilla-worker-tls")]
    pub(super) worker_tls_secret: String,

    /// A folder with tls.crt, tls.key and ca.crt of a coordinator, for a TLS handshake with the workers
    #[arg(long, value_name = "FOLDER")]
    pub(super) worker_tls_dir: Option<PathBuf>,

    /// How to print the answer
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Text)]
    pub(super) output: Format,

    /// Where the cluster is.
    #[command(flatten)]
    pub(super) server: ClusterArgs,
}

impl PreflightArgs {
    /// Namespace and name of the Lease.
    pub(super) fn lease(&self, configuration: Option<&Configuration>) -> (String, String) {
        let configured = || {
            let election = &configuration?.leader_election;
            Some((election.resource_namespace.clone(), election.resource_name.clone()))
        };
        let named = self.lease.clone().or_else(configured);
        named.unwrap_or_else(|| ("flotilla".to_owned(), "flotilla".to_owned()))
    }
}

/// How the answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A line for each check, and its next step
    Text,
    /// One JSON array
    Json,
}
