//! The counters of the writers.

/// What has been written so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Writes that the API server took.
    pub written: u64,
    /// Writes that were not worth another try: the object is gone, or the API server refuses them.
    pub refused: u64,
    /// What was not written because too much waited, or because this process does not lead any more.
    pub dropped: u64,
    /// What needed no write: newer words came before, the pod says so itself or has a node, or the event only counts.
    pub skipped: u64,
    /// What waits to be written.
    pub waiting: u64,
    /// Requests that the API server turned away for a while.
    pub turned_away: u64,
}
