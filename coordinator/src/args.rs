//! The command line of `flotilla-coordinator`, in the habits of kube-scheduler.
//!
//! Knows flags, their texts and their grammar. Must not know what a flag does, nor the configuration file: flags that
//! override it tell whether they were given, and whoever reads both applies them.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser, ValueEnum};
use flotilla_framework::config::LeaderElection;

const CONFIGURATION: &str = "Configuration";
const ELECTION: &str = "Leader election";
const SERVING: &str = "Serving";
const WORKERS: &str = "Workers";
const SCHEDULING: &str = "Scheduling";
const LOGGING: &str = "Logging";

const EXAMPLES: &str = "\
Examples:
  # In a pod, with the workers behind the headless Service flotilla-worker
  flotilla-coordinator --config=/etc/flotilla/config.yaml --insecure-worker-transport

  # On a laptop, against the cluster of a kubeconfig, with two workers at known addresses
  flotilla-coordinator --kubeconfig=$HOME/.kube/config --leader-elect=false \\
    --workers=127.0.0.1:7443,127.0.0.1:7444 --insecure-worker-transport -v=4

  # Is it well?
  curl -k https://localhost:10259/readyz?verbose";

/// What kube-scheduler takes and this program does not, with what to do instead.
const FOREIGN: &[(&str, &str)] = &[
    ("--authentication-kubeconfig", "the endpoints are not authenticated in this version; remove it"),
    ("--authentication-skip-lookup", "the endpoints are not authenticated in this version; remove it"),
    ("--authentication-tolerate-lookup-failure", "the endpoints are not authenticated in this version; remove it"),
    ("--authorization-always-allow-paths", "the endpoints are not authorized in this version; remove it"),
    ("--authorization-kubeconfig", "the endpoints are not authorized in this version; remove it"),
    ("--cert-dir", "name the files with --tls-cert-file and --tls-private-key-file"),
    ("--client-ca-file", "the endpoints are not authenticated in this version; remove it"),
    ("--contention-profiling", "there is no profiling endpoint; remove it"),
    ("--feature-gates", "there are no feature gates; remove it"),
    ("--kube-api-burst", "set clientConnection.burst in the file of --config"),
    ("--kube-api-content-type", "remove it"),
    ("--kube-api-qps", "set clientConnection.qps in the file of --config"),
    ("--profiling", "there is no profiling endpoint; remove it"),
    ("--requestheader-client-ca-file", "the endpoints are not authenticated in this version; remove it"),
    ("--tls-cipher-suites", "the suites are those of TLS 1.3 and the strong ones of TLS 1.2; remove it"),
    ("--tls-min-version", "it is TLS 1.2; remove it"),
    ("--write-config-to", "the configuration in force is served at /configz; remove it"),
];

/// The Flotilla coordinator: watches the cluster, has its workers filter and score, and binds pods to nodes.
///
/// It is a drop-in for kube-scheduler: it reads the same KubeSchedulerConfiguration, elects one leader among its
/// replicas, and schedules the pods whose schedulerName is that of one of its profiles.
#[derive(Clone, Debug, Parser)]
#[command(name = "flotilla-coordinator", version, after_help = EXAMPLES, max_term_width = 110)]
pub struct Args {
    /// The file with the KubeSchedulerConfiguration. Without it, the defaults of kube-scheduler
    #[arg(long, value_name = "FILE", help_heading = CONFIGURATION)]
    pub config: Option<PathBuf>,

    /// How to reach the API server and as whom; overrides clientConnection.kubeconfig. Without either, the service
    /// account of the pod
    #[arg(long, value_name = "FILE", help_heading = CONFIGURATION)]
    pub kubeconfig: Option<PathBuf>,

    /// The URL of the API server; overrides the one in the kubeconfig
    #[arg(long, value_name = "URL", help_heading = CONFIGURATION)]
    pub master: Option<String>,

    /// Leader election.
    #[command(flatten)]
    pub leader_election: LeaderElectionFlags,

    /// The address that the HTTPS endpoints listen on
    #[arg(long, value_name = "IP", default_value = "0.0.0.0", help_heading = SERVING)]
    pub bind_address: IpAddr,

    /// The port of /healthz, /livez, /readyz, /metrics and /configz. 0 turns them off
    #[arg(long, value_name = "PORT", default_value_t = 10259, help_heading = SERVING)]
    pub secure_port: u16,

