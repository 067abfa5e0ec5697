//! Converts monotonic time to the time of day.
//!
//! The spans of one trace are reported at different times and have to be consistent. The two clocks are therefore compared once, and again
//! only after the time of day was set.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

/// Larger differences mean that the time of day was set; clock drift affects both clocks.
const SET: Duration = Duration::from_millis(10);
/// Number of attempts to read both clocks at the same moment.
const LOOKS: usize = 5;

#[derive(Debug)]
pub(crate) struct Clock(Mutex<Anchor>);

#[derive(Debug, Clone, Copy)]
struct Anchor {
    wall: SystemTime,
    instant: Instant,
}

impl Default for Clock {
    fn default() -> Self {
        Self(Mutex::new(Anchor::now()))
    }
}

impl Clock {
    pub(crate) fn wall(&self, at: Instant) -> SystemTime {
        let mut anchor = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if anchor.is_off(SystemTime::now(), Instant::now()) {
            *anchor = Anchor::now();
        }
        anchor.wall(at)
    }
}

impl Anchor {
    fn now() -> Self {
        let look = || {
            let before = Instant::now();
            let wall = SystemTime::now();
            let took = before.elapsed();
            (took, Self { wall, instant: before + took / 2 })
        };
        let looks = (0..LOOKS).map(|_| look());
        looks.min_by_key(|(took, _)| *took).map_or_else(|| look().1, |(_, anchor)| anchor)
    }

    fn wall(self, at: Instant) -> SystemTime {
        match at.checked_duration_since(self.instant) {
            Some(later) => self.wall + later,
            None => self.wall - self.instant.duration_since(at),
        }
    }

    fn is_off(self, wall: SystemTime, instant: Instant) -> bool {
        let expected = self.wall(instant);
        let difference = wall.duration_since(expected).unwrap_or_else(|early| early.duration());
        difference > SET
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_as_far_apart_by_the_time_of_day_as_they_are() {
        let (clock, moment) = (Clock::default(), Instant::now());
        let (second, nanosecond) = (Duration::from_secs(1), Duration::from_nanos(1));
        assert_eq!(clock.wall(moment + second).duration_since(clock.wall(moment)).ok(), Some(second));
        assert_eq!(clock.wall(moment - nanosecond), clock.wall(moment) - nanosecond);
    }

    #[test]
    fn a_time_of_day_that_was_set_is_noticed_and_one_that_was_read_a_little_late_is_not() {
        let anchor = Anchor::now();
        let later = anchor.instant + Duration::from_secs(60);
        let expected = anchor.wall + Duration::from_secs(60);
        assert!(!anchor.is_off(expected + Duration::from_millis(1), later));
        assert!(anchor.is_off(expected + Duration::from_secs(1), later));
        assert!(anchor.is_off(expected - Duration::from_secs(1), later));
    }
}
