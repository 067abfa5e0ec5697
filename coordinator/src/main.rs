//! The `flotilla-coordinator` process.
//!
//! Knows: where it begins. Must not know: anything else.

use std::process::ExitCode;

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    flotilla_coordinator::command().run()
}
