//! The names and help texts of what is observed one by one.
//!
//! Knows: kube-scheduler's words, with the stability in front as component-base writes it, and our own. Must not know: labels,
//! buckets, or when anything is observed.

use super::Name;

pub(super) const SCHEDULE_ATTEMPTS_TOTAL: Name = (
    "scheduler_schedule_attempts_total",
    "[STABLE] Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be \
     scheduled, while 'error' means an internal scheduler problem.",
);
pub(super) const SCHEDULING_ATTEMPT_DURATION: Name = (
    "scheduler_scheduling_attempt_duration_seconds",
    "[STABLE] Scheduling attempt latency in seconds (scheduling algorithm + binding)",
);
pub(super) const SCHEDULING_ALGORITHM_DURATION: Name =
    ("scheduler_scheduling_algorithm_duration_seconds", "[BETA] Scheduling algorithm latency in seconds");
pub(super) const EVENT_HANDLING_DURATION: Name =
    ("scheduler_event_handling_duration_seconds", "[ALPHA] Event handling latency in seconds.");
pub(super) const POD_SCHEDULING_ATTEMPTS: Name =
    ("scheduler_pod_scheduling_attempts", "[STABLE] Number of attempts to successfully schedule a pod.");
pub(super) const POD_SCHEDULING_SLI_DURATION: Name = (
    "scheduler_pod_scheduling_sli_duration_seconds",
    "[BETA] E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and \
     might involve multiple scheduling attempts.",
);
pub(super) const POD_SCHEDULED_AFTER_FLUSH_TOTAL: Name = (
    "scheduler_pod_scheduled_after_flush_total",
    "[ALPHA] Number of pods that were successfully scheduled after being flushed from \
     unschedulableEntities due to timeout. This metric helps detect potential queueing hint \
     misconfigurations or event handling issues.",
);
pub(super) const FRAMEWORK_EXTENSION_POINT_DURATION: Name = (
    "scheduler_framework_extension_point_duration_seconds",
    "[STABLE] Latency for running all plugins of a specific extension point.",
);
pub(super) const PLUGIN_EXECUTION_DURATION: Name = (
    "scheduler_plugin_execution_duration_seconds",
    "[BETA] Duration for running a plugin at a specific extension point.",
);
pub(super) const PREEMPTION_VICTIMS: Name = (
    "scheduler_preemption_victims",
    "[STABLE] Number of selected preemption victims for preemption initiated by a single pod",
);
pub(super) const PREEMPTION_GOROUTINES_EXECUTION_TOTAL: Name =
    ("scheduler_preemption_goroutines_execution_total", "[ALPHA] Number of preemption goroutines executed.");
pub(super) const PREEMPTION_GOROUTINES_DURATION: Name = (
    "scheduler_preemption_goroutines_duration_seconds",
    "[ALPHA] (Deprecated since 1.37.0) Duration in seconds for running goroutines for the preemption.",
);
pub(super) const PODGROUP_SCHEDULE_ATTEMPTS_TOTAL: Name = (
    "scheduler_podgroup_schedule_attempts_total",
    "[ALPHA] Number of attempts to schedule pod group, by the result. 'unschedulable' means a pod group could not \
     be scheduled, while 'error' means an internal scheduler problem.",
);
pub(super) const PODGROUP_SCHEDULING_ATTEMPT_DURATION: Name = (
    "scheduler_podgroup_scheduling_attempt_duration_seconds",
    "[ALPHA] Pod group scheduling attempt latency in seconds",
);
pub(super) const PODGROUP_SCHEDULING_ALGORITHM_DURATION: Name = (
    "scheduler_podgroup_scheduling_algorithm_duration_seconds",
    "[ALPHA] Pod group scheduling algorithm latency in seconds",
);
pub(super) const WORKLOAD_PREEMPTION_ATTEMPTS_TOTAL: Name = (
    "scheduler_workload_preemption_attempts_total",
    "[ALPHA] Total preemption attempts initiated by workload (including pod groups) in the cluster till now.",
);
pub(super) const WORKLOAD_PREEMPTION_VICTIMS: Name = (
    "scheduler_workload_preemption_victims",
    "[ALPHA] Number of pod preemption victims caused by workload preemption.",
);
pub(super) const DRA_BINDING_CONDITIONS_ALLOCATIONS_TOTAL: Name = (
    "scheduler_dra_bindingconditions_allocations_total",
    "[ALPHA] Number of allocations using devices with BindingConditions, counted per driver per scheduling attempt",
);
pub(super) const DRA_BINDING_CONDITIONS_WAIT_DURATION: Name = (
    "scheduler_dra_bindingconditions_wait_duration_seconds",
    "[ALPHA] Time in seconds spent waiting for BindingConditions to be satisfied during PreBind.",
);
pub(super) const FLOTILLA_BIND_DURATION: Name = (
    "flotilla_bind_duration_seconds",
    "From the decision to bind a pod until the API server has answered, the wait for a turn included",
);
pub(super) const FLOTILLA_EVALUATION_DURATION: Name = (
    "flotilla_evaluation_duration_seconds",
    "From asking the workers about a class until the last of them has answered, to the millisecond",
);