    /// The certificate of the HTTPS endpoints in PEM, with its chain after it. Without it, one is made up and signed by
    /// itself
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file", help_heading = SERVING)]
    pub tls_cert_file: Option<PathBuf>,

    /// The private key to --tls-cert-file in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert_file", help_heading = SERVING)]
    pub tls_private_key_file: Option<PathBuf>,

    /// Where the workers are, when they are not behind a Service: host:port, separated by commas
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',', value_parser = parse_worker, help_heading = WORKERS)]
    #[arg(conflicts_with_all = ["worker_service", "worker_namespace", "worker_port_name"])]
    pub workers: Vec<String>,

    /// The headless Service whose EndpointSlices name the workers
    #[arg(long, value_name = "NAME", default_value = "flotilla-worker", help_heading = WORKERS)]
    pub worker_service: String,

    /// The namespace of --worker-service. Without it, the one this pod runs in
    #[arg(long, value_name = "NAMESPACE", help_heading = WORKERS)]
    pub worker_namespace: Option<String>,

    /// The name of the port of --worker-service that the workers listen on
    #[arg(long, value_name = "NAME", default_value = "grpc", help_heading = WORKERS)]
    pub worker_port_name: String,

    /// Speak with the workers without encryption and without knowing who they are. This version has no other way, and
    /// asks that you say you know
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, help_heading = WORKERS)]
    #[arg(default_value = "false", default_missing_value = "true", value_parser = parse_bool)]
    #[arg(action = clap::ArgAction::Set)]
    pub insecure_worker_transport: bool,

    /// The longest that a pod found unschedulable waits before it is tried again without any reason
    #[arg(long, value_name = "DURATION", help_heading = SCHEDULING)]
    #[arg(default_value = "5m", value_parser = parse_duration)]
    pub pod_max_in_unschedulable_pods_duration: Duration,

    /// Breaks ties between equally good nodes: the same seed chooses the same nodes. All replicas must have the same
    #[arg(long, value_name = "NUMBER", default_value_t = 0, help_heading = SCHEDULING)]
    pub tie_break_seed: u64,

    /// How much is logged, as in Kubernetes: 0 what matters, 2 what changes, 4 why, 6 and more everything
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0, help_heading = LOGGING)]
    pub verbosity: u8,

    /// How a line of the log is written
    #[arg(long, value_name = "FORMAT", default_value = "text", value_enum, help_heading = LOGGING)]
    pub logging_format: LoggingFormat,

    #[arg(hide = true, num_args = 0.., value_name = "ARGUMENTS")]
    positional: Vec<OsString>,
}

/// The flags of leader election: `None` where not given, so that the configuration file stands.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = ELECTION)]
pub struct LeaderElectionFlags {
    /// Work only while leading, as needed with more than one replica (default true)
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_parser = parse_bool)]
    pub leader_elect: Option<bool>,

    /// How long the others wait after the last renewal they saw before one of them takes over (default 15s)
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub leader_elect_lease_duration: Option<Duration>,

    /// How long a leader leads without a renewal; less than the lease duration (default 10s)
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub leader_elect_renew_deadline: Option<Duration>,

    /// Between two attempts to take or renew the lease (default 2s)
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub leader_elect_retry_period: Option<Duration>,

    /// The kind of object that is the lock: leases, as everywhere in Kubernetes (default leases)
    #[arg(long, value_name = "KIND", value_parser = parse_lock)]
    pub leader_elect_resource_lock: Option<String>,

    /// The name of the lease. All replicas must have the same, and other schedulers another (default flotilla)
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub leader_elect_resource_name: Option<String>,

    /// The namespace of the lease (default kube-system)
    #[arg(long, value_name = "NAMESPACE", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub leader_elect_resource_namespace: Option<String>,
}

impl LeaderElectionFlags {
    /// Overrides in `election` what was given on the command line.
    pub fn apply(&self, election: &mut LeaderElection) {
        fn set<T: Clone>(to: &mut T, given: Option<&T>) {
            if let Some(given) = given {
                to.clone_from(given);
            }
        }
        fn set_time(to_ms: &mut u64, given: Option<Duration>) {
            if let Some(given) = given {
                *to_ms = u64::try_from(given.as_millis()).unwrap_or(u64::MAX);
            }
        }
        set(&mut election.leader_elect, self.leader_elect.as_ref());
        set_time(&mut election.lease_duration_ms, self.leader_elect_lease_duration);
        set_time(&mut election.renew_deadline_ms, self.leader_elect_renew_deadline);
        set_time(&mut election.retry_period_ms, self.leader_elect_retry_period);
        set(&mut election.resource_name, self.leader_elect_resource_name.as_ref());
        set(&mut election.resource_namespace, self.leader_elect_resource_namespace.as_ref());
    }
}

