//! The command line of `flotilla-coordinator`, after kube-scheduler's.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{FromArgMatches as _, Parser};
use flotilla_configuration::{ElectionFlags, features::FeatureGates};
use flotilla_telemetry::{TracingArgs, log::LoggingFormat};

mod access;
mod deprecated;
mod duration;
mod ineffective;
mod program;
mod record;
mod removed;
mod spelling;
#[cfg(test)]
mod tests;
mod tls;
mod transport;

pub use access::AccessFlags;
pub use deprecated::Deprecated;
pub use duration::{FlagError, parse_duration};
pub use ineffective::Ineffective;
pub use program::{KUBERNETES_VERSION, Program};
pub use record::RecordFlags;
pub use tls::TlsFlags;
pub use transport::TransportFlags;

const CONFIGURATION: &str = "Configuration";
const ELECTION: &str = "Leader election";
const SERVING: &str = "Serving";
const WORKERS: &str = "Workers";
const SCHEDULING: &str = "Scheduling";
const LOGGING: &str = "Logging";

const EXAMPLES: &str = "\
Examples:
  # In a pod, with the workers behind the headless Service flotilla-worker
  flotilla-coordinator --config=/etc/flotilla/config.yaml

  # On a laptop, against the cluster of a kubeconfig, with two workers at known addresses
  flotilla-coordinator --kubeconfig=$HOME/.kube/config --leader-elect=false \\
    --workers=127.0.0.1:7443,127.0.0.1:7444 --worker-tls-dir=coordinator-tls -v=4

  # Print the complete configuration
  flotilla-coordinator --config=scheduler.yaml --write-config-to=/dev/stdout

  # Check its health
  curl -k https://localhost:10259/readyz?verbose";

/// The Flotilla coordinator: watches the cluster, has its workers filter and score, and binds pods to nodes.
///
/// It is a drop-in for kube-scheduler: it reads the same KubeSchedulerConfiguration, elects one leader among its
/// replicas, and schedules the pods that name one of its profiles as their scheduler.
#[derive(Clone, Debug, Parser)]
#[command(name = "flotilla-coordinator", version, after_help = EXAMPLES, max_term_width = 110, args_override_self = true)]
pub struct Args {
    /// The KubeSchedulerConfiguration file, reloaded when it changes. Without it, the defaults of kube-scheduler
    #[arg(long, value_name = "FILE", help_heading = CONFIGURATION)]
    pub config: Option<PathBuf>,

    /// Write the complete configuration to this file and exit
    #[arg(long, value_name = "FILE", help_heading = CONFIGURATION)]
    pub write_config_to: Option<PathBuf>,

    /// The kubeconfig for the API server, unless the file of --config has clientConnection.kubeconfig.
    /// Without either, the service account of the pod
    #[arg(long, value_name = "FILE", help_heading = CONFIGURATION)]
    pub kubeconfig: Option<PathBuf>,

    /// The URL of the API server; overrides the one in the kubeconfig
    #[arg(long, value_name = "URL", help_heading = CONFIGURATION)]
    pub master: Option<String>,

    /// Feature gates, as Name=true,Other=false. All of Kubernetes 1.37 are known; some are only
    /// implemented at their default
    #[arg(long, value_name = "GATES", action = clap::ArgAction::Append, help_heading = CONFIGURATION)]
    feature_gates: Vec<String>,

    /// The parsed --feature-gates.
    #[arg(skip)]
    pub gates: FeatureGates,

    /// Leader election.
    #[command(flatten)]
    pub leader_election: LeaderElectionFlags,

    /// The address that the HTTPS endpoints listen on. 0.0.0.0 and :: mean all addresses of IPv4 and IPv6
    #[arg(long, value_name = "IP", default_value = "0.0.0.0", help_heading = SERVING)]
    pub bind_address: IpAddr,

    /// The port of /healthz, /livez, /readyz, /metrics, /configz and /explain. 0 turns them off
    #[arg(long, value_name = "PORT", default_value_t = 10259, help_heading = SERVING)]
    pub secure_port: u16,

    /// Serve /livez, /readyz and /healthz in plaintext at this address, without authentication, for a kubelet's probes. Without it, only
    /// --secure-port serves them
    #[arg(long, value_name = "HOST:PORT", help_heading = SERVING)]
    pub health_listen: Option<String>,

