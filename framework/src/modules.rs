//! Plugins from modules that a configuration names, loaded at run time.
//!
//! The SHA-256 digest in a plugin's arguments identifies a module, so a profile determines its code, and generations can coexist.

use std::{fmt, sync::Arc};

use serde_json::Value;

pub use crate::shard::numbers;
use crate::{extension::Plugin, profile::Profile};

/// The plugin argument with the URL of its module.
pub const URL_FIELD: &str = "guestURL";

/// The plugin argument with the module's digest, in hexadecimal.
pub const DIGEST_FIELD: &str = "sha256";

/// The SHA-256 digest of a module.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Parses the format of [`fmt::Display`]; `None` for any other text.
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

/// The maximum size of a module in bytes. A guest of standard Go has 6 MB.
pub const MAX_BYTES: usize = 32 << 20;

/// The location of a module, from the arguments of its plugin.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    /// `guestURL`.
    pub url: String,
    /// `sha256`, if set.
    pub sha256: Option<String>,
}

impl Source {
    /// Reads arguments; `None` if they are not those of a module.
    #[must_use]
    pub fn of(args: &Value) -> Option<Self> {
        let text = |field: &str| args.get(field).and_then(Value::as_str).map(str::to_owned);
        Some(Self { url: text(URL_FIELD)?, sha256: text(DIGEST_FIELD) })
    }
}

/// A plugin with a module in its arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedModule {
    /// The plugin.
    pub plugin: String,
    /// The module's location.
    pub source: Source,
    /// All arguments, unchanged.
    pub args: Value,
}

/// The modules of a process, used by several threads.
pub trait Modules: Sync + fmt::Debug {
    /// The module engine with its version: coordinator and workers need the same.
    fn engine(&self) -> &'static str;

    /// The plugin with this name, if [`Self::adopt`] registered it.
    fn find(&self, name: &str) -> Option<&'static dyn Plugin>;

    /// All registered plugins, by name.
    fn plugins(&self) -> Vec<&'static dyn Plugin>;

    /// Registers a plugin with this name, module and arguments. The module must be loaded.
    ///
    /// # Errors
    /// The reason why the module cannot be this plugin.
    fn name(&'static self, name: &str, args: &Value, digest: Digest) -> Result<(), String>;

    /// The result of the last download from this source: the loaded module, or the error. `None`: not attempted.
    fn resolved(&self, source: &Source) -> Option<Result<Digest, String>>;

    /// Stores the result of a download, replacing the previous one.
    fn resolve(&self, source: Source, found: Result<Digest, String>);

    /// Whether the module is loaded.
    fn holds(&self, digest: Digest) -> bool;

    /// The bytes of a loaded module.
    fn bytes(&self, digest: Digest) -> Option<Arc<[u8]>>;

    /// Checks, compiles and stores a module, which may take seconds.
    ///
    /// # Errors
    /// The problem of the module.
    fn load(&self, bytes: Arc<[u8]>) -> Result<Digest, String>;

    /// As [`Self::load`], for a module with this digest; rejects any other bytes without further checks.
    ///
    /// # Errors
    /// The problem of the module.
    fn take(&self, digest: Digest, bytes: Arc<[u8]>) -> Result<(), String>;

    /// Registers all module plugins of a profile. The modules must be loaded.
    ///
    /// # Errors
    /// The plugin that cannot be registered, and the reason.
    fn adopt(&'static self, profile: &Profile) -> Result<(), String>;

    /// The number of failed calls, by plugin and kind of failure.
    fn failures(&self) -> Vec<(&'static str, &'static str, u64)>;

    /// The message of a module's result, by its number; `None` if unknown in this process.
    fn words(&self, detail: u64) -> Option<Arc<str>>;

    /// Stores a message from another process. Rejects it if its number differs.
    fn learn(&self, detail: u64, words: &str);
}

/// The modules of a profile, by plugin name: plugin and digest. Plugins without a known digest are left out.
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
