//! Rates of faults in the API server and between it and clients.

use crate::seed::Seed;

/// Prefix of pod names whose bindings an admission webhook denies, and the seconds of each denial.
pub const DENIED: &str = "denied";
pub(super) const DENIED_S: u32 = 60;

/// Rates of faults per thousand requests, deliveries or changes, and their durations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Faults {
    /// Requests answered with 429 and a Retry-After.
    pub turned_away: u16,
    /// Requests answered with 429 and no Retry-After.
    pub throttled: u16,
    /// Bindings answered with 404 and not executed.
    pub unknown: u16,
    /// Requests answered with 500, 503 or 504 and not executed.
    pub failed_before: u16,
    /// Requests executed and answered with 500 or 504.
    pub failed_after: u16,
    /// Requests whose connection breaks before execution.
    pub lost_before: u16,
    /// Requests whose connection breaks after execution.
    pub lost_after: u16,
    /// Requests without an answer, half of them executed.
    pub silent: u16,
    /// Requests delayed by up to `slow_ms` in each direction.
    pub slow: u16,
    /// Maximum delay of a slow request in each direction.
    pub slow_ms: u64,
    /// Changes after which a cache stalls for up to `stall_ms`.
    pub stalls: u16,
    /// Maximum stall of a cache.
    pub stall_ms: u64,
    /// Deliveries after which a stream breaks.
    pub cuts: u16,
    /// Deliveries after which a stream ends with 410, and watches that start with it.
    pub expires: u16,
    /// Deliveries after which a stream hangs without further events.
    pub falls_silent: u16,
    /// Changes delivered twice.
    pub duplicates: u16,
    /// Watches that start with changes older than the requested version.
    pub replays: u16,
    /// Pages after which the continue token has expired.
    pub pages_expire: u16,
    /// Requests executed although the client abandoned them before they arrived.
    pub survives: u16,
}

impl Faults {
    /// No faults, and caches without lag.
    pub const NONE: Self = Self {
        turned_away: 0,
        throttled: 0,
        unknown: 0,
        failed_before: 0,
        failed_after: 0,
        lost_before: 0,
        lost_after: 0,
        silent: 0,
        slow: 0,
        slow_ms: 0,
        stalls: 0,
        stall_ms: 0,
        cuts: 0,
        expires: 0,
        falls_silent: 0,
        duplicates: 0,
        replays: 0,
        pages_expire: 0,
        survives: 0,
    };

    /// Number of rates.
    pub const RATES: usize = 17;

    /// The same faults without one.
    #[must_use]
    pub const fn without(self, index: usize) -> Self {
        let mut faults = self;
        match index {
            0 => faults.turned_away = 0,
            1 => faults.throttled = 0,
            2 => faults.failed_before = 0,
            3 => faults.failed_after = 0,
            4 => faults.lost_before = 0,
            5 => faults.lost_after = 0,
            6 => faults.silent = 0,
            7 => faults.slow = 0,
            8 => faults.stalls = 0,
            9 => faults.cuts = 0,
            10 => faults.expires = 0,
            11 => faults.falls_silent = 0,
            12 => faults.duplicates = 0,
            13 => faults.replays = 0,
            14 => faults.pages_expire = 0,
            15 => faults.survives = 0,
            16 => faults.unknown = 0,
            _ => {}
        }
        faults
    }

    /// Random faults, with equally likely rates and durations.
    #[must_use]
    pub fn draw(seed: &mut Seed) -> Self {
        let mut rate = |most: u16| {
            // Half of the faults are off in each run, so that the others show their isolated effects.
            let often = u16::try_from(seed.between(1, u64::from(most))).unwrap_or(most);
            if seed.happens(500) { often } else { 0 }
        };
        let rates = Self {
            turned_away: rate(50),
            throttled: rate(50),
            failed_before: rate(50),
            failed_after: rate(30),
            lost_before: rate(50),
            lost_after: rate(50),
            silent: rate(20),
            slow: rate(200),
            slow_ms: 0,
            stalls: rate(50),
            stall_ms: 0,
            cuts: rate(50),
            expires: rate(20),
            falls_silent: rate(10),
            duplicates: rate(100),
            replays: rate(500),
            pages_expire: rate(200),
            survives: rate(1_000),
            unknown: rate(100),
        };
        // Up to delays that exceed most of a coordinator's deadlines.
        Self { slow_ms: seed.between(10, 8_000), stall_ms: seed.between(10, 10_000), ..rates }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_some_faults_and_others_have_others() {
        let drawn: Vec<Faults> = (0..100).map(|seed| Faults::draw(&mut Seed::new(seed))).collect();
        let with = |of: fn(&Faults) -> u16| drawn.iter().filter(|faults| of(faults) > 0).count();
        for count in [with(|faults| faults.lost_after), with(|faults| faults.cuts), with(|faults| faults.survives)] {
            assert!((30..=70).contains(&count), "{count} of 100 runs");
        }
        assert_eq!(Faults::draw(&mut Seed::new(3)), drawn[3]);
    }
}
