//! SchedulingGates: a pod with gates stays out of the queue.
//!
//! Knows: a pod's gates. Must not know: nodes.

use crate::{class::PodInfo, extension::Plugin, plugins::wakers::TARGET_UNGATED};

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
}

#[cfg(test)]
mod tests;
