//! `flotilla man`: writes the manual pages.

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::Context as _;
#[cfg(feature = "cluster")]
use clap::CommandFactory as _;

use crate::output::{Failure, end};

const EXAMPLES: &str = "\
Examples:
  # For the user who runs it
  flotilla man ~/.local/share/man/man1
  man flotilla-config-check

Exit codes:
  0  the pages are written
  1  they cannot be written
  2  the flags are not valid";

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ManArgs {
    /// The directory for the pages; created if it does not exist
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

/// `line` is the command line of `flotilla`.
pub(crate) fn command(args: &ManArgs, line: clap::Command) -> ExitCode {
    end(write(args, line).map_err(Failure::run).map(|()| ExitCode::SUCCESS))
}

fn write(args: &ManArgs, line: clap::Command) -> anyhow::Result<()> {
    let directory = &args.directory;
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let commands = [
        line,
        #[cfg(feature = "cluster")]
        flotilla_coordinator::args::Args::command(),
        #[cfg(feature = "cluster")]
        flotilla_worker::command_line(),
    ];
    for command in commands {
        let written = clap_mangen::generate_to(command, directory);
        written.with_context(|| format!("cannot write to {}", directory.display()))?;
    }
    Ok(())
}
