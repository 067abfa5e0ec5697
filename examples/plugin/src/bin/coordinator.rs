//! The coordinator with the plugins of this crate.

use std::process::ExitCode;

use my_plugins::{NodeNumber, TeamNodes};

fn main() -> ExitCode {
    flotilla_coordinator::command().with_plugin(NodeNumber).with_plugin(TeamNodes).run()
}
