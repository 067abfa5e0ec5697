//! Plugins that are no part of the program: modules that a configuration names, found while the process runs.
//!
//! A module is known by the SHA-256 digest of its bytes, which the arguments of its plugin hold by the time that they are in
//! a profile. So a profile says exactly what runs, and profiles of two generations stand beside each other.
//!
//! Knows: what a process asks of the holder of modules. Must not know: what a module is written in, or what runs it.

use std::{fmt, sync::Arc};

use serde_json::Value;

pub use crate::shard::numbers;
use crate::{extension::Plugin, profile::Profile};

/// The field of a plugin's arguments that makes it a module: where it is.
pub const URL_FIELD: &str = "guestURL";

/// The field of a plugin's arguments with the digest of the module, in hexadecimal.
pub const DIGEST_FIELD: &str = "sha256";

/// The SHA-256 digest of a module.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Reads what [`fmt::Display`] writes; `None` for anything else.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self}")
    }
}

/// The most bytes of a module. A guest of standard Go has 6 MB.
pub const MAX_BYTES: usize = 32 << 20;

/// Where a module is, as the arguments of its plugin say.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    /// `guestURL`.
    pub url: String,
    /// `sha256`, if it is written.
    pub sha256: Option<String>,
}

impl Source {
    /// Of arguments; `None` where they are not those of a module.
    #[must_use]
    pub fn of(args: &Value) -> Option<Self> {
        let text = |field: &str| args.get(field).and_then(Value::as_str).map(str::to_owned);
        Some(Self { url: text(URL_FIELD)?, sha256: text(DIGEST_FIELD) })
    }
}

/// A plugin that a profile has the arguments of a module for.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedModule {
    /// The plugin.
    pub plugin: String,
    /// Where the module is.
    pub source: Source,
    /// All arguments, as they are written.
    pub args: Value,
}

/// Holds the modules of a process, and is asked by several threads.
pub trait Modules: Sync + fmt::Debug {
    /// What runs modules, with its version: coordinator and workers have to have the same.
    fn engine(&self) -> &'static str;

    /// The plugin of a name that some module was taken up for ([`Self::adopt`]).
    fn find(&self, name: &str) -> Option<&'static dyn Plugin>;

    /// All such plugins, by name.
    fn plugins(&self) -> Vec<&'static dyn Plugin>;

    /// Has a plugin of this name found that is a module with these arguments. The module has to be held.
    ///
    /// # Errors
    /// Why it cannot be that module.
    fn name(&'static self, name: &str, args: &Value, digest: Digest) -> Result<(), String>;

    /// What was found at an address for which this digest is wanted: the module, which is held, or what is wrong. `None`:
    /// nobody has looked.
    fn resolved(&self, source: &Source) -> Option<Result<Digest, String>>;

    /// Remembers what was found at an address, in the place of what was found there before.
    fn resolve(&self, source: Source, found: Result<Digest, String>);

    /// Whether the module is held.
    fn holds(&self, digest: Digest) -> bool;

    /// The bytes of a module that is held.
    fn bytes(&self, digest: Digest) -> Option<Arc<[u8]>>;

    /// Checks and compiles a module, which may take seconds, and holds it.
    ///
    /// # Errors
    /// What is wrong with the module.
    fn load(&self, bytes: Arc<[u8]>) -> Result<Digest, String>;

    /// As [`Self::load`], of a module of which the digest is known: no other is looked at any closer.
    ///
    /// # Errors
    /// What is wrong with the module.
    fn take(&self, digest: Digest, bytes: Arc<[u8]>) -> Result<(), String>;

    /// Has the plugins of a profile that are modules found from now on. The modules have to be held.
    ///
    /// # Errors
    /// The plugin that cannot be found, and why.
    fn adopt(&'static self, profile: &Profile) -> Result<(), String>;

    /// How often calls of modules have failed, by plugin and by how.
    fn failures(&self) -> Vec<(&'static str, &'static str, u64)>;

    /// The words that a plugin had for a verdict, by their number; `None` where they are not known here.
    fn words(&self, detail: u64) -> Option<Arc<str>>;

    /// Takes over words that another process had. They are refused where they do not have this number.
    fn learn(&self, detail: u64, words: &str);
}

/// The modules that a profile names, in the order of the plugins' names: the plugin and the digest. A plugin whose digest is
/// not known yet is left out.
pub fn named(profile: &Profile) -> impl Iterator<Item = (&str, Digest)> {
    profile.args.own.iter().filter_map(|(name, args)| {
        let digest = args.get(URL_FIELD).and_then(|_| args.get(DIGEST_FIELD)).and_then(Value::as_str)?;
        Some((name.as_str(), Digest::read(digest)?))
    })
}

#[cfg(test)]
mod tests {
    use super::Digest;

    #[test]
    fn a_digest_reads_back_as_it_is_written() {
        let digest = Digest(std::array::from_fn(|at| u8::try_from(at * 7).unwrap_or(0)));
        assert_eq!(Digest::read(&digest.to_string()), Some(digest));
        for wrong in ["", "00", &"0".repeat(63), &"g".repeat(64), &"é".repeat(32)] {
            assert_eq!(Digest::read(wrong), None, "{wrong}");
        }
    }
}
