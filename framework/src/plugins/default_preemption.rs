//! DefaultPreemption: pods without a feasible node may preempt pods of lower priority. See [`crate::preemption`].

use crate::{
    extension::{Kind, Plugin},
    profile::{Args, Profile},
};

/// The plugin. Its hint never wakes pods: upstream registers deletions of assigned pods, but its hint always skips. These deletions wake a
/// pod through the plugins that rejected it.
#[derive(Debug)]
pub struct DefaultPreemption;

/// The plugin's name.
pub const NAME: &str = "DefaultPreemption";

impl Plugin for DefaultPreemption {
    fn name(&self) -> &'static str {
        NAME
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
