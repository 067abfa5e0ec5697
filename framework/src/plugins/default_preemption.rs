//! DefaultPreemption: pods without a feasible node may preempt pods of lower priority. See [`crate::preemption`].

use super::wakers;
use crate::{
    class::Class,
    extension::{ClusterEvent, Kind, Plugin},
    profile::{Args, Profile},
};

/// The plugin. It rejects preemptors until their victims are deleted.
#[derive(Debug)]
pub struct DefaultPreemption;

/// The plugin's name.
pub const NAME: &str = "DefaultPreemption";

impl Plugin for DefaultPreemption {
    fn name(&self) -> &'static str {
        NAME
    }

    fn events(&self) -> &'static [&'static str] {
        &[wakers::POD_DELETE]
    }

    /// Never: the end of the preemption wakes its preemptor. Source: `isPodSchedulableAfterAssignedPodDeletion`, which always skips.
    fn wakes(&self, _event: ClusterEvent<'_>, _class: &Class, _args: &Args) -> bool {
        false
    }

    fn reads(&self, _args: &Args) -> &'static [Kind] {
        &[Kind::PodDisruptionBudget]
    }
}

/// Whether a profile preempts: the plugin is enabled at PostFilter.
#[must_use]
pub fn is_on(profile: &Profile) -> bool {
    profile.plugins.post_filter.iter().any(|name| name == NAME)
}
