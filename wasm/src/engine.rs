//! The engine that compiles and runs modules.
//!
//! All nondeterministic features are off: threads, relaxed SIMD, NaN bits.

use std::sync::OnceLock;

use wasmtime::{Config, Engine, Linker, OptLevel};

use crate::{error::LoadError, host, state::State};

/// Name of the runtime. Workers and coordinator compare it, because fuel counts depend on the version.
pub const NAME: &str = "WebAssembly modules (wasmtime 48, ABI 1)";

const STACK: usize = 512 << 10;

/// The engine and its host functions, one per process.
pub(crate) struct Host {
    pub(crate) engine: Engine,
    pub(crate) linker: Linker<State>,
}

pub(crate) fn host() -> Result<&'static Host, LoadError> {
    static HOST: OnceLock<Result<Host, LoadError>> = OnceLock::new();
    let made = HOST.get_or_init(|| make().map_err(|error| LoadError::Compile(format!("no engine: {error:#}"))));
    made.as_ref().map_err(Clone::clone)
}

fn make() -> wasmtime::Result<Host> {
    let mut config = Config::new();
    config.consume_fuel(true);
    config.cranelift_nan_canonicalization(true);
    config.wasm_relaxed_simd(false);
    config.wasm_multi_memory(false);
    config.wasm_memory64(false);
    config.max_wasm_stack(STACK);
    config.wasm_backtrace_max_frames(None);
    // An unoptimized compiler would take minutes; results and fuel are equal.
    if cfg!(debug_assertions) {
        config.cranelift_opt_level(OptLevel::None);
    }
    let engine = Engine::new(&config)?;
    let mut linker = Linker::new(&engine);
    host::link(&mut linker)?;
    Ok(Host { engine, linker })
}
