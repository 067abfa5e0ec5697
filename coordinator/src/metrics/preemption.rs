//! Metrics of preemption.

use flotilla_machine::status::Status;
use prometheus::proto::MetricFamily;

use super::family::{counters, single};
use crate::preempt::Evictor;

pub(super) fn families(status: &Status, evictor: &Evictor) -> [MetricFamily; 4] {
    let outcomes = [
        ("begun", status.preemptions),
        ("failed", status.preemptions_failed),
        ("postponed", status.preemptions_postponed),
        ("delayed", status.preemptions_delayed),
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
    let dry_runs = "Dry runs of preemption by event";
    [
        counters("flotilla_preemptions_total", "Preemptions by event", "event", &outcomes),
        counters("flotilla_preemption_dry_runs_total", dry_runs, "event", &runs),
        counters("flotilla_evictions_total", "Victims by result", "outcome", &evictions),
        single("flotilla_evictions_repeated_total", "Retried requests about victims", tally.repeated),
    ]
}
