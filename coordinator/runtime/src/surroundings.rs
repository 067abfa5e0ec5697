//! Randomness and the time of day, which a simulation replaces.
//!
//! A simulation runs everything on one thread of a runtime with a paused clock. After [`hold`], that thread's random numbers derive from a
//! seed, and its time of day follows the runtime's clock. The same seed gives the same run.

use std::{
    cell::RefCell,
    ops::RangeInclusive,
    time::{Duration, Instant, SystemTime},
};

use fastrand::Rng;

struct Held {
    chance: Rng,
    began: Instant,
    wall: SystemTime,
}

thread_local! {
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// From now on, this thread's random numbers derive from `seed`. Its time of day is `since_1970` now and follows the runtime's clock.
pub fn hold(seed: u64, since_1970: Duration) {
    let held = Held { chance: Rng::with_seed(seed), began: now(), wall: SystemTime::UNIX_EPOCH + since_1970 };
    HELD.set(Some(held));
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// A random number in the range.
#[must_use]
pub fn between(range: RangeInclusive<f64>) -> f64 {
    let share = HELD.with_borrow_mut(|held| held.as_mut().map_or_else(fastrand::f64, |held| held.chance.f64()));
    range.start() + (range.end() - range.start()) * share
}

/// A random number.
#[must_use]
pub fn number() -> u64 {
    HELD.with_borrow_mut(|held| held.as_mut().map_or_else(|| fastrand::u64(..), |held| held.chance.u64(..)))
}

/// The time of day.
#[must_use]
pub fn wall() -> SystemTime {
    HELD.with_borrow(|held| match held {
        Some(held) => held.wall + now().saturating_duration_since(held.began),
        None => SystemTime::now(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course() -> (Vec<u64>, bool, SystemTime) {
        hold(7, Duration::from_secs(1_000));
        let numbers = (0..4).map(|_| number()).collect();
        (numbers, (0.5..=1.0).contains(&between(0.5..=1.0)), wall())
    }

    #[test]
    fn a_thread_that_is_held_draws_from_its_seed_and_another_does_not() {
        let held = || std::thread::spawn(|| course().0).join().expect("it ends");
        let (one, other) = (held(), held());
        assert_eq!(one, other);
        let free: Vec<_> = std::thread::spawn(|| (0..4).map(|_| number()).collect::<Vec<_>>()).join().expect("it ends");
        assert_ne!(one, free);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_day_goes_with_the_clock_of_the_runtime() {
        let (_, within, began) = course();
        assert!(within && began == SystemTime::UNIX_EPOCH + Duration::from_secs(1_000));
        tokio::time::advance(Duration::from_secs(3_600)).await;
        assert_eq!(wall(), began + Duration::from_secs(3_600));
    }
}
