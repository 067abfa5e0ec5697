//! kube-scheduler's flags that have no effect here: each given one is a warning with its reason.
//!
//! Source: `kube-scheduler --help` of Kubernetes 1.37.2.

use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, error::Error};

const HEADING: &str = "Without effect";

struct Flag {
    name: &'static str,
    value: &'static str,
    /// The reason, and the alternative if there is one.
    reason: &'static str,
    /// Values that describe Flotilla's behavior, and need no warning.
    met_by: &'static [&'static str],
}

const fn flag(name: &'static str, value: &'static str, reason: &'static str) -> Flag {
    Flag { name, value, reason, met_by: &[] }
}

const NO_PROXIES: &str = "authenticating proxies are not supported, and their headers are ignored";
const UNBUFFERED: &str = "each log line is written at once, to standard error";
const BOUNDED: &str = "the values of all metric labels are bounded";
const VERSION: &str = "the behavior is always that of kube-scheduler 1.37";

const FLAGS: &[Flag] = &[
    flag("allow-metric-labels", "LABELS", BOUNDED),
    flag("allow-metric-labels-manifest", "FILE", BOUNDED),
    Flag {
        met_by: &["true"],
        ..flag(
            "authentication-tolerate-lookup-failure",
            "BOOL",
            "a failed look-up is logged and retried, and never ends the process",
        )
    },
    flag("disabled-metrics", "NAMES", "all metrics are served; drop them in the configuration of Prometheus"),
    Flag { met_by: &["1.37", "kube=1.37"], ..flag("emulated-version", "VERSION", VERSION) },
    flag("http2-max-streams-per-connection", "NUMBER", "the limit is fixed"),
    Flag { met_by: &["0", "0s"], ..flag("log-flush-frequency", "DURATION", UNBUFFERED) },
    flag("log-json-info-buffer-size", "BYTES", UNBUFFERED),
    Flag { met_by: &["false"], ..flag("log-json-split-stream", "BOOL", UNBUFFERED) },
    flag("log-text-info-buffer-size", "BYTES", UNBUFFERED),
    Flag { met_by: &["false"], ..flag("log-text-split-stream", "BOOL", UNBUFFERED) },
    Flag {
        met_by: &["1.36", "1.37", "kube=1.36", "kube=1.37"],
        ..flag("min-compatibility-version", "VERSION", VERSION)
    },
    Flag { met_by: &["true"], ..flag("permit-address-sharing", "BOOL", "SO_REUSEADDR is always set") },
    flag("requestheader-allowed-names", "NAMES", NO_PROXIES),
    flag("requestheader-client-ca-file", "FILE", NO_PROXIES),
    flag("requestheader-extra-headers-prefix", "PREFIXES", NO_PROXIES),
    flag("requestheader-group-headers", "HEADERS", NO_PROXIES),
    flag("requestheader-uid-headers", "HEADERS", NO_PROXIES),
    flag("requestheader-username-headers", "HEADERS", NO_PROXIES),
    flag("show-hidden-metrics-for-version", "VERSION", "no metric is hidden"),
    flag("tls-sni-cert-key", "FILES", "every client receives the certificate of --tls-cert-file"),
    flag("vmodule", "PATTERNS", "-v applies to all modules; the environment variable RUST_LOG sets the level of one"),
];

impl Flag {
    fn is_boolean(&self) -> bool {
        self.value == "BOOL"
    }

    fn arg(&self) -> Arg {
        let arg = Arg::new(self.name)
            .long(self.name)
            .value_name(self.value)
            .action(ArgAction::Append)
            .help(format!("No effect: {}", self.reason))
            .help_heading(HEADING);
        if !self.is_boolean() {
            return arg;
        }
        arg.num_args(0..=1).require_equals(true).default_missing_value("true").value_parser(["true", "false"])
    }
}

/// The given flags without effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ineffective {
    /// A warning for each of them.
    pub warnings: Vec<String>,
}

impl FromArgMatches for Ineffective {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let warning = |flag: &Flag| {
            let mut given = matches.get_many::<String>(flag.name)?;
            let differs = given.any(|value| !flag.met_by.contains(&value.as_str()));
            differs.then(|| format!("--{} has no effect: {}", flag.name, flag.reason))
        };
        Ok(Self { warnings: FLAGS.iter().filter_map(warning).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for Ineffective {
    fn augment_args(command: Command) -> Command {
        command.args(FLAGS.iter().map(Flag::arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
