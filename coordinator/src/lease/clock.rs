//! The clock of leads: monotonic, and it advances while the machine is suspended.
//!
//! Linux' CLOCK_MONOTONIC, the clock of timers and `Instant`, stops while a machine is suspended or paused by its hypervisor. After a
//! resume, a leader would continue for up to the rest of its lead although another has taken over. CLOCK_BOOTTIME advances. Its lead over
//! CLOCK_MONOTONIC is added to the monotonic clock, so that tests can still pause time.

use std::{
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Offset of CLOCK_BOOTTIME at the start, in nanoseconds: the largest of three, as each is too small by the time of its reading.
static AHEAD_AT_START: LazyLock<i64> =
    LazyLock::new(|| [ahead_ns(), ahead_ns(), ahead_ns()].into_iter().fold(i64::MIN, i64::max));
/// The last result in milliseconds: a reading that is too small does not set the clock back.
static SUSPENDED_MS: AtomicU64 = AtomicU64::new(0);

/// The clock of [`Leadership::Leading`](super::Leadership::Leading): tokio's, so that tests can pause it, plus the time that the machine
/// was suspended. Timers do not follow it: sleep for a duration, not until a moment.
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std() + suspended()
}

/// How long the machine has been suspended since this process began, in whole milliseconds.
fn suspended() -> Duration {
    let found_ms = missed_ms(*AHEAD_AT_START, ahead_ns());
    Duration::from_millis(SUSPENDED_MS.fetch_max(found_ms, Ordering::Relaxed).max(found_ms))
}

/// Offset of CLOCK_BOOTTIME in nanoseconds. The time between the two readings makes it smaller, never larger.
fn ahead_ns() -> i64 {
    let boot = clock_gettime(ClockId::Boottime);
    nanoseconds(boot).saturating_sub(nanoseconds(clock_gettime(ClockId::Monotonic)))
}

const fn nanoseconds(time: Timespec) -> i64 {
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

/// Suspended time since the first of two readings, in whole milliseconds: smaller differences come from the readings.
fn missed_ms(first_ns: i64, now_ns: i64) -> u64 {
    u64::try_from(now_ns.saturating_sub(first_ns) / 1_000_000).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_monotonic_clock_has_missed_is_added() {
        let second = 1_000_000_000;
        for (first, now, missed) in
            [(0, 999_999, 0), (5, 5 + 2 * second, 2_000), (second, 0, 0), (-3 * second, second, 4_000)]
        {
            assert_eq!(missed_ms(first, now), missed, "{first} {now}");
        }
        let before = suspended();
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(suspended(), before, "no machine is suspended while it runs this");
    }
}
