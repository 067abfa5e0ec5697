//! Loads modules that a leader sends.
//!
//! A module arrives in parts and takes up to seconds to compile. A separate thread compiles it, so that evaluations of the current
//! configuration continue.

use std::{
    collections::BTreeMap,
    sync::Arc,
    thread::{self, JoinHandle},
};

use flotilla_framework::{modules::Digest, registry::Registry};
use tonic::Status;

/// Maximum number of modules of one configuration in transfer; with 32 MiB each they are 1 GiB.
const MOST: usize = 32;

pub(crate) struct Loading {
    registry: Registry,
    parts: BTreeMap<Digest, Vec<u8>>,
    compiling: Vec<JoinHandle<Result<(), String>>>,
}

impl Loading {
    pub(crate) const fn new(registry: Registry) -> Self {
        Self { registry, parts: BTreeMap::new(), compiling: Vec::new() }
    }

    /// Adds a part; the last one starts compilation.
    pub(crate) fn add(&mut self, digest: Digest, size: usize, part: &[u8]) -> Result<(), Status> {
        let Some(modules) = self.registry.modules() else {
            return Err(Status::failed_precondition("this worker runs no WebAssembly modules; use a build that does"));
        };
        if self.parts.len() + self.compiling.len() >= MOST && !self.parts.contains_key(&digest) {
            return Err(Status::resource_exhausted(format!("more than {MOST} modules at once")));
        }
        let bytes = self.parts.entry(digest).or_default();
        bytes.extend_from_slice(part);
        if bytes.len() > size {
            return Err(Status::invalid_argument(format!("module {digest}: more bytes than its size")));
        }
        if bytes.len() == size {
            let bytes: Arc<[u8]> = self.parts.remove(&digest).unwrap_or_default().into();
            let compile = move || modules.take(digest, bytes);
            let thread = thread::Builder::new().name("module".to_owned()).spawn(compile);
            let failed = |error| Status::resource_exhausted(format!("no thread to compile a module on: {error}"));
            self.compiling.push(thread.map_err(failed)?);
        }
        Ok(())
    }

    /// Waits for all received modules.
    pub(crate) fn finish(&mut self) -> Result<(), Status> {
        self.parts.clear();
        self.compiling.drain(..).try_for_each(|thread| {
            let compiled = thread.join().unwrap_or_else(|_| Err("compiling it panicked".to_owned()));
            compiled.map_err(|error| Status::failed_precondition(format!("a module cannot be run here: {error}")))
        })
    }
}
