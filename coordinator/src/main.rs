//! The `flotilla-coordinator` process.
//!
//! Knows: where it begins. Must not know: anything else.

use std::process::ExitCode;

use flotilla_framework::registry::Registry;

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    flotilla_coordinator::run::main(Registry::built_in())
}
