//! The command line of `flotilla up`, `flotilla down` and the programs that `up` starts.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{ArgAction, builder::NonEmptyStringValueParser};

pub(crate) const UP_EXAMPLES: &str = "\
Examples:
  # A cluster with ten nodes, in this terminal; Ctrl-C stops it
  flotilla up

  # In the background, with 100 nodes and four workers
  flotilla up --detach --nodes 100 --workers 4
  flotilla down

  # In place of kube-scheduler: pods need no schedulerName
  flotilla up --scheduler-name default-scheduler

  # With simulated devices on the nodes, GPUs and network cards, and pods that claim some
  flotilla up --devices

  # With Jaeger, and a trace of each scheduling attempt
  flotilla up --tracing
  flotilla trace pod/NAME

  # With your own KubeSchedulerConfiguration
  flotilla up --config scheduler.yaml

  # With pod groups in topology domains: the API server, the controllers and Flotilla get the gates
  flotilla up --feature-gates GenericWorkload=true,TopologyAwareWorkloadScheduling=true

Requirements:
  Go 1.26 or later on the PATH and its module proxy, for the first run only. The first run builds
  etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl and kwok, which takes about
  ten minutes on two cores. They are kept in the cache directory; later runs start within seconds.
  --tracing also builds Jaeger, in about five minutes.
  It needs no C compiler, no container runtime and no root.

The cluster:
  A real API server and real controllers; kwok simulates the nodes and the pods on them.
  Everything listens on 127.0.0.1 and is stored in a temporary directory, which is removed at the end
  with all data of the cluster.

Environment:
  FLOTILLA_CACHE_DIR  the directory for the built programs, as --cache-dir
  FLOTILLA_STATE_DIR  the directory of the state file [default: $XDG_STATE_HOME/flotilla or
                      ~/.local/state/flotilla]
  FLOTILLA_KEEP=1     keeps the temporary directory, with all logs

Exit codes:
  0    the cluster was up and has been stopped as requested; with --detach, it is up
  1    it could not be started, one is up already, or one of its processes ended unexpectedly
  2    the flags or the configuration are not valid
  130  it was interrupted before it was up";

pub(crate) const DOWN_EXAMPLES: &str = "\
Examples:
  # Stop the cluster of `flotilla up`, here or in another terminal
  flotilla down

Exit codes:
  0  no cluster is up, even if none was before
  1  the cluster could not be stopped";

#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct UpArgs {
    /// Number of nodes, in three zones
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) nodes: u32,

    /// Number of workers
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) workers: u16,

    /// The schedulerName that Flotilla serves; default-scheduler includes pods without one
    #[arg(long, value_name = "NAME", default_value = "flotilla", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) scheduler_name: String,

    /// The file with the KubeSchedulerConfiguration; its profiles replace --scheduler-name
    #[arg(long, value_name = "FILE", conflicts_with = "scheduler_name")]
    pub(crate) config: Option<PathBuf>,

    /// Feature gates of the API server, kube-controller-manager and Flotilla, as Name=true,Other=false; with gates, the API server serves
    /// all alpha and beta APIs
    #[arg(long, value_name = "GATES", action = ArgAction::Append)]
    pub(crate) feature_gates: Vec<String>,

    /// The directory for the built programs of the control plane [default: $XDG_CACHE_HOME/flotilla or ~/.cache/flotilla]
    #[arg(long, value_name = "DIR", env = "FLOTILLA_CACHE_DIR", hide_env = true)]
    pub(crate) cache_dir: Option<PathBuf>,

    /// Publish simulated devices of the nodes, GPUs and network cards, and write pods that claim some
    #[arg(long)]
    pub(crate) devices: bool,

    /// Start Jaeger, and send it the spans of the coordinator, the workers and the API server
    #[arg(long)]
    pub(crate) tracing: bool,

    /// Return when the cluster is up, and leave it running in the background
    #[arg(short, long)]
    pub(crate) detach: bool,

    /// Run as the background process.
    #[arg(long, hide = true, conflicts_with = "detach")]
    pub(crate) supervisor: bool,
}

impl UpArgs {
    /// The arguments of the background process.
    pub(super) fn of_the_supervisor(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["up".into(), "--supervisor".into()];
        words.extend([format!("--nodes={}", self.nodes), format!("--workers={}", self.workers)].map(OsString::from));
        match &self.config {
            Some(config) => words.push(with_path("--config=", config)),
            None => words.push(format!("--scheduler-name={}", self.scheduler_name).into()),
        }
        words.extend(self.feature_gates.iter().map(|gate| format!("--feature-gates={gate}").into()));
        words.extend(self.devices.then(|| "--devices".into()));
        words.extend(self.tracing.then(|| "--tracing".into()));
        words.extend(self.cache_dir.as_deref().map(|folder| with_path("--cache-dir=", folder)));
        words
    }
}

fn with_path(flag: &str, path: &Path) -> OsString {
    let mut word = OsString::from(flag);
    word.push(path);
    word
}

/// The arguments of a program that `flotilla up` starts.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct ProgramArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    words: Vec<OsString>,
}

impl ProgramArgs {
    pub(crate) fn line(self, name: &str) -> impl Iterator<Item = OsString> {
        std::iter::once(name.into()).chain(self.words)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command};

    fn up(words: &[&str]) -> UpArgs {
        let args = Args::try_parse_from(["flotilla", "up"].iter().chain(words)).expect("sound flags");
        let Command::Up(args) = args.command else { panic!("{:?}", args.command) };
        args
    }

    #[test]
    fn the_process_in_the_background_does_what_the_one_in_front_was_asked_for() {
        for words in [
            &["--detach"][..],
            &[
                "--detach",
                "--nodes=3",
                "--workers=1",
                "--devices",
                "--tracing",
                "--scheduler-name=-odd",
                "--cache-dir=/a b",
                "--feature-gates=A=true,B=false",
            ],
            &["--detach", "--config=-x.yaml"],
        ] {
            let asked = up(words);
            let line = std::iter::once(OsString::from("flotilla")).chain(asked.of_the_supervisor());
            let Command::Up(args) = Args::try_parse_from(line).expect("sound flags").command else { panic!("up") };
            assert_eq!(args, UpArgs { detach: false, supervisor: true, ..asked });
        }
    }

    #[test]
    fn the_help_names_the_go_that_the_build_asks_for() {
        let wanted = flotilla_control_plane::go_version().expect("a version");
        let minor = wanted.rsplit_once('.').map_or(&*wanted, |(minor, _)| minor);
        assert!(UP_EXAMPLES.contains(&format!("Go {minor} or later")), "{wanted}");
    }

    #[test]
    fn programs_get_their_words_as_they_are() {
        let args = Args::try_parse_from(["flotilla", "worker", "--listen", "x:1", "-v=4", "--help"]).expect("sound");
        let Command::Worker(args) = args.command else { panic!("a worker") };
        let line: Vec<OsString> = args.line("flotilla-worker").collect();
        assert_eq!(line, ["flotilla-worker", "--listen", "x:1", "-v=4", "--help"].map(OsString::from));
    }
}
