//! Modules of a configuration, and their status messages, which have to precede an event in a recording.

use std::collections::BTreeSet;

use flotilla_framework::{
    modules::{Digest, Modules, named, numbers},
    registry::Registry,
};
use flotilla_machine::event::{Configuration, Event};

use crate::{entry::Entry, read::BadEntry};

/// Modules and messages that a part already contains.
#[derive(Debug)]
pub struct Needs {
    /// `None` if the process runs no modules.
    modules: Option<&'static dyn Modules>,
    digests: BTreeSet<Digest>,
    /// A number takes 8 bytes here, and at least 20 in the file, so the size of a part bounds it.
    numbers: BTreeSet<u64>,
}

impl Needs {
    /// Needs of an empty part.
    #[must_use]
    pub fn new(registry: Registry) -> Self {
        Self { modules: registry.modules(), digests: BTreeSet::new(), numbers: BTreeSet::new() }
    }

    pub(crate) fn forget(&mut self) {
        self.digests.clear();
        self.numbers.clear();
    }

    /// The entries that have to precede an event. A module that is no longer held is omitted and missing in a replay.
    pub fn of(&mut self, event: &Event) -> Vec<Entry<'static>> {
        let Some(modules) = self.modules else { return Vec::new() };
        match event {
            Event::Configured(configuration) => {
                let digests: BTreeSet<Digest> =
                    configuration.profiles.iter().flat_map(named).map(|(_, digest)| digest).collect();
                let new = digests.into_iter().filter(|digest| self.digests.insert(*digest));
                new.filter_map(|digest| Some(Entry::Module(modules.bytes(digest)?.to_vec()))).collect()
            }
            Event::FromWorker { word, .. } => {
                let new = numbers(word).into_iter().filter(|number| self.numbers.insert(*number));
                let words = |number| Some(Entry::Words { number, text: modules.words(number)?.as_ref().to_owned() });
                new.filter_map(words).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Registers a module or its messages. Fails if this process cannot run modules, or not this one.
pub(crate) fn learn(entry: &Entry<'_>, registry: Registry) -> Result<(), BadEntry> {
    let modules = || registry.modules().ok_or_else(|| BadEntry(NO_ENGINE.to_owned()));
    match entry {
        Entry::Module(bytes) => modules()?.load(bytes.as_slice().into()).map(|_| ()).map_err(BadEntry),
        Entry::Words { number, text } => {
            modules()?.learn(*number, text);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Registers the plugins that are modules. Fails if a module is missing, or if this process cannot run modules.
pub(crate) fn adopt(configuration: &Configuration, registry: Registry) -> Result<(), BadEntry> {
    let is_named = configuration.profiles.iter().any(|profile| named(profile).next().is_some());
    match registry.modules() {
        None if is_named => Err(BadEntry(NO_ENGINE.to_owned())),
        None => Ok(()),
        Some(modules) => configuration.profiles.iter().try_for_each(|profile| modules.adopt(profile)).map_err(BadEntry),
    }
}

const NO_ENGINE: &str = "the recorded configuration names a WebAssembly module, which this build of flotilla does not run; replay \
                         with a release, or build with `cargo build --release -p flotilla --features cluster,wasm`";
