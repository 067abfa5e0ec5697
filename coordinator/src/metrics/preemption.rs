//! What there is to count of preemption.
//!
//! Knows: names, help and where each number comes from. Must not know: how a page is written.

use std::fmt;

use flotilla_machine::status::Status;

use super::Page;
use crate::preempt::Evictor;

impl Page<'_> {
    pub(super) fn preemption(&mut self, status: &Status, evictor: &Evictor) -> fmt::Result {
        let gauges = [
            (
                "flotilla_preemptions_in_flight",
                "Preemptions whose victims are being deleted",
                status.preemptions_in_flight,
            ),
            ("flotilla_victims_in_flight", "Pods that are being deleted for others", status.victims_in_flight),
        ];
        for (name, help, value) in gauges {
            self.gauge(name, help, value)?;
        }
        let outcomes = [
            ("begun", status.preemptions),
            ("failed", status.preemptions_failed),
            ("postponed", status.preemptions_postponed),
            ("discarded", status.preemptions_discarded),
        ];
        self.counters("flotilla_preemptions", "Preemptions by what became of them", "event", &outcomes)?;
        self.counter("flotilla_preemption_victims", "Pods that were to make room", status.preemption_victims)?;
        let runs = [
            ("asked", status.dry_runs_asked),
            ("local", status.dry_runs_local),
            ("discarded", status.dry_runs_discarded),
            ("refuted", status.dry_runs_refuted),
        ];
        self.counters("flotilla_preemption_dry_runs", "Dry runs of preemption, by who made them", "event", &runs)?;
        let tally = evictor.tally();
        let outcomes = [("deleted", tally.deleted), ("gone", tally.gone), ("failed", tally.failed)];
        self.counters("flotilla_evictions", "Victims by what became of them", "outcome", &outcomes)?;
        self.counter("flotilla_evictions_repeated", "Requests about victims that were sent again", tally.repeated)
    }
}
