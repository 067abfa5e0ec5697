//! `flotilla config`: configurations checked, shown, compared and brought up to date.
//!
//! Knows: which command does what. Must not know: how.

use std::process::ExitCode;

mod args;
mod check;
mod diff;
mod embedded;
mod migrate;
mod show;
mod source;
mod view;

pub(crate) use args::ConfigArgs;

/// Runs `flotilla config`.
pub(crate) fn command(args: &ConfigArgs) -> ExitCode {
    crate::output::end(match &args.command {
        args::Command::Check(args) => check::check(args),
        args::Command::Show(args) => show::show(args),
        args::Command::Diff(args) => diff::diff(args),
        args::Command::Migrate(args) => migrate::migrate(args),
    })
}
