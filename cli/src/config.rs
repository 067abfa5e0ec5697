//! `flotilla config`: checks, shows, compares and migrates configurations.

use std::process::ExitCode;

mod args;
mod check;
mod diff;
mod embedded;
mod gates;
mod migrate;
mod show;
mod source;
mod view;

pub(crate) use args::ConfigArgs;
use flotilla_framework::registry::Registry;
use gates::Gates;
pub(crate) use source::configuration_text;

pub(crate) fn command(args: &ConfigArgs, registry: Registry) -> ExitCode {
    let run = |gates: &Gates| match &args.command {
        args::Command::Check(args) => check::check(args, gates),
        args::Command::Show(args) => show::show(args, gates),
        args::Command::Diff(args) => diff::diff(args, gates),
        args::Command::Migrate(args) => migrate::migrate(args, gates),
    };
    crate::output::end(Gates::read(&args.feature_gates, registry).and_then(|gates| run(&gates)))
}
