//! The command `flotilla` with the plugins of this crate.

use std::process::ExitCode;

use my_plugins::{NodeNumber, TeamNodes};

fn main() -> ExitCode {
    flotilla_cli::command().with_plugin(NodeNumber).with_plugin(TeamNodes).run()
}