/// How a line of the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LoggingFormat {
    /// For people.
    Text,
    /// For machines: one JSON object per line.
    Json,
}

impl Args {
    /// The command line `line`, whose first word is the program.
    ///
    /// # Errors
    /// Help and version, which are none, and usage errors; [`clap::Error::exit`] treats each as it should be.
    pub fn read_from<T: Into<OsString> + Clone>(line: impl IntoIterator<Item = T>) -> Result<Self, clap::Error> {
        let args = Self::try_parse_from(line).map_err(explain)?;
        if !args.positional.is_empty() {
            let given: Vec<_> = args.positional.iter().map(|word| format!("{:?}", word.to_string_lossy())).collect();
            let message = format!(
                "flotilla-coordinator does not take any arguments, got {}; flags take their value after `=`, \
                 as in --leader-elect=false",
                given.join(" ")
            );
            return Err(Self::command().error(ErrorKind::UnknownArgument, message));
        }
        if !args.insecure_worker_transport {
            let message = "this version speaks with its workers without encryption and cannot tell who they are: \
                           pass --insecure-worker-transport to accept that, and let only coordinators reach the \
                           workers' port, by a NetworkPolicy for example";
            return Err(Self::command().error(ErrorKind::MissingRequiredArgument, message));
        }
        Ok(args)
    }

    /// The level of the log that [`verbosity`](Self::verbosity) asks for, by the conventions of klog: up to 3 is for
    /// operators, 4 and 5 for those who look for a cause.
    pub fn log_level(&self) -> tracing::Level {
        match self.verbosity {
            0..=3 => tracing::Level::INFO,
            4..=5 => tracing::Level::DEBUG,
            _ => tracing::Level::TRACE,
        }
    }
}

/// Says of a flag that kube-scheduler has why it is unknown here.
fn explain(error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return error };
    let advice = FOREIGN.iter().find(|(flag, _)| flag == given);
    match advice {
        Some((flag, advice)) if error.kind() == ErrorKind::UnknownArgument => {
            let message = format!("flotilla-coordinator has no {flag}, unlike kube-scheduler: {advice}");
            Args::command().error(ErrorKind::UnknownArgument, message)
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

fn parse_lock(text: &str) -> Result<String, String> {
    if text == "leases" { Ok(text.to_owned()) } else { Err("the only lock is leases".to_owned()) }
}

/// `host:port`, or `[address]:port` for IPv6.
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

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// It does not follow the grammar.
    #[error("{0:?} is no duration; write one like 15s, 1m30s or 500ms")]
    Grammar(String),
    /// A number without unit.
    #[error("{0:?} lacks a unit; write one of h, m, s, ms, us, ns after each number, as in 15s")]
    Unit(String),
    /// Below zero.
    #[error("{0:?} is below zero, which no duration here can be")]
    Negative(String),
    /// More than Go's `time.Duration` holds, about 292 years.
    #[error("{0:?} is too long; the longest duration is about 292 years")]
    Range(String),
}

/// Parses a duration as Go's `time.ParseDuration`, exactly: `15s`, `1m30s`, `1.5h`, `500ms`, `0`. What is finer than a
/// nanosecond is cut off.
///
/// # Errors
/// [`DurationError`], also for durations below zero, which Go takes.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let grammar = || DurationError::Grammar(text.to_owned());
    let mut rest = unsigned;
    let mut total_ns: u128 = 0;
    if rest != "0" {
        if rest.is_empty() {
            return Err(grammar());
        }
        while !rest.is_empty() {
            let (whole, after) = digits(rest);
            let (fraction, after) = after.strip_prefix('.').map_or(("", after), digits);
            if whole.is_empty() && fraction.is_empty() {
                return Err(grammar());
            }
            let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
            let unit_ns = match &after[..end] {
                "" => return Err(DurationError::Unit(text.to_owned())),
                "ns" => 1,
                "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
                "ms" => 1_000_000,
                "s" => 1_000_000_000,
                "m" => 60_000_000_000,
                "h" => 3_600_000_000_000,
                _ => return Err(grammar()),
            };
            total_ns = term_ns(whole, fraction, unit_ns)
                .and_then(|term| total_ns.checked_add(term))
                .filter(|total| *total <= i64::MAX as u128)
                .ok_or_else(|| DurationError::Range(text.to_owned()))?;
            rest = &after[end..];
        }
    }
    if text.starts_with('-') && total_ns > 0 {
        return Err(DurationError::Negative(text.to_owned()));
    }
    u64::try_from(total_ns).map(Duration::from_nanos).map_err(|_| DurationError::Range(text.to_owned()))
}

