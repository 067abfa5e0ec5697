//! What the machine looks like from outside, in numbers.
//!
//! Knows: what is worth a metric. Must not know: any exporter.

use flotilla_framework::shard::{Epoch, Generation, Revision};

/// Gauges and counters. Gauges are of the moment; counters count since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Status {
    /// 1 while this process leads.
    pub leading: u64,
    /// 1 once the view is whole.
    pub synced: u64,
    /// The epoch of the leadership, 0 for a follower.
    pub epoch: Epoch,
    /// The configuration in force.
    pub generation: Generation,
    /// Nodes known.
    pub nodes: u64,
    /// Workers connected.
    pub workers: u64,
    /// Workers that are asked: they have acknowledged the configuration and their shard, and owe no answer for too long.
    pub workers_ready: u64,
    /// Workers that are kept away because they were given up again and again.
    pub workers_quarantined: u64,
    /// Pods in activeQ.
    pub pods_active: u64,
    /// Pods in backoffQ.
    pub pods_backoff: u64,
    /// Pods that no node would take.
    pub pods_unschedulable: u64,
    /// Pods kept out of the queue.
    pub pods_gated: u64,
    /// Pods that are too large: not tried, or standing on a node without their wishes about other pods.
    pub pods_too_large: u64,
    /// Counter: times that a pod was signed again because a selector came into play, or an object changed that it names.
    pub pods_signed_again: u64,
    /// Binds under way.
    pub binds_in_flight: u64,
    /// Evaluations under way at workers.
    pub evaluations_in_flight: u64,
    /// Whether extenders are being asked about a pod, which the others wait for.
    pub extensions_in_flight: u64,
    /// Pods in PreBind: their volumes are being bound, before they are.
    pub preparations: u64,
    /// Pod groups known.
    pub pod_groups: u64,
    /// Pods that wait with a pod group, whether it has its turn yet or not.
    pub pods_in_groups: u64,
    /// Classes known.
    pub classes: u64,
    /// What the strings of nodes take, in bytes.
    pub text_bytes: u64,
    /// What classes take, in bytes.
    pub class_bytes: u64,
    /// What the whole cluster says about classes, in bytes.
    pub fact_bytes: u64,
    /// Decisions that are kept for who asks afterwards.
    pub decisions_kept: u64,
    /// What those take, in bytes.
    pub decision_bytes: u64,
    /// What the amounts of extended resources take, in bytes.
    pub resource_bytes: u64,
    /// Sets of taints that nodes have, or had.
    pub taint_sets: u64,
    /// Counter: times that what no node has any more was cleared away.
    pub compacted: u64,
    /// Changes of the cluster so far.
    pub revision: Revision,
    /// Counter: decisions, whatever their outcome.
    pub decisions: u64,
    /// Counter: pods that got a node.
    pub placed: u64,
    /// Counter: verdicts that no node will do.
    pub unschedulable: u64,
    /// Counter: kinds of pods in backoffQ that were asked about a node before a pod that comes after them took it.
    pub ahead_asked: u64,
    /// Counter: of those, the ones that went first, for the node was feasible for them.
    pub ahead_first: u64,
    /// Counter: of those, the ones beyond the bound, which were not asked.
    pub ahead_unasked: u64,
    /// Counter: attempts at pod groups that placed as many pods as the group has to have.
    pub groups_placed: u64,
    /// Counter: attempts at pod groups that found no place for as many pods.
    pub groups_refused: u64,
    /// Counter: binds that failed.
    pub bind_failures: u64,
    /// Counter: evaluations asked of workers, one for each class and round.
    pub evaluations_asked: u64,
    /// Counter: evaluations made here for want of workers.
    pub evaluations_local: u64,
    /// Pods on nodes whose class is too large to be told to workers: their nodes are judged here.
    pub pods_untold: u64,
    /// Counter: evaluations of which a part was made here, for nodes of workers that were not ready.
    pub evaluations_partial: u64,
    /// Counter: answers that were not waited for any more.
    pub answers_late: u64,
    /// Counter: panics of plugins that were contained.
    pub plugin_panics: u64,
    /// The largest work of one event so far, in units of some 10 ns.
    pub event_work_largest: u64,
    /// Counter: events that ended because of their work while pods waited in activeQ.
    pub events_cut: u64,
    /// Counter: messages of workers that nothing had asked for.
    pub answers_unasked: u64,
    /// Counter: evaluations whose counts over domains were not ours, and which were made here instead.
    pub evaluations_refuted: u64,
    /// Counter: decisions for an offer as it came from a worker.
    pub offers_used: u64,
    /// Counter: decisions for a node that was judged anew here.
    pub offers_repaired: u64,
    /// Counter: times that the offers of a class ran dry.
    pub offers_dry: u64,
    /// Counter: pods that extenders were asked about.
    pub extensions_asked: u64,
    /// Counter: answers of extenders that did not count any more when they came.
    pub extensions_discarded: u64,
    /// Counter: answers of extenders that never came.
    pub extensions_lost: u64,
    /// Preemptions under way.
    pub preemptions_in_flight: u64,
    /// Pods that are being deleted for them.
    pub victims_in_flight: u64,
    /// Counter: pods that no node would take and that room was looked for; upstream's `preemption_attempts_total`.
    pub preemption_attempts: u64,
    /// Counter: pods that others made room for.
    pub preemptions: u64,
    /// Counter: pods that made room.
    pub preemption_victims: u64,
    /// Counter: preemptions in which a victim could not be deleted.
    pub preemptions_failed: u64,
    /// Counter: preemptions that had to wait because too many victims were under way.
    pub preemptions_postponed: u64,
    /// Counter: answers to preemptions that had been given up when they came.
    pub preemptions_discarded: u64,
    /// Counter: dry runs of preemption asked of workers, one for each pod and round.
    pub dry_runs_asked: u64,
    /// Counter: dry runs of preemption made here.
    pub dry_runs_local: u64,
    /// Counter: dry runs whose answers did not count any more when they came.
    pub dry_runs_discarded: u64,
    /// Counter: candidates of workers that our own dry run did not bear out.
    pub dry_runs_refuted: u64,
    /// Counter: nodes that were to be chosen and were not what had been said of them.
    pub offers_refuted: u64,
    /// Counter: times that workers said that no node will do, or that a filter failed, and that was not so.
    pub refusals_refuted: u64,
    /// Counter: answers to evaluations that no worker with its shard can give.
    pub answers_refused: u64,
    /// Counter: workers given up for silence or nonsense.
    pub workers_dropped: u64,
    /// Counter: pods tried again only because they had waited too long. Each is a wake-up that was missed.
    pub flushed: u64,
    /// Counter: broken invariants that the audit found.
    pub invariant_violations: u64,
}
