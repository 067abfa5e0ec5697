//! Queueing hints of plugins.

use flotilla_framework::{contain::contain, extension::ClusterEvent, plugins::wakers};

use super::Judge;
use crate::subject::Subject;

impl Judge {
    /// Whether an event may wake pods that this plugin refused, under any profile.
    pub(crate) fn may_wake(&self, plugin: &str, event: ClusterEvent<'_>) -> bool {
        let profiles = self.configuration.as_ref().map(|known| &*known.profiles).unwrap_or_default();
        wakers::may_wake(self.registry, profiles, plugin, event)
    }

    /// The queueing hint of a plugin for a subject that it refused; an unknown plugin always queues.
    pub(crate) fn hint(&self, plugin: &str, event: ClusterEvent<'_>, (profile, class): Subject) -> bool {
        let (Some(class), Some(profile)) = (self.cache.classes().get(class), self.profile(profile)) else {
            return true;
        };
        // A hint that panics queues the pod.
        let plugin = self.registry.find(plugin);
        plugin.is_none_or(|plugin| contain(|| plugin.wakes(event, class, &profile.args)).unwrap_or(true))
    }
}