    /// The certificate of the HTTPS endpoints in PEM, with its chain after it. Without it, a self-signed one is
    /// created
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file", help_heading = SERVING)]
    pub tls_cert_file: Option<PathBuf>,

    /// The private key to --tls-cert-file in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert_file", help_heading = SERVING)]
    pub tls_private_key_file: Option<PathBuf>,

    /// TLS and sockets of the endpoints.
    #[command(flatten)]
    pub tls: TlsFlags,

    /// Access to the endpoints.
    #[command(flatten)]
    pub access: AccessFlags,

    /// Addresses of the workers, if they are not behind a Service: host:port, separated by commas
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',', value_parser = parse_worker, help_heading = WORKERS)]
    #[arg(conflicts_with_all = ["worker_service", "worker_port_name"])]
    pub workers: Vec<String>,

    /// The headless Service of the workers; its EndpointSlices have their addresses. If empty and without --workers, this process
    /// evaluates all nodes
    #[arg(long, value_name = "NAME", default_value = "flotilla-worker", help_heading = WORKERS)]
    pub worker_service: String,

    /// The namespace of --worker-service and of the Secrets with certificates. Without it, the one this pod runs in
    #[arg(long, value_name = "NAMESPACE", help_heading = WORKERS)]
    pub worker_namespace: Option<String>,

    /// The name of the port of --worker-service that the workers listen on
    #[arg(long, value_name = "NAME", default_value = "grpc", help_heading = WORKERS)]
    pub worker_port_name: String,

    /// Transport between coordinator and workers.
    #[command(flatten)]
    pub transport: TransportFlags,

    /// How long a pod may be unschedulable before it is tried again without an event. Deprecated in kube-scheduler
    #[arg(long, value_name = "DURATION", help_heading = SCHEDULING)]
    #[arg(default_value = "5m", value_parser = parse_duration)]
    pub pod_max_in_unschedulable_pods_duration: Duration,

    /// Breaks ties between equally good nodes: the same seed chooses the same nodes. All replicas must have the same
    #[arg(long, value_name = "NUMBER", default_value_t = 0, help_heading = SCHEDULING)]
    pub tie_break_seed: u64,

    /// Number of decisions kept for `flotilla explain` of bound pods; 0 keeps none
    #[arg(long, value_name = "NUMBER", default_value_t = flotilla_machine::recall::DECISIONS_KEPT, help_heading = SCHEDULING)]
    pub decisions_kept: usize,

    /// Recording of events and decisions.
    #[command(flatten)]
    pub record: RecordFlags,

    /// Export of spans.
    #[command(flatten)]
    pub tracing: TracingArgs,

    /// Log verbosity, as in Kubernetes: 0 essential, 2 changes, 4 reasons, 6 and more everything
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0, help_heading = LOGGING)]
    pub verbosity: u8,

    /// Format of log lines
    #[arg(long, value_name = "FORMAT", default_value = "text", value_enum, help_heading = LOGGING)]
    pub logging_format: LoggingFormat,

    /// Deprecated flags.
    #[command(flatten)]
    pub deprecated: Deprecated,

    /// Flags without effect.
    #[command(flatten)]
    pub ineffective: Ineffective,

    /// The name of the program.
    #[arg(skip)]
    pub program: Program,

    #[arg(hide = true, num_args = 0.., value_name = "ARGUMENTS")]
    positional: Vec<OsString>,
}

/// The flags of leader election: `None` if not given, so that the configuration file applies.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = ELECTION)]
pub struct LeaderElectionFlags {
    /// Schedule only while leading, as needed with more than one replica (default true)
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_parser = parse_bool)]
    pub leader_elect: Option<bool>,

    /// How long other replicas wait after the last observed renewal before they try to acquire the lease (default 15s)
    #[arg(long, value_name = "DURATION", value_parser = parse_time)]
    pub leader_elect_lease_duration: Option<Duration>,

    /// How long the leader retries a renewal before it stops leading; less than the lease duration (default 10s)
    #[arg(long, value_name = "DURATION", value_parser = parse_time)]
    pub leader_elect_renew_deadline: Option<Duration>,

    /// Interval between attempts to acquire or renew the lease (default 2s)
    #[arg(long, value_name = "DURATION", value_parser = parse_time)]
    pub leader_elect_retry_period: Option<Duration>,

    /// The resource used as the lock; only leases is supported (default leases)
    #[arg(long, value_name = "KIND", value_parser = parse_lock)]
    pub leader_elect_resource_lock: Option<String>,

    /// The name of the lease. It must be the same for all replicas and differ from other schedulers' (default flotilla)
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub leader_elect_resource_name: Option<String>,

    /// The namespace of the lease (default kube-system)
    #[arg(long, value_name = "NAMESPACE", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub leader_elect_resource_namespace: Option<String>,
}

