//! The time of day for objects. Leads and deadlines use [`lease::now`](crate::lease::now).

use flotilla_runtime::surroundings;
use jiff::Timestamp;

/// The time of day.
#[must_use]
pub fn now() -> Timestamp {
    // A time outside of the range means a wrong clock, and nothing depends on it.
    Timestamp::try_from(surroundings::wall()).unwrap_or_default()
}
