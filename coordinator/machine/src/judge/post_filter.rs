//! The inputs of PostFilter that need no search.

use flotilla_framework::{
    plugins::dynamic_resources,
    preemption::{DryRunResult, words},
    status::Code,
};

use super::Judge;
use crate::{preempt::AsOf, subject::Subject};

impl Judge {
    /// Changes whenever the facts of a class may have changed.
    pub(crate) fn facts_version(&self, (_, class): Subject) -> u64 {
        self.cache.classes().get(class).map_or(0, |class| self.cache.facts_version(class))
    }

    /// Whether PostFilter of DynamicResources fails because its PreFilter did not run. Then no other PostFilter runs, and nominations stay.
    ///
    /// Source: `getStateData`, `RunPostFilterPlugins`. kube-scheduler's message `not found` is omitted.
    pub(crate) fn fails_without_state(&self, subject: Subject) -> bool {
        let Some(plugins) = self.profile(subject.0).map(|profile| &profile.plugins) else { return false };
        let is_among = |names: &[String]| names.iter().any(|name| name == dynamic_resources::NAME);
        let ended_by = self.states.get(subject).and_then(|state| state.prepared.ended_by());
        let last = ended_by.and_then(|last| plugins.pre_filter.iter().position(|name| name == last));
        let asked = last.and_then(|last| plugins.pre_filter.get(..=last)).unwrap_or(&plugins.pre_filter);
        is_among(&plugins.post_filter) && !is_among(asked)
    }

    /// The message if no pod has a lower priority, which needs no dry run.
    pub(crate) fn no_pod_is_below(&self, (profile, class): Subject) -> Option<String> {
        let state = self.states.get((profile, class))?;
        let potential: usize = match state.own() {
            _ if state.prepared.refusal().is_some() => 0,
            Some(own) => {
                let refused = own.view.refused_now();
                let potential = refused.iter().filter(|group| group.refusal.code == Code::Unschedulable);
                potential.map(|group| group.count as usize).sum()
            }
            None => return None,
        };
        let outcomes = std::iter::repeat_n(("", &DryRunResult::NoVictims), potential);
        words::fruitless(&state.prepared, outcomes, self.cache.nodes().len()).ok()
    }

    /// The inputs of a search for victims. `None`: objects of plugins are inputs too.
    pub(crate) fn as_of(&self, subject: Subject) -> Option<AsOf> {
        let class = self.cache.classes().get(subject.1).filter(|class| !class.uses_objects())?;
        let facts = self.cache.facts_version(class);
        Some(AsOf { revision: self.cache.revision(), nominations: self.nominator.version(), facts })
    }
}
