//! The counters of the writers.

use flotilla_runtime::tally;

tally! {
    /// Counts of writes so far.
    Tally of pub(super) Counters {
        /// Successful writes.
        written,
        /// Writes not worth a retry: the object no longer exists, or the API server rejects them.
        refused,
        /// Writes dropped because the queue was full, or because this process no longer leads.
        dropped,
        /// Writes that were not needed: a newer report exists, the pod already has the condition or a node, or the event only counts.
        skipped,
    }
    measured {
        /// Queued writes.
        waiting: u64,
        /// Requests rejected with 429.
        turned_away: u64,
    }
}
