//! The command line of `flotilla trace`.

use std::path::PathBuf;

use clap::{ArgGroup, ValueEnum};

use crate::reach::{ClusterArgs, JAEGER, parse_jaeger};

const EXAMPLES: &str = "\
Examples:
  # The last scheduling attempt of a pod; the coordinator needs --tracing-endpoint
  flotilla trace pod/hello -n shop --jaeger http://jaeger:16686

  # Its first attempt, with all attributes
  flotilla trace pod/hello -n shop --attempt 1 -o wide

  # A deleted pod by its UID; any trace by its ID
  flotilla trace --uid 3f9c1c56-7a52-4a0e-9d5a-0c7a7d5d8a11
  flotilla trace 4bf92f3577b34da6a3ce929d0e0e4736

  # A picture, and a file to look at it later
  flotilla trace pod/hello --svg hello.svg
  flotilla trace pod/hello -o json > hello.json
  flotilla trace -f hello.json

Output:
  One line for each span, below its parent. START is relative to the beginning of the trace. A process is a service,
  with its instance if there are several.

Environment:
  FLOTILLA_JAEGER  the URL of Jaeger, as --jaeger

Exit codes:
  0  the trace was shown
  1  there is no such trace, or a server does not answer
  2  the flags or the file are not valid";

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("what").args(["target", "uid", "file"]).required(true))]
pub(crate) struct TraceArgs {
    /// The pod of a live cluster, as pod NAME or pod/NAME; or a trace ID, or a traceparent
    #[arg(value_name = "pod NAME|TRACE", num_args = 1..=2)]
    pub(super) target: Vec<String>,

    /// The UID of a pod; needs no cluster
    #[arg(long, value_name = "UID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(super) uid: Option<String>,

    /// A file with a trace from Jaeger's API, - for standard input; needs no server
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub(super) file: Option<PathBuf>,

    /// The scheduling attempt of the pod, from 1; without it, the last one recorded
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "file")]
    pub(super) attempt: Option<u32>,

    /// The URL of Jaeger's UI
    #[arg(long, value_name = "URL", env = "FLOTILLA_JAEGER", hide_env = true, default_value = JAEGER, value_parser = parse_jaeger)]
    pub(super) jaeger: String,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table, conflicts_with = "svg")]
    pub(super) output: Format,

    /// Write the trace as SVG to this file, and print nothing
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,

    /// The namespace of the pod; without it, that of the context
    #[arg(short, long, value_name = "NAMESPACE", help_heading = "Live cluster")]
    pub(super) namespace: Option<String>,

    #[command(flatten)]
    pub(super) server: ClusterArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people
    Table,
    /// For people, with all attributes
    Wide,
    /// In the format of Jaeger's API
    Json,
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::args::{Args, Command};

    fn refused(words: &[&str]) -> Option<String> {
        match Args::try_parse_from(["flotilla", "trace"].iter().chain(words)) {
            Ok(Args { command: Command::Trace(_) }) => None,
            Ok(args) => panic!("{:?}", args.command),
            Err(error) => Some(error.to_string()),
        }
    }

    #[test]
    fn one_thing_is_asked_for() {
        for words in [&["pod/a"][..], &["pod", "a"], &["--uid=u", "--attempt=2"], &["-f", "x"], &["pod/a", "--svg=x"]] {
            assert_eq!(refused(words), None, "{words:?}");
        }
        for words in [
            &[][..],
            &["pod/a", "--uid=u"],
            &["-f=x", "--attempt=1"],
            &["pod/a", "--attempt=0"],
            &["pod/a", "-ojson", "--svg=x"],
        ] {
            assert!(refused(words).is_some(), "{words:?}");
        }
    }

    #[test]
    fn what_is_no_url_is_refused_with_what_to_write() {
        let error = refused(&["pod/a", "--jaeger=jaeger:16686"]).unwrap_or_default();
        assert!(error.contains("write http://HOST:PORT"), "{error}");
    }
}
