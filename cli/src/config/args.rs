//! The command line of `flotilla config`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

const CHECK: &str = "\
Examples:
  # Would this configuration work?
  flotilla config check scheduler.yaml

  # The configuration in a cluster's ConfigMap
  kubectl get configmap -n kube-system my-scheduler-config -o yaml | flotilla config check -

  # Several files, as JSON
  flotilla config check configurations/*.yaml -o json

Output:
  Errors and warnings go to standard error, as
    file:line:column: path: found value; expected value
  Features that kube-scheduler has and this version of Flotilla lacks are
  listed separately. Standard output has one line for each usable file. A file
  may be a ConfigMap with the configuration in a block of text after a |.

Exit codes:
  0  Flotilla can run every file
  1  a file cannot be read, is invalid, or needs what this version lacks
  2  the flags are not valid";

const SHOW: &str = "\
Examples:
  # What does kube-scheduler run, and in which order, when it is given no configuration?
  flotilla config show

  # One profile of a file, with defaults and multiPoint filled in
  flotilla config show scheduler.yaml --profile batch

  # The complete default configuration, as a starting point
  flotilla config show -o yaml > scheduler.yaml

Exit codes:
  0  the configuration is shown
  1  it cannot be read, or is invalid
  2  the flags are not valid";

const DIFF: &str = "\
Examples:
  # What does my configuration change?
  flotilla config diff default scheduler.yaml

  # What would a new version of it change?
  flotilla config diff scheduler.yaml new.yaml

  # Does a cleanup keep the effect?
  git show HEAD:scheduler.yaml | flotilla config diff - scheduler.yaml

Comparison:
  The configurations are compared with all defaults filled in.
  A profile that only the new one has is compared with the default profile.
  If a file named default exists, default means that file.

Exit codes:
  0  both have the same effect
  1  they differ
  2  a file cannot be read or is invalid, or the flags are not valid";

const MIGRATE: &str = "\
Examples:
  # Print it in v1, and list the changes
  flotilla config migrate scheduler.yaml

  # Change the file
  flotilla config migrate scheduler.yaml --in-place

  # Keep the old one
  flotilla config migrate scheduler.yaml -o scheduler-v1.yaml

Migration:
  v1alpha2, v1beta1, v1beta2 and v1beta3 become v1. Comments, blank lines and
  the order of fields stay. Every change is reported on standard error with its
  line, and so is every unchanged field that has another effect in v1. If a
  field is ambiguous, the command reports it and writes nothing. A file in v1
  is printed unchanged.

Exit codes:
  0  the output is a valid v1 configuration
  1  nothing was written, or the output has other errors, which are reported
  2  the flags are not valid";

const CONFIG: &str = "\
Examples:
  # Would this configuration work?
  flotilla config check scheduler.yaml

  # What does it change?
  flotilla config diff default scheduler.yaml

Exit codes are those of each command.";

#[derive(Clone, Debug, Args)]
#[command(after_help = CONFIG)]
pub(crate) struct ConfigArgs {
    /// Feature gates of the scheduler, as Name=true,Other=false
    #[arg(long, value_name = "GATES", global = true, action = clap::ArgAction::Append)]
    pub(super) feature_gates: Vec<String>,

    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Clone, Debug, Subcommand)]
pub(super) enum Command {
    /// Check whether configurations are valid and Flotilla can run them
    #[command(after_help = CHECK)]
    Check(CheckArgs),
    /// Print a configuration with all defaults filled in
    #[command(after_help = SHOW)]
    Show(ShowArgs),
    /// Compare the effect of two configurations
    #[command(after_help = DIFF)]
    Diff(DiffArgs),
    /// Convert a configuration of an older version to v1
    #[command(after_help = MIGRATE)]
    Migrate(MigrateArgs),
}

#[derive(Clone, Debug, Args)]
pub(super) struct CheckArgs {
    /// Files with one KubeSchedulerConfiguration each; - means standard input
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = ReportFormat::Text)]
    pub(super) output: ReportFormat,
}

#[derive(Clone, Debug, Args)]
pub(super) struct ShowArgs {
    /// The file with the KubeSchedulerConfiguration, - for standard input; without it, the defaults of kube-scheduler
    #[arg(value_name = "FILE")]
    pub(super) file: Option<PathBuf>,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = ShowFormat::Table)]
    pub(super) output: ShowFormat,

    /// Show only this profile
    #[arg(long, value_name = "NAME")]
    pub(super) profile: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub(super) struct DiffArgs {
    /// The old configuration: a file, - for standard input, or default for that of kube-scheduler
    #[arg(value_name = "OLD")]
    pub(super) old: PathBuf,

    /// The new configuration, in the same form
    #[arg(value_name = "NEW")]
    pub(super) new: PathBuf,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = ReportFormat::Text)]
    pub(super) output: ReportFormat,
}

#[derive(Clone, Debug, Args)]
pub(super) struct MigrateArgs {
    /// The file with the configuration; - means standard input
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,

    /// The file to write; without it, standard output
    #[arg(short, long, value_name = "FILE", conflicts_with = "in_place")]
    pub(super) output: Option<PathBuf>,

    /// Write to the input file
    #[arg(long)]
    pub(super) in_place: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ReportFormat {
    /// For people
    Text,
    /// One JSON object
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ShowFormat {
    /// For people, with the differences from the defaults
    Table,
    /// A KubeSchedulerConfiguration
    Yaml,
    /// The same as JSON
    Json,
}
