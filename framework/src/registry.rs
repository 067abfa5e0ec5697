//! The registry: which plugins there are, found by name or number.
//!
//! Knows: that plugins have names and an order. Must not know: any plugin. Those that are built in are listed in
//! [`crate::plugins`].

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    extension::{Plugin, PodField},
    modules::Modules,
    profile::{Plugins, Profile},
};

/// The plugins that profiles may name, in an order that stays.
///
/// The list is `'static`, also where [`Self::with`] makes it: a process has one registry from its start to its end, so
/// that what a reference count could free is never to be freed. In return a copy costs two words and no atomic
/// operation, and what is prepared for a class keeps plugins and their names without a lifetime or a clone.
#[derive(Debug, Clone, Copy)]
pub struct Registry {
    fixed: &'static [&'static dyn Plugin],
    modules: Option<&'static dyn Modules>,
}

/// Two plugins have the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there are two plugins with the name {0:?}")]
pub struct NameTaken(pub &'static str);

/// How the plugins of a coordinator and of a worker differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Those of the coordinator that the worker lacks, sorted.
    pub missing: Vec<String>,
    /// Those of the worker that the coordinator lacks, sorted.
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

// === impl Registry ===

impl Registry {
    /// These plugins and no others. Of two with the same name the second is never found.
    #[must_use]
    pub const fn of(plugins: &'static [&'static dyn Plugin]) -> Self {
        Self { fixed: plugins, modules: None }
    }

    /// And those that profiles name as modules.
    #[must_use]
    pub const fn and(self, modules: &'static dyn Modules) -> Self {
        Self { modules: Some(modules), ..self }
    }

    /// What holds the plugins that profiles name as modules; `None` where this process runs none.
    #[must_use]
    pub const fn modules(self) -> Option<&'static dyn Modules> {
        self.modules
    }

    /// These plugins as well, after those that are there. They stay in memory until the process ends.
    ///
    /// # Errors
    /// The first name that is taken already.
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

    /// The plugin of a name.
    #[must_use]
    pub fn find(self, name: &str) -> Option<&'static dyn Plugin> {
        let fixed = self.fixed.iter().copied().find(|plugin| plugin.name() == name);
        fixed.or_else(|| self.modules?.find(name))
    }

    /// The place of the plugin of a name, from 0.
    #[must_use]
    pub fn number(self, name: &str) -> Option<usize> {
        self.iter().position(|plugin| plugin.name() == name)
    }

    /// The names of all plugins but modules, in order, and of what runs modules, as a worker says them.
    #[must_use]
    pub fn names(self) -> Vec<Arc<str>> {
        self.said().map(Into::into).collect()
    }

    /// All plugins but modules, in order.
    pub fn compiled_in(self) -> impl Iterator<Item = &'static dyn Plugin> {
        self.fixed.iter().copied()
    }

    fn said(self) -> impl Iterator<Item = &'static str> {
        self.compiled_in().map(Plugin::name).chain(self.modules.map(|modules| modules.engine()))
    }

    /// Where the plugins of a worker differ from these; `None` where they are the same, in any order.
    #[must_use]
    pub fn difference(self, worker: &[Arc<str>]) -> Option<Difference> {
        let of_worker: BTreeSet<&str> = worker.iter().map(|name| &**name).collect();
        let own: BTreeSet<&str> = self.said().collect();
        let owned = |names: &mut dyn Iterator<Item = &&str>| names.map(|name| (*name).to_owned()).collect();
        let missing: Vec<String> = owned(&mut own.difference(&of_worker));
        let further: Vec<String> = owned(&mut of_worker.difference(&own));
        (!missing.is_empty() || !further.is_empty()).then_some(Difference { missing, further })
    }

    /// The first plugin that a profile judges or scores nodes with and that is not here.
    #[must_use]
    pub fn lacking(self, profile: &Profile) -> Option<&str> {
        let Plugins { pre_filter, filter, pre_score, score, .. } = &profile.plugins;
        let judging =
            [pre_filter, filter, pre_score].into_iter().flatten().chain(score.iter().map(|score| &score.name));
        judging.map(String::as_str).find(|name| self.find(name).is_none())
    }

    /// All plugins, in order; modules come last.
    pub fn iter(self) -> impl Iterator<Item = &'static dyn Plugin> {
        self.fixed.iter().copied().chain(self.modules.map(|modules| modules.plugins()).unwrap_or_default())
    }
}

/// What the plugins of any of these profiles read of pods, sorted, each once: what
/// [`PodInfo::showing`](crate::class::PodInfo::showing) is to show. The pods of all profiles and of other schedulers show
/// the same, since plugins also count the pods that stand on nodes.
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
