//! The command line of `flotilla-worker`.
//!
//! Knows: flags, their defaults, and which combinations are refused. Must not know: what they lead to.

use std::ffi::OsString;

use clap::{CommandFactory as _, Parser, ValueEnum, error::ErrorKind};

const EXAMPLES: &str = "\
Examples:
  # In a cluster whose network is trusted or encrypted by its CNI
  flotilla-worker --insecure-worker-transport

  # Two on one machine, for a coordinator with --workers 127.0.0.1:10271,127.0.0.1:10272
  flotilla-worker --insecure-worker-transport --listen 127.0.0.1:10271 &
  flotilla-worker --insecure-worker-transport --listen 127.0.0.1:10272 --v 4 &

  # Is it well, and what does it offer?
  grpcurl -plaintext localhost:10270 grpc.health.v1.Health/Check
  grpcurl -plaintext localhost:10270 describe flotilla.v1.Worker";

/// Holds a part of a cluster's nodes and judges and scores them for the coordinator of Flotilla.
///
/// A worker keeps nothing: it may be started, stopped and killed at any time, and in any number.
#[derive(Debug, Parser, PartialEq, Eq)]
#[command(name = "flotilla-worker", version, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Where to listen for coordinators, health checks and reflection; port 0 takes any free one
    #[arg(long, value_name = "HOST:PORT", default_value = "0.0.0.0:10270")]
    pub(crate) listen: String,

    /// Accept that whoever reaches the port is obeyed and that nothing on the wire is encrypted; required, since
    /// plaintext is the only transport so far
    #[arg(long)]
    pub(crate) insecure_worker_transport: bool,

    /// Where to serve /metrics in plaintext to whoever reaches the port; nowhere without it
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) metrics_listen: Option<String>,

    /// How much to log: 0 to 3 informs, 4 and 5 debug, 6 and above trace
    #[arg(short, long, value_name = "LEVEL", default_value_t = 2)]
    pub(crate) v: u8,

    /// How to write the log, which goes to standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LoggingFormat::Text)]
    pub(crate) logging_format: LoggingFormat,
}

/// How a line of the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoggingFormat {
    /// For people.
    Text,
    /// For machines: one JSON object a line.
    Json,
}

/// The command line of `flotilla-worker`, for its manual page.
#[must_use]
pub fn command() -> clap::Command {
    <Args as clap::CommandFactory>::command()
}

impl Args {
    /// The arguments of a command line, whose first word is the program.
    ///
    /// # Errors
    /// Help and version, which are none, and usage errors.
    pub(crate) fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let args = Self::try_parse_from(words)?;
        if args.insecure_worker_transport {
            return Ok(args);
        }
        let why = "--insecure-worker-transport is required: this version speaks plaintext only, so whoever reaches \
                   the port is obeyed and can read the wire; give the flag to accept that, behind a NetworkPolicy or \
                   on a network that you trust";
        Err(Self::command().error(ErrorKind::MissingRequiredArgument, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Args, clap::Error> {
        Args::read(["flotilla-worker"].iter().chain(words).map(OsString::from))
    }

    #[test]
    fn the_flags_are_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn plaintext_must_be_asked_for() {
        let error = read(&[]).expect_err("a refusal");
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("plaintext only"), "{error}");
    }

    #[test]
    fn the_defaults_listen_on_every_address() {
        let args = read(&["--insecure-worker-transport"]).expect("arguments");
        let logging_format = LoggingFormat::Text;
        let listen = "0.0.0.0:10270".to_owned();
        assert_eq!(args, Args { listen, insecure_worker_transport: true, metrics_listen: None, v: 2, logging_format });
    }

    #[test]
    fn the_level_has_a_short_and_a_long_name() {
        for words in [["-v", "4"], ["--v", "4"]] {
            let args = read(&["--insecure-worker-transport", words[0], words[1]]).expect("arguments");
            assert_eq!(args.v, 4);
        }
        assert_eq!(read(&["--insecure-worker-transport", "--v=6"]).expect("arguments").v, 6);
    }
}
