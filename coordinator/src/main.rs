//! The `flotilla-coordinator` process.
//!
//! Knows: where it begins. Must not know: anything else.

use std::process::ExitCode;

fn main() -> ExitCode {
    flotilla_coordinator::run::main()
}
