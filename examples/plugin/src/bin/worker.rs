//! A worker with the plugins of this crate.

use std::process::ExitCode;

use my_plugins::{NodeNumber, TeamNodes};

fn main() -> ExitCode {
    flotilla_worker::command().with_plugin(NodeNumber).with_plugin(TeamNodes).run()
}
