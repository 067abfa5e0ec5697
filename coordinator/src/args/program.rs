//! The name of the program selects its defaults, so that one image replaces kube-scheduler's.

use std::{ffi::OsStr, path::Path};

use clap::{Command, CommandFactory as _};

use super::Args;

/// The version of kube-scheduler with the same results.
pub const KUBERNETES_VERSION: &str = "v1.37.2";

/// The name that the program was started with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Program {
    /// `flotilla-coordinator`, and any other name: the workers are those of the Service, and the Lease is Flotilla's.
    #[default]
    Coordinator,
    /// `kube-scheduler`: no workers unless a flag names them, and kube-scheduler's Lease.
    KubeScheduler,
}

impl Program {
    /// Reads the name from the first word of a command line, a path or a file name.
    #[must_use]
    pub fn of(word: Option<&OsStr>) -> Self {
        let name = word.and_then(|word| Path::new(word).file_name());
        if name == Some(OsStr::new("kube-scheduler")) { Self::KubeScheduler } else { Self::Coordinator }
    }

    /// The name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Coordinator => "flotilla-coordinator",
            Self::KubeScheduler => "kube-scheduler",
        }
    }

    /// The name of the Lease if neither a flag nor the configuration file has one; `None` for the configuration's default.
    #[must_use]
    pub const fn lease(self) -> Option<&'static str> {
        match self {
            Self::Coordinator => None,
            Self::KubeScheduler => Some("kube-scheduler"),
        }
    }

    /// The command line with the defaults of this name.
    #[must_use]
    pub fn command(self) -> Command {
        let command = Args::command();
        match self {
            Self::Coordinator => command,
            Self::KubeScheduler => command
                .name(self.name())
                // Scripts read the version from the second word.
                .display_name("Kubernetes")
                .version(version())
                .after_help(EXAMPLES)
                .mut_arg("leader_elect_resource_name", |arg| arg.help(LEASE_HELP))
                .mut_arg("worker_service", |arg| arg.default_value("").help(SERVICE_HELP)),
        }
    }
}

const LEASE_HELP: &str = "The name of the lease. It must be the same for all replicas (default kube-scheduler)";

const SERVICE_HELP: &str = "The headless Service of the workers; its EndpointSlices have their addresses. Without this flag and --workers, \
                            this process evaluates all nodes";

const EXAMPLES: &str = "\
Examples:
  # As in a static pod
  kube-scheduler --kubeconfig=/etc/kubernetes/scheduler.conf --bind-address=127.0.0.1 --leader-elect=true

  # Distribute filtering and scoring across the workers behind a headless Service
  kube-scheduler --config=scheduler.yaml --worker-service=flotilla-worker --worker-namespace=flotilla";

const fn version() -> &'static str {
    concat!("v1.37.2 (Flotilla ", env!("CARGO_PKG_VERSION"), ")")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_file_name_kube_scheduler_selects_its_defaults() {
        let of = |word: &str| Program::of(Some(OsStr::new(word)));
        for word in ["kube-scheduler", "/usr/local/bin/kube-scheduler", "./kube-scheduler"] {
            assert_eq!(of(word), Program::KubeScheduler, "{word}");
        }
        for word in ["flotilla-coordinator", "/flotilla-coordinator", "kube-scheduler-2", "kube-scheduler/x", ""] {
            assert_eq!(of(word), Program::Coordinator, "{word}");
        }
        assert_eq!(Program::of(None), Program::Coordinator);
    }

    #[test]
    fn the_command_line_of_each_name_is_sound() {
        for program in [Program::Coordinator, Program::KubeScheduler] {
            program.command().debug_assert();
        }
    }

    #[test]
    fn the_version_names_the_followed_release_of_kubernetes() {
        assert!(version().starts_with(KUBERNETES_VERSION));
    }
}
