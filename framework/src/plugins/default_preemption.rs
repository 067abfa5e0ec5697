//! DefaultPreemption: a pod that fits nowhere may have pods of lower priority taken away.
//!
//! Knows: where in a profile the plugin stands. Must not know: what it does there, which is [`crate::preemption`].

use crate::{
    extension::{Kind, Plugin},
    profile::{Args, Profile},
};

/// The plugin. No event wakes a pod by its hint: upstream registers that assigned pods go away, and its hint always
/// skips. Those wake the pod that the plugins which refused it wait for.
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

/// Whether pods of a profile that fit nowhere preempt others: it has the plugin at PostFilter.
#[must_use]
pub fn is_on(profile: &Profile) -> bool {
    profile.plugins.post_filter.iter().any(|name| name == NAME)
}
