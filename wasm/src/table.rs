//! The modules of a process and their plugins.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use flotilla_framework::{
    extension::Plugin,
    modules::{self, Digest, MAX_BYTES, Modules, Source},
    profile::Profile,
};

use serde_json::Value;

use crate::{
    args::ModuleArgs,
    engine,
    module::{Module, digest},
    plugin::ModulePlugin,
    tally::Tally,
};

/// Maximum number of modules: those of the current and the previous configuration. At maximum size they take 2 GiB, and as much machine
/// code; typical ones of 1 MiB take a 32nd of that.
const MOST_MODULES: usize = 64;
/// Maximum number of plugin names in the lifetime of a process, about 200 bytes each.
const MOST_NAMES: usize = 1024;
/// Maximum number of cached addresses, about 200 bytes each; a configuration has fewer.
const MOST_SOURCES: usize = 4096;

/// The modules of a process.
#[derive(Debug)]
pub struct Table {
    modules: Mutex<Held>,
    plugins: Mutex<BTreeMap<String, &'static ModulePlugin>>,
    sources: Mutex<BTreeMap<Source, Result<Digest, String>>>,
    tally: Tally,
}

#[derive(Debug, Default)]
struct Held {
    /// Modules with a counter of their last use.
    by_digest: BTreeMap<Digest, (Arc<Module>, u64)>,
    clock: u64,
}

impl Table {
    /// A table without modules. It lives until the process ends, as a registry does.
    #[must_use]
    pub fn new() -> &'static Self {
        Box::leak(Box::new(Self {
            modules: Mutex::default(),
            plugins: Mutex::default(),
            sources: Mutex::default(),
            tally: Tally::default(),
        }))
    }

    fn try_load(&self, bytes: Arc<[u8]>) -> Result<Digest, crate::LoadError> {
        if bytes.len() > MAX_BYTES {
            return Err(crate::LoadError::TooLarge { found: bytes.len(), most: MAX_BYTES });
        }
        let digest = digest(&bytes);
        if self.module(digest).is_none() {
            // Without the lock: compiling may take seconds.
            let module = Arc::new(Module::new(bytes)?);
            self.held().insert(module);
        }
        Ok(digest)
    }

    /// A module of the table.
    #[must_use]
    pub fn module(&self, digest: Digest) -> Option<Arc<Module>> {
        self.held().get(digest)
    }

    fn register(&'static self, name: &str, args: &ModuleArgs, digest: Digest) -> Result<(), String> {
        let module = self.module(digest).ok_or_else(|| format!("plugin {name:?}: module {digest} is not held here"))?;
        let mut plugins = lock(&self.plugins);
        let plugin = match plugins.get(name) {
            Some(known) => *known,
            None if plugins.len() >= MOST_NAMES => return Err(format!("plugin {name:?}: too many names of modules")),
            None => {
                let plugin: &'static ModulePlugin = Box::leak(Box::new(ModulePlugin::new(name, self)));
                plugins.insert(name.to_owned(), plugin);
                plugin
            }
        };
        plugin.take_shape(&module, args)
    }

    pub(crate) const fn tally(&self) -> &Tally {
        &self.tally
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        lock(&self.modules)
    }
}

impl Modules for Table {
    fn engine(&self) -> &'static str {
        engine::NAME
    }

    fn find(&self, name: &str) -> Option<&'static dyn Plugin> {
        lock(&self.plugins).get(name).map(|plugin| *plugin as &dyn Plugin)
    }

    fn plugins(&self) -> Vec<&'static dyn Plugin> {
        lock(&self.plugins).values().map(|plugin| *plugin as &dyn Plugin).collect()
    }

    fn name(&'static self, name: &str, args: &Value, digest: Digest) -> Result<(), String> {
        // The plugin reports invalid arguments later, with their path.
        let args = ModuleArgs::read(args).unwrap_or_else(|_| ModuleArgs::at(""));
        self.register(name, &args, digest)
    }

    fn resolved(&self, source: &Source) -> Option<Result<Digest, String>> {
        lock(&self.sources).get(source).cloned()
    }

    fn resolve(&self, source: Source, found: Result<Digest, String>) {
        let mut sources = lock(&self.sources);
        if sources.len() >= MOST_SOURCES {
            sources.clear();
        }
        sources.insert(source, found);
    }

    fn holds(&self, digest: Digest) -> bool {
        self.module(digest).is_some()
    }

    fn bytes(&self, digest: Digest) -> Option<Arc<[u8]>> {
        self.module(digest).map(|module| Arc::clone(module.bytes()))
    }

    fn load(&self, bytes: Arc<[u8]>) -> Result<Digest, String> {
        self.try_load(bytes).map_err(|error| error.to_string())
    }

    fn take(&self, wanted: Digest, bytes: Arc<[u8]>) -> Result<(), String> {
        let found = digest(&bytes);
        if found != wanted {
            let (found, wanted) = (found.to_string(), wanted.to_string());
            return Err(crate::LoadError::Digest { found, wanted }.to_string());
        }
        self.load(bytes).map(|_| ())
    }

    fn adopt(&'static self, profile: &Profile) -> Result<(), String> {
        for (name, digest) in modules::named(profile) {
            let args = ModuleArgs::of(&profile.args, name);
            let args = args.ok_or_else(|| format!("plugin {name:?}: its arguments make no sense here"))?;
            self.register(name, &args, digest)?;
        }
        Ok(())
    }

    fn failures(&self) -> Vec<(&'static str, &'static str, u64)> {
        self.tally.failures()
    }

    fn words(&self, detail: u64) -> Option<Arc<str>> {
        self.tally.texts().get(detail)
    }

    fn learn(&self, detail: u64, words: &str) {
        self.tally.texts().learn(detail, words);
    }
}

impl Held {
    fn get(&mut self, digest: Digest) -> Option<Arc<Module>> {
        self.clock += 1;
        let (module, used) = self.by_digest.get_mut(&digest)?;
        *used = self.clock;
        Some(Arc::clone(module))
    }

    fn insert(&mut self, module: Arc<Module>) {
        while self.by_digest.len() >= MOST_MODULES {
            let oldest = self.by_digest.iter().min_by_key(|(_, (_, used))| *used).map(|(digest, _)| *digest);
            let Some(oldest) = oldest else { break };
            self.by_digest.remove(&oldest);
        }
        self.clock += 1;
        self.by_digest.insert(module.digest(), (module, self.clock));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
