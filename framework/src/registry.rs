//! The registry: all plugins, by name or index. [`crate::plugins`] lists the built-in ones.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    extension::{Plugin, PodField},
    modules::Modules,
    profile::{Plugins, Profile},
};

/// The plugins that profiles may name, in a fixed order.
///
/// The list is `'static`, even if [`Self::with`] creates it: a process keeps one registry until it exits, so there is nothing to free. A
/// copy costs two words and no atomic operation, and prepared classes hold plugins and their names without lifetimes or clones.
#[derive(Debug, Clone, Copy)]
pub struct Registry {
    fixed: &'static [&'static dyn Plugin],
    modules: Option<&'static dyn Modules>,
}

/// Two plugins have the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there are two plugins with the name {0:?}")]
pub struct NameTaken(pub &'static str);

/// The difference between the plugins of a coordinator and a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Plugins that only the coordinator has, sorted.
    pub missing: Vec<String>,
    /// Plugins that only the worker has, sorted.
    pub further: Vec<String>,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [(&self.missing, "the worker lacks"), (&self.further, "the coordinator lacks")];
        let parts = parts.into_iter().filter(|(names, _)| !names.is_empty());
        let parts: Vec<String> = parts.map(|(names, what)| format!("{what} {}", names.join(", "))).collect();
        out.write_str(&parts.join(" and "))
    }
}

impl std::fmt::Debug for dyn Plugin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

impl Registry {
    /// Exactly these plugins. Of two with the same name, the second is never found.
    #[must_use]
    pub const fn of(plugins: &'static [&'static dyn Plugin]) -> Self {
        Self { fixed: plugins, modules: None }
    }

    /// Adds the module plugins that profiles name.
    #[must_use]
    pub const fn and(self, modules: &'static dyn Modules) -> Self {
        Self { modules: Some(modules), ..self }
    }

    /// The module plugins; `None` if this process runs no modules.
    #[must_use]
    pub const fn modules(self) -> Option<&'static dyn Modules> {
        self.modules
    }

    /// Adds plugins after the existing ones. They stay in memory until the process exits.
    ///
    /// # Errors
    /// The first duplicate name.
    pub fn with(self, further: impl IntoIterator<Item = Box<dyn Plugin>>) -> Result<Self, NameTaken> {
        let mut plugins = self.fixed.to_vec();
        for plugin in further {
            let name = plugin.name();
            if plugins.iter().any(|known| known.name() == name) {
                return Err(NameTaken(name));
            }
            plugins.push(Box::leak(plugin));
        }
        Ok(Self { fixed: plugins.leak(), ..self })
    }

    /// The plugin with this name.
    #[must_use]
    pub fn find(self, name: &str) -> Option<&'static dyn Plugin> {
        let fixed = self.fixed.iter().copied().find(|plugin| plugin.name() == name);
        fixed.or_else(|| self.modules?.find(name))
    }

    /// The index of the plugin with this name.
    #[must_use]
    pub fn number(self, name: &str) -> Option<usize> {
        self.iter().position(|plugin| plugin.name() == name)
    }

    /// The names of all plugins except modules, in order, and of the module engine, as a worker reports them.
    #[must_use]
    pub fn names(self) -> Vec<Arc<str>> {
        self.said().map(Into::into).collect()
    }

    /// All plugins except modules, in order.
    pub fn compiled_in(self) -> impl Iterator<Item = &'static dyn Plugin> {
        self.fixed.iter().copied()
    }

    fn said(self) -> impl Iterator<Item = &'static str> {
        self.compiled_in().map(Plugin::name).chain(self.modules.map(|modules| modules.engine()))
    }

    /// The difference between these plugins and a worker's; `None` if they are equal in any order.
    #[must_use]
    pub fn difference(self, worker: &[Arc<str>]) -> Option<Difference> {
        let of_worker: BTreeSet<&str> = worker.iter().map(|name| &**name).collect();
        let own: BTreeSet<&str> = self.said().collect();
        let owned = |names: &mut dyn Iterator<Item = &&str>| names.map(|name| (*name).to_owned()).collect();
        let missing: Vec<String> = owned(&mut own.difference(&of_worker));
        let further: Vec<String> = owned(&mut of_worker.difference(&own));
        (!missing.is_empty() || !further.is_empty()).then_some(Difference { missing, further })
    }

    /// The first Filter or Score plugin of a profile that is missing here.
    #[must_use]
    pub fn lacking(self, profile: &Profile) -> Option<&str> {
        let Plugins { pre_filter, filter, pre_score, score, .. } = &profile.plugins;
        let judging =
            [pre_filter, filter, pre_score].into_iter().flatten().chain(score.iter().map(|score| &score.name));
        judging.map(String::as_str).find(|name| self.find(name).is_none())
    }

    /// All plugins, in order; modules last.
    pub fn iter(self) -> impl Iterator<Item = &'static dyn Plugin> {
        self.fixed.iter().copied().chain(self.modules.map(|modules| modules.plugins()).unwrap_or_default())
    }
}

/// The pod fields that plugins of any profile read, sorted and unique, for [`PodInfo::showing`](crate::class::PodInfo::showing). All pods
/// have the same fields, also those of other schedulers, because plugins count existing pods too.
#[must_use]
pub fn pod_fields(registry: Registry, profiles: &[Profile]) -> Vec<PodField> {
    let of_profile = |profile: &Profile| {
        let plugins = profile.plugins.names().filter_map(|name| registry.find(name));
        plugins.flat_map(|plugin| plugin.pod_fields(&profile.args)).collect::<Vec<_>>()
    };
    profiles.iter().flat_map(of_profile).collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests;