/// The digits that `text` begins with, and the rest.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// `whole.fraction` units in nanoseconds; `None` when that is out of every range.
fn term_ns(whole: &str, fraction: &str, unit_ns: u128) -> Option<u128> {
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut total = whole.checked_mul(unit_ns)?;
    // An hour has 13 digits of nanoseconds: what comes after the 15th digit of a fraction weighs less than one.
    let fraction = &fraction[..fraction.len().min(15)];
    if !fraction.is_empty() {
        let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
        total = total.checked_add(fraction.parse::<u128>().ok()? * unit_ns / scale)?;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Args, clap::Error> {
        let flags = line.split_whitespace().chain(["--insecure-worker-transport"]);
        Args::read_from(std::iter::once("flotilla-coordinator").chain(flags))
    }

    fn refusal(line: &str) -> String {
        let error = read(line).expect_err("a usage error");
        assert_eq!(error.exit_code(), 2, "{error}");
        error.to_string()
    }

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn no_flag_but_the_required_one_gives_the_defaults() {
        let args = read("").expect("sound");
        assert_eq!((args.secure_port, args.bind_address), (10259, IpAddr::from([0, 0, 0, 0])));
        assert_eq!((args.worker_service.as_str(), args.worker_namespace), ("flotilla-worker", None));
        assert_eq!(args.pod_max_in_unschedulable_pods_duration, Duration::from_secs(300));
        assert_eq!((args.verbosity, args.logging_format, args.tie_break_seed), (0, LoggingFormat::Text, 0));
        let mut election = LeaderElection::default();
        args.leader_election.apply(&mut election);
        assert_eq!(election, LeaderElection::default());
    }

    #[test]
    fn only_election_flags_that_were_given_override_the_file() {
        let file = LeaderElection {
            leader_elect: false,
            lease_duration_ms: 60_000,
            resource_name: "from-file".to_owned(),
            ..LeaderElection::default()
        };
        let mut election = file.clone();
        // The default, but said: it counts.
        let args = read("--leader-elect-lease-duration=15s --leader-elect --leader-elect-resource-lock leases");
        args.expect("sound").leader_election.apply(&mut election);
        assert_eq!(election, LeaderElection { leader_elect: true, lease_duration_ms: 15_000, ..file });
    }

    #[test]
    fn booleans_are_written_as_in_go() {
        for (line, value) in [
            ("--leader-elect", Some(true)),
            ("--leader-elect=true", Some(true)),
            ("--leader-elect=false", Some(false)),
            ("--leader-elect=F", Some(false)),
            ("", None),
        ] {
            assert_eq!(read(line).expect("sound").leader_election.leader_elect, value, "{line}");
        }
        assert!(refusal("--leader-elect=no").contains("write true or false"));
    }

    #[test]
    fn verbosity_is_written_as_in_klog() {
        for line in ["-v=4", "-v 4", "--v=4", "--v 4", "-v4"] {
            let args = read(line).expect(line);
            assert_eq!((args.verbosity, args.log_level()), (4, tracing::Level::DEBUG), "{line}");
        }
        assert_eq!(read("").expect("sound").log_level(), tracing::Level::INFO);
        assert_eq!(read("-v=10").expect("sound").log_level(), tracing::Level::TRACE);
    }

    #[test]
    fn arguments_without_a_flag_are_refused_in_plain_words() {
        let message = refusal("--leader-elect false");
        assert!(message.contains("does not take any arguments, got \"false\""), "{message}");
    }

    #[test]
    fn an_unknown_flag_is_a_usage_error_and_those_of_kube_scheduler_come_with_advice() {
        assert!(refusal("--no-such-flag").contains("--no-such-flag"));
        let message = refusal("--kube-api-qps=100");
        assert!(message.contains("set clientConnection.qps in the file of --config"), "{message}");
        assert!(refusal("--profiling=false").contains("there is no profiling endpoint"));
    }

    #[test]
    fn version_and_help_are_no_errors() {
        let version = Args::read_from(["flotilla-coordinator", "--version"]).expect_err("ends the process");
        assert_eq!(version.exit_code(), 0);
        assert_eq!(version.to_string(), format!("flotilla-coordinator {}\n", env!("CARGO_PKG_VERSION")));
        let help = Args::read_from(["flotilla-coordinator", "--help"]).expect_err("ends the process");
        assert_eq!(help.exit_code(), 0);
        let help = help.to_string();
        for heading in [CONFIGURATION, ELECTION, SERVING, WORKERS, SCHEDULING, LOGGING, "Examples"] {
            assert!(help.contains(&format!("\n{heading}:\n")), "{heading} in {help}");
        }
        assert!(!help.contains("ARGUMENTS"), "the hidden rest stays hidden");
    }

    #[test]
    fn an_insecure_transport_has_to_be_asked_for() {
        let error = Args::read_from(["flotilla-coordinator"]).expect_err("refused");
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("pass --insecure-worker-transport to accept that"));
        Args::read_from(["flotilla-coordinator", "--insecure-worker-transport=false"]).expect_err("refused");
        Args::read_from(["flotilla-coordinator", "--insecure-worker-transport=true"]).expect("accepted");
    }

    #[test]
    fn workers_are_hosts_and_ports() {
        let args = read("--workers=a.b-c:1,127.0.0.1:7443,[::1]:65535").expect("sound");
        assert_eq!(args.workers, ["a.b-c:1", "127.0.0.1:7443", "[::1]:65535"]);
        for (line, why) in [
            ("--workers=http://a:1", "without a scheme"),
            ("--workers=a", "write host:port"),
            ("--workers=a:0", "from 1 to 65535"),
            ("--workers=a:65536", "from 1 to 65535"),
            ("--workers=::1:80", "IPv6 address in brackets"),
            ("--workers=a:1,", "write host:port"),
            ("--workers=a:1 --worker-service=b", "cannot be used with"),
        ] {
            assert!(refusal(line).contains(why), "{line}: {}", refusal(line));
        }
    }

    #[test]
    fn half_a_certificate_and_another_lock_are_refused() {
        assert!(refusal("--tls-cert-file=a").contains("--tls-private-key-file"));
        assert!(refusal("--leader-elect-resource-lock=endpoints").contains("the only lock is leases"));
    }

    #[test]
    fn durations_are_read_exactly_as_go_writes_them() {
        for (text, ns) in [
            ("0", 0),
            ("-0", 0),
            ("0s", 0),
            ("15s", 15_000_000_000),
            ("1m30s", 90_000_000_000),
            ("1h15m30.918s", 4_530_918_000_000),
            ("+5m", 300_000_000_000),
            (".5s", 500_000_000),
            ("5.s", 5_000_000_000),
            ("500ms", 500_000_000),
            ("1us", 1_000),
            ("1\u{b5}s", 1_000),
            ("1\u{3bc}s", 1_000),
            ("0.1ns", 0),
            ("0.100000000000000000000h", 360_000_000_000),
            ("0.3333333333333333333h", 1_199_999_999_999),
            ("9223372036854775807ns", i64::MAX as u64),
            ("2562047h47m16.854775807s", i64::MAX as u64),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_says_why() {
        let grammar = ["", "-", "s", ".", "-.", ".s", "+.s", "1d", "1s ", " 1s", "1\u{a0}s", "1ss", "\u{fc}", "--1s"];
        for text in grammar {
            assert_eq!(parse_duration(text), Err(DurationError::Grammar(text.to_owned())), "{text:?}");
        }
        for text in ["3", "15", "1s5", "1.5", "1.2.3s"] {
            assert_eq!(parse_duration(text), Err(DurationError::Unit(text.to_owned())), "{text:?}");
        }
        assert_eq!(parse_duration("-5s"), Err(DurationError::Negative("-5s".to_owned())));
        for text in ["9223372036854775808ns", "3000000h", "99999999999999999999999999999999999999999999s"] {
            assert_eq!(parse_duration(text), Err(DurationError::Range(text.to_owned())), "{text:?}");
        }
        assert!(refusal("--leader-elect-retry-period=2").contains("lacks a unit"));
    }
}
