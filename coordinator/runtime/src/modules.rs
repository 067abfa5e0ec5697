//! Reads the WebAssembly modules that a configuration names, from files and over HTTPS.

#[cfg(feature = "tls")]
mod https;
#[cfg(not(feature = "tls"))]
mod without_tls;

use std::{
    collections::BTreeMap,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use anyhow::{Context as _, ensure};
use flotilla_framework::{
    modules::{Digest, MAX_BYTES, Modules, NamedModule, Source},
    registry::Registry,
};
#[cfg(feature = "tls")]
use https::fetch;
#[cfg(not(feature = "tls"))]
use without_tls::fetch;

/// The path of a module's file, its size in bytes and its modification time; `None` if it does not exist.
pub type Looks = (PathBuf, Option<(u64, SystemTime)>);

/// Loads the modules that a configuration names, so that `registry` has their plugins when it is read. Errors are kept until then. New
/// modules take seconds. Does nothing in a process that runs no modules.
pub fn find(registry: Registry, named: &[NamedModule]) {
    let Some(modules) = registry.modules() else { return };
    let mut digests: BTreeMap<&str, Digest> = BTreeMap::new();
    for NamedModule { plugin, source, args } in named {
        let found = obtain(modules, source).and_then(|digest| {
            let first = *digests.entry(plugin).or_insert(digest);
            ensure!(first == digest, "plugin {plugin:?} is another module in another profile: give one another name");
            modules.name(plugin, args, digest).map_err(anyhow::Error::msg)?;
            Ok(digest)
        });
        modules.resolve(source.clone(), found.map_err(|error| format!("{error:#}")));
    }
}

/// The state of the modules' files, to detect changes. Modules at `https://` have their digest in the configuration.
#[must_use]
pub fn looks(named: &[NamedModule]) -> Vec<Looks> {
    let path = |named: &NamedModule| named.source.url.strip_prefix("file://").map(PathBuf::from);
    let look = |path: PathBuf| {
        let metadata = path.metadata().ok().and_then(|metadata| Some((metadata.len(), metadata.modified().ok()?)));
        (path, metadata)
    };
    named.iter().filter_map(path).map(look).collect()
}

fn obtain(modules: &'static dyn Modules, Source { url, sha256 }: &Source) -> anyhow::Result<Digest> {
    let wanted = sha256.as_deref().and_then(Digest::read);
    let Some(path) = url.strip_prefix("file://") else {
        ensure!(url.starts_with("https://"), "only file:// and https:// are read");
        let wanted = wanted.context("a module at https:// needs sha256")?;
        if !modules.holds(wanted) {
            modules.take(wanted, fetch(url)?.into()).map_err(anyhow::Error::msg)?;
        }
        return Ok(wanted);
    };
    let bytes: Arc<[u8]> = read(Path::new(path))?.into();
    match wanted {
        None => modules.load(bytes).map_err(anyhow::Error::msg),
        Some(wanted) => modules.take(wanted, bytes).map(|()| wanted).map_err(anyhow::Error::msg),
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte above the limit, to detect larger files.
    let file = File::open(path).and_then(|file| file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes));
    file.with_context(|| format!("cannot read {}; check the path and its mode", path.display()))?;
    Ok(bytes)
}
