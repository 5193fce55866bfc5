//! Numbers that look random and can be repeated.

/// The environment variable that sets the seed.
const VARIABLE: &str = "GANTRY_TEST_SEED";

/// A generator (splitmix64).
#[derive(Debug, Clone)]
pub struct Seed(u64);

impl Seed {
    /// A new seed each time, unless `GANTRY_TEST_SEED` says which; printed, so that a failure can
    /// be repeated.
    pub fn new() -> Self {
        let given = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
        let now = stdx::Clock::system().now_micros().unsigned_abs();
        let seed = given.unwrap_or(now ^ (u64::from(std::process::id()) << 32));
        eprintln!("seed: {VARIABLE}={seed}");
        Self(seed)
    }

    /// The source with this seed.
    pub const fn of(number: u64) -> Self {
        Self(number)
    }

    /// A source of its own, that follows from this one.
    pub fn branch(&mut self) -> Self {
        Self(self.below(u64::MAX))
    }

    /// The next number, below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

impl Default for Seed {
    fn default() -> Self {
        Self::new()
    }
}
