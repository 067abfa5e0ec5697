//! A module, compiled once and started many times.

use std::sync::Arc;

use flotilla_framework::modules::{Digest, MAX_BYTES};
use wasmtime::{Engine, ExternType, InstancePre, Store};

use crate::{
    batch::Pool,
    describe::{ABI, Description},
    engine::{Host, host},
    error::{Fault, LoadError},
    exports::{Export, Exports, shown},
    instance::Instance,
    state::{Setting, State},
};

/// A module that can run.
pub struct Module {
    bytes: Arc<[u8]>,
    digest: Digest,
    exports: Exports,
    pre: InstancePre<State>,
    description: Option<Arc<Description>>,
    pool: Pool,
}

impl std::fmt::Debug for Module {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Module").field("digest", &self.digest).finish_non_exhaustive()
    }
}

const MAGIC: &[u8] = b"\0asm";

/// The digest of a module.
#[must_use]
pub fn digest(bytes: &[u8]) -> Digest {
    let mut digest = [0; 32];
    digest.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref());
    Digest(digest)
}

impl Module {
    /// Validates and compiles a module, which takes milliseconds to seconds.
    ///
    /// # Errors
    /// The reason for rejecting the module.
    pub fn new(bytes: Arc<[u8]>) -> Result<Self, LoadError> {
        if bytes.len() > MAX_BYTES {
            return Err(LoadError::TooLarge { found: bytes.len(), most: MAX_BYTES });
        }
        if !bytes.starts_with(MAGIC) {
            return Err(LoadError::NoModule);
        }
        let Host { engine, linker } = host()?;
        let compiled = wasmtime::Module::from_binary(engine, &bytes)
            .map_err(|error| LoadError::Compile(error.root_cause().to_string()))?;
        let exports = Exports::read(&compiled)?;
        check_imports(&compiled)?;
        let pre =
            linker.instantiate_pre(&compiled).map_err(|error| LoadError::Compile(error.root_cause().to_string()))?;
        let (digest, pool) = (digest(&bytes), Pool::default());
        let mut module = Self { digest, bytes, exports, pre, description: None, pool };
        if module.exports.is_batched() {
            module.description = Some(Arc::new(module.describe()?));
        }
        Ok(module)
    }

    fn describe(&self) -> Result<Description, LoadError> {
        let failed = |fault: Fault| LoadError::Start(fault.text);
        let nothing: Arc<[u8]> = Arc::new([]);
        let mut instance = self.start(&Arc::new(Setting::default()), &nothing).map_err(failed)?;
        let abi: i32 = instance.named(Export::Abi, ()).map_err(failed)?;
        if abi != ABI {
            return Err(LoadError::Describe(format!("flotilla_abi is {abi}, and {ABI} is run here")));
        }
        let packed: i64 = instance.named(Export::Describe, ()).map_err(failed)?;
        let (at, len) = (packed.cast_unsigned() >> 32, packed.cast_unsigned() & u64::from(u32::MAX));
        let memory = instance.memory();
        let json = usize::try_from(at).ok().zip(usize::try_from(len).ok());
        let json = json.and_then(|(at, len)| memory.get(at..)?.get(..len));
        Description::read(json.ok_or_else(|| LoadError::Describe("its text is outside of the memory".to_owned()))?)
    }

    pub(crate) const fn description(&self) -> Option<&Arc<Description>> {
        self.description.as_ref()
    }

    pub(crate) const fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Its exported ABI functions.
    #[must_use]
    pub const fn exports(&self) -> &Exports {
        &self.exports
    }

    /// The digest of its bytes.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(&self) -> &Arc<[u8]> {
        &self.bytes
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.pre.module().engine()
    }

    pub(crate) fn instantiate(&self, store: &mut Store<State>) -> wasmtime::Result<wasmtime::Instance> {
        self.pre.instantiate(store)
    }

    pub(crate) fn start(&self, setting: &Arc<Setting>, pod: &Arc<[u8]>) -> Result<Instance, Fault> {
        Instance::start(self, setting, pod)
    }
}

/// Every import must be a host function of the same type.
fn check_imports(module: &wasmtime::Module) -> Result<(), LoadError> {
    let Host { engine, linker } = host()?;
    let mut store = Store::new(engine, State::new(Arc::new(Setting::default()), Arc::new([])));
    for import in module.imports() {
        let of_import = import.ty();
        let found = match &of_import {
            ExternType::Func(function) => shown(function),
            other => format!("{other:?}"),
        };
        let known = linker.get(&mut store, import.module(), import.name()).map(|known| known.ty(&store));
        let have = match (&known, &of_import) {
            (Ok(ExternType::Func(known)), ExternType::Func(wanted)) if known.matches(wanted) => continue,
            (Ok(ExternType::Func(known)), _) => format!("has as {}", shown(known)),
            _ => "does not have".to_owned(),
        };
        let (module, name) = (import.module().to_owned(), import.name().to_owned());
        return Err(LoadError::Import { module, name, found, have });
    }
    Ok(())
}
