//! The command line of `flotilla config`.
//!
//! Knows: flags, their texts and their grammar. Must not know: what a flag does.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

const CHECK: &str = "\
Examples:
  # Would this configuration work?
  flotilla config check scheduler.yaml

  # The one that a cluster uses, out of its ConfigMap
  kubectl get configmap -n kube-system my-scheduler-config -o yaml | flotilla config check -

  # All of them, for a program to read
  flotilla config check configurations/*.yaml -o json

What is said:
  Errors and warnings go to the standard error, as
    file:line:column: path: what is there; what should be there
  What kube-scheduler accepts and this version of Flotilla lacks is told apart.
  The standard output has one line for each file that can be used. A ConfigMap
  may stand for the configuration in it, if that is a block of text after a |.

Exit codes:
  0  Flotilla can run every file
  1  a file cannot be read, is invalid, or needs what this version lacks
  2  the flags are not valid";

const SHOW: &str = "\
Examples:
  # What does kube-scheduler run, and in which order, when it is given no configuration?
  flotilla config show

  # What does one profile of a file come to, once defaults and multiPoint are filled in?
  flotilla config show scheduler.yaml --profile batch

  # A configuration with everything written out, to begin one's own with
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

  # Does it still say the same after tidying up?
  git show HEAD:scheduler.yaml | flotilla config diff - scheduler.yaml

What is compared:
  What the files come to with all defaults filled in, not how they are written.
  A profile that only the new one has is compared with the default profile.
  The word default is a file, if there is one of that name.

Exit codes:
  0  both come to the same
  1  they differ
  2  a file cannot be read or is invalid, or the flags are not valid";

const MIGRATE: &str = "\
Examples:
  # What would it look like in v1, and what changes?
  flotilla config migrate scheduler.yaml

  # Change the file
  flotilla config migrate scheduler.yaml --in-place

  # Keep the old one
  flotilla config migrate scheduler.yaml -o scheduler-v1.yaml

What is done:
  v1alpha2, v1beta1, v1beta2 and v1beta3 become v1. Only what has to change is
  touched: comments, blank lines and the order of fields stay. Every change is
  told on the standard error with its line, and so is what is left alone but has
  another effect in v1. Where only you can tell what is meant, that is said, and
  nothing is written. A file in v1 is printed as it is.

Exit codes:
  0  what was written is a valid v1 configuration
  1  nothing was written, or what was written has other mistakes, which are told
  2  the flags are not valid";

const CONFIG: &str = "\
Examples:
  # Would this configuration work?
  flotilla config check scheduler.yaml

  # What does it change?
  flotilla config diff default scheduler.yaml

Exit codes are those of each command.";

/// What can be done with configurations.
#[derive(Clone, Debug, Args)]
#[command(after_help = CONFIG)]
pub(crate) struct ConfigArgs {
    /// The feature gates that the scheduler is started with, as Name=true,Other=false
    #[arg(long, value_name = "GATES", global = true, action = clap::ArgAction::Append)]
    pub(super) feature_gates: Vec<String>,

    /// What to do.
    #[command(subcommand)]
    pub(super) command: Command,
}

/// What can be done with configurations.
#[derive(Clone, Debug, Subcommand)]
pub(super) enum Command {
    /// Tell whether configurations are valid, and whether Flotilla can run them
    #[command(after_help = CHECK)]
    Check(CheckArgs),
    /// Print what a configuration comes to, with all defaults filled in
    #[command(after_help = SHOW)]
    Show(ShowArgs),
    /// Tell in what two configurations differ in effect
    #[command(after_help = DIFF)]
    Diff(DiffArgs),
    /// Rewrite a configuration of an older version in v1
    #[command(after_help = MIGRATE)]
    Migrate(MigrateArgs),
}

/// The flags of `flotilla config check`.
#[derive(Clone, Debug, Args)]
pub(super) struct CheckArgs {
    /// Files with a KubeSchedulerConfiguration each; - for the standard input
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,

    /// How to print the verdicts
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = ReportFormat::Text)]
    pub(super) output: ReportFormat,
}

/// The flags of `flotilla config show`.
#[derive(Clone, Debug, Args)]
pub(super) struct ShowArgs {
    /// The file with the KubeSchedulerConfiguration, - for the standard input; without it, the defaults of
    /// kube-scheduler
    #[arg(value_name = "FILE")]
    pub(super) file: Option<PathBuf>,

    /// How to print the configuration
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = ShowFormat::Table)]
    pub(super) output: ShowFormat,

    /// Only this profile
    #[arg(long, value_name = "NAME")]
    pub(super) profile: Option<String>,
}

/// The flags of `flotilla config diff`.
#[derive(Clone, Debug, Args)]
pub(super) struct DiffArgs {
    /// The old configuration: a file, - for the standard input, or the word default for that of kube-scheduler
    #[arg(value_name = "OLD")]
    pub(super) old: PathBuf,

    /// The new configuration, named in the same way
    #[arg(value_name = "NEW")]
    pub(super) new: PathBuf,

    /// How to print the differences
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = ReportFormat::Text)]
    pub(super) output: ReportFormat,
}

/// The flags of `flotilla config migrate`.
#[derive(Clone, Debug, Args)]
pub(super) struct MigrateArgs {
    /// The file with the configuration; - for the standard input
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,

    /// The file to write to; without it, the standard output
    #[arg(short, long, value_name = "FILE", conflicts_with = "in_place")]
    pub(super) output: Option<PathBuf>,

    /// Write to the file that was read
    #[arg(long)]
    pub(super) in_place: bool,
}

/// How verdicts and differences are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ReportFormat {
    /// For people
    Text,
    /// One JSON object
    Json,
}

/// How a configuration is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ShowFormat {
    /// For people, with what differs from the defaults
    Table,
    /// A KubeSchedulerConfiguration
    Yaml,
    /// The same as JSON
    Json,
}
