//! The command line of `flotilla-worker`.

use std::{ffi::OsString, path::PathBuf};

use clap::Parser;
use flotilla_telemetry::{TracingArgs, log::LoggingFormat};

const EXAMPLES: &str = "\
Examples:
  # In a cluster, with the Secret flotilla-worker-tls mounted at /etc/flotilla/worker-tls and a port for the kubelet's probes
  flotilla-worker --health-listen 0.0.0.0:10271

  # Two on one machine, for a coordinator with --workers 127.0.0.1:10271,127.0.0.1:10272
  flotilla-worker --worker-tls-dir worker-tls --listen 127.0.0.1:10271 &
  flotilla-worker --worker-tls-dir worker-tls --listen 127.0.0.1:10272 --v 4 &

  # Is it well, and what does it offer? Only a coordinator may ask.
  grpcurl -insecure -cert coordinator-tls/tls.crt -key coordinator-tls/tls.key localhost:10270 grpc.health.v1.Health/Check
  grpcurl -insecure -cert coordinator-tls/tls.crt -key coordinator-tls/tls.key localhost:10270 describe flotilla.v1.Worker";

/// Hold a shard of the cluster's nodes, and filter and score it for Flotilla's coordinator.
///
/// A worker is stateless: start, stop or kill any number of workers at any time.
#[derive(Debug, Parser, PartialEq)]
#[command(name = "flotilla-worker", version, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Address for coordinators, health checks and reflection; port 0 takes any free one
    #[arg(long, value_name = "HOST:PORT", default_value = "0.0.0.0:10270")]
    pub(crate) listen: String,

    /// Folder with tls.crt, tls.key and ca.crt, such as a mounted Secret. The worker waits until they exist and reloads them on change
    #[arg(long, value_name = "FOLDER", default_value = "/etc/flotilla/worker-tls")]
    pub(crate) worker_tls_dir: PathBuf,

    /// Serve in plaintext without authentication: any client that reaches the port is served, and nothing on the wire is encrypted
    #[arg(long, conflicts_with = "worker_tls_dir")]
    pub(crate) insecure_worker_transport: bool,

    /// Address for /livez, /readyz and /healthz in plaintext, readable by any client that reaches the port, such as the kubelet; off if
    /// unset
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) health_listen: Option<String>,

    /// Address for /metrics in plaintext, readable by any client that reaches the port; off if unset
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) metrics_listen: Option<String>,

    /// Where spans go.
    #[command(flatten)]
    pub(crate) tracing: TracingArgs,

    /// Log verbosity: 0 to 3 info, 4 and 5 debug, 6 and above trace
    #[arg(short, long, value_name = "LEVEL", default_value_t = 2)]
    pub(crate) v: u8,

    /// Format of the log on standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LoggingFormat::Text)]
    pub(crate) logging_format: LoggingFormat,
}

/// The command line of `flotilla-worker`, for its manual page.
#[must_use]
pub fn command_line() -> clap::Command {
    <Args as clap::CommandFactory>::command()
}

impl Args {
    /// Parses a command line; its first element is the program.
    pub(crate) fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        Self::try_parse_from(words)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::CommandFactory as _;

    use super::*;

    fn read(words: &[&str]) -> Result<Args, clap::Error> {
        Args::read(["flotilla-worker"].iter().chain(words).map(OsString::from))
    }

    #[test]
    fn the_flags_are_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn plaintext_must_be_asked_for_and_goes_with_no_certificates() {
        let args = read(&["--worker-tls-dir=/tls"]).expect("arguments");
        assert!(!args.insecure_worker_transport && args.worker_tls_dir == Path::new("/tls"));
        assert!(read(&["--insecure-worker-transport"]).expect("arguments").insecure_worker_transport);
        let error = read(&["--insecure-worker-transport", "--worker-tls-dir=/tls"]).expect_err("a refusal");
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn the_defaults_listen_on_every_address_and_look_for_a_mounted_secret() {
        let args = read(&[]).expect("arguments");
        let logging_format = LoggingFormat::Text;
        let (listen, worker_tls_dir) = ("0.0.0.0:10270".to_owned(), "/etc/flotilla/worker-tls".into());
        let (insecure_worker_transport, health_listen, metrics_listen, v) = (false, None, None, 2);
        let tracing = TracingArgs { tracing_endpoint: None, tracing_sampling_ratio: 1.0 };
        assert_eq!(
            args,
            Args {
                listen,
                worker_tls_dir,
                insecure_worker_transport,
                health_listen,
                metrics_listen,
                tracing,
                v,
                logging_format
            }
        );
    }

    #[test]
    fn the_level_has_a_short_and_a_long_name() {
        for words in [["-v", "4"], ["--v", "4"]] {
            let args = read(&[words[0], words[1]]).expect("arguments");
            assert_eq!(args.v, 4);
        }
        assert_eq!(read(&["--v=6"]).expect("arguments").v, 6);
    }
}
