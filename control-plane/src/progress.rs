//! Progress of a control plane's start.

use std::{
    fmt::Debug,
    io::{self, Write},
    path::Path,
    time::Duration,
};

use flotilla_go_programs::about;

use super::Component;

/// Step of a build or start, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Another process builds the programs.
    WaitingForBuild,
    /// A build starts.
    Building {
        /// Name.
        program: &'static str,
        /// Number of the program, from 1.
        index: usize,
        /// Number of programs to build.
        count: usize,
        /// Duration of a first build on two cores with downloaded modules. Later builds are faster.
        first_build: Duration,
    },
    /// A Go module of the current program is being downloaded.
    Downloading {
        /// Module and version.
        module: &'a str,
    },
    /// A build has finished.
    Built {
        /// Name.
        program: &'static str,
        /// Duration.
        took: Duration,
    },
    /// The temporary folder was created. It is deleted with the control plane, unless this process is killed.
    Folder {
        /// Path.
        path: &'a Path,
    },
    /// A component was started and is not ready yet.
    Starting {
        /// Component.
        component: Component,
    },
    /// A component is ready.
    Ready {
        /// Component.
        component: Component,
        /// Time since its start.
        took: Duration,
    },
}

/// Receiver of progress. Called from async code, so it should not block for long.
pub trait Progress: Debug + Send + Sync {
    /// Called for each step.
    fn tell(&self, step: Step<'_>);
}

/// Prints builds to the standard error, for tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lines;

impl Progress for Lines {
    fn tell(&self, step: Step<'_>) {
        let line = match step {
            Step::WaitingForBuild => "waiting for another process that is building the control plane".to_owned(),
            Step::Building { program, index, count, first_build } => {
                let about = about(first_build);
                format!("building {program} ({index} of {count}; the first build takes about {about})")
            }
            _ => return,
        };
        // `eprintln!` would be captured by the test harness during a build of ten minutes. A closed standard error must not fail the build.
        _ = writeln!(io::stderr(), "control plane: {line}");
    }
}
