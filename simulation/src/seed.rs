//! Seeded random numbers.

/// Random number generator with the same sequence on every machine. Source: SplitMix64 (Steele, Lea, Flood, 2014).
#[derive(Debug, Clone)]
pub struct Seed(u64);

impl Seed {
    /// A generator for this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 if that is 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.draw() % bound }
    }

    /// A number from `low` to `high`, inclusive.
    pub const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// True with this probability per thousand.
    pub const fn happens(&mut self, per_mille: u16) -> bool {
        // A probability of 0 draws nothing, so that a disabled fault does not change other draws.
        per_mille > 0 && self.below(1_000) < per_mille as u64
    }

    /// A random element; `None` if empty.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(usize::try_from(self.below(from.len() as u64)).unwrap_or_default())
    }

    /// A separate generator for a part of the run, so that its draws do not affect other parts.
    #[must_use]
    pub fn fork(&self, label: &str) -> Self {
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let mut forked = Self(label.bytes().fold(self.0 ^ 0xcbf2_9ce4_8422_2325, hash));
        forked.draw();
        forked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_a_fork_others() {
        let (mut one, mut same, mut fork) = (Seed::new(7), Seed::new(7), Seed::new(7).fork("a"));
        let numbers: Vec<u64> = (0..8).map(|_| one.draw()).collect();
        assert_eq!(numbers, (0..8).map(|_| same.draw()).collect::<Vec<_>>());
        assert_ne!(numbers, (0..8).map(|_| fork.draw()).collect::<Vec<_>>());
        assert_ne!(Seed::new(7).fork("a").draw(), Seed::new(7).fork("b").draw());
    }

    #[test]
    fn what_happens_with_a_chance_happens_about_so_often() {
        let mut seed = Seed::new(1);
        let often = (0..10_000).filter(|_| seed.happens(250)).count();
        assert!((2_300..2_700).contains(&often), "{often}");
        assert!(!(0..1_000).any(|_| seed.happens(0)));
        assert!((0..1_000).all(|_| (3..=5).contains(&seed.between(3, 5))));
        assert_eq!((seed.below(0), seed.pick::<u8>(&[])), (0, None));
    }
}
