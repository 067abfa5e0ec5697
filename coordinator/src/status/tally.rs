//! The counters of the writers.

use flotilla_runtime::tally;

tally! {
    /// What has been written so far.
    Tally of pub(super) Counters {
        /// Writes that the API server took.
        written,
        /// Writes that were not worth another try: the object is gone, or the API server refuses them.
        refused,
        /// What was not written because too much waited, or because this process does not lead any more.
        dropped,
        /// What needed no write: newer words came before, the pod says so itself or has a node, or the event only counts.
        skipped,
    }
    measured {
        /// What waits to be written.
        waiting: u64,
        /// Requests that the API server turned away for a while.
        turned_away: u64,
    }
}
