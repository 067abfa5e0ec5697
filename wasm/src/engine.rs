//! The engine: how modules are compiled and what they may use.
//!
//! Everything by which two hosts could answer differently is off: threads, relaxed SIMD, the bits of a NaN.

use std::sync::OnceLock;

use wasmtime::{Config, Engine, Linker, OptLevel};

use crate::{error::LoadError, host, state::State};

/// What runs modules. Workers and coordinator compare it, since fuel is counted by this version.
pub const NAME: &str = "WebAssembly modules (wasmtime 48, ABI 1)";

/// The stack of a call, in bytes.
const STACK: usize = 512 << 10;

/// The engine and its host functions, which one process has once.
pub(crate) struct Host {
    pub(crate) engine: Engine,
    pub(crate) linker: Linker<State>,
}

/// The host of this process.
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
    // A compiler that is not optimised itself takes minutes otherwise; what a module answers, and its fuel, is the same.
    if cfg!(debug_assertions) {
        config.cranelift_opt_level(OptLevel::None);
    }
    let engine = Engine::new(&config)?;
    let mut linker = Linker::new(&engine);
    host::link(&mut linker)?;
    Ok(Host { engine, linker })
}
