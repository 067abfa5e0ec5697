//! SchedulingGates: a pod with gates is not enqueued.

use crate::{
    class::{Class, PodInfo},
    extension::{ClusterEvent, Plugin},
    plugins::wakers::TARGET_UNGATED,
    profile::Args,
};

/// The plugin.
#[derive(Debug)]
pub struct SchedulingGates;

impl Plugin for SchedulingGates {
    fn name(&self) -> &'static str {
        "SchedulingGates"
    }

    fn pre_enqueue(&self, pod: &PodInfo) -> Option<String> {
        (!pod.gates.is_empty()).then(|| format!("waiting for scheduling gates: [{}]", pod.gates.join(" ")))
    }

    fn events(&self) -> &'static [&'static str] {
        &[TARGET_UNGATED]
    }

    // Events do not wake gated pods: PreEnqueue runs again when the pod changes.
    fn wakes(&self, _event: ClusterEvent<'_>, _class: &Class, _args: &Args) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
