//! What there is to count of preemption.
//!
//! Knows: names, help and where each number comes from. Must not know: how a page is written.

use flotilla_machine::status::Status;
use prometheus::proto::MetricFamily;

use super::family::{count, counter, counters, float, gauge, level};
use crate::preempt::Evictor;

/// All of it.
pub(super) fn families(status: &Status, evictor: &Evictor) -> [MetricFamily; 7] {
    let single = |name: &str, help: &str, value: u64| counter(name, help, vec![count(&[], float(value))]);
    let level = |name: &str, help: &str, value: u64| gauge(name, help, vec![level(&[], float(value))]);
    let outcomes = [
        ("begun", status.preemptions),
        ("failed", status.preemptions_failed),
        ("postponed", status.preemptions_postponed),
        ("discarded", status.preemptions_discarded),
    ];
    let runs = [
        ("asked", status.dry_runs_asked),
        ("local", status.dry_runs_local),
        ("discarded", status.dry_runs_discarded),
        ("refuted", status.dry_runs_refuted),
    ];
    let tally = evictor.tally();
    let evictions = [("deleted", tally.deleted), ("gone", tally.gone), ("failed", tally.failed)];
    let in_flight = "Preemptions whose victims are being deleted";
    let dry_runs = "Dry runs of preemption, by who made them";
    [
        level("flotilla_preemptions_in_flight", in_flight, status.preemptions_in_flight),
        level("flotilla_victims_in_flight", "Pods that are being deleted for others", status.victims_in_flight),
        counters("flotilla_preemptions_total", "Preemptions by what became of them", "event", &outcomes),
        single("flotilla_preemption_victims_total", "Pods that were to make room", status.preemption_victims),
        counters("flotilla_preemption_dry_runs_total", dry_runs, "event", &runs),
        counters("flotilla_evictions_total", "Victims by what became of them", "outcome", &evictions),
        single("flotilla_evictions_repeated_total", "Requests about victims that were sent again", tally.repeated),
    ]
}
