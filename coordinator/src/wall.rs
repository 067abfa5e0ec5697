//! The time of day, as it is written into objects.
//!
//! Must not know: the clock that leads and deadlines are counted by, which is [`lease::now`](crate::lease::now).

use flotilla_runtime::surroundings;
use jiff::Timestamp;

/// The time of day.
#[must_use]
pub fn now() -> Timestamp {
    // A clock with a time that no timestamp has is set wrong, and nothing depends on it.
    Timestamp::try_from(surroundings::wall()).unwrap_or_default()
}