impl LeaderElectionFlags {
    /// The flags that were given.
    #[must_use]
    pub fn given(&self) -> ElectionFlags {
        let ms = |given: Option<Duration>| given.map(|given| u64::try_from(given.as_millis()).unwrap_or(u64::MAX));
        ElectionFlags {
            leader_elect: self.leader_elect,
            lease_duration_ms: ms(self.leader_elect_lease_duration),
            renew_deadline_ms: ms(self.leader_elect_renew_deadline),
            retry_period_ms: ms(self.leader_elect_retry_period),
            resource_lock: self.leader_elect_resource_lock.clone(),
            resource_name: self.leader_elect_resource_name.clone(),
            resource_namespace: self.leader_elect_resource_namespace.clone(),
            default_resource_name: None,
        }
    }
}

impl Args {
    /// Parses the command line `line`, with the program as its first element. The name of the program selects the defaults.
    ///
    /// # Errors
    /// Usage errors, and `--help` and `--version`, which are not failures; [`clap::Error::exit`] handles each.
    pub fn read_from<T: Into<OsString> + Clone>(line: impl IntoIterator<Item = T>) -> Result<Self, clap::Error> {
        let line: Vec<OsString> = line.into_iter().map(Into::into).collect();
        let program = Program::of(line.first().map(OsString::as_os_str));
        let refused = |kind, message: String| program.command().error(kind, message);
        let words = line.into_iter().map(spelling::normalized);
        let matches = program.command().try_get_matches_from(words).map_err(|error| explain(error, program))?;
        let mut args = Self::from_arg_matches(&matches)?;
        args.program = program;
        let gates = FeatureGates::parse(&args.feature_gates.join(","));
        args.gates = gates.map_err(|errors| refused(ErrorKind::ValueValidation, errors.to_string()))?;
        if !args.positional.is_empty() {
            let given: Vec<_> = args.positional.iter().map(|word| format!("{:?}", word.to_string_lossy())).collect();
            let message = format!(
                "{} does not take any arguments, got {}; flags take their value after `=`, as in --leader-elect=false",
                program.name(),
                given.join(" ")
            );
            return Err(refused(ErrorKind::UnknownArgument, message));
        }
        Ok(args)
    }

    /// Whether a flag names workers. Without them this process evaluates all nodes.
    #[must_use]
    pub fn expects_workers(&self) -> bool {
        !self.workers.is_empty() || !self.worker_service.is_empty()
    }

    /// The given flags of leader election, and the default of the program's name.
    #[must_use]
    pub fn election(&self) -> ElectionFlags {
        ElectionFlags { default_resource_name: self.program.lease().map(str::to_owned), ..self.leader_election.given() }
    }
}

/// Adds advice to an error about a flag of an earlier kube-scheduler.
fn explain(error: clap::Error, program: Program) -> clap::Error {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return error };
    match removed::advice(given) {
        Some(advice) if error.kind() == ErrorKind::UnknownArgument => {
            program.command().error(ErrorKind::UnknownArgument, advice)
        }
        _ => error,
    }
}

/// A boolean as Go's `strconv.ParseBool` takes it.
fn parse_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("write true or false".to_owned()),
    }
}

fn parse_time(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(duration) if duration < Duration::from_millis(1) => Err("an election needs at least 1ms here".to_owned()),
        other => other.map_err(|error| error.to_string()),
    }
}

fn parse_lock(text: &str) -> Result<String, String> {
    if text == "leases" { Ok(text.to_owned()) } else { Err("the only lock is leases".to_owned()) }
}

fn parse_worker(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.contains("://") {
        return Err("write host:port, without a scheme".to_owned());
    }
    let (host, port) = text.rsplit_once(':').ok_or("write host:port")?;
    if !port.parse().is_ok_and(|port: u16| port > 0) {
        return Err(format!("{port:?} is no port; write host:port with a port from 1 to 65535"));
    }
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let sound = match bracketed {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)),
    };
    if !sound {
        return Err(format!("{host:?} is no host; write a name, an IPv4 address, or an IPv6 address in brackets"));
    }
    Ok(text.to_owned())
}
