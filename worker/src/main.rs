//! The binary `flotilla-worker`.
//!
//! Knows: where it begins. Must not know: anything else.

use std::process::ExitCode;

fn main() -> ExitCode {
    flotilla_worker::main(std::env::args_os())
}
