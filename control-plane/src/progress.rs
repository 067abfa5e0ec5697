//! The progress messages of the start of a control plane.
//!
//! Knows: the steps of a build and of a start. Must not know: who listens, and how it is shown.

use std::{
    fmt::Debug,
    io::{self, Write},
    path::Path,
    time::Duration,
};

use flotilla_go_programs::about;

use super::Component;

/// A step on the way to a control plane, in the order in which they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Another process builds the programs; this one waits for it.
    WaitingForBuild,
    /// A program is being built.
    Building {
        /// Its name.
        program: &'static str,
        /// Which of them, from 1.
        index: usize,
        /// How many are to be built.
        count: usize,
        /// What its first build takes on two cores, when the modules are there. A later build takes less.
        first_build: Duration,
    },
    /// A Go module is being downloaded for the program being built.
    Downloading {
        /// The module and its version.
        module: &'a str,
    },
    /// A program was built.
    Built {
        /// Its name.
        program: &'static str,
        /// What it took.
        took: Duration,
    },
    /// The temporary folder was made. It goes with the control plane, unless this process is killed.
    Folder {
        /// Where it is.
        path: &'a Path,
    },
    /// A component was started, and is waited for.
    Starting {
        /// Which.
        component: Component,
    },
    /// A component is ready.
    Ready {
        /// Which.
        component: Component,
        /// The time since it was started.
        took: Duration,
    },
}

/// The receiver of the steps. It is called from async code and should not block for long.
pub trait Progress: Debug + Send + Sync {
    /// A step is reached.
    fn tell(&self, step: Step<'_>);
}

/// Tells of builds, line by line on the standard error, and of nothing else: for tests.
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
        // Goes to the standard error itself: what `eprintln!` prints is captured by the test harness, and who waits ten
        // minutes wants to know for what. A closed standard error is no reason to fail a build.
        _ = writeln!(io::stderr(), "control plane: {line}");
    }
}
