//! The registry: which plugins there are, found by name or number.
//!
//! Knows: that plugins have names and an order. Must not know: any plugin. Those that are built in are listed in
//! [`crate::plugins`].

use crate::{extension::Plugin, plugins::BUILT_IN};

/// The plugins that profiles may name, in an order that stays.
///
/// The list is `'static`, also where [`Self::with`] makes it: a process has one registry from its start to its end, so
/// that what a reference count could free is never to be freed. In return a copy costs two words and no atomic
/// operation, and what is prepared for a class keeps plugins and their names without a lifetime or a clone.
#[derive(Debug, Clone, Copy)]
pub struct Registry(&'static [&'static dyn Plugin]);

/// Two plugins have the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there are two plugins with the name {0:?}")]
pub struct NameTaken(pub &'static str);

impl std::fmt::Debug for dyn Plugin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

// === impl Registry ===

impl Registry {
    /// The plugins that are built in.
    #[must_use]
    pub const fn built_in() -> Self {
        Self::of(BUILT_IN)
    }

    /// These plugins and no others. Of two with the same name the second is never found.
    #[must_use]
    pub const fn of(plugins: &'static [&'static dyn Plugin]) -> Self {
        Self(plugins)
    }

    /// These plugins as well, after those that are there. They stay in memory until the process ends.
    ///
    /// # Errors
    /// The first name that is taken already.
    pub fn with(self, further: impl IntoIterator<Item = Box<dyn Plugin>>) -> Result<Self, NameTaken> {
        let mut plugins = self.0.to_vec();
        for plugin in further {
            let name = plugin.name();
            if plugins.iter().any(|known| known.name() == name) {
                return Err(NameTaken(name));
            }
            plugins.push(Box::leak(plugin));
        }
        Ok(Self(plugins.leak()))
    }

    /// The plugin of a name.
    #[must_use]
    pub fn find(self, name: &str) -> Option<&'static dyn Plugin> {
        self.iter().find(|plugin| plugin.name() == name)
    }

    /// The place of the plugin of a name, from 0.
    #[must_use]
    pub fn number(self, name: &str) -> Option<usize> {
        self.iter().position(|plugin| plugin.name() == name)
    }

    /// All plugins, in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = &'static dyn Plugin> {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests;
