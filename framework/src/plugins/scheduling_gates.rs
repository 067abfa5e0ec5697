//! SchedulingGates: a pod with gates stays out of the queue.
//!
//! Knows: a pod's gates. Must not know: nodes.

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

    // A gated pod is in no queue that events wake: PreEnqueue is asked again when it changes.
    fn wakes(&self, _event: ClusterEvent<'_>, _class: &Class, _args: &Args) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
